"""Predictions of left-out models of MEGA, with covariates and families of models and without.

    python perf/model_covariates.py [--only additive,crossed]

Each model is left out in turn (with its translate-test rows, ``(TT)``, which are the same model),
the others are fitted with the engine `marginal`, and its scores are predicted as those of a new
model. The table of models has the developer as ``family``, the month as ``released``, and
``fine_tuned``: 1 for a model that was trained on each task, 0 for one that was prompted. The
controls are the same columns in a random order, the mean of three.

One row per spec goes to ``perf/results/model_covariates.csv``: the root mean square error of single
scores and of the mean score of a model, and how many scores 95 % intervals of a new measurement
contain.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from measure import print_table, provenance, write_csv

import bayeseval as be

FACTS: Final = {
    "mBERT": ("Google", "2018-11", 1),
    "XLM-R Large": ("Meta", "2019-11", 1),
    "mT5-Base": ("Google", "2020-10", 1),
    "MuRIL": ("Google", "2021-03", 1),
    "XGLM": ("Meta", "2021-12", 0),
    "TuLRv6 - XXL": ("Microsoft", "2022-10", 1),
    "BLOOMZ": ("BigScience", "2022-11", 0),
    "text-davinci-003": ("OpenAI", "2022-11", 0),
    "gpt-3.5-turbo": ("OpenAI", "2023-03", 0),
    "gpt-4-32k": ("OpenAI", "2023-03", 0),
}
TERMS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "released": {"covariates": ["released"]},
    "family": {"models": {"family": True}},
    "fine_tuned": {"covariates": ["fine_tuned"]},
}
SPECS: Final[dict[str, dict[str, Any]]] = {
    "additive": {},
    "crossed": {"interactions": ["language:task", "model:task", "model:language"]},
}
PERMUTATIONS: Final = 3


def table_of_models(path: Path, models: tuple[str, ...], permutation: int | None) -> Path:
    """Write what is known of models; in a random order of models for a control."""
    names = list(FACTS)
    facts = list(FACTS.values())
    if permutation is not None:
        order = np.random.default_rng(permutation).permutation(len(facts))
        facts = [facts[i] for i in order]
    of = dict(zip(names, facts, strict=True))
    rows = [(model, *of[model.removesuffix(" (TT)")]) for model in models]
    pd.DataFrame(rows, columns=["model", "family", "released", "fine_tuned"]).to_csv(
        path, index=False
    )
    return path


def left_out(records: be.Records, spec: dict[str, Any], given: Path | None) -> dict[str, float]:
    """Errors of predictions of every model from the others."""
    own = np.array([model.removesuffix(" (TT)") for model in records.coords["model"]])
    codes = records.codes("model")
    errors, covered = [], []
    for model in FACTS:
        inside = np.isin(codes, np.flatnonzero(own == model))
        training = records.subset(~inside, name="training")
        fit = be.fit(training, spec, covariate=given, draws=500, engine="marginal")
        table = records.table[inside].drop_duplicates(["model", "language", "task"])
        cells = table[["model", "language", "task"]]
        new = [one for one in cells.columns if set(cells[one]) - set(training.coords[one])]
        found = fit.predict(cells, new=new, covariate=given)
        score = table["score"].to_numpy()
        errors.append(found["expected_mean"].to_numpy() - score)
        covered.append(
            (found["measurement_lower"] <= score) & (score <= found["measurement_upper"])
        )
    return {
        "scores": sum(map(len, errors)),
        "rmse": float(np.sqrt(np.mean(np.concatenate(errors) ** 2))),
        "rmse_model_mean": float(np.sqrt(np.mean([one.mean() ** 2 for one in errors]))),
        "covered_95": float(np.concatenate(covered).mean()),
    }


def main() -> None:
    """Leave out, predict, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SPECS))
    asked = parser.parse_args()
    said = provenance()
    records = be.load("mega")
    models = records.coords["model"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "models.csv")
        for name in asked.only.split(","):
            for terms, parts in TERMS.items():
                spec = {"name": "own", **SPECS[name], **parts}
                given = table_of_models(path, models, None) if parts else None
                rows.append({"model": name, "terms": terms} | left_out(records, spec, given))
                if not parts:
                    continue
                controls = [
                    left_out(records, spec, table_of_models(path, models, seed))
                    for seed in range(PERMUTATIONS)
                ]
                mean = {
                    what: float(np.mean([one[what] for one in controls])) for what in controls[0]
                }
                rows.append({"model": name, "terms": f"{terms}, permuted"} | mean)
    print_table(rows)
    write_csv("model_covariates", rows, said, digits=4, key="model")


if __name__ == "__main__":
    main()
