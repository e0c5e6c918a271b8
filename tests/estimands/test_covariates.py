"""What a slope adds, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayeseval.errors import InputError
from bayeseval.estimands import read_arrays
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.covariates import (
    SlopeDraws,
    component_sd,
    covariates_table,
    explained,
    read_slopes,
    variance_by_facet,
)
from tests.estimands.trees import COMPLETE, edit, make_tree

SLOPE = np.array([2.0, -1.0])
KNOWN = np.array([[1.0, 2.0, -3.0]])
# The last language is unknown: it has a value of its own in every draw.
DRAWN = np.array([[1.0, 2.0, -3.0], [1.0, 2.0, 5.0]])


def slope(values: np.ndarray) -> SlopeDraws:
    by = "language" if values.ndim == 2 else "model:language"
    return SlopeDraws("x", SLOPE, values, mean=0.0, sd=1.0, by=by)


def test_the_sd_of_a_covariate_is_the_sample_sd_of_what_it_adds() -> None:
    """About the mean of the cells, which 1, 2 and 5 have at 8 / 3, with their number less one."""
    expected = [2.0 * np.sqrt(7.0), np.sqrt(7.0)]
    np.testing.assert_allclose(component_sd(slope(KNOWN)), expected)
    np.testing.assert_allclose(component_sd(slope(DRAWN)), [expected[0], np.sqrt(13.0 / 3.0)])
    of_models = SlopeDraws("x", SLOPE, np.repeat(KNOWN[..., None], 5, axis=2), 0.0, 1.0, "model")
    np.testing.assert_allclose(component_sd(of_models), expected)


def test_the_share_of_a_covariate_follows_from_its_sd() -> None:
    """``explained_*`` and ``sd_*`` of covariates.csv have the same degrees of freedom."""
    tree, _, _ = with_covariate()
    (found,) = read_slopes(tree["posterior"].to_dataset(), tree["constant_data"].to_dataset())
    effect = tree["posterior"]["language_effect"].to_numpy().reshape(30, 3)
    own = tree["posterior"]["sd_language"].to_numpy().ravel()
    variance = component_sd(found) ** 2
    share = explained(found.contribution(), effect, own)
    np.testing.assert_allclose(share.population, variance / (variance + own**2), rtol=1e-12)


def test_values_that_are_drawn_go_with_their_draw() -> None:
    np.testing.assert_array_equal(slope(KNOWN).of_languages(slice(1, 2)), [[-1.0, -2.0, 3.0]])
    np.testing.assert_array_equal(slope(DRAWN).of_languages(slice(1, 2)), [[-1.0, -2.0, -5.0]])
    assert slope(DRAWN).of_languages().tolist() == [[2.0, 4.0, -6.0], [-1.0, -2.0, -5.0]]


def test_what_a_model_has_beyond_the_mean_of_the_models() -> None:
    both = slope(np.array([[[1.0, 2.0], [3.0, 8.0]]]))
    assert both.by_model
    assert both.of_languages().tolist() == [[4.0, 10.0], [-2.0, -5.0]]
    assert both.of_model(1).tolist() == [[2.0, 6.0], [-1.0, -3.0]]


def with_covariate(*, by_model: bool = False) -> tuple[xr.DataTree, np.ndarray, np.ndarray]:
    """A tree with a slope, its draws, and the values that go with each draw."""
    tree = make_tree(COMPLETE)
    rng = np.random.default_rng(8)
    slope = rng.normal(1.0, 2.0, size=(2, 15))
    attrs = {"mean": 10.0, "sd": 2.0}
    if by_model:
        values = rng.normal(size=(3, 3))
        known = (("model", "language"), values, attrs)
        drawn = np.repeat(values[None], 30, axis=0)
        posterior = {"age_slope": (("chain", "draw"), slope)}
    else:
        # The second language is unknown: its value is drawn.
        unknown = rng.normal(size=(1, 15, 2))
        known = ("language", np.array([0.5, np.nan, -1.0]), attrs)
        drawn = np.repeat([[0.5, 0.0, -1.0]], 30, axis=0)
        drawn[:, 1] = unknown[0].T.ravel()
        posterior = {
            "age_slope": (("chain", "draw"), slope),
            "age_unknown": (("age_cell", "draw", "chain"), unknown),
        }
    tree = edit(tree, **posterior)
    constant = {"age_standardised": known, "age_cell_index": ("age_cell", np.array([1]))}
    return edit(tree, group="constant_data", **constant), slope.ravel(), drawn


@pytest.mark.parametrize("by_model", [False, True])
def test_the_table_of_covariates(by_model: bool) -> None:
    tree, slope, values = with_covariate(by_model=by_model)
    (row,) = covariates_table(tree, ci_prob=0.8).to_dict("records")
    assert (row["covariate"], row["by"]) == ("age", "model:language" if by_model else "language")
    added = slope[:, None] * (values.mean(axis=1) if by_model else values)
    spread = added.var(axis=1, ddof=1)
    effect = tree["posterior"]["language_effect"].to_numpy().reshape(30, 3)
    sd_language = tree["posterior"]["sd_language"].to_numpy().ravel()
    flat = values.reshape(30, -1)
    expected = {
        "slope": slope,
        # Per unit, of which an sd has two.
        "raw_slope": slope / 2.0,
        "sd": np.abs(slope) * flat.std(axis=1, ddof=1),
        "explained": spread / (spread + sd_language**2),
        "explained_finite": spread / (spread + effect.var(axis=1, ddof=1)),
    }
    for name, draws in expected.items():
        assert row[f"{name}_mean"] == pytest.approx(draws.mean(), rel=1e-12), name
        assert row[f"{name}_lower"] == pytest.approx(np.quantile(draws, 0.1), rel=1e-12), name
        assert row[f"{name}_upper"] == pytest.approx(np.quantile(draws, 0.9), rel=1e-12), name
        if not name.startswith("explained"):
            assert row[f"{name}_sd"] == pytest.approx(draws.std(ddof=1), rel=1e-12), name
    assert {"explained_sd", "explained_finite_sd"}.isdisjoint(row)
    assert row["p_positive"] == np.mean(slope > 0.0)
    assert (row["covariate_mean"], row["covariate_sd"]) == (10.0, 2.0)
    assert (row["ci_kind"], row["ci_prob"]) == ("eti", 0.8)
    # In the table of variance components it has the same sd.
    components = variance_components(read_arrays(tree))
    at = components.labels.index("age")
    assert components.kind[at] == "covariate"
    np.testing.assert_allclose(components.sd[:, at], expected["sd"], rtol=1e-12)


def test_fixed_language_effects_leave_nothing_to_explain() -> None:
    tree, _, _ = with_covariate()
    table = covariates_table(edit(tree, sd_language=None))
    assert not [name for name in table.columns if name.startswith("explained")]
    assert table["slope_mean"].notna().all()


def test_effects_that_are_missing_are_named() -> None:
    tree, _, _ = with_covariate()
    said = "the fit is damaged: it has 'sd_language', but no 'language_effect'; fit again"
    with pytest.raises(InputError, match=said):
        covariates_table(edit(tree, language_effect=None))


def test_the_variance_of_a_covariate_of_models_by_facet() -> None:
    # Rows of models, columns of languages: 1 + model + language + rest, each about zero.
    model, language = np.array([-1.0, 1.0]), np.array([2.0, 0.0, -2.0])
    rest = np.array([[1.0, -2.0, 1.0], [-1.0, 2.0, -1.0]])
    values = 1.0 + model[:, None] + language + rest
    found = variance_by_facet(slope(values[None]))
    for name, square in (("model", 1.0), ("language", 8.0 / 3.0), ("model:language", 2.0)):
        np.testing.assert_allclose(found[name], SLOPE**2 * square, rtol=1e-12)
    (alone,) = variance_by_facet(slope(1.0 + language[None])).items()
    assert alone[0] == "language"
    np.testing.assert_allclose(alone[1], SLOPE**2 * 8.0 / 3.0, rtol=1e-12)
    # Values that are drawn have a variance of their own in every draw.
    drawn = variance_by_facet(slope(DRAWN))["language"]
    np.testing.assert_allclose(drawn, SLOPE**2 * DRAWN.var(axis=1), rtol=1e-12)
