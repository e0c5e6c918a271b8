"""Notes, warnings and refusals of rows out of core are those of the same rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import InputError
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
        "column 'score', the mean with its other bootstrapped test sets)",
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
