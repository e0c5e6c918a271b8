"""Small tables with every kind of replicates, for the tests of the model side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval.design import Design, build_design
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

CELL = list(names.FACTORS)

ROWS: dict[str, dict[str, Any]] = {
    "seeds": {"n_seeds": 4},
    "boots": {"n_boot": 6},
    "crossed": {"n_seeds": 3, "n_boot": 5},
    "unbalanced": {"n_seeds": 3, "n_boot": 5, "drop_share": 0.3},
}

SUMMARIES: dict[str, tuple[str, ...]] = {
    "seed_sd with n_seeds": ("seed_sd", "n_seeds"),
    "seed_sd alone": ("seed_sd",),
    "boot_sd with n_boot": ("boot_sd", "n_boot"),
    "boot_sd alone": ("boot_sd",),
    "both with numbers": ("seed_sd", "n_seeds", "boot_sd", "n_boot"),
    "seeds counted, boots not": ("seed_sd", "n_seeds", "boot_sd"),
}


def frame(kind: str, *, seed: int = 1, **more: Any) -> pd.DataFrame:
    """Replicate rows of 4 languages, 2 tasks and 3 models."""
    given = {"n_languages": 4, "n_tasks": 2, "n_models": 3, "observed_share": 0.9} | ROWS[kind]
    return simulate("additive", seed=seed, **(given | more)).records.table.copy()


def summarised(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """One row per cell with the sd over its `by` replicates and their number."""
    groups = rows.groupby(CELL, observed=True)[names.SCORE]
    table = groups.agg(["mean", "std", "size"]).reset_index()
    return table.rename(
        columns={"mean": "score", "std": f"{by}_sd", "size": {"seed": "n_seeds"}.get(by, "n_boot")}
    )


def summaries(columns: tuple[str, ...], *, seed: int = 1) -> Records:
    """One row per cell with sds, as published tables have them."""
    table = summarised(frame("seeds", seed=seed), "seed")
    boots = summarised(frame("boots", seed=seed), "boot")
    table = table.merge(boots[[*CELL, "boot_sd", "n_boot"]], on=CELL)
    return Records.from_frame(table[[*CELL, "score", *columns]], name="summaries")


def mixed() -> Records:
    """Task t0: complete and incomplete crossed cells; t1: seeds; t2: summaries; t3: se."""
    rows = simulate(
        "additive", n_languages=4, n_tasks=4, n_models=3, observed_share=0.8, seed=3,
        n_seeds=3, n_boot=4,
    ).records.table  # fmt: skip
    text = {c: rows[c].astype(str) for c in CELL}
    rows = rows.assign(**text)
    seeds, boots = rows["seed"].astype(int), rows["boot"].astype(int)
    lost = (rows["language"] == "l1") & (seeds == 2) & (boots > 1)
    crossed = rows[(rows["task"] == "t0") & ~lost]
    first = rows[boots == 0].drop(columns="boot")
    summary = summarised(first[first["task"] == "t2"], "seed")
    plain = rows[(rows["task"] == "t3") & (seeds == 0) & (boots == 0)]
    return Records.from_frame(
        pd.concat(
            [
                crossed,
                first[first["task"] == "t1"],
                summary,
                plain.drop(columns=["seed", "boot"]).assign(se=1.5),
            ],
            ignore_index=True,
        ),
        name="mixed",
    )


def single_runs() -> Records:
    """Crossed cells, but one seed for all cells of model m2 and for language l0 of the others."""
    rows = frame("crossed")
    alone = (rows["model"].astype(str) == "m2") | (rows["language"].astype(str) == "l0")
    return Records.from_frame(rows[~alone | (rows["seed"].astype(str) == "0")], name="single runs")


def records(kind: str) -> Records:
    """Return a table by its name: rows, summaries, mixed or single runs."""
    if kind == "mixed":
        return mixed()
    if kind == "single runs":
        return single_runs()
    if kind in SUMMARIES:
        return summaries(SUMMARIES[kind])
    return Records.from_frame(frame(kind), name=kind)


def design(table: Records | str, *, spec: str = "additive", **more: Any) -> Design:
    """Build the design of a table under a shipped model with other settings."""
    given = load_spec(spec).model_dump() | {"name": "x"} | more
    return build_design(records(table) if isinstance(table, str) else table, load_spec(given))


def contrasts_log_density(x: npt.NDArray[np.float64], covariance: npt.NDArray[np.float64]) -> float:
    """Normal log density of all contrasts of `x`: its mean integrated out, densely."""
    n = len(x)
    # An orthonormal basis of what sums to zero.
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]
    inside = basis.T @ covariance @ basis
    y = basis.T @ x
    _, log_det = np.linalg.slogdet(inside)
    return float(-0.5 * ((n - 1) * np.log(2 * np.pi) + log_det + y @ np.linalg.solve(inside, y)))
