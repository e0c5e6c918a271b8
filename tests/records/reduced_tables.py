"""Tables of items and bootstraps in files of all formats, read in memory and out of core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import bayeseval as be
from bayeseval.records import Records, boot_variance, item_variance, reduce_replicates

MEMORY = "1GB"
VARIANCES = ("task", "language_task", "model_task", "record")

Write = Callable[[pd.DataFrame, Path], None]


def to_json_lines(frame: pd.DataFrame, path: Path) -> None:
    frame.to_json(path, orient="records", lines=True, force_ascii=False)


def to_database(frame: pd.DataFrame, path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE scores AS SELECT * FROM frame")


WRITERS: Mapping[str, Write] = {
    ".parquet": lambda frame, path: frame.to_parquet(path, index=False),
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".jsonl": to_json_lines,
}


def table(
    seed: int, *, unit: str, seeds: int, share: float, offset: float = 0.0, right: bool = True
) -> pd.DataFrame:
    """Scores by cell, seed and unit in any order; `share` of the items of each cell are there."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    # What all models have in common of a bootstrapped test set of a language.
    common = np.random.default_rng((seed, 1)).normal(size=(3, 2, 12)) * (unit == "boot")
    for model in range(3):
        for place, language in enumerate(("de", "en", "sw")):
            for task in range(2):
                units = np.flatnonzero(rng.random(12) < share)
                units = units if len(units) > 1 else np.arange(2)
                for run in range(seeds):
                    kept = units if unit == "boot" else units[rng.random(len(units)) < share + 0.1]
                    for one in kept if len(kept) else units:
                        score = float(rng.random() < 0.3 + 0.2 * model)
                        score = score if right else 40 + 5 * model + rng.normal() + offset
                        score += common[place, task, one]
                        row = {"model": f"m{model}", "language": language, "task": f"t{task}"}
                        row |= {unit: f"u{one}" if unit == "item" else int(one)}
                        rows.append(row | ({"seed": run} if seeds > 1 else {}) | {"score": score})
    return pd.DataFrame(rows).sample(frac=1, random_state=seed).reset_index(drop=True)


def in_files(frame: pd.DataFrame, folder: Path, ending: str = ".parquet", n: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in enumerate(np.array_split(np.arange(len(frame)), n)):
        WRITERS[ending](frame.iloc[rows], folder / f"part{part}{ending}")
    return folder


def assert_same(reduced: Records, whole: Records) -> None:
    """Counts exactly, means to 1e-12, sums of squares to 1e-9 of what they are."""
    assert reduced.coords == whole.coords
    assert reduced.units == whole.units
    assert reduced.report.n_rows_read == whole.report.n_rows_read
    one, other = reduce_replicates(reduced), reduce_replicates(whole)
    for name in ("n_seeds", "n_boot", "n_items"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    for name in ("boot_square", "pair_square"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)
    for name in ("seed", "boot", "cross"):
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(a.df, b.df, err_msg=name)
        np.testing.assert_allclose(a.interaction, b.interaction, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(
            a.sum_of_squares, b.sum_of_squares, rtol=1e-9, atol=1e-20, err_msg=name
        )
    of_items = item_variance(reduced, one), item_variance(whole, other)
    if of_items[0] is not None and of_items[1] is not None:
        np.testing.assert_allclose(of_items[0].se, of_items[1].se, rtol=1e-9)
    of_boots = boot_variance(reduced, one), boot_variance(whole, other)
    assert of_boots[0] is None or of_boots[0].language_task.max() > 0.0
    for ours, theirs in (of_items, of_boots):
        assert (ours is None) == (theirs is None)
        if ours is None or theirs is None:
            continue
        largest = max(float(np.nanmax(getattr(theirs, name))) for name in VARIANCES)
        for name in VARIANCES:
            np.testing.assert_allclose(
                getattr(ours, name),
                getattr(theirs, name),
                rtol=1e-9,
                atol=1e-12 * largest,
                err_msg=name,
            )


def assert_same_report(reduced: Records, whole: Records) -> None:
    """The same files, columns, dropped rows and notes, but for the note on the reduction."""
    one, other = reduced.report, whole.report
    assert one.sources == other.sources
    assert one.columns == other.columns
    assert sorted(one.ignored_columns) == sorted(other.ignored_columns)
    dropped = [
        {group.reason: (group.n_rows, group.counts) for group in report.dropped}
        for report in (one, other)
    ]
    assert dropped[0] == dropped[1]
    summary = "while they were read"
    notes = [note for note in one.notes if summary not in note]
    assert notes == list(other.notes), (notes, other.notes)


def read_both(path: Path, **options: Any) -> tuple[Records, Records]:
    """The table reduced while it is read, and read into memory; they are compared."""
    reduced, whole = be.load(path, memory=MEMORY, **options), be.load(path, **options)
    assert_same(reduced, whole)
    assert_same_report(reduced, whole)
    return reduced, whole
