"""Notes, warnings and refusals of rows out of core are those of the same rows in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers import rewritten
from bayeseval.records import TableError
from tests.records.reduced_tables import MEMORY, WRITERS

# What it says of the reduction itself.
SUMMARY = "while they were read"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def rows(unit: str | None = "item", n: int = 6, seeds: tuple[int, ...] = ()) -> pd.DataFrame:
    """Scores of three models, three languages and two tasks, in any order."""
    rng, found = np.random.default_rng(0), []
    for model in ("m1", "m2", "m3"):
        for language in ("de", "en", "sw"):
            for task in ("t0", "t1"):
                for seed in seeds or (None,):
                    for one in range(n if unit else 1):
                        row: dict[str, Any] = {"model": model, "language": language, "task": task}
                        row |= {} if seed is None else {"seed": seed}
                        row |= {unit: f"u{one}" if unit == "item" else one} if unit else {}
                        right = float(rng.random() < 0.5)
                        score = right if unit == "item" else round(0.5 + 0.1 * rng.normal(), 3)
                        found.append(row | {"score": score})
    return pd.DataFrame(found).sample(frac=1, random_state=1).reset_index(drop=True)


def changed(frame: pd.DataFrame, *cells: tuple[str, int, Any]) -> pd.DataFrame:
    """The rows with other cells: column, row and what stands there."""
    frame = frame.astype(object)
    for column, row, value in cells:
        frame.loc[row, column] = value
    return frame


def repeated(frame: pd.DataFrame, row: int, *, at: int, **cells: Any) -> pd.DataFrame:
    """The rows with one of them once more, as row `at`, with other cells."""
    again = pd.DataFrame([frame.iloc[row].to_dict() | cells])
    return pd.concat([frame.iloc[:at], again, frame.iloc[at:]]).reset_index(drop=True)


def said(path: Path, memory: str | None, **options: Any) -> list[str]:
    """What is said of a table: that it is refused, or the report."""
    try:
        report = be.load(path, memory=memory, **options).report
    except InputError as problem:
        return [f"{type(problem).__name__}: {problem}"]
    notes = [str(note) for note in report.remarks if SUMMARY not in str(note)]
    dropped = [f"{one.reason}: {one.counts}, first {one.first}" for one in report.dropped]
    return [*notes, *dropped]


def assert_same_words(path: Path, **options: Any) -> list[str]:
    """Both ways say the same; what they say."""
    words = said(path, None, **options)
    assert said(path, MEMORY, **options) == words
    return words


def written(frame: pd.DataFrame, path: Path) -> Path:
    """The rows as a file; a column of Parquet has one type."""
    if path.suffix == ".parquet":
        mixed = [name for name in frame if frame[name].dropna().map(type).nunique() > 1]
        frame = frame.assign(
            **{name: frame[name].map(str, na_action="ignore") for name in mixed}  # type: ignore[arg-type]
        )
    WRITERS[path.suffix](frame, path)
    return path


def _at_bound(frame: pd.DataFrame) -> pd.DataFrame:
    full = frame["model"].eq("m1") | (frame["model"].eq("m2") & frame["language"].eq("de"))
    return frame.assign(score=frame["score"].mask(full, 1.0))


BOOTS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "at a bound": (_at_bound, "task 't0': 44 % of the scores (4 of 9) are 1, the highest"),
    "some at a bound": (lambda f: f.assign(score=f["score"].mask(f["boot"] < 3, 0.0)), ""),
    "all equal": (lambda f: f.assign(score=0.25), "task 't0': all 9 scores are 0.25"),
    "one model": (
        lambda f: f.assign(score=f["score"].mask(f["model"] == "m1", 0.5)),
        "one score throughout for model m1 (6 times 0.5)",
    ),
    "far": (
        lambda f: f.assign(score=100 * f["score"]).assign(
            score=lambda g: g["score"].mask(g.index == 5, 9000.0)
        ),
        "column 'score', the mean over its bootstrapped test sets)",
    ),
}


@pytest.mark.parametrize("name", BOOTS)
def test_warnings_of_bootstrapped_scores_are_those_of_their_means(
    tmp_path: Path, name: str
) -> None:
    change, expected = BOOTS[name]
    path = written(change(rows("boot", 8)), tmp_path / "rows.parquet")
    warnings = [one for one in assert_same_words(path) if one.startswith("warning: ")]
    assert len(warnings) == {"some at a bound": 0, "at a bound": 2}.get(name, 1)
    assert any(expected in one for one in warnings) or not expected


def test_a_copy_of_a_model_is_known_whatever_the_order_of_its_bootstraps(tmp_path: Path) -> None:
    frame = rows("boot", 8)
    copy = frame[frame["model"] == "m1"].assign(model="m9").sample(frac=1, random_state=3)
    words = assert_same_words(written(pd.concat([frame, copy]), tmp_path / "rows.parquet"))
    assert [one for one in words if "models m1, m9 have exactly the same scores" in one]


def _german(frame: pd.DataFrame) -> int:
    return int(frame.index[frame["language"] == "de"][0])


ITEMS, BOOTED, SINGLE, SEEDED = rows(), rows("boot", 8), rows(None), rows(seeds=(1, 2))
NOTES: dict[str, tuple[pd.DataFrame, str]] = {
    "every item": (
        ITEMS.assign(item=" " + ITEMS["item"]),
        "blanks stripped from 6 item labels: ' u0', ' u1', ' u2', ' u3' and 2 more",
    ),
    "one item": (
        changed(ITEMS, ("item", 3, "u9 "), ("item", 5, "u9")),
        "blanks stripped from 1 item label: 'u9 '",
    ),
    "a model": (changed(ITEMS, ("model", 3, "m9 ")), "blanks stripped from 1 model label: 'm9 '"),
    "one label in two spellings": (
        ITEMS.assign(model=[f"{' ' * (i % 3)}{m}" for i, m in enumerate(ITEMS["model"])]),
        "blanks stripped from 6 model labels: ' m1', ' m2', ' m3', ' m1' and 2 more",
    ),
    "a seed": (changed(SEEDED, ("seed", 3, "1 ")), "blanks stripped from 1 seed label: '1 '"),
    "a form of Unicode": (
        changed(ITEMS, ("item", 3, "e\u0301"), ("model", 5, "e\u0301"), ("model", 6, "\u00e9")),
        "Unicode form made NFC in 1 item label: e\u0301",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_notes_on_labels_are_those_of_all_rows(tmp_path: Path, name: str) -> None:
    frame, expected = NOTES[name]
    words = assert_same_words(written(frame, tmp_path / "rows.jsonl"))
    if name == "a model":
        # A model with a single record tells nothing, but is read.
        assert [one for one in words if expected in one]
    else:
        assert expected in words


def test_notes_on_labels_name_their_files(tmp_path: Path) -> None:
    for name, frame in (("a", ITEMS[:60]), ("b", changed(ITEMS[60:], ("item", 70, "u9 ")))):
        written(frame, tmp_path / f"{name}.csv")
    expected = f"{tmp_path / 'b.csv'}: blanks stripped from 1 item label: 'u9 '"
    assert expected in assert_same_words(tmp_path)


def _twice(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    return pd.concat([frame.assign(**{column: value}) for value in ("x", "y")])


REFUSALS: dict[str, tuple[pd.DataFrame, str]] = {
    "an item twice": (repeated(ITEMS, 3, at=20), "the two rows are identical: remove one of them"),
    "another score": (repeated(ITEMS, 3, at=20, score=0.25), "has two scores, 0 and 0.25; keep"),
    "the first of two": (
        repeated(repeated(ITEMS, 30, at=40), 3, at=20),
        "remove one of them; 2 cells have more than one score",
    ),
    "a bootstrap": (repeated(BOOTED, 3, at=20), " twice; the two rows are identical: remove"),
    "no item": (repeated(SINGLE, 3, at=10, score=0.9), "or distinguish replicates by a seed"),
    "a column of no items": (ITEMS.assign(item=None), "18 cells have more than one score"),
    "a seed": (repeated(SEEDED, 3, at=20), "seed '1', item 'u2' has the score"),
    "two names": (
        repeated(ITEMS, _german(ITEMS), at=20, language="deu"),
        "(written 'de' and 'deu')",
    ),
    "a setting": (_twice(ITEMS, "setting"), "column 'setting' tells them apart: columns="),
    "a run": (
        repeated(ITEMS.assign(run="a"), 3, at=20, run="z"),
        "column 'run' tells them apart: columns={'seed': 'run'} as repetitions",
    ),
    "no task": (
        repeated(ITEMS[ITEMS["task"] == "t0"].drop(columns="task"), 3, at=20),
        "the table has no task column",
    ),
    "a score": (changed(ITEMS, ("score", 17, "n/a")), "score 'n/a' is not a number; leave"),
    "scores": (
        changed(ITEMS, ("score", 17, "x"), ("score", 27, "y")),
        "score 'x' is not a number; correct it, or leave the cell empty if it is missing; 2 such",
    ),
    "a control character": (changed(ITEMS, ("item", 9, "a\x01b")), "U+0001; use a plain label"),
    "a long item": (changed(ITEMS, ("item", 9, "x" * 600)), "is a label of 600 characters"),
    "an item that is missing": (changed(ITEMS, ("item", 9, None)), "or remove the records without"),
    "an error": (changed(ITEMS.assign(se=0.1), ("se", 9, "x")), "column 'se': se 'x' is not a"),
    "a negative error": (ITEMS.assign(se=-0.1), "se -0.1 is below 0; 108 such rows"),
    "bounds": (
        ITEMS.assign(scale_min=0, scale_max=[1 + i % 2 for i in range(len(ITEMS))]),
        "earlier in task 't1'; it is one value per task",
    ),
    "scales": (
        SINGLE.assign(score=[s * (100 if i % 3 else 1) for i, s in enumerate(SINGLE["score"])]),
        "task 't0' mixes scales: 4 scores",
    ),
    "no model": (ITEMS.rename(columns={"model": "foo"}), "name it with columns={'model': 'foo'}"),
    "no score": (ITEMS.rename(columns={"score": "foo"}), "name it with columns={'score': 'foo'}"),
    "averages": (
        ITEMS.assign(a=ITEMS["score"] - 0.125, b=ITEMS["score"] + 0.125, c="x"),
        "these are the averages of 'a', 'b', which would not be read",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_those_of_all_rows(tmp_path: Path, name: str) -> None:
    frame, expected = REFUSALS[name]
    ending = (".csv", ".jsonl", ".parquet")[list(REFUSALS).index(name) % 3]
    (words,) = assert_same_words(written(frame, tmp_path / f"rows{ending}"))
    assert words.startswith("TableError: ") and expected in words


@pytest.mark.parametrize("scores", ["", "n/a"])
def test_scores_may_begin_after_a_thousand_rows(tmp_path: Path, scores: str) -> None:
    frame = rows("item", 200)
    frame = frame.assign(a=range(len(frame)), b=1.0, score=frame["score"].map(str))
    frame.loc[:1499, "score"] = scores
    path = written(frame, tmp_path / "rows.csv")
    in_memory, reduced = (
        [one.partition(", first")[0] for one in said(path, m)] for m in (None, MEMORY)
    )
    assert in_memory == reduced
    # Empty scores are left out, others that are no numbers are refused.
    assert any("missing score" in one for one in reduced) == (scores == "")


def test_a_database_with_an_empty_table_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        columns = "model VARCHAR, language VARCHAR, item VARCHAR, a DOUBLE, b DOUBLE, score DOUBLE"
        connection.execute(f"CREATE TABLE scores ({columns})")
    with pytest.raises(InputError, match="the table has no rows"):
        be.load(tmp_path / "rows.duckdb", memory=MEMORY)


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_bootstrapped_test_set_is_known_by_its_number(tmp_path: Path, ending: str) -> None:
    frame = rows("boot", 4)
    frame = frame.assign(boot=frame["boot"].map(str))
    again = repeated(frame, 5, at=40, boot=f"{frame['boot'][5]}.0", score=0.5)
    (refusal,) = assert_same_words(written(again, tmp_path / f"rows{ending}"))
    assert "duplicate of" in refusal and f"boot '{frame['boot'][5]}'" in refusal


def test_many_labels_with_blanks_are_counted(tmp_path: Path) -> None:
    frame = rows("item", 30)
    frame = frame.assign(item=frame["item"] + "\n")
    (note,) = (
        one for one in assert_same_words(written(frame, tmp_path / "rows.parquet")) if "item" in one
    )
    assert note.startswith("blanks stripped from 30 item labels: ")
    assert note.endswith(" and 26 more")


def test_averages_are_known_where_their_first_rows_are_none(tmp_path: Path) -> None:
    frame = ITEMS.assign(a=ITEMS["score"] - 0.125, b=ITEMS["score"] + 0.125)
    words = assert_same_words(written(changed(frame, ("a", 99, None)), tmp_path / "rows.csv"))
    assert not words[0].startswith("TableError")
    path = written(frame, tmp_path / "rows.parquet")
    assert not assert_same_words(path, columns={"score": "score"})[0].startswith("TableError")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "\n\nmodel,language,item,score,note\n{}\n\n{}"),
        ("quoted.csv", 'model,language,item,score,note\n{},"a\nb"\n\n{}'),
        ("rows.jsonl", "{}\n\n \n{}\n"),
        ("rows.ndjson", "[{},\n{}]"),
    ],
)
def test_lines_are_counted_as_in_memory(tmp_path: Path, name: str, content: str) -> None:
    end = "" if name == "quoted.csv" else ","
    cells = [("m1", "de", "i0", "0"), ("m1", "en", "i1", "1"), ("m2", "de", "i0", "bad")]
    texts = [",".join(row) + (end if "csv" in name else "") for row in cells]
    if "csv" not in name:
        keys = ("model", "language", "item", "score")
        texts = [json.dumps(dict(zip(keys, row, strict=True))) for row in cells]
    first, others = texts[0], ("," if name.endswith("ndjson") else "") + "\n"
    rest = others.join(f"{one}," if name == "quoted.csv" else one for one in texts[1:])
    (tmp_path / name).write_text(content.replace("{}", first, 1).replace("{}", rest, 1))
    place = {"rows.csv": "line 7", "quoted.csv": "line 6", "rows.jsonl": "line 5"}
    expected = f"{tmp_path / name}, {place.get(name, 'record 3')}, column 'score': score 'bad'"
    (words,) = assert_same_words(tmp_path / name)
    assert expected in words


@pytest.mark.parametrize(("blank", "n_read"), [("", 0), (" \n", 1)])
def test_lines_are_read_for_their_numbers_only_below_blank_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank: str, n_read: int
) -> None:
    path = written(changed(rows(), ("score", 7, None)), tmp_path / "rows.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], blank, *lines[1:]]))
    read = []

    def counted(*arguments: Any) -> list[int]:
        read.append(arguments)
        return rewritten.lines_of_objects(*arguments)

    monkeypatch.setattr("bayeseval.readers.json_scans.lines_of_objects", counted)
    (dropped,) = (one for one in assert_same_words(path) if "missing score" in one)
    assert dropped.endswith(f"rows.jsonl, line {8 + len(blank) // 2}")
    assert len(read) == n_read


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_rewriting_of_text_shows_its_progress(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewritten, "_BATCH", 50)
    path = written(ITEMS, tmp_path / name)
    # A byte order mark, which Python reads.
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n", 1))
    told: list[tuple[str, int, int]] = []
    be.load(path, memory=MEMORY, progress=lambda *report: told.append(report[:3]))
    n = len(ITEMS) + (name == "rows.csv")
    stages = [one for one in told if one[0] == f"rewriting {name}"]
    assert stages == [(f"rewriting {name}", done, n) for done in (50, 100, n)]


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        (lambda f: changed(f, ("language", 7, None)), ["finding first rows"]),
        (lambda f: repeated(f, 3, at=9), ["finding repeated rows", "reading repeated rows"]),
    ],
    ids=["label", "repeat"],
)
def test_rows_that_are_read_again_for_a_refusal_show_their_progress(
    tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], stages: list[str]
) -> None:
    path = written(change(rows()), tmp_path / "rows.csv")
    told = []
    with pytest.raises(InputError):
        be.load(path, memory=MEMORY, progress=lambda *report: told.append(report))
    known = {"reading labels of items", "reducing rows"}
    assert [stage for stage, *_ in told if stage not in known] == stages
    assert told[-1] == (stages[-1], 0, 1, "rows.csv")


def test_labels_that_are_fractions_stay_apart(tmp_path: Path) -> None:
    """Only "1.0" means 1, as a spreadsheet writes it: not that in 1.05, 0.01 or v2.0b."""
    names = dict(enumerate(("0.01", "0.001", "1.0", "v2.0b")))
    table = rows("boot", 4)
    path = written(table.assign(boot=table["boot"].map(names)), tmp_path / "rows.csv")
    assert_same_words(path)
    assert set(be.load(path).table["boot"]) == {"0.001", "0.01", "1", "v2.0b"}
    seeds = rows("boot", 1, seeds=(0, 1, 2, 3))
    path = written(seeds.assign(seed=seeds["seed"].map(names)), tmp_path / "seeds.csv")
    assert_same_words(path)
    for memory in (None, MEMORY):
        found = be.load(path, memory=memory).table["seed"]
        assert set(found) == {"0.001", "0.01", "1", "v2.0b"}


@pytest.mark.parametrize("unit", ["item", "boot"])
def test_what_to_do_where_a_model_has_seeds_and_another_has_none(tmp_path: Path, unit: str) -> None:
    table = rows(unit, 3)
    table = table[table["model"] != "m3"].assign(seed=0)
    path = written(changed(table.reset_index(drop=True)), tmp_path / "rows.csv")
    frame = pd.read_csv(path).astype({"seed": "Int64"})
    frame.loc[frame["model"] == "m2", "seed"] = pd.NA
    frame.to_csv(path, index=False)
    (words,) = assert_same_words(path)
    assert words.endswith("its seed, or leave the column out with columns={'seed': None}")


def test_numbers_of_rows_are_those_of_the_file(tmp_path: Path) -> None:
    path = written(changed(rows(), ("model", 5, None)), tmp_path / "rows.csv")
    with pytest.raises(TableError) as caught:
        be.load(path, memory=MEMORY)
    assert caught.value.report.n_rows_read == len(rows())
    table = rows(seeds=(0, 1, 2)).assign(score=1.0)
    failed = table["model"].eq("m1") & table["language"].eq("de") & table["seed"].eq(1)
    path = written(table.assign(score=table["score"].mask(failed, 0.0)), tmp_path / "seeds.csv")
    words = assert_same_words(path, diverged_runs="drop")
    dropped = [one for one in words if one.startswith("diverged run: ")]
    assert dropped[0].startswith("diverged run: (('m1, de, t0, 1', 6), ('m1, de, t1, 1', 6)), ")


def test_what_is_not_known_of_reduced_rows_is_not_said(tmp_path: Path) -> None:
    """How many scores are beyond a bound, and what a column holds that is not read."""
    path = written(changed(rows(), ("score", 3, 1.5), ("score", 9, 1.5)), tmp_path / "rows.csv")
    found = said(path, None, units=(0, 1)), said(path, MEMORY, units=(0, 1))
    assert found[0] == [f"{found[1][0]}; 2 such scores"]
    path = written(rows().assign(run=1), tmp_path / "runs.csv")
    note = "column 'run' is not needed: it has one value"
    assert [one for one in said(path, None) if one not in said(path, MEMORY)] == [note]


def test_only_places_of_bootstrapped_scores_are_called_means(tmp_path: Path) -> None:
    single = rows(None).drop_duplicates(["model", "language"]).assign(task="single")
    for far in ("single", "t0"):
        table = pd.concat([rows("boot", 4), single]).reset_index(drop=True)
        cell = table["task"].eq(far) & table["model"].eq("m2") & table["language"].eq("en")
        path = written(table.assign(score=table["score"].mask(cell, 5.0)), tmp_path / "rows.csv")
        (found,) = (one for one in said(path, None, units=(0, None)) if "far from" in one)
        assert f"task '{far}': 1 score far from the others" in found
        assert ("the mean over its bootstrapped test sets" in found) == (far == "t0")


AVERAGED = ITEMS.astype({"score": object})
AVERAGES: dict[str, tuple[pd.DataFrame, str]] = {
    "a score": (
        repeated(AVERAGED, 3, at=20, language=" Average", score="n/a"),
        "aggregate rows, not a language: (('Average', 1),)",
    ),
    "an error": (
        repeated(AVERAGED.assign(se=0.1), 3, at=20, language="avg", se="x"),
        "aggregate rows, not a language: (('avg', 1),)",
    ),
    "an error beside no score": (
        changed(AVERAGED.assign(se=0.1), ("score", 7, None), ("se", 7, "x")),
        "missing score",
    ),
    "a score beside": (
        changed(
            repeated(AVERAGED, 3, at=5, language="average", score="n/a"),
            ("score", 17, "x"),
            ("score", 27, "y"),
        ),
        "score 'x' is not a number; correct it, or leave the cell empty if it is missing; 2 such",
    ),
    "an error in another row": (
        changed(
            repeated(AVERAGED.assign(se=0.1), 3, at=5, language="average", se="n/a"),
            ("se", 17, "x"),
        ),
        "se 'x' is not a number",
    ),
    "a label": (
        changed(repeated(AVERAGED, 3, at=5, language="average", model=None), ("score", 17, "x")),
        "score 'x' is not a number",
    ),
}


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("name", AVERAGES)
def test_cells_of_rows_that_are_left_out_are_not_read(
    tmp_path: Path, name: str, ending: str
) -> None:
    frame, expected = AVERAGES[name]
    words = assert_same_words(written(frame, tmp_path / f"rows{ending}"))
    assert any(expected in one for one in words), words


@pytest.mark.parametrize("has_language", [False, True])
def test_rows_left_out_by_the_table_of_task_names_are_counted(
    tmp_path: Path, has_language: bool
) -> None:
    frame = ITEMS.assign(task=ITEMS["task"] + "-" + ITEMS["language"])
    frame = frame.drop(columns=[] if has_language else ["language"])
    others = frame.head(40).assign(task=["others", "more"] * 20)
    names = tmp_path / "names" / "names.csv"
    names.parent.mkdir()
    names.write_text(
        "task,dataset,language\n{}others,,\nmore,,\n".format(
            "".join(f"{t}-{{language}},{t},\n" for t in ("t0", "t1"))
        )
    )
    path = written(pd.concat([others, frame]), tmp_path / "rows.csv")
    for memory in (None, MEMORY):
        report = be.load(path, memory=memory, task_names=names).report
        (dropped,) = report.dropped
        assert dropped.counts == (("more", 20), ("others", 20))
        assert report.n_rows_read == len(frame) + 40
        assert report.n_dropped == 40
