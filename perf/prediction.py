"""How well models and peers predict scores that were left out, for docs/compare.md.

`python perf/prediction.py` leaves out 10, 30 and 50 % of MEGA, five times each: single scores, then
whole cells (all metrics of a model, a language and a dataset). Two tables of one task follow: one
simulated, one of POS taggers (de Vries, Wieling and Nissim 2022), which is downloaded. Every fit
and peer is stored under `--work`, and a further run of the same commit goes on from there. `--only`
names the tables that are left out of (mega, simulated, taggers); results of others stay.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pooch
from arviz_stats.base import array_stats
from measure import print_table, provenance, write_csv
from prediction_peers import PEERS, predict

import bayeseval as be
from bayeseval import names
from bayeseval._random import generator
from bayeseval.comparison.holdout import measured_cells
from bayeseval.comparison.predictive import clustered_se, sampled_scores, summarised
from bayeseval.comparison.splits import split_records
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines.base import to_tree
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.fitting import prepare
from bayeseval.records import Records
from bayeseval.spec import load_spec

_SEED: Final = 0
_NUTS: Final = SamplerSettings(draws=500, tune=500, chains=2, seed=_SEED)
_RANKS: Final[tuple[dict[str, Any], ...]] = tuple(
    {
        "name": f"rank-{rank}-student-t",
        "likelihood": "student_t",
        "low_rank": {"model:language": rank},
    }
    for rank in (3, 6)
)
_MEGA: Final[tuple[Any, ...]] = ("additive", "dataset", "factors")
_ONE_TASK: Final[tuple[Any, ...]] = ("additive", *_RANKS)
# Chosen so that the additive model errs by about 10 points, and knowing the truth by 4.
_SDS: Final = {"sd_low_rank_model_language": 5.4, "sd_residual": 2.8, "nu": 4.0}
_TAGGERS: Final = "https://raw.githubusercontent.com/wietsedv/xpos/4edb3a9/results/"
_TAGGERS_FILE: Final = "udpos-ft-10000.csv"
_TAGGERS_HASH: Final = "8b8b4c75034f867d0b7dc6c12f159ee565265e9923ec1aaf7cd3c1193f5674e3"


@dataclass(frozen=True)
class Setting:
    """A table, what is left out of it, and how often."""

    table: str
    what: str
    share: float
    repeats: int
    specs: tuple[Any, ...]


SETTINGS: Final = (
    *(Setting("mega", "score", share, 5, _MEGA) for share in (0.1, 0.3)),
    # One share of these tables is two thousand scores.
    *(Setting(table, "score", 0.3, 1, _ONE_TASK) for table in ("simulated", "taggers")),
    *(Setting("mega", "cell", share, 5, _MEGA) for share in (0.1, 0.3)),
    *(Setting("mega", what, 0.5, 5, _MEGA) for what in ("score", "cell")),
)


def main() -> None:
    """Leave out, predict, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "prediction")
    parser.add_argument("--only", default="mega,simulated,taggers", help="tables")
    given = parser.parse_args()
    work, tables = given.work, given.only.split(",")
    if unknown := set(tables) - {setting.table for setting in SETTINGS}:
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    said = provenance()
    stored = work / said["commit"]
    stored.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    limits: list[dict[str, Any]] = []
    for setting in SETTINGS:
        if setting.table not in tables:
            continue
        predictions = pd.concat(_predictions(setting, work, stored), ignore_index=True)
        rows += _accuracy(setting, predictions)
        limits += _limits(setting, predictions)
        print_table(rows[-len(predictions["spec"].unique()) :])
        # What is finished is written, because the whole takes an hour.
        write_csv("prediction", rows, said, digits=6, key="table")
        write_csv("prediction_limits", limits, said, digits=4, key="table")
    print_table([row | {"se": row.get("se")} for row in limits])


def _records(table: str, work: Path) -> Records:
    if table == "mega":
        return be.load("mega")
    if table == "simulated":
        return be.simulate(
            load_spec(_RANKS[0]),
            n_languages=105,
            n_tasks=1,
            n_models=65,
            observed_share=1.0,
            sds=_SDS,
            seed=_SEED,
        ).records
    file = pooch.retrieve(_TAGGERS + _TAGGERS_FILE, _TAGGERS_HASH, _TAGGERS_FILE, work)
    read = pd.read_csv(file, keep_default_na=False)
    columns = {"lang_train": "model", "lang_pred": "language", "task_name": "task"}
    frame = read.rename(columns=columns)[["model", "language", "task", "score"]]
    frame["model"] = "trained on " + frame["model"]
    return Records.from_frame(frame, name=table, units=(0, 100))


def _predictions(setting: Setting, work: Path, stored: Path) -> Iterator[pd.DataFrame]:
    """Predictions of all methods and repeats, the same scores in the same order for each."""
    records = _records(setting.table, work)
    asked = records
    if setting.what == "score":
        # Tasks without datasets: then a cell is one score.
        tasks = records.coords[names.TASK]
        asked = Records.from_frame(
            records.table[["model", "language", "task", "score"]],
            units=dict(records.units),
            datasets={task: task for task in tasks},
        )
    splits = split_records(asked, setting.share, by="record", repeats=setting.repeats, seed=_SEED)
    for spec in (*setting.specs, *PEERS):
        name = spec["name"] if isinstance(spec, dict) else spec
        for repeat in range(setting.repeats):
            parts = (setting.table, setting.what, f"{setting.share:g}", name, str(repeat + 1))
            file = stored / ("-".join(parts).replace(" ", "_") + ".csv")
            if not file.is_file():
                out = np.flatnonzero(splits.held[repeat])
                made = (
                    _peer(name, records, splits.unit, out, repeat)
                    if name in PEERS
                    else _fitted(spec, records, out)
                )
                made = made.assign(unit=splits.unit[out], score=records.scores[out])
                made.to_csv(file.with_suffix(".part"), index=False)
                file.with_suffix(".part").replace(file)
            yield pd.read_csv(file).assign(spec=name, repeat=repeat + 1)


