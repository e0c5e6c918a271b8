"""Ratios to potentials that may be zero: the fit decides for which languages, never the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from bayeseval.calibration.quantities import join, reported
from bayeseval.calibration.ranks import outcome_rows
from bayeseval.calibration.run import RANKED_DRAWS
from bayeseval.checks.prior import prior_tree
from bayeseval.engines import SamplerSettings
from bayeseval.estimands import derive
from bayeseval.fitting import Prepared, prepare
from bayeseval.simulation import simulate

CV = "cv_prr_languages"


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    """A fit to scores far from zero."""
    drawn = simulate(
        "crossed", n_languages=5, n_tasks=3, n_models=3, observed_share=1.0, intercept=60.0, seed=2
    )
    settings = SamplerSettings(draws=100, seed=1)
    return prepare(drawn.records, "crossed", engine="marginal", settings=settings)


@pytest.fixture(scope="module")
def fit(prepared: Prepared) -> xr.DataTree:
    return prepared.run().data


@pytest.fixture(scope="module")
def parameters(prepared: Prepared) -> list[str]:
    prior = prior_tree(prepared.design, np.random.default_rng(0), 1)
    return [str(name) for name in prior["posterior"].data_vars]


def with_potential(value: float, posterior: xr.Dataset, chain: int, draw: int) -> xr.Dataset:
    """The same parameters, but for the first language's effect in one draw."""
    changed = posterior.copy(deep=True)
    effect = changed["language_effect"].transpose("chain", "draw", "language").to_numpy()
    own = posterior["language_potential"].transpose("chain", "draw", "language").to_numpy()
    effect[chain, draw, 0] += value - own[chain, draw, 0]
    changed["language_effect"] = (("chain", "draw", "language"), effect)
    return changed


def left_out(tree: xr.DataTree) -> list[str]:
    found: list[str] = json.loads(tree["posterior"][CV].attrs["left_out"])
    return found


def test_a_truth_near_zero_does_not_choose_the_languages(
    prepared: Prepared, fit: xr.DataTree, parameters: list[str]
) -> None:
    posterior = fit["posterior"].to_dataset()
    assert left_out(fit) == []
    found = {}
    for name, changed in {
        "as drawn": posterior,
        "near zero": with_potential(8.0, posterior, 0, 7),
        "below zero": with_potential(-0.5, posterior, 0, 7),
    }.items():
        truth = changed[parameters].isel(chain=[0], draw=[7])
        joint = join(fit, xr.DataTree.from_dict({"posterior": truth}), n_draws=RANKED_DRAWS, seed=3)
        assert left_out(joint) == []
        found[name] = reported(joint, prepared.design, seed=3)
    # The draws are the same quantity, whatever the truth is.
    for other in ("near zero", "below zero"):
        for quantity in (CV, "prr"):
            np.testing.assert_array_equal(
                found[other][quantity].draws[:-1], found["as drawn"][quantity].draws[:-1]
            )
    # The true value is of all languages too, and above what such a fit can know.
    rows = outcome_rows(
        found["near zero"], reported(fit, prepared.design, seed=1), np.random.default_rng(0)
    ).query("quantity == @CV")
    assert len(rows) == 3
    assert (rows["truth"] > 2.0 * rows["mean"]).all()
    assert (rows["rank"] > 0.9).all()


def test_what_the_fit_leaves_out_the_ranked_draws_leave_out_too(
    fit: xr.DataTree, parameters: list[str]
) -> None:
    """Also where the draw that decided is none of those that the truth is ranked among."""
    posterior = fit["posterior"].to_dataset()
    first = str(posterior["language"].to_numpy()[0])
    changed = with_potential(-1.0, posterior, 0, 1)[parameters]
    groups = {name: fit[name].to_dataset() for name in ("constant_data", "observed_data")}
    tree = xr.DataTree.from_dict({"posterior": changed, **groups})
    tree["posterior"] = xr.DataTree(changed.merge(derive(tree, seed=1)[0]))
    assert left_out(tree) == [first]
    truth = xr.DataTree.from_dict({"posterior": posterior[parameters].isel(chain=[0], draw=[7])})
    joint = join(tree, truth, n_draws=RANKED_DRAWS, seed=3)
    assert joint["posterior"]["language_potential"].min() > 0.0
    assert left_out(joint) == [first]
    assert np.isfinite(joint["posterior"][CV]).all()
    # PRR is withheld as in the fit, with its reason.
    tree["posterior"]["prr"].attrs["note"] = "some reason"
    joint = join(tree, truth, n_draws=RANKED_DRAWS, seed=3)
    assert np.isnan(joint["posterior"]["prr"]).all()
    assert joint["posterior"]["prr"].attrs["note"] == "some reason"
