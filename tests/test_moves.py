"""Moves between two fits: by hand, on trees made of a few draws."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayeseval.moves import agreement, level_moves, most_moved


def tree(values: list[list[float]], ranks: list[list[float]], levels: str) -> xr.DataTree:
    dims = ("chain", "draw", "model")
    posterior = xr.Dataset(
        {"cv_prr": (dims, np.array([values])), "cv_prr_rank": (dims, np.array([ranks]))},
        coords={"model": list(levels)},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


NAN = float("nan")
BEFORE = tree([[1.0, 2.0, 3.0], [3.0, 4.0, NAN]], [[1, 2, 3], [1, 2, 3]], "abc")
AFTER = tree([[5.0, 4.0, 6.0], [7.0, 2.0, 8.0]], [[2, 1, 3], [2, 1, 3]], "abd")


def test_levels_of_both_fits_with_means_sds_and_ranks() -> None:
    moved = level_moves(BEFORE, AFTER, "cv_prr")
    assert list(moved.index) == ["a", "b"]
    assert list(moved["mean_before"]) == [2.0, 3.0]
    assert list(moved["mean_after"]) == [6.0, 3.0]
    np.testing.assert_allclose(moved["sd_before"], np.sqrt(2.0))
    assert list(moved["median_before"]) == [1.0, 2.0]
    assert list(moved["median_after"]) == [2.0, 1.0]
    # Two levels that change places.
    assert agreement(moved) == pytest.approx((-1.0, -1.0))
    assert most_moved(moved) == "a 1 [1, 1] to 2 [2, 2]; b 2 [2, 2] to 1 [1, 1]"


def test_the_same_fit_does_not_move() -> None:
    moved = level_moves(BEFORE, BEFORE, "cv_prr")
    # A draw without a value is left out of the mean, as in the tables.
    assert list(moved["mean_after"]) == [2.0, 3.0, 3.0]
    assert agreement(moved) == pytest.approx((1.0, 1.0))
    assert most_moved(moved) == ""


def test_one_level_in_common_has_no_correlation() -> None:
    moved = level_moves(BEFORE, tree([[1.0]], [[1]], "c"), "cv_prr")
    assert np.isnan(agreement(moved)).all()
    # A point estimate has no sd.
    assert np.isnan(moved["sd_after"]).all()
