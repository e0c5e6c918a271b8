"""What a slope adds, by hand."""

from __future__ import annotations

import numpy as np

from bayeseval.estimands.covariates import SlopeDraws, component_sd

SLOPE = np.array([2.0, -1.0])
KNOWN = np.array([[1.0, 2.0, -3.0]])
# The last language is unknown: it has a value of its own in every draw.
DRAWN = np.array([[1.0, 2.0, -3.0], [1.0, 2.0, 5.0]])


def slope(values: np.ndarray) -> SlopeDraws:
    return SlopeDraws("x", SLOPE, values, mean=0.0, sd=1.0)


def test_the_sd_of_a_covariate_is_the_root_mean_square_of_what_it_adds() -> None:
    expected = [2.0 * np.sqrt(14.0 / 3.0), np.sqrt(14.0 / 3.0)]
    np.testing.assert_allclose(component_sd(slope(KNOWN)), expected)
    np.testing.assert_allclose(component_sd(slope(DRAWN)), [expected[0], np.sqrt(10.0)])


def test_values_that_are_drawn_go_with_their_draw() -> None:
    np.testing.assert_array_equal(slope(KNOWN).of_languages(slice(1, 2)), [[-1.0, -2.0, 3.0]])
    np.testing.assert_array_equal(slope(DRAWN).of_languages(slice(1, 2)), [[-1.0, -2.0, -5.0]])
    assert slope(DRAWN).of_languages().tolist() == [[2.0, 4.0, -6.0], [-1.0, -2.0, -5.0]]


def test_what_a_model_has_beyond_the_mean_of_the_models() -> None:
    both = slope(np.array([[[1.0, 2.0], [3.0, 8.0]]]))
    assert both.by_model
    assert both.of_languages().tolist() == [[4.0, 10.0], [-2.0, -5.0]]
    assert both.of_model(1).tolist() == [[2.0, 6.0], [-1.0, -3.0]]
