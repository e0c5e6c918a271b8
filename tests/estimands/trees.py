"""Posterior trees written by hand, and a slow twin of the estimands.

The twin shares no code with the library: dictionaries by label, one draw at a
time, plain Python sums.
"""

from __future__ import annotations

import math
import statistics
from itertools import product

import numpy as np
import xarray as xr

FACTORS = ("language", "task", "model")

#: de has no `sum`, fi has one pair, `m3` lacks task `sum` and language fr, `m4` has one pair.
INCOMPLETE = [
    ("de", "nli", "m1"),
    ("de", "nli", "m2"),
    ("de", "nli", "m3"),
    ("de", "qa", "m1"),
    ("de", "qa", "m3"),
    ("en", "nli", "m1"),
    ("en", "nli", "m2"),
    ("en", "nli", "m3"),
    ("en", "nli", "m4"),
    ("en", "qa", "m1"),
    ("en", "qa", "m2"),
    ("en", "qa", "m3"),
    ("en", "sum", "m1"),
    ("en", "sum", "m2"),
    ("fi", "nli", "m1"),
    ("fi", "nli", "m2"),
    ("fr", "qa", "m2"),
    ("fr", "qa", "m1"),
    ("fr", "sum", "m1"),
    ("fr", "sum", "m2"),
]
COMPLETE = list(product(("de", "en", "fr"), ("nli", "qa"), ("m1", "m2", "m3")))
CROSSED = ("language:task", "model:task", "model:language")


def make_tree(
    rows=INCOMPLETE,
    *,
    interactions=(),
    likelihood="normal",
    residual_by=None,
    fixed=(),
    se=False,
    sd_cells=2.0,
    sd_residual=3.0,
    intercept=60.0,
    chains=2,
    draws=15,
    seed=0,
    spread=1.0,
):
    """Tree with known labels; effects vary by `spread` between draws."""
    rng = np.random.default_rng(seed)
    shape = (chains, draws)
    levels = {f: sorted({row[i] for row in rows}) for i, f in enumerate(FACTORS)}
    index = {f: np.array([levels[f].index(r[i]) for r in rows]) for i, f in enumerate(FACTORS)}
    coords = {"chain": np.arange(chains), "draw": np.arange(draws), **levels}
    posterior = {"intercept": (("chain", "draw"), intercept + spread * rng.normal(size=shape))}
    for factor in FACTORS:
        size = len(levels[factor])
        centre = rng.normal(0.0, 8.0, size=size)
        effect = centre - centre.mean() + spread * rng.normal(size=(*shape, size))
        posterior[f"{factor}_effect"] = (("chain", "draw", factor), effect)
        if factor not in fixed:
            posterior[f"sd_{factor}"] = (("chain", "draw"), rng.uniform(5.0, 9.0, size=shape))
    constant = {f"{f}_index": ("record", index[f]) for f in FACTORS}
    for term in interactions:
        dim, factors = term.replace(":", "_"), term.split(":")
        cells = sorted({tuple(index[f][i] for f in factors) for i in range(len(rows))})
        coords[dim] = [
            "|".join(levels[f][i] for f, i in zip(factors, c, strict=True)) for c in cells
        ]
        effect = 2.0 * rng.normal(size=len(cells)) + spread * rng.normal(size=(*shape, len(cells)))
        posterior[f"{dim}_effect"] = (("chain", "draw", dim), effect)
        posterior[f"sd_{dim}"] = (("chain", "draw"), np.full(shape, float(sd_cells)))
        for position, factor in enumerate(factors):
            constant[f"{dim}_{factor}"] = (dim, np.array([c[position] for c in cells]))
    posterior["sd_residual"] = (("chain", "draw"), np.full(shape, float(sd_residual)))
    if residual_by is not None:
        by_level = sd_residual * np.arange(1.0, len(levels[residual_by]) + 1.0)
        posterior[f"sd_residual_{residual_by}"] = (
            ("chain", "draw", residual_by),
            np.broadcast_to(by_level, (*shape, len(by_level))).copy(),
        )
    if likelihood == "student_t":
        posterior["nu"] = (("chain", "draw"), rng.uniform(1.2, 6.0, size=shape))
    if se:
        constant["se"] = ("record", rng.uniform(0.5, 2.0, size=len(rows)))
    score = rng.uniform(30.0, 90.0, size=len(rows))
    record = {"record": np.arange(len(rows))}
    in_constant = {k: v for k, v in coords.items() if k not in ("chain", "draw")}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, coords=coords),
            "constant_data": xr.Dataset(
                constant,
                coords=record | in_constant,
                attrs={"population": "observed", "likelihood": likelihood},
            ),
            "observed_data": xr.Dataset({"score": ("record", score)}, coords=record),
        }
    )


