"""What a user of bambi would write to get what `bayeseval fit` writes.

    python perf/bambi_fit.py --out FOLDER [--draws 1000]

Language, task and model effects, the posterior in a netCDF file, and the tables of
language potentials, scores of models and sds with ranks and intervals, and the published PRR
summaries, draw by draw, in the shortest way. `whole_command.py` times it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import bambi
import numpy as np
import pandas as pd

RECORDS = Path(__file__).resolve().parent.parent / "benchmarks" / "mega" / "records.csv"


def summary(draws: np.ndarray, labels: list[str], *, ranked: bool = True) -> pd.DataFrame:
    """Mean, 95 % interval and median rank of draws (draw, level)."""
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    table = pd.DataFrame({"mean": draws.mean(0), "lower": low, "upper": high}, index=labels)
    if ranked:
        order = np.argsort(np.argsort(-draws, axis=1), axis=1) + 1
        table["rank"] = np.median(order, axis=0)
    return table


def main() -> None:
    """Fit, summarise, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)

    # One score per model, language and task: a task is a dataset with its metric, and
    # "na" is how pandas would read the language code of missing values.
    table = pd.read_csv(RECORDS, keep_default_na=False)
    table["task"] = table["dataset"] + ":" + table["metric"]
    table["score"] = table["score"].astype(float)

    model = bambi.Model("score ~ (1|language) + (1|task) + (1|model)", table)
    fitted = model.fit(draws=asked.draws, chains=4, random_seed=0, progressbar=False)
    fitted.to_netcdf(str(asked.out / "posterior.nc"))

    posterior = fitted["posterior"]

    def draws(name: str) -> np.ndarray:
        """Draws of one variable, chains one after the other."""
        values = np.asarray(posterior[name])
        return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])

    effects = {factor: draws(f"1|{factor}") for factor in ("language", "task", "model")}
    labels = {f: [str(x) for x in posterior[f"{f}__factor_dim"].to_numpy()] for f in effects}
    pairs = (
        draws("Intercept")[:, None, None]
        + effects["language"][:, :, None]
        + effects["task"][:, None, :]
    )
    summary(pairs.mean(axis=2), labels["language"]).to_csv(asked.out / "language_potential.csv")

    position = {f: pd.Index(labels[f]).get_indexer(pd.Index(table[f])) for f in effects}
    parts = []
    for level, name in enumerate(labels["model"]):
        rows = np.flatnonzero(position["model"] == level)
        potential = pairs[:, position["language"][rows], position["task"][rows]]
        ratio = table["score"].to_numpy()[rows] / potential
        parts.append((name, ratio.mean(axis=1), ratio.std(axis=1, ddof=1)))
    mean = np.stack([part[1] for part in parts], axis=1)
    spread = np.stack([part[2] for part in parts], axis=1)
    for quantity, values in (("mean_prr", mean), ("cv_prr", spread / mean)):
        described = summary(values, [part[0] for part in parts], ranked=False)
        described.to_csv(asked.out / f"{quantity}.csv")

    # What ranks the models: expected scores on the pairs that any of them was tested on.
    n_tasks = len(labels["task"])
    common = np.unique(position["language"] * n_tasks + position["task"])
    potential = pairs.reshape(len(pairs), -1)[:, common].mean(axis=1, keepdims=True)
    score = potential + effects["model"]
    summary(score, labels["model"]).to_csv(asked.out / "standardised_score.csv")
    summary(score / potential, labels["model"]).to_csv(asked.out / "prr.csv")

    sds = ["1|language_sigma", "1|task_sigma", "1|model_sigma", "sigma"]
    stacked = np.stack([draws(name) for name in sds], axis=1)
    summary(stacked, sds, ranked=False).to_csv(asked.out / "sds.csv")


if __name__ == "__main__":
    main()
