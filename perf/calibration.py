"""Simulation-based calibration of the shipped models: `bayeseval calibrate` for each of them.

    python perf/calibration.py [--simulations 100] [--specs additive,crossed]
                               [--priors fixed,scaled] [--draws 500] [--tune 500] [--chains 4]
                               [--jobs 2] [--work FOLDER] [--out calibration]

Tables have the cells of a simulated one: 8 languages, 4 tasks and 6 models, 80 % observed; those of
`dataset` two metrics of each of 2 datasets, those of `mexa` one covariate of languages, those of
`related` the same and eight languages of the world, those of `replicates` 3 seeds and 3
bootstrapped test sets. `prompts` is `additive` on 6 languages, 2 tasks and 5 models with 4
prompts, a tenth of which are missing. A path names a model that is not shipped, such as
`perf/logit_narrow.yaml`, whose scores stay away from the bounds. Results are written after every
model, in the place of earlier rows of the same model and priors: to
``perf/results/calibration.csv`` one row per quantity, with the seconds that the simulations took
(those of this run alone, if it continued an earlier one); to ``perf/results/calibration_ranks.csv``
the curves of the figures, as numbers of simulations whose rank is at or below each point;
``docs/images/calibration.png`` is drawn from it (``--figure-only`` draws it alone). With ``--work``
an interrupted run continues.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from measure import RESULTS, ROOT, provenance

from bayeseval.calibration import Calibration, calibrate
from bayeseval.calibration.bands import uniformity
from bayeseval.calibration.summary import independent_ranks
from bayeseval.output._style import FAINT, GREY, MAIN, WARNING
from bayeseval.records import Records, load
from bayeseval.simulation import simulate

OUT: Final = RESULTS / "calibration.csv"
RANKS: Final = RESULTS / "calibration_ranks.csv"
FIGURE: Final = ROOT / "docs" / "images" / "calibration.png"
_NEARLY_ALL: Final = 0.95
_SIZES: Final[Mapping[str, Any]] = {"n_languages": 8, "n_tasks": 4, "n_models": 6}
_PROMPTS: Final[Mapping[str, Any]] = {
    **{"n_languages": 6, "n_tasks": 2, "n_models": 5},
    **{"n_prompts": 4, "drop_share": 0.1, "observed_share": 0.9},
}
_REPLICATES: Final[Mapping[str, Any]] = {"n_seeds": 3, "n_boot": 3}
# Of six places and five scripts.
_LANGUAGES: Final = ("de", "nl", "fr", "ru", "hi", "ta", "sw", "ja")
_CARD: Final = """\
name: simulated-mexa
title: A simulated table with a covariate
files: [records.csv]
columns: {model: model, language: language, task: task, score: score}
mixed_scales: allow
covariates: {mexa: mexa.csv}
source: simulated
licence: none
"""


def table(spec: str, folder: Path) -> Records | None:
    """The table whose shape simulated ones have; None for that of `calibrate` itself."""
    if spec == "dataset":
        return simulate(spec, **_SIZES, observed_share=0.8, n_metrics=2).records
    if spec == "replicates":
        return simulate("additive", **_SIZES, observed_share=0.8, **_REPLICATES).records
    if spec == "prompts":
        return simulate("additive", **_PROMPTS).records
    if spec not in ("mexa", "related"):
        return None
    records = simulate("additive", **_SIZES, observed_share=0.8).records
    labels = records.coords["language"]
    of = dict(zip(labels, _LANGUAGES if spec == "related" else labels, strict=True))
    values = np.random.default_rng(0).normal(size=len(labels))
    pd.DataFrame({"language": of.values(), "mexa": values}).to_csv(folder / "mexa.csv", index=False)
    frame = records.table.assign(language=records.table["language"].map(of))
    frame.to_csv(folder / "records.csv", index=False)
    (folder / "benchmark.yaml").write_text(_CARD, encoding="utf-8")
    return load(folder)


def curves(result: Calibration) -> pd.DataFrame:
    """How many ranks lie at or below the points where a band is tested, one row per quantity."""
    table = result.table
    # Sets have no ranks.
    ranked = table[(table["simulations"] == "all") & table["mean_rank"].notna()]
    rows = []
    for quantity in ranked["quantity"]:
        ranks = independent_ranks(result.simulations, quantity)
        counts = uniformity(len(ranks)).counts(ranks)
        text = " ".join(f"{count:.0f}" for count in counts)
        rows.append({"quantity": quantity, "n_simulations": len(ranks), "counts": text})
    return pd.DataFrame(rows)


def store(path: Path, rows: pd.DataFrame) -> None:
    """Write rows in the place of earlier ones of the same model and priors."""
    if path.is_file():
        earlier = pd.read_csv(path)
        spec, priors = rows["spec"].iloc[0], rows["priors"].iloc[0]
        same = (earlier["spec"] == spec) & (earlier["priors"] == priors)
        rows = pd.concat([earlier[~same], rows], ignore_index=True)
    rows.to_csv(path, index=False, lineterminator="\n")


def draw(path: Path) -> None:
    """Draw the curves of all models with fixed priors: one panel each, a line per quantity."""
    rows = pd.read_csv(RANKS).query("priors == 'fixed'")
    table = pd.read_csv(OUT).query("priors == 'fixed' and simulations == 'all'")
    specs = list(rows["spec"].unique())
    n_columns = min(3, len(specs))
    n_rows = -(-len(specs) // n_columns)
    figure = Figure(figsize=(9.0, 2.1 * n_rows + 0.3), layout="constrained", dpi=130)
    panels = np.atleast_1d(figure.subplots(n_rows, n_columns, sharex=True)).reshape(-1)
    for axes, spec in zip(panels, specs, strict=False):
        own = rows[rows["spec"] == spec]
        n = int(own["n_simulations"].max())
        null = uniformity(n)
        verdicts = table[table["spec"] == spec].set_index("quantity")
        low, high = null.band(float(verdicts["band_prob"].iloc[0]))
        at = np.concatenate([[0.0], null.points, [1.0]])
        ends = [np.concatenate([[0.0], end - null.points, [0.0]]) for end in (low, high)]
        axes.fill_between(at, *ends, color=FAINT, linewidth=0)
        axes.axhline(0.0, color=GREY, linewidth=0.6)
        # The band of nearly as many simulations is nearly the same.
        nearly = own[own["n_simulations"] >= _NEARLY_ALL * n]
        for quantity, own_n, counts in nearly[["quantity", "n_simulations", "counts"]].to_numpy():
            points = uniformity(int(own_n)).points
            curve = np.array(counts.split(), dtype=np.float64) / own_n - points
            outside = verdicts.loc[quantity, "verdict"] == "outside"
            color = WARNING if outside else MAIN
            along = np.concatenate([[0.0], points, [1.0]])
            axes.plot(along, np.concatenate([[0.0], curve, [0.0]]), color=color, linewidth=0.8)
        axes.set_title(f"{spec}: {n} simulations", size=9, loc="left")
        axes.set_xlim(0.0, 1.0)
    for axes in panels[len(specs) :]:
        axes.set_visible(False)
    for axes in panels[max(len(specs) - n_columns, 0) : len(specs)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("Rank of the truth", size=9)
    for axes in panels[: len(specs) : n_columns]:
        axes.set_ylabel("ECDF - uniform", size=9)
    figure.savefig(path)
    print(f"written: {path}")


def main() -> None:
    """Calibrate and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--specs", default="additive,crossed")
    parser.add_argument("--priors", default="fixed,scaled")
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--tune", type=int, default=None)
    parser.add_argument("--chains", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--out", default=OUT.stem, help="name of the file of results")
    parser.add_argument("--figure-only", action="store_true")
    asked = parser.parse_args()
    if asked.figure_only:
        draw(FIGURE)
        return
    said = provenance()
    for spec in asked.specs.split(","):
        for priors in asked.priors.split(","):
            begun = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                result = calibrate(
                    "additive" if spec == "prompts" else spec,
                    like=table(spec, Path(folder)),
                    simulations=asked.simulations,
                    priors=priors,
                    draws=asked.draws,
                    tune=asked.tune,
                    chains=asked.chains,
                    seed=asked.seed,
                    jobs=asked.jobs,
                    work=asked.work,
                    progress=True,
                )
            print(result)
            seconds = time.perf_counter() - begun
            counts = result.statuses["status"].value_counts().to_dict()
            about = {"spec": Path(spec).stem, "engine": result.run["fitted_with"], "priors": priors}
            failures = {
                "gates_failed": counts.get("gate failed", 0),
                "not_fitted": counts.get("not fitted", 0),
                "seconds": round(seconds, 1),
            }
            out = RESULTS / f"{asked.out}.csv"
            store(out, result.table.assign(**about, **failures, **said))
            if out == OUT:
                store(RANKS, curves(result).assign(**about, **said))
                draw(FIGURE)


if __name__ == "__main__":
    main()
