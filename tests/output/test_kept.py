"""Finished pieces in a folder: found again as they were, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.output._kept import (
    Kept,
    discard_pieces,
    folder_of,
    frame_from_json,
    frame_to_json,
)

TABLE = pd.DataFrame({"mean": [1 / 3, np.nan], "sd": [np.inf, 1e-300]}, index=["x", "y"])


def kept(folder: Path, *names: str) -> Kept[pd.DataFrame]:
    return Kept(folder, names, frame_to_json, frame_from_json)


def test_tables_come_back_exactly(tmp_path: Path) -> None:
    store = kept(tmp_path, "a", "b", "c")
    store.store(2, TABLE)
    store.store(0, TABLE.reset_index(drop=True))
    found = store.find()
    assert sorted(found) == [0, 2]
    pd.testing.assert_frame_equal(found[2], TABLE, check_exact=True)
    pd.testing.assert_frame_equal(found[0], TABLE.reset_index(drop=True), check_exact=True)


def test_missing_numbers_are_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has null for them, so that the hash is of null, too."""
    store = Kept[dict[str, object]](tmp_path, ("a",), dict, dict)
    store.store(0, {"rank": [float("nan"), np.float64(0.5), np.inf], "sizes": (1, 2)})
    assert store.find() == {0: {"rank": [None, 0.5, None], "sizes": [1, 2]}}
    assert capsys.readouterr().err == ""


def test_damaged_and_other_pieces_are_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, "a", "b", "c").store(0, TABLE)
    kept(tmp_path, "a", "other", "c").store(1, TABLE)
    (tmp_path / "000002.json").write_text('{"piece": "c", "result": {"columns": 7}}')
    kept(tmp_path, "a", "b", "c", "d").store(3, TABLE)
    edited = tmp_path / "000003.json"
    edited.write_text(edited.read_text().replace("1e-300", "2e-300"))
    (tmp_path / "000009.json").write_text("{}")
    assert sorted(kept(tmp_path, "a", "b", "c", "d").find()) == [0]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{tmp_path / '000001.json'} is of another piece than b; b is made again",
        f"{tmp_path / '000002.json'} is damaged: it is not what c found; c is made again",
        f"{edited} was edited or is damaged: its contents have another SHA-256; d is made again",
    ]


def test_runs_with_other_inputs_have_other_folders(tmp_path: Path) -> None:
    first, second = (folder_of(tmp_path / "work", {"seed": seed}) for seed in (0, 1))
    assert first != second
    assert first == folder_of(tmp_path / "work", {"seed": 0})
    for folder in (first, second):
        folder.mkdir(parents=True)
        kept(folder, "a").store(0, TABLE)
    discard_pieces(first)
    assert [path.name for path in (tmp_path / "work").iterdir()] == [second.name]
    discard_pieces(second)
    # The folder above may be the user's own: commands remove it where they made it.
    assert list((tmp_path / "work").iterdir()) == []
