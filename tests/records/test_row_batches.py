"""Small files that one query reads: as if each were read alone; and reports of progress."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers.scans import Scan
from bayeseval.records import row_batches
from bayeseval.records.row_batches import in_batches
from bayeseval.records.row_queries import TableRows
from tests.records.reduced_tables import MEMORY, WRITERS, in_files, read_both, table


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def partial_results(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache/rows").glob("*.parquet")))


@pytest.mark.parametrize("ending", [*WRITERS])
@pytest.mark.parametrize("seeds", [1, 2])
def test_small_files_are_read_together_as_if_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, seeds: int
) -> None:
    frame = table(60, unit="item", seeds=seeds, share=0.9, right=False)
    folder = in_files(frame, tmp_path / "rows", ending, n=7)
    together, _ = read_both(folder)
    # Labels of items, groups, and sums over items.
    assert partial_results(tmp_path) == 3
    monkeypatch.setattr(row_batches, "_SMALL", 0)
    alone, _ = read_both(folder)
    assert partial_results(tmp_path) == 3 + 3 * 7
    np.testing.assert_allclose(alone.scores, together.scores, rtol=1e-15)
    assert alone.report == together.report


def test_files_whose_numbers_have_other_types_are_read_as_the_wider_one(tmp_path: Path) -> None:
    frame = table(61, unit="boot", seeds=1, share=2.0, right=False)
    types = ({"score": "float32", "boot": "int8"}, {}, {"boot": "int64"}, {"boot": "uint16"})
    folder = tmp_path / "rows"
    folder.mkdir()
    for place, kinds in enumerate(types):
        part = frame.iloc[place::4].astype(kinds)
        part[[*np.roll(part.columns, place)]].to_parquet(folder / f"{place}.parquet", index=False)
    read_both(folder)


def rows_of(path: Path, name: str, **cells: str) -> TableRows:
    columns = {"model": "c0", "score": "c1"} | cells
    scan = Scan(name, f"read_csv('{path}', header = true)", columns, dict.fromkeys(columns, "text"))
    return TableRows(path, scan, {"model": "model", "score": "score"}, ())


def test_batches_hold_files_of_one_kind_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batches, "_SMALL", 100)
    monkeypatch.setattr(row_batches, "_MOST_BYTES", 150)
    monkeypatch.setattr(row_batches, "_MOST_FILES", 3)
    sizes = [10, 101, 60, 90, 10, 10, 10, 10]
    files = []
    for place, size in enumerate(sizes):
        (tmp_path / f"{place}.csv").write_bytes(b"x" * size)
        more = {"comment": "c2"} if place == 4 else {"filename": "c2"} if place == 5 else {}
        files.append(rows_of(tmp_path / f"{place}.csv", f"{place}.csv", **more))
    assert [batch.files for batch in in_batches(files)] == [
        (0, 2),
        (1,),
        (3, 6, 7),
        (4,),
        (5,),
    ]


def test_texts_that_names_of_files_say_differ_within_a_batch(tmp_path: Path) -> None:
    files = []
    for place in (1, 2):
        (tmp_path / f"seed_{place}.csv").write_text("x")
        seed = f"'{place}'"
        files.append(rows_of(tmp_path / f"seed_{place}.csv", "s", seed=seed, model="'m'"))
    (batch,) = in_batches(files)
    assert batch.rows.scan.cells["seed"] == "['1', '2'][place_of_file + 1]"
    assert batch.rows.scan.cells["model"] == "'m'"


BROKEN = {
    "score": ("b.csv, line 4, column 'score': score 'n/a' is not a number", ("score", "n/a")),
    "model": ("b.csv, line 4, column 'model': model is missing", ("model", None)),
    "item": ("b.csv, line 4, column 'item': item '.*' holds the control", ("item", "a\x01b")),
}


@pytest.mark.parametrize("name", [*BROKEN])
def test_bad_cells_of_a_batch_are_named_with_their_file(tmp_path: Path, name: str) -> None:
    message, (column, value) = BROKEN[name]
    frame = table(62, unit="item", seeds=1, share=1.0).astype(object)
    folder = in_files(frame, tmp_path / "rows", ".csv", n=3)
    for place, letter in enumerate("abc"):
        (folder / f"part{place}.csv").rename(folder / f"{letter}.csv")
    own = pd.read_csv(folder / "b.csv", dtype=object)
    own.loc[2, column] = value
    own.to_csv(folder / "b.csv", index=False)
    with pytest.raises(InputError, match=message):
        be.load(folder, memory=MEMORY)


def test_the_damaged_file_of_a_batch_is_named(tmp_path: Path) -> None:
    folder = in_files(table(63, unit="item", seeds=1, share=1.0), tmp_path / "rows", ".csv", n=3)
    with (folder / "part1.csv").open("a") as file:
        file.write("one,cell,too,many,for,the,header,of,this,file\n")
    with pytest.raises(InputError, match=r"part1\.csv, line \d+: 10 fields where the header has 5"):
        be.load(folder, memory=MEMORY)


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("n_files", [1, 3])
def test_every_pass_over_rows_reports_its_beginning_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int, n_files: int
) -> None:
    monkeypatch.setattr(row_batches, "_SMALL", 0)
    frame = table(64, unit="item", seeds=seeds, share=1.0, right=False)
    # Scores whose means need all digits.
    frame["score"] += 1e9
    folder = in_files(frame, tmp_path / "rows", n=n_files)
    reports: list[tuple[str, int, int, str]] = []
    be.load(folder, memory=MEMORY, progress=lambda *report: reports.append(report))
    last = "averaging items over seeds" if seeds > 1 else "summing over cells of each item"
    stages = ["reading labels of items", "reducing rows", "reading means again", last]
    assert [*dict.fromkeys(stage for stage, *_ in reports)] == [*stages, "hashing files"]
    for stage in [*stages, "hashing files"]:
        own = [(done, total, remark) for one, done, total, remark in reports if one == stage]
        assert own == [
            *((place, n_files, f"part{place}.parquet") for place in range(n_files)),
            (n_files, n_files, ""),
        ]