def _peer(name: str, records: Records, unit: Any, out: Any, repeat: int) -> pd.DataFrame:
    codes: dict[str, Any] = {f: np.asarray(records.codes(f)) for f in names.FACTORS}
    labels = [records.datasets[task] for task in records.coords[names.TASK]]
    codes[names.DATASET] = np.unique(labels, return_inverse=True)[1][codes[names.TASK]]
    rng = generator(_SEED, f"prediction {repeat}: {name}")
    return predict(name, codes, np.asarray(records.scores), unit, out, rng)


def _fitted(spec: Any, records: Records, out: Any) -> pd.DataFrame:
    """Fit a model once to the scores that are not left out, and predict the others."""
    whole = prepare(records, spec)
    held = np.zeros(len(records), dtype=bool)
    held[out] = True
    engine = whole.engine.name
    settings = _NUTS if engine == "numpyro" else SamplerSettings(seed=_SEED)
    rest = prepare(
        records.subset(~held, name=records.name),
        whole.model.spec,
        engine=engine,
        settings=settings,
    )
    drawn = load_engine(engine)(rest.design, settings)
    tree = to_tree(rest.design, drawn, engine=engine)
    arrays, cells = read_arrays(tree), measured_cells(whole)
    design = whole.design
    asked = AskedCells(
        labels={
            factor: tuple(design.coords[factor][i] for i in index[out])
            for factor, index in design.factor_index.items()
        },
        covariates={},
        n_items=cells.n_items[out],
        se=cells.se[out],
        n_seeds=cells.n_seeds[out],
    )
    shape = drawn.posterior[names.INTERCEPT].shape
    blocks, places = [], []
    for block in predict_cells(arrays, asked, read_measurement_noise(tree, arrays), seed=_SEED):
        n = len(block.cells)
        scores = sampled_scores(
            block.measurement, np.zeros((1, n)), cells.score[out[block.cells]]
        ).drop(columns="log_score")
        expected = np.moveaxis(block.expected.reshape(*shape, n), -1, 0)
        rhat = array_stats.rhat(expected, chain_axis=1, draw_axis=2)
        blocks.append(scores.assign(rhat=rhat))
        places.append(block.cells)
    return pd.concat(blocks).iloc[np.argsort(np.concatenate(places), kind="stable")]


def _accuracy(setting: Setting, predictions: pd.DataFrame) -> list[dict[str, Any]]:
    """One row for each method, the lowest CRPS first."""
    table = summarised(predictions.assign(log_score=np.nan)).drop(columns="log_score")
    if "rhat" in predictions:
        worst = predictions.groupby("spec")["rhat"].max()
        table["rhat"] = table["spec"].map(worst)
    return [_said(setting) | {str(k): v for k, v in row.items()} for row in _records_of(table)]


def _records_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    # A missing number is an empty cell.
    return [
        {str(k): None if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()}
        for row in table.to_dict("records")
    ]


def _said(setting: Setting) -> dict[str, Any]:
    return {
        "table": setting.table,
        "left_out": setting.what,
        "share": setting.share,
        "repeats": setting.repeats,
    }


def _limits(setting: Setting, predictions: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """What is asked of the predictions, and what was found."""
    parts = {str(spec): part for spec, part in predictions.groupby("spec", sort=False)}
    crps = {name: part["crps"].to_numpy() for name, part in parts.items()}
    own = [name for name in parts if name not in PEERS]
    best = min(own, key=lambda name: float(crps[name].mean()))

    def found(what: str, measured: float, limit: float, **more: float) -> dict[str, Any]:
        holds = bool(measured <= limit)
        return (
            _said(setting)
            | {"what": what, "measured": measured, "limit": limit, "holds": holds}
            | more
        )

    def ratio(name: str, base: str, limit: float) -> dict[str, Any]:
        of = float(crps[name].mean() / crps[base].mean())
        error = clustered_se(crps[name] - of * crps[base], parts[name]["unit"].to_numpy())
        return found(f"CRPS, {name} / {base}", of, limit, se=error / float(crps[base].mean()))

    if setting.table == "mega":
        yield ratio("factors", "dataset", 0.97)
        for peer in PEERS:
            difference = crps[best] - crps[peer]
            error = clustered_se(difference, parts[best]["unit"].to_numpy())
            what = f"CRPS, {best} - {peer}, at most one standard error"
            yield found(what, float(difference.mean()), error, se=error)
    else:
        yield ratio(best, "additive", 0.6)
        for peer in ("soft-impute", "LightGBM"):
            yield ratio(best, peer, 1.0)
    for name in own:
        inside = (parts[name]["lower"] <= parts[name]["score"]) & (
            parts[name]["score"] <= parts[name]["upper"]
        )
        off = abs(float(inside.mean()) - 0.9)
        yield found(f"coverage of 90 % intervals less 90 %, {name}", off, 0.03)


if __name__ == "__main__":
    main()
