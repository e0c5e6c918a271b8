"""What is refused of a file is refused of the same table in a database, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers.databases import Database, shown
from bayeseval.records.report import TableError
from tests.postgres import Server, programs, running_server, writer
from tests.records.reduced_tables import table

if programs() is None:
    pytest.skip(
        "needs PostgreSQL: it is not installed (apt-get install postgresql)",
        allow_module_level=True,
    )

ITEMS = table(7, unit="item", seeds=1, share=0.9)

Write = Callable[[pd.DataFrame], str]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["PostgreSQL", "DuckDB"])
def write(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Write:
    """Writes a frame into the table `rows`; its address."""
    return partial(writer(server if request.param == "PostgreSQL" else tmp_path), name="rows")


def refusal(source: str | Path, **options: Any) -> str:
    """What is said of a table that is refused, without its name."""
    with pytest.raises(TableError) as refused:
        be.load(source, **options)
    name = str(source) if isinstance(source, Path) else shown(source)
    assert str(refused.value).startswith(name)
    return str(refused.value).removeprefix(name)


def with_averages(frame: pd.DataFrame) -> pd.DataFrame:
    half = np.random.default_rng(3).normal(0.0, 0.1, len(frame))
    return frame.assign(f1=frame["score"] + half, em=frame["score"] - half)


MISSING: dict[str, pd.DataFrame] = {
    "a model": ITEMS.rename(columns={"model": "foo"}),
    "a model and a language": ITEMS.drop(columns=["model", "language"]),
    "a language, without tasks": ITEMS.drop(columns=["task", "language"]),
    "a score": ITEMS.rename(columns={"score": "points"}),
    "two scores": ITEMS.drop(columns="score").assign(f1=0.5, em=0.25),
    "a model of single rows": ITEMS.drop_duplicates(["model", "language", "task"]).drop(
        columns=["model", "item"]
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_column_is_refused_before_rows_are_reduced(
    write: Write, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = MISSING[name]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    asked = []
    own = Database.batches

    def counted(self: Database, query: Any, **options: Any) -> Any:
        asked.append(query)
        return own(self, query, **options)

    monkeypatch.setattr(Database, "batches", counted)
    assert refusal(write(frame)) == refusal(tmp_path / "rows.csv")
    # At most the first rows, which say what the columns hold.
    assert len(asked) == (name != "two scores")


def test_languages_may_come_from_the_names_of_tasks(write: Write, tmp_path: Path) -> None:
    frame = ITEMS.assign(task="xnli_" + ITEMS["language"]).drop(columns="language")
    frame = frame.drop_duplicates(["model", "task", "item"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert be.load(write(frame)).coords == be.load(tmp_path / "rows.csv").coords


AVERAGED = with_averages(ITEMS)
AVERAGES: dict[str, pd.DataFrame] = {
    "numbers": AVERAGED,
    "texts": AVERAGED.astype({"f1": str, "em": str}),
    "beside a text and one number": AVERAGED.assign(note="x", shots=5),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_refused_as_of_files(write: Write, tmp_path: Path, name: str) -> None:
    frame = AVERAGES[name]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words, address = refusal(tmp_path / "rows.csv"), write(frame)
    assert "these are the averages of 'f1', 'em', which would not be read" in words
    assert refusal(address) == words
    assert len(be.load(address, columns={"score": "score"})) == 18


def _changed(frame: pd.DataFrame, column: str, row: int, value: float | None) -> pd.DataFrame:
    """Many rows, one of them with another cell."""
    frame = pd.concat([frame.assign(model=frame["model"] + f"-{i}") for i in range(10)])
    frame = frame.reset_index(drop=True)
    frame.loc[frame.index[row], column] = value
    return frame


LATE: dict[str, pd.DataFrame] = {
    "a column that is empty later": _changed(
        AVERAGED.assign(shots=AVERAGED["em"]), "shots", -1, None
    ),
    "a column with one value at first": _changed(AVERAGED.assign(shots=0.5), "shots", -1, None),
}


@pytest.mark.parametrize("name", LATE)
def test_averages_are_those_of_the_columns_that_are_filled_throughout(
    write: Write, tmp_path: Path, name: str
) -> None:
    frame = LATE[name]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = refusal(tmp_path / "rows.csv")
    assert "these are the averages of 'f1', 'em', which would not be read" in words
    assert refusal(write(frame)) == words


SCORES: dict[str, pd.DataFrame] = {
    "one column": AVERAGED.drop(columns="em"),
    "others": AVERAGED.assign(em=AVERAGED["em"] + 1.0),
    # Behind the rows that are looked at first.
    "a late empty cell": _changed(AVERAGED, "em", -1, None),
    "a late other score": _changed(AVERAGED, "em", -1, 5.0),
    "a late other value": _changed(AVERAGED.assign(shots=0), "shots", -1, 5.0),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_that_are_no_averages_of_all_rows_are_read(
    write: Write, tmp_path: Path, name: str
) -> None:
    frame = SCORES[name]
    assert "late" not in name or len(frame) > 1_000
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert be.load(write(frame)).coords == be.load(tmp_path / "rows.csv").coords


def test_an_ambiguous_column_is_refused_as_of_files(write: Write, tmp_path: Path) -> None:
    frame = ITEMS.rename(columns={"task": "lang"}).rename(columns={"language": "locale"})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for source in (write(frame), tmp_path / "rows.csv"):
        with pytest.raises(InputError, match="could each be the language column") as refused:
            be.load(source)
        assert isinstance(refused.value, TableError)
