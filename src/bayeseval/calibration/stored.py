"""Tables of a calibration's folder, read back: every cell is one that a calibration writes."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import show
from bayeseval._typing import Bools, Floats
from bayeseval.calibration.quantities import WORDS
from bayeseval.calibration.sets import SET_WORDS
from bayeseval.errors import InputError
from bayeseval.output._files import refuse_unbounded_csv
from bayeseval.output._integrity import again

__all__ = ["FILES", "NUMBERS", "STATUS", "TEXTS", "advice", "read_simulations", "read_statuses"]

TEXTS: Final = ("quantity", "level")
NUMBERS: Final = ("truth", "mean", "sd", "z", "rank", "in_50", "in_90", "in_95")
STATUS: Final = ("simulation", "status", "reason", "path")
FILES: Final = {name: f"tables/{name}.csv" for name in ("simulations", "statuses")}
# Of a table: 500 simulations of 300 languages and 50 models have two million rows.
_MAX_BYTES: Final = 1 << 30
_MAX_ROWS: Final = 10_000_000
_STATUSES: Final = ("fitted", "gate failed", "not fitted")
# int() takes digits of other scripts, too.
_WHOLE: Final = re.compile("[0-9]{1,9}")


def advice() -> str:
    """What to do about a table that was edited, damaged or removed."""
    return f"put the original back, or {again({'engine': 'calibrate'})}"


def read_simulations(path: Path, run: Mapping[str, Any]) -> pd.DataFrame:
    """Ranks and coverage of a calibration.

    Parameters
    ----------
    path : Path
        ``simulations.csv``.
    run : mapping
        Contents of ``run.json``: the number of simulations, and the parameters.

    Returns
    -------
    pandas.DataFrame
        Columns ``simulation``, :data:`TEXTS` and :data:`NUMBERS`.

    Raises
    ------
    InputError
        With line, column and value, if a cell is none that a calibration writes.
    """
    texts = _read_table(path, ("simulation", *TEXTS, *NUMBERS))
    simulation = _numbers_of_simulations(path, texts, run)
    _check_choice(path, texts["quantity"], _quantities(run), "a quantity of this calibration")
    is_set: Bools = texts["quantity"].isin([*SET_WORDS]).to_numpy()
    numbers = {name: _as_numbers(path, texts[name]) for name in NUMBERS}
    for name, values in numbers.items():
        if name == "rank":
            inside = np.where(is_set, np.isnan(values), (values >= 0.0) & (values <= 1.0))
            _check(path, texts[name], inside, "from 0 to 1, or empty for a set")
        elif name.startswith("in_"):
            inside = np.isin(values, (0.0, 1.0)) | (is_set & np.isnan(values))
            _check(path, texts[name], inside, "0 or 1, or empty for a set")
    return texts.assign(simulation=simulation, **numbers)


def read_statuses(path: Path, run: Mapping[str, Any]) -> pd.DataFrame:
    """How the fits of a calibration ended, as :func:`read_simulations`.

    Parameters
    ----------
    path : Path
        ``statuses.csv``.
    run : mapping
        Contents of ``run.json``.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`STATUS`, one row per simulation.

    Raises
    ------
    InputError
        With line, column and value, if a cell is none that a calibration writes.
    """
    texts = _read_table(path, STATUS)
    simulation = _numbers_of_simulations(path, texts, run)
    once = ~pd.Series(simulation).duplicated().to_numpy()
    _check(path, texts["simulation"], once, "listed once")
    _check_choice(path, texts["status"], _STATUSES, f"one of {', '.join(_STATUSES)}")
    return texts.assign(simulation=simulation)


def _read_table(path: Path, columns: Collection[str]) -> pd.DataFrame:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        refuse_unbounded_csv(data, most_bytes=_MAX_BYTES, most_rows=_MAX_ROWS)
        # Python reads back every digit, whatever the version of pandas.
        texts = pd.read_csv(
            io.BytesIO(data),
            encoding="utf-8",
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{path} is damaged ({problem}); {advice()}") from error
    lacking = [name for name in columns if name not in texts]
    if lacking:
        raise InputError(f"{path} is damaged (no column {lacking[0]}); {advice()}")
    return texts


def _quantities(run: Mapping[str, Any]) -> list[str]:
    """Quantities that the fits of a calibration can report."""
    parameters = [*run["priors"]]
    factor = run["spec"].get("residual_by")
    if factor is not None:
        parameters += [names.level_name(name, factor) for name in parameters]
    return [*parameters, *WORDS, *SET_WORDS]


def _numbers_of_simulations(path: Path, texts: pd.DataFrame, run: Mapping[str, Any]) -> list[int]:
    last = run["simulations"] - 1
    given = texts["simulation"]
    found = [int(text) if _WHOLE.fullmatch(text) else -1 for text in given]
    inside = np.array([0 <= number <= last for number in found], dtype=np.bool_)
    _check(path, given, inside, f"the number of a simulation, 0 to {last}")
    return found


def _as_numbers(path: Path, texts: pd.Series[str]) -> Floats:
    values = np.full(len(texts), np.nan)
    is_number = np.ones(len(texts), dtype=np.bool_)
    for row, text in enumerate(texts):
        try:
            values[row] = float(text or "nan")
        except ValueError:
            is_number[row] = False
    _check(path, texts, is_number, "a number")
    return values


def _check_choice(
    path: Path, texts: pd.Series[str], allowed: Collection[str], described: str
) -> None:
    _check(path, texts, texts.isin([*allowed]).to_numpy(), described)


def _check(path: Path, texts: pd.Series[str], right: Bools, allowed: str) -> None:
    """Refuse the first cell that is not right."""
    wrong = np.flatnonzero(~right)
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            # The header is line 1.
            f"{path}, line {row + 2}, column {str(texts.name)!r}: {show(texts.iloc[row])} is not"
            f" {allowed}; {advice()}"
        )
