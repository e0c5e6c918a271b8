"""Numbers as text: digits follow the uncertainty, one number of digits per column."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval._text import GROUPED
from bayeseval._typing import Floats

__all__ = [
    "axis_label",
    "column_digits",
    "in_unit",
    "in_units",
    "interval_texts",
    "number_text",
    "percent_text",
    "potential_bounds",
    "probability_text",
    "rank_interval_texts",
    "rank_range_texts",
    "score_exponent",
    "score_unit",
    "unit_text",
    "value_digits",
    "value_texts",
]

NONE: Final = "-"
# Decimals that a second significant digit may take in ratios and in values without intervals, as
# 1.14 [1.09, 1.20]; one digit may take more.
_FINE: Final = 2
_RATIO: Final = "prr"
_MOST_DECIMALS: Final = 6
# Finer numbers have these decimals where they are no smaller than the second number, and an
# exponent below.
_FINEST: Final = 12
_TINY: Final = 1e-3
# From here on a number is written with an exponent.
_HUGE: Final = 1e15
# Scores of which none is larger, or one is, are shown in powers of ten.
_SMALL_SCORES: Final = 1e-3
_LARGE_SCORES: Final = 1e6
# Columns of the tables of a result that are in score units.
_IN_SCORE_UNITS: Final = re.compile(
    r"(?:(?:score|potential|gap|gap_sd_languages|sd|finite_sd|slope|cell|value|diff|replicated"
    r"|(?:\w+_)?sd)_(?:mean|sd|lower|upper)|published_potential|score|observed|\w+_sd_raw|within_\w+)"
)


def column_digits(mean: Iterable[float], lower: Iterable[float], upper: Iterable[float]) -> int:
    """Digits after the decimal point for one column of values with intervals.

    Two significant digits of the typical (median) half width, on every scale: 79.0 [77.1, 80.9]
    of 0 to 100 and 0.790 [0.771, 0.809] of 0 to 1. Without intervals see :func:`value_digits`.

    Parameters
    ----------
    mean, lower, upper : iterable of float
        One value per row; NaN bounds where there is no interval.
    """
    half = (np.asarray(list(upper), dtype=float) - np.asarray(list(lower), dtype=float)) / 2.0
    known = half[np.isfinite(half) & (half > 0.0)]
    if len(known) == 0:
        return value_digits(mean)
    return _two_digits(float(np.median(known)))


def value_digits(values: Iterable[float]) -> int:
    """Digits after the decimal point for values without intervals, from half of their spread."""
    known = np.asarray(list(values), dtype=float)
    known = known[np.isfinite(known)]
    if len(known) == 0:
        return 0
    middle = float(np.median(known))
    spread = float(np.median(np.abs(known - middle)))
    if spread <= 1e-9 * max(abs(middle), 1e-300):
        # Equal values: two or three significant digits.
        spread = float(np.abs(known).max()) / 10.0
    return _fewer(_two_digits(spread / 2.0)) if spread > 0.0 else 0


def _two_digits(half: float) -> int:
    return max(1 - int(np.floor(np.log10(half) + 1e-12)), 0)


def _fewer(digits: int) -> int:
    """Without a second significant digit that would be a third decimal or a further one."""
    return max(digits - 1, min(digits, _FINE))


def _ratio_digits(digits: int, ratios: Floats) -> int:
    """Digits of ratios, which are read in hundredths; all of them where the ratios are smaller."""
    fewer, sizes = _fewer(digits), np.abs(ratios[np.isfinite(ratios)])
    return digits if len(sizes) and np.median(sizes) < 10.0 ** (1 - fewer) else fewer


def number_text(value: float, digits: int, *, sign: bool = False) -> str:
    """Write one number; a dash for NaN, no minus before zero.

    Parameters
    ----------
    value : float
    digits : int
        After the decimal point. With more than six, a value below 0.001 has an exponent and
        the same last digit: 9.2e-07 beside 1.18e-06. A huge value has an exponent too; from
        10,000 on digits stand in groups of three.
    sign : bool
        A plus before positive numbers.
    """
    # Python's own numbers: a long table has a million of them, and NumPy's take five times as long.
    value = float(value)
    if math.isnan(value):
        return NONE
    plus = "+" if sign else ""
    size = abs(value)
    if size >= _HUGE:
        return f"{value:{plus}.3g}"
    if digits > _MOST_DECIMALS and 0.0 < size < _TINY:
        # A value far below its own uncertainty keeps one digit.
        size = round(size, digits) or size
        significant = max(0, digits + math.floor(math.log10(size) + 1e-9))
        return f"{math.copysign(size, value):{plus}.{min(significant, _FINEST)}e}"
    digits = min(digits, _FINEST)
    if size >= GROUPED - 1.0 and round(size, digits) >= GROUPED:
        return f"{value:{plus},.{digits}f}"
    text = f"{value:{plus}.{digits}f}"
    return text.lstrip("+-") if size < 1.0 and float(text) == 0.0 else text


def interval_texts(
    table: pd.DataFrame, prefix: str, *, scale: float = 1.0, digits: int | None = None
) -> list[str]:
    """Mean and interval of every row as text: ``1.07 [1.03, 1.11]``.

    Parameters
    ----------
    table : pandas.DataFrame
        With the columns ``<prefix>_{mean,lower,upper}``.
    prefix : str
    scale : float
        Factor, 100 for per cent.
    digits : int, optional
        After the decimal point; left out, :func:`column_digits` chooses, and for PRR leaves the
        second digit of the half width out where that is a third decimal.
    """
    columns = [f"{prefix}_{part}" for part in ("mean", "lower", "upper")]
    rows = scale * table[columns].to_numpy(dtype=float)
    if digits is None:
        digits = column_digits(*rows.T)
        digits = _ratio_digits(digits, rows[:, 0]) if _RATIO in prefix else digits
    return [_interval(*row, digits=digits) for row in rows.tolist()]


def rank_interval_texts(table: pd.DataFrame, prefix: str) -> list[str]:
    """Median rank and interval of every row; a point estimate's rank alone."""
    columns = [f"{prefix}_{part}" for part in ("mean", "median", "lower", "upper")]
    return [
        _interval(mean if math.isnan(median) else median, lower, upper, digits=0)
        for mean, median, lower, upper in table[columns].to_numpy(dtype=float).tolist()
    ]


