"""The argument `work` of long runs: refused in one line before any work, asked for or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bayeseval as be
from bayeseval.cli._keeping import keeping
from bayeseval.cli._shared import StoppedError
from bayeseval.errors import InputError
from bayeseval.output._kept import work_folder
from bayeseval.output._locks import alone_in

# The table is not there: whoever reads it before `work` says so.
TABLE = "no_such_table.csv"
CALLS: dict[str, Callable[..., Any]] = {
    "compare": lambda **more: be.compare(TABLE, "additive", **more),
    "compare, holdout": lambda **more: be.compare(TABLE, "additive", holdout=0.2, **more),
    "sensitivity": lambda **more: be.sensitivity(TABLE, "additive", **more),
    "calibrate": lambda **more: be.calibrate("additive", like=TABLE, **more),
}


@pytest.mark.parametrize("called", CALLS)
def test_what_is_no_folder_is_refused_before_anything_is_read(called: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for work, message in (
        (3, "^work must be a path, got 3$"),
        (b"w", "^work must be a path, got bytes$"),
        (" ", "^work is empty; give a path$"),
        (file, f"^work: {file} is a file, not a folder; choose another folder$"),
        (file / "below", f"^work: {file} is a file, not a folder; choose another folder$"),
    ):
        with pytest.raises(InputError, match=message):
            CALLS[called](work=work)
    assert list(tmp_path.iterdir()) == [file]


def test_folders_that_are_there_or_not_are_allowed(tmp_path: Path) -> None:
    assert work_folder(None) is None
    assert work_folder(str(tmp_path)) == tmp_path
    assert work_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / ("n" * 300)
    with (
        pytest.raises(InputError, match=f"^{folder} cannot be made: File name too long; choose "),
        alone_in(folder),
    ):
        pass


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("ends", ["saved", "failed", "interrupted"])
def test_commands_remove_only_folders_that_they_made(
    was_there: bool, ends: str, tmp_path: Path
) -> None:
    work = tmp_path / "out.unfinished"
    if was_there:
        work.mkdir()
    own = work / "abc"
    if ends == "saved":
        with keeping(own, "fits") as discard, alone_in(own):
            (own / "000000.json").write_text("{}")
        assert own.is_dir()
        discard()
    else:
        problem = ValueError if ends == "failed" else KeyboardInterrupt
        with pytest.raises((ValueError, StoppedError)), keeping(own, "fits"), alone_in(own):
            raise problem
    assert work.exists() == was_there
    assert not own.exists()


def test_pieces_of_an_earlier_run_are_removed_with_their_folder(tmp_path: Path) -> None:
    own = tmp_path / "out.unfinished" / "abc"
    with pytest.raises(StoppedError, match="finished fits are kept in "), keeping(own, "fits"):
        with alone_in(own):
            (own / "000000.json").write_text("{}")
        raise KeyboardInterrupt
    with keeping(own, "fits") as discard:
        pass
    discard()
    assert list(tmp_path.iterdir()) == []
