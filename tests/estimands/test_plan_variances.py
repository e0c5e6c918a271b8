"""Variances for planning, read from trees written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayeseval.estimands.plan_variances import (
    Study,
    _typical_seeds,
    present_study,
    read_plan_variances,
)
from tests.estimands.trees import COMPLETE, CROSSED, edit, make_tree


def draws(tree: xr.DataTree, name: str) -> np.ndarray:
    values = tree["posterior"][name].to_numpy()
    return values.reshape(-1, *values.shape[2:])


def test_every_variance_is_that_of_its_term() -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED)
    rng = np.random.default_rng(5)
    sds = {
        name: rng.uniform(1.0, 3.0, size=(2, 15))
        for name in ("sd_language_task", "sd_model_task", "sd_model_language", "sd_residual")
    }
    tree = edit(tree, **sds)
    found = read_plan_variances(tree)
    for name in ("model", "language", "task", "language_task", "model_language", "model_task"):
        expected = draws(tree, f"sd_{name}") ** 2
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, err_msg=name)
    # Without a term and without errors of test sets, the residual counts as noise.
    residual = np.repeat(draws(tree, "sd_residual")[:, None] ** 2, 3, axis=1)
    np.testing.assert_allclose(found.noise, residual, rtol=1e-12)
    assert not found.three_way.any()
    assert found.seed is found.test_set is found.seed_test_set is None
    assert found.shared_items == {}
    assert found.models == ("m1", "m2", "m3")
    assert found.fixed == frozenset()
    assert present_study(tree, found)[2:4] == (3.0, 2.0)
    assert np.isnan(present_study(tree, found).prompts)
    assert np.isnan(present_study(tree, found)[:2]).all()
    # Terms that a fit lacks are zero.
    plain = read_plan_variances(make_tree(COMPLETE))
    for name in ("language_task", "model_language", "model_task"):
        assert getattr(plain, name).tolist() == [0.0] * 30


def test_the_residual_is_interaction_where_a_term_or_an_error_says_so() -> None:
    term = make_tree(COMPLETE, interactions=(*CROSSED, "model:language:task"), sd_cells=2.0)
    found = read_plan_variances(term)
    assert found.three_way.tolist() == [[4.0] * 3] * 30
    assert found.noise.tolist() == [[9.0] * 3] * 30
    # Standard errors of the scores are noise of the test sets.
    known = edit(
        make_tree(COMPLETE),
        group="constant_data",
        se=("record", np.full(len(COMPLETE), 1.5)),
        se_sd=("record", np.full(len(COMPLETE), 1.5)),
    )
    found = read_plan_variances(known)
    assert found.three_way.tolist() == [[9.0] * 3] * 30
    assert found.noise.tolist() == [[0.0] * 3] * 30
    assert found.test_set is not None
    assert found.test_set.tolist() == [[2.25] * 3] * 30
    assert present_study(known, found).items == 1.0
    # Models of different noise keep their own.
    by_model = read_plan_variances(make_tree(COMPLETE, residual_by="model"))
    assert by_model.noise.tolist() == [[9.0, 36.0, 81.0]] * 30


@pytest.mark.parametrize(
    ("fixed", "terms"),
    [
        ((), ()),
        (("language",), ("model_language",)),
        (("task",), ("model_task",)),
        (("language", "task"), ("model_language", "model_task")),
    ],
)
def test_interactions_with_fixed_facets_are_part_of_what_models_score(
    fixed: tuple[str, ...], terms: tuple[str, ...]
) -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED)
    found = read_plan_variances(tree, fixed=fixed)  # type: ignore[arg-type]
    expected = draws(tree, "model_effect").copy()
    for term in terms:
        owner = tree["constant_data"][f"{term}_model"].to_numpy()
        effect = draws(tree, f"{term}_effect")
        expected += np.stack([effect[:, owner == i].mean(axis=1) for i in range(3)], axis=1)
    moved = found.model_effect - expected
    # Up to a constant that all models have in common.
    np.testing.assert_allclose(moved, np.repeat(moved[:, :1], 3, axis=1), atol=1e-10)
    assert found.fixed == set(fixed)


def test_a_single_task_is_fixed() -> None:
    rows = [row for row in COMPLETE if row[1] == "qa"]
    found = read_plan_variances(make_tree(rows))
    assert found.fixed == {"task"}
    assert found.task.tolist() == [0.0] * 30
    told = [note.partition(":")[0] for note in found.notes]
    assert told == ["seeds", "items", "tasks"]


def _constant(**columns: list[float]) -> xr.Dataset:
    return xr.Dataset({name: ("record", np.array(values)) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("columns", "seeds"),
    [
        # Shares are one over the number of seeds; records without seeds have none.
        ({"seed_share": [0.5, 0.2, 0.2, 0.0, 0.0]}, 5.0),
        # 4 / S + 1 of the test set, with S of 4, 8 and 8.
        (
            {
                "seed_sd": [2.0, 2.0, 2.0, np.nan],
                "boot_sd": [1.0, 1.0, 1.0, 1.0],
                "se": [np.sqrt(2.0), np.sqrt(1.5), np.sqrt(1.5), 1.0],
            },
            8.0,
        ),
        # 4 and 5 together over 3 seeds, beside a given standard error.
        (
            {
                "seed_sd": [2.0, 2.0],
                "seed_boot_sd": [np.sqrt(5.0)] * 2,
                "se_sd": [0.5, np.nan],
                "se": [np.sqrt(3.25), np.sqrt(3.0)],
            },
            3.0,
        ),
        # Of both kinds: the median of 2, 4 and 7.
        ({"seed_share": [0.5, 0.0, 1 / 7], "seed_sd": [0.0, 2.0, 0.0], "se": [0.0, 1.0, 0.0]}, 4.0),
        # Whole, at least one.
        ({"seed_share": [1 / 2.6, 1 / 2.6]}, 3.0),
        ({"seed_sd": [1.0], "se": [2.0]}, 1.0),
        ({"seed_share": [0.0, 0.0]}, 1.0),
    ],
)
def test_the_typical_number_of_seeds(columns: dict[str, list[float]], seeds: float) -> None:
    assert _typical_seeds(_constant(**columns)) == seeds


def test_the_present_study_has_the_typical_number_of_seeds() -> None:
    n = len(COMPLETE)
    tree = edit(
        make_tree(COMPLETE),
        group="constant_data",
        seed_sd=("record", np.full(n, 2.0)),
        se=("record", np.full(n, 1.0)),
    )
    found = read_plan_variances(tree)
    assert found.seed is not None
    assert found.seed.tolist() == [[4.0] * 3] * 30
    assert np.isnan(present_study(tree, found).items)
    assert present_study(tree, found)._replace(items=0.0) == Study(4.0, 0.0, 3.0, 2.0)


def test_what_test_sets_do_to_all_cells_of_a_task_is_set_apart() -> None:
    rows = len(COMPLETE)
    task = make_tree(COMPLETE)["constant_data"]["task_index"].to_numpy()
    tree = edit(
        make_tree(COMPLETE),
        group="constant_data",
        se=("record", np.full(rows, 2.0)),
        se_sd=("record", np.full(rows, 2.0)),
        test_set_task_index=("record", task),
        # Both tasks have as many records.
        test_set_task_sd=("test_set_task", np.array([1.0, 1.5])),
    )
    found = read_plan_variances(tree)
    assert found.shared_items == {"task": (1.0 + 2.25) / 2.0}
    assert found.test_set is not None
    # Of the variance of 4, cells keep what they do not share, on average over a model's cells.
    assert found.test_set.tolist() == [[(3.0 + 1.75) / 2.0] * 3] * 30
    assert not any("independent between models" in note for note in found.notes)


@pytest.mark.parametrize(
    ("known", "terms", "said"),
    [
        (False, (), ["seeds", "items", "languages", "tasks", "fixed language"]),
        (False, CROSSED, ["seeds", "items", "fixed language"]),
        (True, CROSSED, ["seeds", "items"]),
        (False, (*CROSSED, "model:language:task"), ["seeds", "items"]),
    ],
)
def test_what_a_fit_cannot_tell(known: bool, terms: tuple[str, ...], said: list[str]) -> None:
    tree = make_tree(COMPLETE, interactions=terms)
    if known:
        se = ("record", np.full(len(COMPLETE), 1.5))
        tree = edit(tree, group="constant_data", se=se, se_sd=se)
    notes = read_plan_variances(tree, fixed=["language"]).notes
    assert [note.partition(":")[0] for note in notes] == said
    assert ("independent between models" in notes[1]) is known
