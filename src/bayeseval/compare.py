"""Which model predicts best: expected log predictive densities of left-out scores.

A normal likelihood has closed-form densities of left-out scores given the standard
deviations; importance sampling (PSIS) is then left with these few. Where it still breaks
down for a left-out group, the group is left out for good: a ratio of two marginal
likelihoods. Other likelihoods get PSIS over everything, record by record, and their bad
k-hats are counted.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logsumexp

from bayeseval import names
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, choose_engine
from bayeseval.engines.marginal import why_not
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.frames import draws_of
from bayeseval.fit import Fit, fit
from bayeseval.moves import agreement, level_moves, most_moved, read_quantity
from bayeseval.records import Records
from bayeseval.records import load as load_records
from bayeseval.spec import ModelSpec, load_spec

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.engines import Progress

__all__ = ["Comparison", "compare", "find_fits"]

Floats = npt.NDArray[np.float64]

# A difference this small says nothing, whatever its standard error (Sivula, Magnusson and
# Vehtari 2020, "Uncertainty in Bayesian leave-one-out cross-validation based model
# comparison").
LEAST_DIFFERENCE: Final = 4.0
LEAST_RATIO: Final = 2.0
# Pareto k-hats above are no basis (Vehtari, Gelman and Gabry 2017).
GOOD_K: Final = 0.7

EXACT: Final = "exact given the sds, PSIS over the sds"
EXACT_GROUPS: Final = f"{EXACT}; bad groups by marginal likelihoods"
PSIS: Final = "PSIS"


class _Scores(NamedTuple):
    """Pointwise results of one model."""

    elpd: Floats
    k_hat: Floats
    lppd: float
    method: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models of one table, best predicting first.

    Attributes
    ----------
    table : pandas.DataFrame
        ``spec``, ``elpd``, ``se``, ``elpd_diff`` and ``diff_se`` (model less the best one:
        zero for the best, negative for the others), ``p_eff`` (effective number of
        parameters), ``n_bad_k`` (left-out units with a Pareto k-hat above 0.7),
        ``method``. Natural logarithms, score units.
    pointwise : pandas.DataFrame
        Elpd of every left-out unit (row) under every model (column).
    moves : pandas.DataFrame
        What changes between the first model named and every other: ``spec``,
        ``quantity`` (``language_potential``, ``cv_prr``), ``spearman``, ``kendall``,
        ``moved`` (the levels that move most, with both ranks).
    verdict : tuple of str
        The answer in sentences.
    by : str
        What was left out at a time.
    fits : dict of str to Fit
        By name, in the order in which they were named.
    """

    table: pd.DataFrame
    pointwise: pd.DataFrame
    moves: pd.DataFrame
    verdict: tuple[str, ...]
    by: names.LeftOut
    fits: Mapping[str, Fit]

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``run.json`` and the tables; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/comparison.csv``, ``tables/pointwise.csv``, ``tables/moves.csv``.
        force : bool
            Replace a folder that holds another comparison.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.
        """
        from bayeseval.output import write_comparison

        tables = {
            "comparison": self.table,
            "pointwise": self.pointwise.reset_index(),
            "moves": self.moves,
        }
        return write_comparison(Path(folder), tables, run=self._run(), force=force)

    def _run(self) -> dict[str, Any]:
        first = next(iter(self.fits.values())).run
        hashes = "".join(str(one.run["spec_hash"]) for one in self.fits.values())
        return {
            "benchmark": first["benchmark"],
            "data_hash": first["data_hash"],
            "spec_hash": hashlib.sha256(f"{self.by}{hashes}".encode()).hexdigest(),
            "engine": "compare",
            "seed": first["seed"],
            "by": self.by,
            "models": {name: one.run["engine"] for name, one in self.fits.items()},
            "gates": {name: one.gate.status for name, one in self.fits.items()},
            "verdict": list(self.verdict),
        }

    def __str__(self) -> str:
        """The table and the verdict."""
        from bayeseval.output import format_comparison

        return format_comparison(self.table, self.verdict, by=self.by)


def compare(
    records: Records | str | Path,
    specs: Sequence[str | Path | ModelSpec | Mapping[str, Any]],
    *,
    by: names.LeftOut = "record",
    engine: str = "auto",
    seed: int = 0,
    fits: Mapping[str, Fit] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare models of one table by how well they predict scores left out.

    Parameters
    ----------
    records : Records, str or Path
        The table, or what :func:`bayeseval.load` takes.
    specs : sequence
        At least two shipped names, YAML files or specs. How potentials and CV-PRR move
        is told against the first.
    by : {"record", "language", "task", "model"}
        Leave out one score, or all scores of a level together.
    engine : str
        As for :func:`bayeseval.fit`.
    seed : int
        The one seed.
    fits : dict of str to Fit, optional
        Fits that are there already, by name of the spec; those of another table or
        spec are refused.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)``.

    Returns
    -------
    Comparison
        Best model first.

    Raises
    ------
    InputError
        If fewer than two models are named, one is named twice, or a likelihood has no
        closed form for what is to be left out.
    """
    if by not in get_args(names.LeftOut):
        raise InputError(
            f"cannot leave out one {by!r} at a time{did_you_mean(by, get_args(names.LeftOut))} "
            f"(it is one of: {', '.join(get_args(names.LeftOut))})"
        )
    table = records if isinstance(records, Records) else load_records(records)
    models = [load_spec(dict(s) if isinstance(s, Mapping) else s) for s in specs]
    designs = {spec.name: build_design(table, spec) for spec in models}
    _check(models, by, designs)
    done: dict[str, Fit] = {}
    scores: dict[str, _Scores] = {}
    for spec in models:
        ready = (fits or {}).get(spec.name)
        if ready is not None:
            _check_ready(ready, table, spec)
        done[spec.name] = ready or fit(table, spec, engine=engine, seed=seed, progress=progress)
        if progress is not None:
            progress(f"leaving out each {by}: {spec.name}", 0, 1, "")
        scores[spec.name] = _scores(designs[spec.name], done[spec.name], by, seed=seed)
        if progress is not None:
            progress(f"leaving out each {by}: {spec.name}", 1, 1, "")
    ranked = _table(scores)
    moves = _moves(done)
    return Comparison(
        table=ranked,
        pointwise=_pointwise(scores, table, by),
        moves=moves,
        verdict=tuple(_verdict(ranked, moves, done, by)),
        by=by,
        fits=done,
    )