def rank_range_texts(bounds: Floats) -> list[str]:
    """First and last of the ranks of every row, shape (n_rows, 2): ``1-3``, or ``1`` alone.

    Examples
    --------
    >>> rank_range_texts(np.array([[1.0, 3.0], [4.0, 4.0], [np.nan, np.nan]]))
    ['1-3', '4', '-']
    """
    return [
        NONE if np.isnan(low) else f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"
        for low, high in bounds
    ]


def _interval(value: float, lower: float, upper: float, *, digits: int) -> str:
    """Write ``1.07 [1.03, 1.11]``, the value alone without interval, a dash for none."""
    text = number_text(value, digits)
    if math.isnan(value) or math.isnan(lower) or math.isnan(upper):
        return text
    return f"{text} [{number_text(lower, digits)}, {number_text(upper, digits)}]"


def value_texts(
    values: Iterable[float], digits: int | None = None, *, sign: bool = False
) -> list[str]:
    """Values of one column as text, all with the same number of digits."""
    known = [float(value) for value in values]
    if digits is None:
        digits = value_digits(known)
    return [number_text(value, digits, sign=sign) for value in known]


def probability_text(p: float) -> str:
    """Write a probability with two decimals; those that round to 0 or 1 as bounds.

    Examples
    --------
    >>> probability_text(0.973), probability_text(0.9996), probability_text(1.0)
    ('0.97', '> 0.99', '> 0.99')
    """
    if np.isnan(p):
        return NONE
    if p > 0.995:
        return "> 0.99"
    return "< 0.01" if p < 0.005 else f"{p:.2f}"


def percent_text(share: float) -> str:
    """Write a share in per cent without decimals, unless it would round to 0 or 100.

    Examples
    --------
    >>> percent_text(0.946), percent_text(0.0), percent_text(0.0004), percent_text(0.9996)
    ('95', '0', '< 1', '> 99')
    """
    if np.isnan(share):
        return NONE
    text = f"{100.0 * share:.0f}"
    if text == "0" and share > 0.0:
        return "< 1"
    return "> 99" if text == "100" and share < 1.0 else text


def score_exponent(scores: Iterable[float]) -> int:
    """Power of ten in whose units scores are shown; 0 for scores of common size.

    Parameters
    ----------
    scores : iterable of float
        All observed scores.

    Returns
    -------
    int
        A multiple of three, so that the largest score is 1 to 999, where it is below 0.001
        or a million and more.

    Examples
    --------
    >>> score_exponent([2e-6, 1.5e-6]), score_exponent([61.2]), score_exponent([3e6, 10.0])
    (-6, 0, 6)
    """
    largest = float(np.abs(np.asarray(list(scores), dtype=float)).max(initial=0.0))
    if largest == 0.0 or _SMALL_SCORES <= largest < _LARGE_SCORES:
        return 0
    return 3 * int(np.floor(np.log10(largest) / 3.0))


