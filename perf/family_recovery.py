"""Are the effects of families of models recovered? Coverage of intervals over simulated tables.

    python perf/family_recovery.py [--tables 200] [--controls 60]

Tables of 24 models in 6 families are drawn with known truth: the effect of a model is that of its
family, N(0, 8), and one of its own, N(0, 4). Each is fitted with ``models: {family: true}`` and
the engine `marginal`, and intervals of 90 and 95 % are asked whether they hold the truth: standard
deviations, language potentials, scores of models, and the mean expected score of two new models,
one of a family of the table and one of none. The negative control has the families of the models
in a random order, so that the intervals of the sds of families and of models must fail.

One row per quantity and level goes to ``perf/results/family_recovery.csv``, with the standard
error between tables. A share outside 92-98 % (86-94 % of the narrower intervals) beyond two
standard errors ends with exit code 1.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any, Final

import numpy as np
import pandas as pd
from measure import print_table, provenance, write_csv

import bayeseval as be
from bayeseval.records import Covariate, Records

SPEC: Final[dict[str, Any]] = {"name": "family", "models": {"family": True}}
SHAPE: Final[dict[str, Any]] = {"n_languages": 10, "n_tasks": 4, "observed_share": 0.4}
N_FAMILIES: Final = 6
N_MODELS: Final = 24
SD_FAMILY: Final = 8.0
SD_MODEL: Final = 4.0
NEW: Final = ("of a family", "of none")
LIMITS: Final = {0.9: (0.86, 0.94), 0.95: (0.92, 0.98)}
Truths = dict[str, tuple[np.ndarray, np.ndarray]]


def truths(seed: int, *, permuted: bool = False) -> Truths:
    """Draws of each quantity of one simulated table, (n_samples, n), and its true values."""
    rng = np.random.default_rng(seed)
    sds = {"sd_language": 6.0, "sd_task": 8.0, "sd_model": 0.0}
    table = be.simulate("additive", n_models=N_MODELS, seed=seed, pattern_seed=0, sds=sds, **SHAPE)
    of_model = np.arange(N_MODELS) % N_FAMILIES
    family = np.append(rng.normal(0.0, SD_FAMILY, N_FAMILIES), rng.normal(0.0, SD_FAMILY))
    places = np.array([*of_model, 0, N_FAMILIES])
    effect = family[places] + rng.normal(0.0, SD_MODEL, N_MODELS + len(NEW))
    effect -= effect[:N_MODELS].mean()

    models = table.records.coords["model"]
    shown = rng.permutation(of_model) if permuted else of_model
    given = Covariate(
        "family",
        "model",
        (),
        (*models, *NEW),
        np.array([*shown, shown[0], np.nan], dtype=float),
        categories=tuple("abcdef"),
    )
    frame = table.records.table
    frame["score"] += effect[table.records.codes("model")]
    records = Records.from_frame(frame, name="families", mixed_scales="allow", units=(None, None))
    fit = be.fit(records, SPEC, covariate=given, engine="marginal", draws=500, seed=seed)
    posterior = fit.data["posterior"].to_dataset()

    def flat(name: str, *dims: str) -> np.ndarray:
        values = posterior[name].transpose("chain", "draw", *dims).to_numpy()
        return values.reshape(values.shape[0] * values.shape[1], -1)

    base = table.expected[:, :, 0]
    asked = np.zeros(base.shape, dtype=bool)
    asked[table.records.codes("language"), table.records.codes("task")] = True
    pairs = [
        (language, task)
        for language in table.records.coords["language"]
        for task in table.records.coords["task"]
    ]
    cells = pd.DataFrame(
        [(model, *pair) for model in NEW for pair in pairs], columns=["model", "language", "task"]
    )
    drawn = fit.predict(cells, new="model", covariate=given, draws=True)["expected"]
    new = drawn.transpose("chain", "draw", "cell").to_numpy().reshape(-1, len(NEW), len(pairs))
    own = {
        "sd of families": ("sd_model_family", SD_FAMILY),
        "sd of models": ("sd_model", SD_MODEL),
    }
    found = {name: (flat(key), np.array([truth])) for name, (key, truth) in own.items()}
    other = {name: np.array([float(table.truth[name])]) for name in ("sd_language", "sd_task")}
    found |= {f"sd of {name[3:]}s": (flat(name), truth) for name, truth in other.items()}
    return found | {
        "potentials": (flat("language_potential", "language"), base.mean(axis=1)),
        "scores": (flat("standardised_score", "model"), base[asked].mean() + effect[:N_MODELS]),
        "new model of a family": (new[:, :1].mean(axis=2), base.mean() + effect[N_MODELS:][:1]),
        "new model of none": (new[:, 1:].mean(axis=2), base.mean() + effect[N_MODELS:][1:]),
    }


def shares(tables: int, *, permuted: bool) -> list[dict[str, Any]]:
    """How often the intervals of each quantity hold the truth, over the tables."""
    answers: dict[tuple[str, float], list[np.ndarray]] = defaultdict(list)
    for seed in range(tables):
        for name, (draws, truth) in truths(seed, permuted=permuted).items():
            for level in LIMITS:
                ends = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
                answers[name, level].append((ends[0] <= truth) & (truth <= ends[1]))
        if seed % 20 == 19:
            print(f"{seed + 1} of {tables} tables", flush=True)
    rows = []
    for (name, level), own in answers.items():
        by_table = [float(one.mean()) for one in own]
        rows.append(
            {
                "families": "permuted" if permuted else "true",
                "quantity": name,
                "level": level,
                "tables": tables,
                "covered": float(np.mean(by_table)),
                "se": float(np.std(by_table, ddof=1) / np.sqrt(tables)),
            }
        )
    return rows


def main() -> int:
    """Measure, print and write; 1 if a share is outside the limits, or the control inside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--controls", type=int, default=60)
    asked = parser.parse_args()
    said = provenance()
    rows = shares(asked.tables, permuted=False)
    control = shares(asked.controls, permuted=True)
    print_table([*rows, *control])
    write_csv("family_recovery", [*rows, *control], said, digits=4)

    def is_outside(row: dict[str, Any]) -> bool:
        low, high = LIMITS[row["level"]]
        return bool(row["covered"] + 2 * row["se"] < low or row["covered"] - 2 * row["se"] > high)

    fails = {row["quantity"] for row in control if is_outside(row)}
    return int(any(map(is_outside, rows)) or "sd of families" not in fails)


if __name__ == "__main__":
    raise SystemExit(main())