def _check(models: Sequence[ModelSpec], by: str, designs: Mapping[str, Design]) -> None:
    if len(models) < 2:
        raise InputError("a comparison needs at least two models; name them in --models a,b")
    if len(designs) < len(models):
        twice = next(m.name for i, m in enumerate(models) if m.name in [o.name for o in models[:i]])
        raise InputError(f"the model {twice!r} is named twice; every model needs a name of its own")
    for name, design in designs.items():
        reason = why_not(design)
        if by != names.RECORD and reason is not None:
            raise InputError(
                f"{name} has no closed form of the density of a left-out {by} ({reason}); leave "
                f"{name} out of the comparison, or compare by record"
            )


def _check_ready(ready: Fit, table: Records, spec: ModelSpec) -> None:
    for key, ours in (("data_hash", table.content_hash), ("spec_hash", spec.content_hash)):
        if ready.run[key] != ours:
            what = "table" if key == "data_hash" else "spec"
            raise InputError(f"the fit given for {spec.name} is of another {what}")


def _scores(design: Design, fitted: Fit, by: names.LeftOut, *, seed: int) -> _Scores:
    if why_not(design) is not None:
        density = fitted.data["log_likelihood"].to_dataset()[names.SCORE]
        elpd, k_hat = _psis(fitted.data)
        return _Scores(elpd, k_hat, _lppd(draws_of(density)), PSIS)
    tree = fitted.leave_one_out(by)
    elpd, k_hat = _psis(tree)
    method = EXACT
    bad = k_hat > GOOD_K
    if by != names.RECORD and bad.any():
        from bayeseval.engines._evidence import leave_group_out

        exact = leave_group_out(design, by=by, seed=seed)
        elpd, k_hat = np.where(bad, exact.log_density, elpd), np.where(bad, exact.k_hat, k_hat)
        method = EXACT_GROUPS
    joint = draws_of(fitted.data["log_likelihood"].to_dataset()[names.SCORE])
    if by != names.RECORD:
        index = design.factor_index[by]
        order = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[order], np.arange(len(design.coords[by])))
        joint = np.add.reduceat(joint[:, order], starts, axis=1)
    return _Scores(elpd, k_hat, _lppd(joint), method)


def _lppd(density: Floats) -> float:
    """Log pointwise predictive density of (n_samples, n_units) within the sample."""
    return float((logsumexp(density, axis=0) - np.log(len(density))).sum())


def _psis(tree: xr.DataTree) -> tuple[Floats, Floats]:
    """Elpd and Pareto k-hat of every unit; what the warnings say is counted by the caller."""
    from arviz_stats import loo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loo(tree, pointwise=True)
    return np.asarray(found.elpd_i, dtype=np.float64), np.asarray(found.pareto_k, dtype=np.float64)


def _table(scores: Mapping[str, _Scores]) -> pd.DataFrame:
    best = max(scores, key=lambda name: float(scores[name].elpd.sum()))
    rows = []
    for name, one in scores.items():
        n = len(one.elpd)
        difference = one.elpd - scores[best].elpd
        rows.append(
            {
                "spec": name,
                "elpd": one.elpd.sum(),
                "se": np.sqrt(n * one.elpd.var(ddof=1)),
                "elpd_diff": difference.sum(),
                "diff_se": np.sqrt(n * difference.var(ddof=1)),
                "p_eff": one.lppd - one.elpd.sum(),
                "n_bad_k": int((one.k_hat > GOOD_K).sum()),
                "n": n,
                "method": one.method,
            }
        )
    table = pd.DataFrame(rows).sort_values("elpd", ascending=False, kind="stable")
    return table.reset_index(drop=True)


