"""Folders of unlike files: reduced while they are read, they are the table that memory holds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.records import item_variance, reduce_replicates, row_tables
from tests.records.reduced_tables import (
    MEMORY,
    WRITERS,
    in_files,
    read_both,
    table,
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def write(folder: Path, **frames: pd.DataFrame) -> Path:
    """Files by name, whose ending follows two underscores: ``a__csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        stem, _, ending = name.partition("__")
        WRITERS[f".{ending}"](frame, folder / f"{stem}.{ending}")
    return folder


def halves(seed: int, **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of a table in two parts, each with some rows of every cell."""
    frame = table(seed, **{"unit": "item", "seeds": 1, "share": 1.0, "right": False} | options)
    return frame.iloc[::2], frame.iloc[1::2]


def test_files_may_differ_in_the_order_of_their_columns(tmp_path: Path) -> None:
    one, other = halves(30)
    folder = write(tmp_path / "rows", a__csv=one, b__csv=other[[*reversed(other.columns)]])
    reduced, _ = read_both(folder)
    # One record for each model, language and task.
    assert len(reduced) == 18


def test_files_may_differ_in_further_columns(tmp_path: Path) -> None:
    one, other = halves(31)
    folder = write(tmp_path / "rows", a__parquet=one, b__parquet=other.assign(comment="x"))
    assert len(read_both(folder)[0]) == 18


def test_files_may_differ_in_names_of_columns(tmp_path: Path) -> None:
    one, other = halves(32, seeds=2)
    names = {"model": "model_name", "language": "lang", "score": "value", "item": "doc_id"}
    folder = write(tmp_path / "rows", a__csv=one, b__csv=other.rename(columns=names))
    assert len(read_both(folder)[0]) == 36


def test_files_may_differ_in_format(tmp_path: Path) -> None:
    frame = table(33, unit="item", seeds=1, share=1.0, right=False)
    parts = {f"part{i}__{ending[1:]}": frame.iloc[i::5] for i, ending in enumerate(WRITERS)}
    assert len(read_both(write(tmp_path / "rows", **parts))[0]) == 18


def test_an_item_twice_in_unlike_files_is_refused(tmp_path: Path) -> None:
    one, other = halves(34)
    twice = pd.concat([other, one.iloc[[3]]])[[*reversed(other.columns)]]
    folder = write(tmp_path / "rows", a__csv=one, b__jsonl=twice)
    with pytest.raises(InputError, match=r"b\.jsonl, line \d+: duplicate of .*a\.csv, line 5"):
        be.load(folder, memory=MEMORY)
    with pytest.raises(InputError, match="duplicate of"):
        be.load(folder)


def test_labels_of_one_language_are_one_cell(tmp_path: Path) -> None:
    one, other = halves(35)
    french = other.assign(language=other["language"].replace("de", "German"))
    rest = one.assign(language=one["language"].replace("de", "deu"))
    folder = write(tmp_path / "rows", a__csv=rest, b__parquet=french)
    reduced, whole = read_both(folder)
    assert len(reduced) == 18
    assert any("mean the same language" in note for note in whole.report.notes)


def test_the_label_that_most_rows_have_is_kept(tmp_path: Path) -> None:
    frame = table(36, unit="item", seeds=1, share=2.0)
    own = np.flatnonzero(frame["language"] == "de")
    # Most cells say "deu" somewhere, most rows say "de".
    labels = frame["language"].to_numpy(dtype=object, copy=True)
    labels[own[:10]] = "deu"
    folder = in_files(frame.assign(language=labels), tmp_path / "rows", ".csv")
    reduced, _ = read_both(folder)
    assert "de" in reduced.coords["language"]


def test_an_item_twice_under_two_labels_of_a_language_is_refused(tmp_path: Path) -> None:
    one, other = halves(37)
    again = one[one["language"] == "de"].head(1).assign(language="German")
    folder = write(tmp_path / "rows", a__csv=one, b__csv=pd.concat([other, again]))
    for memory in (MEMORY, None):
        with pytest.raises(InputError, match="written 'de' and 'German'.* rename one of"):
            be.load(folder, memory=memory)


def test_empty_columns_of_some_files_are_judged_over_all_files(tmp_path: Path) -> None:
    one, other = halves(38)
    for place, empty in enumerate((None, "")):
        folder = write(tmp_path / f"{place}", a__csv=one.assign(seed=empty), b__csv=other)
        read_both(folder)
    folder = write(tmp_path / "seeds", a__csv=one.assign(seed=1), b__csv=other.assign(seed=None))
    for memory in (MEMORY, None):
        with pytest.raises(InputError, match=r"b\.csv: no seed column, but .*a\.csv has one"):
            be.load(folder, memory=memory)


def test_a_column_that_is_empty_in_one_file_names_its_tasks_as_in_memory(tmp_path: Path) -> None:
    one, other = halves(39)
    folder = write(tmp_path / "rows", a__csv=one.assign(task=""), b__csv=other)
    one["item"] = one["item"] + one["task"]
    folder = write(tmp_path / "rows", a__csv=one.assign(task=""), b__csv=other)
    reduced, _ = read_both(folder)
    assert reduced.coords["task"] == ("score", "t0", "t1")


def test_records_with_a_single_row_may_lack_a_seed(tmp_path: Path) -> None:
    frame = table(40, unit="item", seeds=1, share=2.0)
    alone = (frame["model"] == "m0") & (frame["language"] == "de")
    for n_rows in (1, 2):
        own = frame[alone].groupby("task").head(n_rows).assign(seed=pd.NA)
        rows = pd.concat([frame[~alone].assign(seed=1).astype({"seed": object}), own])
        folder = write(tmp_path / f"{n_rows}", a__parquet=rows.astype({"seed": "Int64"}))
        if n_rows == 1:
            reduced, _ = read_both(folder)
            assert any("seed is empty in 2 records" in note for note in reduced.report.notes)
            continue
        for memory in (MEMORY, None):
            with pytest.raises(InputError, match="seed is empty beside records of the same cell"):
                be.load(folder, memory=memory)


@pytest.mark.parametrize("name", ["n", "se", "n_seeds", "seed_sd"])
def test_numbers_may_differ_within_a_cell_as_in_memory(tmp_path: Path, name: str) -> None:
    frame = table(41, unit="item", seeds=2, share=0.7, right=False)
    number = 1.0 + np.arange(len(frame)) % 3
    values = pd.Series(number, index=frame.index).where(np.arange(len(frame)) % 4 > 0)
    if name in ("n_seeds", "seed_sd"):
        frame = frame[frame["seed"] == 0].drop(columns="seed")
    frame = frame.assign(**{name: values})
    folder = write(
        tmp_path / "rows", a__csv=frame.iloc[::2].drop(columns=name), b__parquet=frame.iloc[1::2]
    )
    reduced, whole = read_both(folder)
    one, other = map(reduce_replicates, (reduced, whole))
    np.testing.assert_allclose(one.se, other.se, rtol=1e-12)
    np.testing.assert_array_equal(one.n_seeds, other.n_seeds)


def test_two_values_of_one_number_per_task_are_refused(tmp_path: Path) -> None:
    one, other = halves(42, right=True)
    folder = write(
        tmp_path / "rows", a__csv=one.assign(chance=0.25), b__csv=other.assign(chance=0.5)
    )
    for memory in (MEMORY, None):
        with pytest.raises(InputError, match=r"b\.csv.*chance 0\.5 differs from 0\.25 earlier"):
            be.load(folder, memory=memory)


def test_empty_files_are_left_out_of_a_folder(tmp_path: Path) -> None:
    one, other = halves(43)
    folder = write(tmp_path / "rows", a__csv=one, b__parquet=other)
    write(folder, header__csv=one.iloc[:0], none__parquet=one.iloc[:0], packed__csv=one.iloc[:0])
    write(folder, **{"zipped__csv.gz": one.iloc[:0]})
    (folder / "nothing.csv").write_bytes(b"")
    (folder / "blank.tsv").write_text("\n \n")
    (folder / "list.jsonl").write_text("[]\n")
    reduced, whole = read_both(folder)
    assert any("6 files of" in note or "7 files of" in note for note in whole.report.warnings)
    assert len(reduced) == 18


def test_a_folder_of_empty_files_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    one, _ = halves(44)
    folder = write(tmp_path / "rows", a__csv=one.iloc[:0], b__parquet=one.iloc[:0])
    (folder / "c.csv").write_bytes(b"")
    messages = []
    for path in (folder, folder / "a.csv", folder / "b.parquet", folder / "c.csv"):
        for memory in (MEMORY, None):
            with pytest.raises(InputError) as caught:
                be.load(path, memory=memory)
            messages.append(str(caught.value))
    assert messages[::2] == messages[1::2]
    assert "none of 3 tables has scores" in messages[0]


def test_columns_without_values_do_not_stand_beside_items(tmp_path: Path) -> None:
    one, other = halves(45)
    folder = write(
        tmp_path / "rows", a__csv=one.assign(boot="", k=""), b__parquet=other.assign(boot=None)
    )
    read_both(folder)
    boots = table(46, unit="boot", seeds=1, share=2.0, right=False)
    read_both(write(tmp_path / "boots", a__csv=boots.assign(item="")))


@pytest.mark.parametrize("name", ["seed_{}", "run_seed{}", "run{}", "x{}"])
def test_names_of_files_say_seeds_as_in_memory(tmp_path: Path, name: str) -> None:
    frame = table(47, unit="item", seeds=2, share=2.0)
    parts = {
        f"{name.format(seed)}__csv": own.drop(columns="seed") for seed, own in frame.groupby("seed")
    }
    folder = write(tmp_path / "rows", **parts)
    if name in ("seed_{}", "run{}"):
        columns = {"seed": "run"} if name == "run{}" else {}
        reduced, _ = read_both(folder, columns=columns)
        assert (reduce_replicates(reduced).n_seeds == 2).all()
        return
    for memory in (MEMORY, None):
        with pytest.raises(InputError, match="duplicate of"):
            be.load(folder, memory=memory)


def test_names_of_folders_say_models_as_in_memory(tmp_path: Path) -> None:
    frame = table(53, unit="item", seeds=1, share=1.0, right=False)
    for model, own in frame.groupby("model"):
        ending = "jsonl" if model == "m1" else "csv"
        rest = own.drop(columns="model")
        if model == "m2":
            rest = rest[[*reversed(rest.columns)]]
        write(tmp_path / "rows" / str(model), **{f"part__{ending}": rest})
    reduced, _ = read_both(tmp_path / "rows")
    assert reduced.coords["model"] == ("m0", "m1", "m2")


def test_tables_without_items_are_read_as_in_memory(tmp_path: Path) -> None:
    frame = table(54, unit="item", seeds=2, share=1.0, right=False)
    means = frame.groupby(["model", "language", "task", "seed"], as_index=False)["score"].mean()
    parts = (means.iloc[::2], means.iloc[1::2][["score", "seed", "task", "language", "model"]])
    folder = write(tmp_path / "rows", a__csv=parts[0], b__parquet=parts[1].assign(comment="c"))
    assert len(read_both(folder)[0]) == 36
    twice = pd.concat([parts[1], parts[0].iloc[[4]]])
    folder = write(tmp_path / "twice", a__csv=parts[0], b__parquet=twice)
    for memory in (MEMORY, None):
        with pytest.raises(InputError, match=r"b\.parquet, row 19: duplicate of .*a\.csv, .*m0"):
            be.load(folder, memory=memory)


def test_numbers_in_names_of_the_files_of_a_card_say_nothing(tmp_path: Path) -> None:
    one, other = halves(48)
    folder = write(tmp_path / "rows", seed_1__csv=one, seed_2__csv=other)
    (folder / "benchmark.yaml").write_text("name: mine\ntitle: Mine\n")
    try:
        whole = be.load(folder)
    except InputError as problem:
        pytest.fail(str(problem))
    assert "seed" not in whole.replicate_columns
    read_both(folder)


def test_many_groups_are_put_together_by_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table(49, unit="item", seeds=2, share=0.8, right=False)
    parts = {f"p{i}__{e[1:]}": frame.iloc[i::5] for i, e in enumerate(WRITERS)}
    folder = write(tmp_path / "rows", **parts)
    by_file = be.load(folder, memory=MEMORY)
    monkeypatch.setattr(row_tables, "_MOST_BY_FILE", 10)
    reduced, _ = read_both(folder)
    assert reduced.content_hash == by_file.content_hash


def exact(frame: pd.DataFrame, unit: str) -> dict[str, list[float]]:
    """Mean and mean squares of every cell in fractions, in the order of the records."""
    found: dict[str, list[float]] = {"mean": [], "unit": [], "seed": [], "cross": []}
    for _, own in frame.groupby(["model", "language", "task"]):
        scores = own.pivot(index="seed", columns=unit, values="score").to_numpy()
        x = [[Fraction(float(score)) for score in row] for row in scores]
        n_seeds, n = len(x), len(x[0])
        of_seed = [sum(row) / n for row in x]
        of_unit = [sum(row[i] for row in x) / n_seeds for i in range(n)]
        mean = sum(of_seed) / n_seeds
        unit_square = sum((one - mean) ** 2 for one in of_unit)
        seed_square = sum((one - mean) ** 2 for one in of_seed)
        cross = sum(
            (x[s][i] - of_seed[s] - of_unit[i] + mean) ** 2
            for s in range(n_seeds)
            for i in range(n)
        )
        per = n if unit == "item" else 1
        found["mean"].append(float(mean))
        found["unit"].append(float(unit_square / (n - 1)))
        found["seed"].append(float(seed_square / max(n_seeds - 1, 1)))
        found["cross"].append(float(cross / max((n_seeds - 1) * (n - 1), 1) / per))
    return found


@pytest.mark.parametrize("unit", ["item", "boot"])
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1e9, 1.0), (1e9, 1e-4), (-1e12, 1.0)])
def test_squares_are_those_of_fractions(
    tmp_path: Path, unit: str, seeds: int, offset: float, scale: float
) -> None:
    frame = table(50, unit=unit, seeds=max(seeds, 2), share=2.0, right=False)
    frame = frame[frame["seed"] < seeds]
    frame["score"] = offset + scale * (frame["score"] + frame["seed"])
    expected = exact(frame, unit)
    for place, parts in enumerate(
        (
            {"a__parquet": frame},
            {"a__csv": frame.iloc[::2], "b__parquet": frame.iloc[1::2]},
            {f"s{seed}__parquet": own for seed, own in frame.groupby("seed")},
        )
    ):
        folder = write(tmp_path / f"{place}", **parts)
        for memory in (MEMORY, None):
            records = be.load(folder, memory=memory, units=(None, None), diverged_runs="allow")
            cells = reduce_replicates(records)
            np.testing.assert_allclose(cells.mean, expected["mean"], rtol=1e-15)
            if unit == "boot":
                squares = cells.boot.mean_square
            else:
                items = item_variance(records, cells)
                assert items is not None
                squares = items.se**2 * 12
            np.testing.assert_allclose(squares, expected["unit"], rtol=2e-14)
            if seeds > 1:
                np.testing.assert_allclose(cells.seed.mean_square, expected["seed"], rtol=2e-14)
                np.testing.assert_allclose(cells.cross.mean_square, expected["cross"], rtol=2e-14)


def test_seeds_that_agree_have_no_product_in_both(tmp_path: Path) -> None:
    frame = table(51, unit="item", seeds=2, share=2.0, right=False)
    same = frame[frame["seed"] == 0]
    both = [same.assign(seed=seed, score=same["score"]) for seed in (0, 1)]
    for place, parts in enumerate(
        ({"a__csv": pd.concat(both)}, {"a__csv": both[0], "b__parquet": both[1]})
    ):
        reduced, _ = read_both(write(tmp_path / f"{place}", **parts))
        assert (reduce_replicates(reduced).cross.sum_of_squares == 0.0).all()


ENDINGS = [*WRITERS]
NAMES = {"model": "model_name", "language": "lang", "score": "value", "item": "doc_id"}


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), seed=st.integers(0, 10**6), unit=st.sampled_from(["item", "boot"]))
def test_random_splits_of_a_table_are_that_table(
    tmp_path: Path, data: st.DataObject, seed: int, unit: str
) -> None:
    seeds = data.draw(st.sampled_from([1, 2]))
    frame = table(seed, unit=unit, seeds=seeds, share=0.9, right=False)
    labels = data.draw(st.sampled_from([("de", "de"), ("de", "German"), ("deu", "de")]))
    n_files = data.draw(st.integers(1, 4))
    file = np.random.default_rng(seed).integers(0, n_files, len(frame))
    parts: dict[str, pd.DataFrame] = {}
    for number in np.unique(file):
        own = frame[file == number]
        own = own.assign(language=own["language"].replace("de", labels[number % 2]))
        own = own[data.draw(st.permutations([*own.columns]))]
        if data.draw(st.booleans()):
            own = own.rename(columns=NAMES)
        if data.draw(st.booleans()):
            own = own.assign(comment="c")
        ending = data.draw(st.sampled_from(ENDINGS))
        parts[f"f{number}__{ending[1:]}"] = own
    folder = tmp_path / f"{seed}-{unit}-{len(list(tmp_path.iterdir()))}"
    options: dict[str, Any] = {"diverged_runs": "allow", "mixed_scales": "allow"}
    read_both(write(folder, **parts), **options)
