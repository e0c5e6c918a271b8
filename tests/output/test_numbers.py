"""Numbers as text: readable on any scale, one number of digits per column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeseval.output.numbers import (
    column_digits,
    in_units,
    interval_texts,
    number_text,
    percent_text,
    probability_text,
    rank_interval_texts,
    score_exponent,
    score_unit,
    value_digits,
    value_texts,
)

NAN = float("nan")


def table(*rows: tuple[float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["x_mean", "x_lower", "x_upper"])


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((79.04, 77.13, 80.91), "79.0 [77.1, 80.9]"),
        ((0.7904, 0.7713, 0.8091), "0.790 [0.771, 0.809]"),
        ((1.153, 1.101, 1.212), "1.153 [1.101, 1.212]"),
        ((0.7904, 0.7853, 0.7951), "0.7904 [0.7853, 0.7951]"),
        ((68.4, 55.3, 82.2), "68 [55, 82]"),
        ((79.04, 78.89, 79.19), "79.04 [78.89, 79.19]"),
        ((-0.5213, -0.5491, -0.4902), "-0.521 [-0.549, -0.490]"),
        ((-0.004, -0.02, 0.02), "-0.004 [-0.020, 0.020]"),
        ((0.0131, 0.0021, 0.0268), "0.013 [0.002, 0.027]"),
        ((1_234_567.0, 1_230_000.0, 1_239_000.0), "1,234,567 [1,230,000, 1,239,000]"),
        ((3.1e-6, 3.0e-6, 3.2e-6), "3.10e-06 [3.00e-06, 3.20e-06]"),
        # The last digit is the same place in all three.
        ((1.184e-6, 9.88e-7, 1.378e-6), "1.18e-06 [9.9e-07, 1.38e-06]"),
        ((1.184e-6, 9.88e-7, 1.198e-6), "1.18e-06 [9.9e-07, 1.20e-06]"),
        ((2.71e-7, 2.4e-9, 5.43e-7), "2.7e-07 [2e-09, 5.4e-07]"),
        # Values that differ in the seventh decimal only keep what tells them apart.
        ((0.50000118, 0.50000115, 0.50000122), "0.500001180 [0.500001150, 0.500001220]"),
        ((9_999.6, 9_200.0, 10_800.0), "10,000 [9200, 10,800]"),
        ((2.5e17, 2.4e17, 2.6e17), "2.5e+17 [2.4e+17, 2.6e+17]"),
    ],
)
def test_digits_follow_the_uncertainty(row: tuple[float, float, float], text: str) -> None:
    assert interval_texts(table(row), "x") == [text]


@pytest.mark.parametrize("half", [0.031, 0.8, 1.9, 7.0])
def test_scores_have_the_same_digits_on_every_scale(half: float) -> None:
    """Of 79.0 on 0 to 100 and 0.790 on 0 to 1 the same is known, and shown."""
    percent, share = (
        column_digits([79.0 / by], [(79.0 - half) / by], [(79.0 + half) / by]) for by in (1, 100)
    )
    assert share == percent + 2


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((1.153, 1.101, 1.212), "1.15 [1.10, 1.21]"),
        ((1.153, 1.147, 1.159), "1.153 [1.147, 1.159]"),
        ((0.0131, 0.0021, 0.0268), "0.013 [0.002, 0.027]"),
    ],
)
def test_ratios_are_shown_in_hundredths(row: tuple[float, float, float], text: str) -> None:
    frame = table(row).rename(columns=lambda name: name.replace("x_", "mean_prr_"))
    assert interval_texts(frame, "mean_prr") == [text]


def test_one_number_of_digits_per_column() -> None:
    rows = [(79.0, 77.1, 80.9), (63.41, 63.4, 63.42), (68.2, 42.0, 95.0)]
    assert interval_texts(table(*rows), "x") == [
        "79.0 [77.1, 80.9]",
        "63.4 [63.4, 63.4]",
        "68.2 [42.0, 95.0]",
    ]


def test_missing_values_and_bounds() -> None:
    rows = [(1.0, 0.9, 1.1), (2.0, NAN, NAN), (NAN, NAN, NAN)]
    assert interval_texts(table(*rows), "x") == ["1.00 [0.90, 1.10]", "2.00", "-"]
    assert interval_texts(table((0.5, 0.4, 0.6)), "x", digits=0, scale=100.0) == ["50 [40, 60]"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([61.2, 70.84, 50.0], ["61.2", "70.8", "50.0"]),
        ([0.612, 0.7084, 0.5], ["0.61", "0.71", "0.50"]),
        ([0.5], ["0.50"]),
        ([0.0, 0.0], ["0", "0"]),
        ([], []),
        ([NAN], ["-"]),
    ],
)
def test_values_without_intervals(values: list[float], texts: list[str]) -> None:
    assert value_texts(values) == texts


@given(
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=6),
    st.floats(1e-5, 1e5),
)
def test_an_interval_never_collapses(means: list[float], half: float) -> None:
    digits = column_digits(means, [m - half for m in means], [m + half for m in means])
    unit = 10.0**-digits
    # Two significant digits of the half width, which loses digits in the differences of means.
    assert unit <= half / 10.0 * 1.0001 or digits == 0
    assert digits == 0 or unit > half / 100.0 / 1.0001
    assert value_digits(means) >= 0


def test_no_minus_before_zero_and_a_plus_on_request() -> None:
    assert number_text(-0.004, 2) == "0.00"
    assert number_text(0.004, 2, sign=True) == "0.00"
    assert number_text(1.5, 1, sign=True) == "+1.5"
    assert number_text(np.inf, 1) == "inf"


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_what_rounds_to_ten_thousand_is_grouped(kind: type) -> None:
    assert number_text(kind(9999.25), 1) == "9999.2"
    assert number_text(kind(9999.5), 0) == "10,000"
    assert number_text(kind(-9999.75), 0) == "-10,000"
    assert number_text(kind(-0.5), 0) == "0"
    assert number_text(kind(0.75), 0, sign=True) == "+1"


def test_ranks() -> None:
    ranks = pd.DataFrame(
        {
            "rank_mean": [1.2, 3.0, NAN],
            "rank_median": [1.0, NAN, NAN],
            "rank_lower": [1.0, NAN, NAN],
            "rank_upper": [2.0, NAN, NAN],
        }
    )
    assert rank_interval_texts(ranks, "rank") == ["1 [1, 2]", "3", "-"]


def test_probabilities_and_shares_are_never_certain_by_rounding() -> None:
    assert [probability_text(p) for p in (0.0, 0.004, 0.5, 0.994, 1.0)] == [
        *("< 0.01", "< 0.01", "0.50", "0.99", "> 0.99")
    ]
    assert [percent_text(p) for p in (0.0, 0.001, 0.949, 0.999, 1.0, NAN)] == [
        *("0", "< 1", "95", "> 99", "100", "-")
    ]


@pytest.mark.parametrize(
    ("bounds", "unit"),
    [
        ({"a": [0.0, 100.0], "b": [0, 100]}, "score points"),
        ({"a": [0.0, 1.0]}, "units of the scale 0 to 1"),
        ({"a": [-1.0, 1.0]}, "units of the scale -1 to 1"),
        ({"a": [0.0, 100.0], "b": [0.0, 1.0]}, ""),
        ({"a": [0.0, None]}, ""),
        ({"a": [None, None], "b": [0.0, 100.0]}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_score_points_only_where_that_is_true(
    bounds: dict[str, list[float | None]] | None, unit: str
) -> None:
    assert score_unit(bounds) == unit


@pytest.mark.parametrize(
    ("scores", "exponent"),
    [
        ([0.0, 0.0], 0),
        ([], 0),
        ([0.001, 0.0], 0),
        ([0.0009], -6),
        ([1.6e-6, 0.0], -6),
        ([-3e-9, 1e-9], -9),
        ([61.2, 0.1], 0),
        ([999_999.0], 0),
        ([1_000_000.0, 2.0], 6),
        ([-2.5e9], 9),
    ],
)
def test_scores_of_unusual_size_have_a_common_exponent(scores: list[float], exponent: int) -> None:
    assert score_exponent(scores) == exponent
    if exponent:
        assert 1.0 <= max(abs(s) for s in scores) / 10.0**exponent < 1000.0


def test_tables_in_units() -> None:
    frame = pd.DataFrame(
        {
            "score_mean": [2e-6],
            "score_sd": [1e-7],
            "gap_sd_languages_upper": [4e-7],
            "gap_sd_rank_mean": [3.0],
            "prr_mean": [1.1],
            "mean_prr_sd": [0.1],
            "rank_set_lower": [1.0],
            "seed_sd_mean": [5e-8],
            "share_mean": [0.4],
            "p_a_better": [0.9],
            "n_records": [12],
        }
    )
    frame.attrs["margin"] = 1e-6
    scaled = in_units(frame, -6)
    assert scaled.iloc[0].to_dict() == pytest.approx(
        {
            "score_mean": 2.0,
            "score_sd": 0.1,
            "gap_sd_languages_upper": 0.4,
            "gap_sd_rank_mean": 3.0,
            "prr_mean": 1.1,
            "mean_prr_sd": 0.1,
            "rank_set_lower": 1.0,
            "seed_sd_mean": 0.05,
            "share_mean": 0.4,
            "p_a_better": 0.9,
            "n_records": 12,
        }
    )
    assert scaled.attrs["margin"] == pytest.approx(1.0)
    # The table itself, which is written as CSV, stays in the units of the scores.
    assert (frame["score_mean"].item(), frame.attrs["margin"]) == (2e-6, 1e-6)
    assert in_units(frame, 0) is frame


def test_units_with_an_exponent() -> None:
    assert score_unit({"a": [0.0, 1.0]}, -6) == "units of 1e-6 of the scale 0 to 1"
    assert score_unit({"a": [0.0, 100.0]}, -6) == "units of 1e-6 score points"
    assert score_unit({}, 6) == "units of 1e6"