def edit(tree, *, group="posterior", **variables):
    """Copy of the tree with the values of some variables replaced, or dropped by None."""
    dataset = tree[group].to_dataset().copy(deep=True)
    for name, values in variables.items():
        if values is None:
            dataset = dataset.drop_vars(name)
        elif name in dataset:
            dataset[name] = (
                dataset[name].dims,
                np.broadcast_to(values, dataset[name].shape).copy(),
            )
        else:
            dataset[name] = values
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    return xr.DataTree.from_dict(groups | {group: dataset})


class Twin:
    """One draw of a tree as dictionaries by label; unobserved cells are `missing`."""

    def __init__(self, tree, chain, draw, *, missing=0.0):
        posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
        one = posterior.isel(chain=chain, draw=draw)
        self.missing = missing
        self.intercept = float(one["intercept"])
        self.levels = {f: [str(v) for v in posterior[f].values] for f in FACTORS}
        self.main = {
            f: {k: float(one[f"{f}_effect"].sel({f: k})) for k in self.levels[f]} for f in FACTORS
        }
        self.cells = {}
        for term in ("language:task", "model:task", "model:language", "model:language:task"):
            dim = term.replace(":", "_")
            if f"{dim}_effect" not in one:
                continue
            table = {}
            for i in range(one.sizes[dim]):
                key = {f: self.levels[f][int(constant[f"{dim}_{f}"][i])] for f in term.split(":")}
                table[frozenset(key.items())] = float(one[f"{dim}_effect"][i])
            self.cells[term] = table
        labels = [[self.levels[f][int(i)] for i in constant[f"{f}_index"].values] for f in FACTORS]
        scores = [float(s) for s in tree["observed_data"]["score"].values]
        self.records = list(zip(*labels, scores, strict=True))
        self.pairs = sorted({(language, task) for language, task, _, _ in self.records})

    def cell(self, term, **levels):
        if term not in self.cells:
            return 0.0
        key = frozenset((f, levels[f]) for f in term.split(":"))
        return self.cells[term].get(key, self.missing)

    def base(self, language, task):
        return (
            self.intercept
            + self.main["language"][language]
            + self.main["task"][task]
            + self.cell("language:task", language=language, task=task)
        )

    def potential(self, language, task):
        """The models at hand are the population."""
        return statistics.fmean(self.expected(language, task, m) for m in self.levels["model"])

    def language_potential(self, language):
        return statistics.fmean(self.potential(language, task) for task in self.levels["task"])

    def expected(self, language, task, model):
        levels = {"language": language, "task": task, "model": model}
        return (
            self.base(language, task)
            + self.main["model"][model]
            + sum(
                self.cell(t, **levels)
                for t in ("model:task", "model:language", "model:language:task")
            )
        )

    def ratios(self, model, support, flavour):
        if support == "common":
            return [self.expected(la, t, model) / self.potential(la, t) for la, t in self.pairs]
        return [
            (s if flavour == "observed" else self.expected(la, t, model)) / self.potential(la, t)
            for la, t, m, s in self.records
            if m == model
        ]

    def disparity(self, model, support, flavour):
        ratios = self.ratios(model, support, flavour)
        mean = sum(ratios) / len(ratios)
        if len(ratios) < 2:
            return mean, math.nan, math.nan
        std = math.sqrt(sum((r - mean) ** 2 for r in ratios) / (len(ratios) - 1))
        return mean, std, std / mean

    def score(self, model):
        return statistics.fmean(self.expected(la, t, model) for la, t in self.pairs)

    def prr(self, model):
        return self.score(model) / statistics.fmean(self.potential(*pair) for pair in self.pairs)

    def language_mean(self, model, language):
        return statistics.fmean(self.expected(language, t, model) for t in self.levels["task"])

    def gaps(self, model):
        return {
            la: self.language_mean(model, la) - self.language_potential(la)
            for la in self.levels["language"]
        }

    def gap_sd(self, model):
        return statistics.stdev(self.gaps(model).values())

    def cv_languages(self, model):
        ratios = [
            self.language_mean(model, la) / self.language_potential(la)
            for la in self.levels["language"]
        ]
        return statistics.stdev(ratios) / statistics.fmean(ratios)
