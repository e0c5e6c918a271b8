"""Reading the tree: what is refused, and that layout does not matter."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from bayeseval.errors import InputError
from bayeseval.estimands import derive, read_arrays
from bayeseval.estimands.derive import component_dataset
from tests.estimands.trees import COMPLETE, CROSSED, Twin, edit, make_tree


def test_order_of_dimensions_does_not_matter():
    tree = make_tree(interactions=CROSSED)
    turned = tree["posterior"].to_dataset().transpose(..., "draw", "chain")
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    other = xr.DataTree.from_dict(groups | {"posterior": turned})
    assert derive(other, seed=0)[0].identical(derive(tree, seed=0)[0])


def test_what_is_derived_has_the_labels_of_the_draws():
    tree = make_tree()
    posterior = tree["posterior"].to_dataset().assign_coords(chain=[3, 5], draw=np.arange(7, 22))
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    for dataset in derive(xr.DataTree.from_dict(groups | {"posterior": posterior}), seed=0):
        assert dataset.coords["chain"].values.tolist() == [3, 5]
        assert dataset.coords["draw"].values.tolist() == list(range(7, 22))


def test_draws_are_flattened_chain_by_chain():
    tree = make_tree()
    arrays = read_arrays(tree)
    assert arrays.n_samples == 30
    np.testing.assert_array_equal(
        arrays.intercept[15:], tree["posterior"]["intercept"].isel(chain=1)
    )


def without_group(tree, name):
    return xr.DataTree.from_dict(
        {key: child.to_dataset() for key, child in tree.children.items() if key != name}
    )


def other_dimensions(tree, name):
    posterior = tree["posterior"].to_dataset()
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    other = posterior.assign({name: ("phony", np.zeros(5))})
    return xr.DataTree.from_dict(groups | {"posterior": other})


def half_of_the_scores(tree):
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    observed = groups["observed_data"].isel(record=slice(3))
    return xr.DataTree.from_dict(groups | {"observed_data": observed})


def stray_cell(tree):
    cells = tree["constant_data"]["model_task_task"].values.copy()
    cells[0] = 2 - cells[0]
    return edit(tree, group="constant_data", model_task_task=cells)


def lost_last_cell(tree):
    """Records of the cell with the largest code lie past all cells that are left."""
    cells = {
        name: tree["constant_data"][name].values.copy()
        for name in ("model_task_model", "model_task_task")
    }
    for codes in cells.values():
        codes[-1] = codes[0]
    return edit(tree, group="constant_data", **cells)


def other_likelihood(tree):
    other = tree.copy()
    other["constant_data"].attrs["likelihood"] = "binomial"
    return other


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda t: without_group(t, "constant_data"), "no group 'constant_data'"),
        (lambda t: edit(t, intercept=None), "no variable 'intercept'"),
        (lambda t: edit(t, sd_residual=None), "no variable 'sd_residual'"),
        (lambda t: edit(t, sd_model_task=None), "no variable 'sd_model_task'"),
        (
            lambda t: edit(t, group="constant_data", task_index=99),
            "task_index has positions outside",
        ),
        (
            lambda t: edit(t, group="constant_data", task_index=-1),
            "task_index has positions outside",
        ),
        (lambda t: other_dimensions(t, "intercept"), "'intercept' has the dimensions"),
        (lambda t: other_dimensions(t, "language_effect"), "'language_effect' has the dimensions"),
        (lambda t: edit(t, group="observed_data", score="x"), "score"),
        (half_of_the_scores, "it has not one score for each record"),
        (lambda t: edit(t, group="observed_data", score=np.nan), "a score is no finite number"),
        (
            lambda t: edit(t, group="constant_data", model_index=None),
            "no variable 'model_index'",
        ),
        (stray_cell, "is in none of the 9 model_task cells"),
        (lost_last_cell, "is in none of the 9 model_task cells"),
        (other_likelihood, "no variable 'score_lower'"),
        (lambda t: edit(t, mexa_slope=((), 1.0)), "mexa_slope"),
    ],
)
def test_broken_trees_are_refused_in_one_line(break_it, message):
    with pytest.raises(InputError, match=message) as error:
        derive(break_it(make_tree(interactions=CROSSED)), seed=0)
    assert "\n" not in str(error.value)


def test_student_t_needs_its_degrees_of_freedom():
    with pytest.raises(InputError, match="no variable 'nu'"):
        read_arrays(edit(make_tree(likelihood="student_t"), nu=None))


@pytest.mark.parametrize("stored", [float, str], ids=["number", "text of earlier results"])
def test_numbers_in_attributes_are_read_in_both_forms(stored: Callable[[float], object]) -> None:
    tree = make_tree()
    tree["constant_data"].attrs.update(edge=stored(0.0125), margin=stored(0.75))
    arrays = read_arrays(tree)
    assert arrays.response.edge == 0.0125
    assert arrays.margin == 0.75


def test_ranks_say_of_which_models_they_are() -> None:
    tree = make_tree(COMPLETE, se=True)
    tree = edit(tree, group="constant_data", se_sd=tree["constant_data"]["se"])
    ranks = [v for name, v in derive(tree, seed=0)[0].items() if str(name).endswith("_rank")]
    assert len(ranks) > 18
    for rank in ranks:
        assert (rank.attrs["units"], rank.attrs["population"]) == ("rank", "observed"), rank.name


def test_one_draw_ranks_nobody() -> None:
    one, _ = derive(make_tree(COMPLETE, chains=1, draws=1), seed=0)
    assert "standardised_score" in one
    assert not [name for name in one if str(name).endswith("_rank")]
    two, _ = derive(make_tree(COMPLETE, chains=1, draws=2), seed=0)
    assert "standardised_score_rank" in two


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    tree = make_tree(COMPLETE, se=True)
    tree = edit(tree, group="constant_data", se_sd=tree["constant_data"]["se"])
    first, again, other = (derive(tree, seed=seed)[0] for seed in (4, 4, 5))
    assert first.identical(again)
    for name in ("arithmetic_mean", "arithmetic_mean_run", "arithmetic_mean_resampled"):
        assert not first[name].equals(other[name]), name


def test_a_factor_without_effects_has_zeros_of_every_draw_and_level() -> None:
    rows = [(language, "qa", model) for language in ("de", "en") for model in ("m1", "m2")]
    tree = make_tree(rows)
    zero = edit(tree, task_effect=0.0)
    without = edit(tree, task_effect=None, sd_task=None)
    np.testing.assert_array_equal(read_arrays(without).main["task"], np.zeros((30, 1)))
    for found, expected in zip(derive(without, seed=0), derive(zero, seed=0), strict=True):
        assert found.identical(expected)


def test_what_is_stored_has_its_name_units_and_definition() -> None:
    tree = make_tree(COMPLETE, se=True)
    tree = edit(tree, group="constant_data", se_sd=tree["constant_data"]["se"])
    posterior, estimands = derive(tree, seed=0)
    components = component_dataset(tree)
    for dataset in (posterior, estimands, components):
        for name, variable in dataset.items():
            assert variable.attrs["definition"], name
    for name, variable in posterior.items():
        assert variable.attrs["units"], name
    assert estimands["record_prr"].attrs["units"] == "1"
    assert estimands["language_score"].attrs["units"] == estimands["potential"].attrs["units"]
    assert {*estimands} == {
        *("potential", "cv_prr_constant_gap", "worst_language", "record_prr"),
        *("cell_mean", "language_score"),
    }
    twin = Twin(tree, 1, 3)
    for pair in estimands["language_task"].to_numpy():
        found = float(estimands["potential"].sel(language_task=pair)[1, 3])
        assert found == pytest.approx(twin.potential(*str(pair).split("|")), rel=1e-12)


def test_languages_without_a_ratio_are_stored_by_name() -> None:
    tree = make_tree(COMPLETE, interactions=("model:language",), spread=0.01)
    effect = tree["posterior"]["language_effect"].to_numpy().copy()
    potential = derive(tree, seed=0)[0]["language_potential"].mean(("chain", "draw")).to_numpy()
    # The potential of de is about zero, and all of them but that of fr.
    for zero, left_out, why in (
        ([0], ["de"], ""),
        ([0, 1], ["de", "en"], "fewer than two languages have a PRR"),
    ):
        moved = effect.copy()
        moved[..., zero] -= potential[zero]
        found = derive(edit(tree, language_effect=moved), seed=0)[0]
        attrs = found["cv_prr_languages"].attrs
        assert json.loads(attrs["left_out"]) == left_out
        assert attrs["note"] == why
        assert bool(found["cv_prr_languages"].isnull().all()) == bool(why)