def _pointwise(scores: Mapping[str, _Scores], table: Records, by: names.LeftOut) -> pd.DataFrame:
    columns = {name: one.elpd for name, one in scores.items()}
    if by != names.RECORD:
        return pd.DataFrame(columns, index=pd.Index(table.coords[by], name=by))
    return pd.DataFrame(columns).rename_axis(names.RECORD)


def _moves(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Correlations of potentials and CV-PRR with the first model's, and who moves most."""
    first, *others = fits
    rows = []
    for quantity in (names.LANGUAGE_POTENTIAL, "cv_prr"):
        for name in others:
            before, after = (read_quantity(fits[one].data, quantity) for one in (first, name))
            moved = level_moves(before, after)
            spearman, kendall = agreement(moved)
            rows.append(
                {
                    "spec": name,
                    "against": first,
                    "quantity": quantity,
                    "spearman": spearman,
                    "kendall": kendall,
                    "moved": most_moved(moved),
                }
            )
    return pd.DataFrame(rows)


def _verdict(
    table: pd.DataFrame, moves: pd.DataFrame, fits: Mapping[str, Fit], by: names.LeftOut
) -> list[str]:
    best, second = table.iloc[0], table.iloc[1]
    lead, error = -float(second["elpd_diff"]), float(second["diff_se"])
    shaky = best["n_bad_k"] > 0 or second["n_bad_k"] > 0
    said = f"{lead:.1f} (SE {error:.1f}) ahead of {second['spec']}"
    sentences = []
    if lead < LEAST_DIFFERENCE or lead < LEAST_RATIO * error or shaky:
        reason = (
            "less than 4"
            if lead < LEAST_DIFFERENCE
            else "less than two standard errors"
            if lead < LEAST_RATIO * error
            else "but some left-out densities cannot be relied on"
        )
        sentences.append(f"No clear winner: {best['spec']} is {said}, {reason}.")
    else:
        sentences.append(f"{best['spec']} predicts a left-out {by} best: elpd {said}.")
    for row in table[table["n_bad_k"] > 0].to_dict("records"):
        sentences.append(
            f"{row['spec']}: {row['n_bad_k']} of {row['n']} k-hats are above 0.7; its elpd is "
            "likely too high."
        )
    sentences += _bought(fits)
    for row in moves.to_dict("records"):
        what = "language potentials" if row["quantity"] == names.LANGUAGE_POTENTIAL else "CV-PRR"
        text = (
            f"From {row['against']} to {row['spec']} the {what} keep their order with Spearman "
            f"{row['spearman']:.2f}, Kendall {row['kendall']:.2f}"
        )
        sentences.append(
            f"{text}; most move (ranks): {row['moved']}." if row["moved"] else f"{text}."
        )
    failed = [name for name, one in fits.items() if one.gate.status == "fail"]
    if failed:
        sentences.append(f"Not converged, so nothing here is reliable: {', '.join(failed)}.")
    return sentences


def _bought(fits: Mapping[str, Fit]) -> list[str]:
    """What the terms that the first model lacks take of the variance."""
    first, *others = fits
    base = fits[first].components().set_index("component")
    sentences = []
    for name in others:
        parts = fits[name].components().set_index("component")
        extra = [label for label in parts.index if label not in base.index]
        if not extra:
            continue
        shares = ", ".join(
            f"{label} {100 * parts.loc[label, 'share_mean']:.0f} % "
            f"[{100 * parts.loc[label, 'share_lower']:.0f}, "
            f"{100 * parts.loc[label, 'share_upper']:.0f}]"
            for label in extra
        )
        before, after = (float(table["sd_mean"]["residual"]) for table in (base, parts))
        sentences.append(
            f"{name} adds {shares} of the variance; the residual sd goes from {before:.1f} to "
            f"{after:.1f}."
        )
    return sentences


def find_fits(
    records: Records, specs: Sequence[ModelSpec], *, engine: str = "auto", seed: int = 0
) -> dict[str, Fit]:
    """Fits of a table that lie in their default result folders.

    Parameters
    ----------
    records : Records
        The table.
    specs : sequence of ModelSpec
        What is wanted.
    engine : str
        As asked for.
    seed : int
        The one seed.

    Returns
    -------
    dict of str to Fit
        By name of the spec; only fits of the same table, spec, engine and seed.
    """
    from bayeseval.output import default_folder

    found = {}
    for spec in specs:
        chosen = choose_engine(engine, build_design(records, spec), SamplerSettings(seed=seed))
        folder = default_folder(records.name, spec.name, chosen.name, seed)
        if not (folder / "run.json").is_file():
            continue
        ready = Fit.open(folder)
        wanted = (records.content_hash, spec.content_hash, chosen.name, seed)
        if tuple(ready.run[k] for k in ("data_hash", "spec_hash", "engine", "seed")) == wanted:
            found[spec.name] = ready
    return found
