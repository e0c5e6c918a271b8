"""Rows reduced while they are read give the numbers of rows read into memory."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayeseval as be
from bayeseval.errors import EngineError, InputError
from bayeseval.readers import compressed
from bayeseval.readers.scans import open_engine
from bayeseval.records import (
    average_over_others,
    reduce_replicates,
    row_batches,
)
from bayeseval.records.moments import merged_pieces
from bayeseval.records.partials import Partials
from tests.records.reduced_tables import (
    MEMORY,
    WRITERS,
    assert_same,
    in_files,
    table,
    to_database,
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([("item", 1), ("item", 3), ("boot", 1), ("boot", 3)]),
    share=st.sampled_from([0.5, 0.9, 1.0]),
    right=st.booleans(),
    n_files=st.integers(1, 3),
)
def test_random_tables_reduce_to_what_memory_holds(
    tmp_path: Path, seed: int, shape: tuple[str, int], share: float, right: bool, n_files: int
) -> None:
    unit, seeds = shape
    frame = table(seed, unit=unit, seeds=seeds, share=share, right=right)
    name = f"{seed}-{unit}-{seeds}-{share}-{right}-{n_files}"
    folder = in_files(frame, tmp_path / name, n=n_files)
    options: dict[str, Any] = {"diverged_runs": "allow", "mixed_scales": "allow"}
    assert_same(be.load(folder, memory=MEMORY, **options), be.load(folder, **options))


def test_seeds_with_all_items_have_their_product_in_both(tmp_path: Path) -> None:
    frame = table(3, unit="item", seeds=3, share=2.0)
    folder = in_files(frame, tmp_path / "rows")
    reduced, whole = be.load(folder, memory=MEMORY), be.load(folder)
    assert (reduce_replicates(whole).cross.df > 0).all()
    assert_same(reduced, whole)


@pytest.mark.parametrize("ending", [*WRITERS])
def test_formats_give_the_same_cells(tmp_path: Path, ending: str) -> None:
    frame = table(4, unit="item", seeds=2, share=2.0, right=False)
    folder = in_files(frame, tmp_path / "rows", ending)
    assert_same(be.load(folder, memory=MEMORY), be.load(folder))


def test_databases_are_reduced_without_being_asked(tmp_path: Path) -> None:
    frame = table(5, unit="boot", seeds=2, share=1.0, right=False)
    to_database(frame, tmp_path / "rows.duckdb")
    assert_same(be.load(tmp_path / "rows.duckdb"), be.load(frame))


@pytest.mark.parametrize("without", ["seed", "boot"])
def test_averages_over_a_source_are_those_of_rows(tmp_path: Path, without: str) -> None:
    frame = table(6, unit="boot", seeds=3, share=1.0, right=False)
    folder = in_files(frame, tmp_path / "rows")
    kept = [source for source in ("seed", "boot") if source != without]
    averaged = [
        average_over_others(records, kept)[0]
        for records in (be.load(folder, memory=MEMORY), be.load(folder))
    ]
    one, other = map(reduce_replicates, averaged)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    for name in ("seed", "boot", "cross"):
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(a.df, b.df)
        np.testing.assert_allclose(a.mean_square, b.mean_square, rtol=1e-9)
        np.testing.assert_allclose(a.interaction, b.interaction)


def test_scores_far_from_zero_keep_their_digits_and_naive_sums_lose_them(tmp_path: Path) -> None:
    frame = table(7, unit="boot", seeds=1, share=2.0, offset=1e7, right=False)
    folder = in_files(frame, tmp_path / "rows", n=3)
    whole = be.load(folder)
    assert_same(be.load(folder, memory=MEMORY), whole)
    # The sums that the reduction avoids: sum x^2 - n mean^2.
    cells = reduce_replicates(whole)
    naive = [
        float((own["score"] ** 2).sum() - len(own) * own["score"].mean() ** 2)
        for _, own in frame.groupby(["language", "task", "model"])
    ]
    exact = np.sort(cells.boot.sum_of_squares)
    assert (np.abs(np.sort(naive) / exact - 1.0) > 1e-4).any()


def test_pieces_merge_as_their_rows_would() -> None:
    rng = np.random.default_rng(8)
    pieces = [1e7 + rng.normal(size=n) for n in (1, 5, 400)]
    n, mean, square = merged_pieces(
        np.zeros(3, dtype=np.int64),
        np.array([float(len(piece)) for piece in pieces]),
        np.array([piece.mean() for piece in pieces]),
        np.array([((piece - piece.mean()) ** 2).sum() for piece in pieces]),
        1,
    )
    together = np.concatenate(pieces)
    assert n[0] == len(together)
    np.testing.assert_allclose(mean, together.mean(), rtol=1e-15)
    expected = ((together - together.mean()) ** 2).sum()
    np.testing.assert_allclose(square, expected, rtol=1e-9)
    sums = float((together**2).sum() - len(together) * together.mean() ** 2)
    assert abs(sums / expected - 1.0) > 1e-5


REFUSED = {
    "text": (("score", 17, "n/a"), "column 'score': score 'n/a' is not a number"),
    "percent": (("score", 17, "12%"), "column 'score': score '12%' has a percent sign"),
    "model": (("model", 30, None), "column 'model': model is missing"),
    "language": (("language", 30, " "), "column 'language': language is missing"),
    "item": (("item", 9, None), "column 'item': item is empty"),
}


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("name", [*REFUSED])
def test_bad_cells_are_refused_with_file_and_row(tmp_path: Path, name: str, ending: str) -> None:
    (column, row, value), message = REFUSED[name]
    frame = table(9, unit="item", seeds=1, share=1.0).astype(object)
    if column == "score":
        frame["score"] = frame["score"].astype(str)
    frame.loc[row, column] = value
    file = tmp_path / f"rows{ending}"
    WRITERS[ending](frame, file)
    place = {".csv": f"line {row + 2}", ".jsonl": f"line {row + 1}"}.get(ending, f"row {row + 1}")
    with pytest.raises(InputError, match=f"rows{ending}, {place}, {message}"):
        be.load(file, memory=MEMORY)


def test_numbers_that_are_not_finite_are_refused_with_their_row(tmp_path: Path) -> None:
    frame = table(10, unit="item", seeds=1, share=1.0)
    frame.loc[40, "score"] = np.inf
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"row 41, column 'score': score inf is not finite"):
        be.load(tmp_path / "rows.parquet", memory=MEMORY)
    frame.loc[40, "score"] = 1e101
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"row 41, column 'score': score 1e\+101 is beyond"):
        be.load(tmp_path / "rows.parquet", memory=MEMORY)


def test_a_score_beyond_its_bound_is_found_in_its_row(tmp_path: Path) -> None:
    frame = table(11, unit="item", seeds=1, share=1.0)
    frame.loc[25, "score"] = 7.0
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"row 26, column 'score': score 7 is above the declared"):
        be.load(tmp_path / "rows.parquet", memory=MEMORY, units=(0, 1))


@pytest.mark.parametrize("n_files", [1, 2])
def test_an_item_twice_in_a_cell_is_refused_with_both_rows(tmp_path: Path, n_files: int) -> None:
    frame = table(12, unit="item", seeds=1, share=1.0)
    frame = pd.concat([frame, frame.iloc[[5]]], ignore_index=True)
    folder = in_files(frame, tmp_path / "rows", n=n_files)
    message = r"row \d+: duplicate of .*row 6: model .*, item 'u\d+' has the score . twice"
    with pytest.raises(InputError, match=message):
        be.load(folder, memory=MEMORY)
    with pytest.raises(InputError, match="duplicate of"):
        be.load(folder)


def test_rows_that_nothing_tells_apart_are_refused(tmp_path: Path) -> None:
    frame = table(13, unit="item", seeds=1, share=1.0).drop(columns="item")
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(
        InputError, match="has two scores, . and .; keep one of them, or distinguish"
    ):
        be.load(tmp_path / "rows.parquet", memory=MEMORY)


def test_dropped_rows_are_counted_as_rows_of_the_files(tmp_path: Path) -> None:
    frame = table(14, unit="item", seeds=1, share=1.0, right=False)
    frame.loc[frame.index[:7], "score"] = np.nan
    frame.loc[frame.index[7:12], "score"] = -1.0
    frame = pd.concat([frame, frame[frame["model"] == "m1"].assign(language="avg")])
    folder = in_files(frame, tmp_path / "rows")
    for ending in (".parquet", ".csv"):
        other = in_files(frame, tmp_path / ending, ending)
        options: dict[str, Any] = {"missing": -1, "drop": {"model": ["m0"]}}
        if ending == ".parquet":
            # A cell without a value is null in tables of numbers; pandas writes NaN so.
            assert pd.read_parquet(folder / "part0.parquet")["score"].isna().any()
        reduced, whole = be.load(other, memory=MEMORY, **options), be.load(other, **options)
        assert_same(reduced, whole)
        dropped = [
            {group.reason: (group.n_rows, group.counts) for group in records.report.dropped}
            for records in (reduced, whole)
        ]
        assert dropped[0] == dropped[1]
        assert sum(n for n, _ in dropped[0].values()) > 80


def test_labels_that_clean_to_the_same_one_are_one_cell(tmp_path: Path) -> None:
    frame = table(15, unit="item", seeds=1, share=1.0)
    frame.loc[::3, "model"] = frame.loc[::3, "model"] + " "
    folder = in_files(frame, tmp_path / "rows", ".csv")
    assert_same(be.load(folder, memory=MEMORY), be.load(folder))


def test_files_of_seeds_get_their_numbers_from_their_names(tmp_path: Path) -> None:
    frame = table(16, unit="item", seeds=2, share=2.0)
    folder = tmp_path / "rows"
    folder.mkdir()
    for seed, own in frame.groupby("seed"):
        own.drop(columns="seed").to_parquet(folder / f"seed_{seed}.parquet", index=False)
    assert_same(be.load(folder, memory=MEMORY), be.load(folder))


@pytest.mark.parametrize(
    "name", ["a'b.parquet", "a*[x]?.parquet", 'a"b.csv', "lang=en.parquet", "größe; drop.csv"]
)
def test_names_of_files_mean_nothing_to_the_engine(tmp_path: Path, name: str) -> None:
    frame = table(17, unit="item", seeds=1, share=1.0)
    folder = tmp_path / "lang=xx"
    folder.mkdir()
    WRITERS[Path(name).suffix](frame, folder / name)
    # What a star would also match.
    (tmp_path / "lang=xx" / "other.txt").write_text("no table")
    assert_same(be.load(folder / name, memory=MEMORY), be.load(folder / name))


def test_columns_with_names_of_sql_are_read(tmp_path: Path) -> None:
    frame = table(18, unit="item", seeds=1, share=1.0)
    frame = frame.rename(columns={"score": 'sc"ore; DROP', "item": "it'em"})
    columns = {"score": 'sc"ore; DROP', "item": "it'em"}
    for ending in (".parquet", ".csv", ".jsonl"):
        folder = in_files(frame, tmp_path / ending, ending)
        assert_same(
            be.load(folder, memory=MEMORY, columns=columns), be.load(folder, columns=columns)
        )


def test_views_of_a_database_are_not_computed(tmp_path: Path) -> None:
    frame = table(19, unit="item", seeds=1, share=1.0)
    to_database(frame, tmp_path / "both.duckdb")
    endless = "SELECT a.range AS score FROM range(1000000000) a, range(1000000000) b"
    for name in ("both", "view"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
            connection.execute(f'CREATE VIEW "no\x1bend" AS {endless}')
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    expected = be.load(tmp_path / "rows.parquet", memory=MEMORY)
    assert_same(be.load(tmp_path / "both.duckdb"), expected)
    with pytest.raises(InputError, match=r"no table but views \(no\\x1bend\), which are not"):
        be.load(tmp_path / "view.duckdb")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_hundreds_of_columns_are_refused(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({f"c{place}": [0.5] for place in range(257)})
    WRITERS[ending](frame, tmp_path / f"rows{ending}")
    with pytest.raises(InputError, match=f"rows{ending}: more than 256 columns; leave out"):
        be.load(tmp_path / f"rows{ending}", memory=MEMORY)
    WRITERS[ending](frame.iloc[:, 1:], tmp_path / f"rows{ending}")
    with pytest.raises(InputError, match=f"rows{ending}: no column for 'model'"):
        be.load(tmp_path / f"rows{ending}", memory=MEMORY)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_last_line_beyond_the_buffer_is_not_left_out(tmp_path: Path, ending: str) -> None:
    rows = table(20, unit="item", seeds=1, share=1.0).iloc[:5].copy()
    # Packed text of a single letter would be refused for its size.
    letters = np.random.default_rng(1).bytes(400_000).hex()
    rows.iloc[-1, rows.columns.get_loc("item")] = letters + "x" * 33_000_000
    WRITERS[ending](rows, tmp_path / f"rows{ending}")
    with pytest.raises(InputError, match=r"last line has more than 2,097,152|Maximum line size"):
        be.load(tmp_path / f"rows{ending}", memory=MEMORY)


def test_rows_that_take_no_place_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    for n in (1_000_000, 2_000_000):
        row = f"SELECT 'A' AS model, 'de' AS language, 0.5 AS score FROM range({n})"
        duckdb.sql(f"COPY ({row}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
        with pytest.raises(InputError) as caught:
            be.load(file, memory=MEMORY)
        assert ("only be the same few rows" in str(caught.value)) == (n > 1_000_000)


def test_packed_rows_that_take_no_place_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv.gz"
    head = "model,language,score\nA,de,0.5\nA,fr,0.5\nB,de,0.5\nB,fr,0.5\n"
    for size in (2, 20):
        file.write_bytes(gzip.compress(f"{head}{'A,de,0.5' * (size << 17)}\n".encode()))
        with pytest.raises(InputError) as caught:
            be.load(file, memory=MEMORY)
        refused = f"{file}: the unpacked file is larger than 17 MB, the most that is read"
        assert (refused in str(caught.value)) == (size == 20)


def test_packed_rows_are_unpacked_for_their_size_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv.gz"
    head = "model,language,score\nA,de,0.5\nA,fr,0.5\nB,de,0.5\nB,fr,0.25\n"
    file.write_bytes(gzip.compress(head.encode()))
    unpacked, pieces = [], compressed.unpacked_pieces

    def counted(path: Path, *arguments: Any) -> Any:
        unpacked.append(path)
        return pieces(path, *arguments)

    monkeypatch.setattr(compressed, "unpacked_pieces", counted)
    first, again = (be.load(file, memory=MEMORY).table for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert unpacked == [file]
    file.write_bytes(gzip.compress(head.replace("0.25", "0.75").encode()))
    # As on a file system whose clock has moved on.
    os.utime(file, ns=(1, 1))
    changed = be.load(file, memory=MEMORY).table
    assert unpacked == [file, file]
    assert changed["score"].max() == 0.75


def test_the_scratch_folder_of_a_reader_at_work_stays(tmp_path: Path) -> None:
    with open_engine([], memory=10**9, folder=tmp_path / "cache" / "rows") as engine:
        for is_used in (True, False):
            os.utime(engine.folder, (0.0, 0.0))
            if is_used:
                engine.run("SELECT 1", source="a query")
            Partials.open(tmp_path / "cache")
            assert engine.folder.is_dir() == is_used


def test_a_number_of_too_many_digits_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    row = '{"model": "A", "language": "de", "score": %s}\n'
    file.write_text(row % 1 + row % ("1" * 5000))
    with pytest.raises(InputError, match=r"line 2: not valid JSON: a number has too many digits"):
        be.load(file, memory=MEMORY)


def test_a_database_of_several_tables_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS x; CREATE SCHEMA s")
        connection.execute("CREATE TABLE s.a AS SELECT 1 AS x")
    with pytest.raises(InputError, match=r"holds 2 tables \(main\.a, s\.a\), and only one can be"):
        be.load(tmp_path / "rows.duckdb")


@pytest.mark.parametrize(
    ("ending", "content"),
    [(".parquet", b"PAR1 broken PAR1"), (".csv", b"a,b\n1,2,3\n"), (".duckdb", b"nothing")],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, ending: str, content: bytes) -> None:
    file = tmp_path / f"rows{ending}"
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"^{file}") as caught:
        be.load(file, memory=MEMORY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("memory", ["2", "2 XB", "-1GB", "100MB", True, "9" * 400 + "GB", "0GB"])
def test_sizes_that_are_none_are_refused(memory: Any) -> None:
    with pytest.raises(InputError, match="memory"):
        be.load("mega", memory=memory)


@pytest.mark.parametrize("column", ["prompt", "k"])
def test_columns_that_cannot_be_reduced_are_refused(tmp_path: Path, column: str) -> None:
    frame = table(20, unit="item", seeds=1, share=1.0).assign(**{column: 1, "n": 10})
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=f"the column '{column}' .* beside it is not; leave it"):
        be.load(tmp_path / "rows.parquet", memory=MEMORY, columns={column: column})


def test_finished_files_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "_SMALL", 0)
    folder = in_files(table(21, unit="item", seeds=1, share=1.0), tmp_path / "rows")
    first = be.load(folder, memory=MEMORY)
    kept = {path: path.stat().st_ino for path in (tmp_path / "cache/rows").glob("*.parquet")}
    assert len(kept) == 6
    # The partial results of one file are lost, those of the other are not.
    lost = {path for path in kept if path.name.startswith("part1")}
    for path in lost:
        path.unlink()
    again = be.load(folder, memory=MEMORY)
    assert again.content_hash == first.content_hash
    now = {path: path.stat().st_ino for path in (tmp_path / "cache/rows").glob("*.parquet")}
    assert lost <= set(now)
    assert {path: now[path] for path in set(kept) - lost} == {
        path: kept[path] for path in set(kept) - lost
    }
    assert not list((tmp_path / "cache/rows").glob("run-*"))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    frame = table(22, unit="item", seeds=1, share=1.0)
    folder = in_files(frame, tmp_path / "rows")
    first = be.load(folder, memory=MEMORY)
    changed = frame.assign(score=1.0 - frame["score"])
    in_files(changed, folder)
    for file in folder.iterdir():
        os.utime(file, ns=(1, 1))
    second = be.load(folder, memory=MEMORY)
    assert second.content_hash != first.content_hash
    assert_same(second, be.load(folder))


def test_a_fit_of_reduced_rows_is_that_of_all_rows(tmp_path: Path) -> None:
    frame = table(23, unit="item", seeds=1, share=2.0)
    folder = in_files(frame, tmp_path / "rows")
    fits = [
        be.fit(records, "additive", draws=200, chains=2)
        for records in (be.load(folder, memory=MEMORY), be.load(folder))
    ]
    tables = [fit.ranking() for fit in fits]
    pd.testing.assert_frame_equal(tables[0], tables[1], rtol=1e-6)


def test_models_may_be_left_out_and_seeds_may_not(tmp_path: Path) -> None:
    frame = table(24, unit="item", seeds=2, share=2.0)
    folder = in_files(frame, tmp_path / "rows")
    reduced, whole = be.load(folder, memory=MEMORY), be.load(folder)
    kept = reduced.table["model"] != "m0"
    rest = reduced.subset(kept, name="rest")
    expected = whole.subset(whole.table["model"] != "m0", name="rest")
    one, other = reduce_replicates(rest), reduce_replicates(expected)
    np.testing.assert_array_equal(one.n_items, other.n_items)
    np.testing.assert_allclose(one.cross.sum_of_squares, other.cross.sum_of_squares)
    with pytest.raises(InputError, match="a cell is kept or left out as a whole"):
        reduced.subset(reduced.table["seed"] == "0", name="rest")


def test_reduced_records_are_neither_written_nor_joined(tmp_path: Path) -> None:
    folder = in_files(table(25, unit="item", seeds=1, share=1.0), tmp_path / "rows")
    with pytest.raises(InputError, match="reduced to cells"):
        be.load(folder, memory=MEMORY).to_csv(tmp_path / "out.csv")
    with pytest.raises(InputError, match="reduced to cells"):
        be.load([folder, "mega"], memory=MEMORY)


def test_json_lines_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    rows = [{"model": "a", "language": "en", "item": 1, "score": 1}, [1]]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=r"line 2: expected an object with keys and values"):
        be.load(tmp_path / "rows.jsonl", memory=MEMORY)


def test_calibration_of_reduced_test_sets_is_refused(tmp_path: Path) -> None:
    frame = table(26, unit="boot", seeds=1, share=1.0, right=False)
    folder = in_files(frame, tmp_path / "rows")
    with pytest.raises(EngineError, match="needed one by one to draw tables like it"):
        be.calibrate("additive", like=be.load(folder, memory=MEMORY), simulations=1)


def test_results_of_tools_are_not_reduced() -> None:
    folder = Path(__file__).parents[1] / "fixtures" / "readers" / "lm_eval" / "v0.4.13"
    with pytest.raises(InputError, match="results in the format lm-eval; leave it out"):
        be.load(folder, memory=MEMORY)


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_a_file_too_large_for_memory_names_the_way(tmp_path: Path, memory: str | None) -> None:
    file = tmp_path / "rows.csv"
    table(27, unit="item", seeds=1, share=1.0).to_csv(file, index=False)
    os.truncate(file, 2 << 30)
    message = "memory='2GB' reduces the rows" if memory is None else "holds zero bytes"
    with pytest.raises(InputError, match=message):
        be.load(file, memory=memory)


def test_a_killed_process_leaves_what_it_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batches, "_SMALL", 0)
    folder = in_files(table(28, unit="item", seeds=1, share=1.0), tmp_path / "rows", n=6)
    # Ends itself, without any cleaning up, when the groups of the third file are reduced.
    program = (
        "import os, signal, sys, bayeseval as be\n"
        "from bayeseval.records import row_batches\n"
        "row_batches._SMALL = 0\n"
        "def progress(stage, done, total, remark):\n"
        "    if stage == 'reducing rows' and done == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "be.load(sys.argv[1], memory='1GB', progress=progress)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = {path: path.stat().st_ino for path in (tmp_path / "cache/rows").glob("*.parquet")}
    assert len(left) == 6 + 3
    stages: list[tuple[str, str]] = []
    records = be.load(
        folder,
        memory=MEMORY,
        progress=lambda stage, done, total, remark: stages.append((stage, remark)),
    )
    assert_same(records, be.load(folder))
    assert {path: path.stat().st_ino for path in left} == left
    assert ("reducing rows", "part5.parquet") in stages


def test_a_command_ends_without_a_word_of_the_database_engine(tmp_path: Path) -> None:
    """DuckDB reports objects that Python leaves behind as leaks, on stderr."""
    path = tmp_path / "rows.parquet"
    table(29, unit="item", seeds=1, share=1.0).to_parquet(path, index=False)
    words = [sys.executable, "-m", "bayeseval", "validate", str(path), "--memory", MEMORY]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    stages = ["reading labels of items", "reducing rows", "summing over cells of each item"]
    assert done.stderr == "".join(f"{stage}: done\n" for stage in [*stages, "hashing files"])