def in_unit(value: float, exponent: int) -> float:
    """A score in units of 10^exponent.

    Examples
    --------
    >>> in_unit(3e-6, -6), in_unit(2.5e6, 6)
    (3.0, 2.5)
    """
    # A multiplication by 10 ** 6 is exact where a division by 10 ** -6 is not.
    return value * 10.0**-exponent if exponent < 0 else value / 10.0**exponent


def in_units(
    table: pd.DataFrame, exponent: int, columns: Iterable[str] | None = None
) -> pd.DataFrame:
    """A table of a result with its columns of scores, sds and differences in units of 10^exponent.

    Parameters
    ----------
    table : pandas.DataFrame
        One of :func:`bayeseval.fitting.report.tables.result_tables`.
    exponent : int
        From :func:`score_exponent`.
    columns : iterable of str, optional
        Columns in score units; left out, those that tables of a fit have.
    """
    if exponent == 0:
        return table
    attrs = dict(table.attrs)
    if columns is None:
        columns = [str(c) for c in table if _IN_SCORE_UNITS.fullmatch(str(c))]
    columns = list(columns)
    # A multiplication by 10 ** 6 is exact where a division by 10 ** -6 is not.
    scaled = table[columns].astype(float)
    scaled = scaled * 10.0**-exponent if exponent < 0 else scaled / 10.0**exponent
    table = table.assign(**{c: scaled[c] for c in columns})
    if "margin" in attrs:
        attrs["margin"] = float(attrs["margin"]) * 10.0**-exponent
    table.attrs = attrs
    return table


def score_unit(bounds: Mapping[str, Sequence[Any]] | None, exponent: int = 0) -> str:
    """Name the unit of scores where that is true; an empty text where it is not known.

    Parameters
    ----------
    bounds : mapping of str to (lower, upper), optional
        By task, declared or guessed: ``run["bounds"]``.
    exponent : int
        Power of ten that the scores are shown in.

    Returns
    -------
    str
        ``score points`` for tasks on 0 to 100, ``units of the scale 0 to 1`` for tasks on 0 to
        1 and so for other common ranges; empty where the ranges differ or are not known. With
        an exponent ``units of 1e-6 of the scale 0 to 1``, ``units of 1e6``.
    """
    unit = _range_unit(bounds)
    if exponent == 0:
        return unit
    power = f"units of 1e{exponent}"
    return f"{power} {unit.replace('units of', 'of')}" if unit else power


def potential_bounds(
    bounds: Mapping[str, Sequence[Any]] | None, exponent: int = 0
) -> tuple[float, float] | None:
    """Lowest and highest possible mean over tasks; None where a task has no known bounds.

    Parameters
    ----------
    bounds : mapping of str to (lower, upper), optional
        By task, declared or guessed: ``run["bounds"]``.
    exponent : int
        The power of ten that scores are shown in.

    Examples
    --------
    >>> potential_bounds({"qa": [0.0, 100.0], "mt": [0.0, 1.0]})
    (0.0, 50.5)
    """
    ends = list((bounds or {}).values())
    if not ends or any(end is None or not math.isfinite(end) for pair in ends for end in pair):
        return None
    low, high = (sum(float(pair[i]) for pair in ends) / len(ends) for i in (0, 1))
    return low / 10.0**exponent, high / 10.0**exponent


def _range_unit(bounds: Mapping[str, Sequence[Any]] | None) -> str:
    ranges = {
        tuple(None if end is None else float(end) for end in ends)
        for ends in (bounds or {}).values()
    }
    if len(ranges) != 1:
        return ""
    lower, upper = next(iter(ranges))
    if lower is None or upper is None or not np.isfinite([lower, upper]).all():
        return ""
    if (lower, upper) == (0.0, 100.0):
        return "score points"
    return f"units of the scale {lower:g} to {upper:g}"


def axis_label(text: str, unit: str) -> str:
    """Label of an axis: the unit in brackets, where there is one."""
    return f"{text} ({unit})" if unit else text


def unit_text(unit: str, *, before: str = "", after: str = "") -> str:
    """A unit between two texts; nothing at all where there is no unit."""
    return f"{before}{unit}{after}" if unit else ""
