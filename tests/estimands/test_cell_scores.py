"""Predictions of cells: equal to expected scores where these exist, populations where not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.estimands import cell_scores
from bayeseval.estimands.cell_noise import MeasurementNoise, read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.container import CommonPairs, PosteriorArrays
from bayeseval.estimands.expected import expected_scores
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, edit, make_tree
from tests.helpers import assert_within_mcse

FULL = (*CROSSED, "model:language:task")
SILENT = MeasurementNoise(sd={}, typical={}, spread={}, shared={}, scales={}, scale_spread=None)
N = 20_000


def asked(cells, covariates=None, **numbers) -> AskedCells:
    """Cells of (language, task, model), as the rows of trees."""
    given = {name: np.full(len(cells), np.nan) for name in ("n_items", "se", "n_seeds")}
    given |= {name: np.full(len(cells), float(value)) for name, value in numbers.items()}
    language, task, model = (tuple(part) for part in zip(*cells, strict=True))
    labels = {"language": language, "task": task, "model": model}
    return AskedCells(labels, covariates or {}, **given)


def predicted(arrays: PosteriorArrays, cells, *, noise=SILENT, seed=0, **more):
    """Expected scores and measurements, in the order of the cells."""
    expected = np.full((arrays.n_samples, len(cells)), np.nan)
    measurement = expected.copy()
    for block in predict_cells(arrays, asked(cells, **more), noise, seed=seed):
        expected[:, block.cells] = block.expected
        measurement[:, block.cells] = block.measurement
    return expected, measurement


@pytest.mark.parametrize("population", ["observed", "models"])
def test_cells_of_known_levels_are_the_expected_scores(population: str) -> None:
    tree = make_tree(INCOMPLETE, interactions=FULL)
    tree["constant_data"].attrs["population"] = population
    arrays = read_arrays(tree)
    # All pairs, some of which no model was tested on.
    language, task = (index.reshape(-1) for index in np.indices((4, 3)))
    arrays = replace(arrays, common=CommonPairs(language, task, "given"))
    scores = expected_scores(arrays, seed=3)
    assert len(scores.language) == 12
    blocks = list(scores.blocks())
    points = np.concatenate([block.points for block in blocks])
    levels = arrays.levels
    cells = [
        (levels["language"][la], levels["task"][t], model)
        for model in levels["model"]
        for la, t in zip(scores.language, scores.task, strict=True)
    ]
    found, _ = predicted(arrays, cells, seed=3)
    # Means of the same numbers in another order.
    np.testing.assert_allclose(found, points.reshape(len(points), -1), rtol=1e-12)
    # Negative control: other draws of the cells without a record.
    other, _ = predicted(arrays, cells, seed=4)
    measured = [cell in set(INCOMPLETE) for cell in cells]
    same = np.isclose(found, other).all(axis=0)
    assert same[measured].all()
    assert not same[np.logical_not(measured)].any()


@pytest.mark.parametrize("likelihood", ["binomial", "logit_normal"])
def test_a_logit_link_is_inverted_as_in_expected_scores(likelihood: str) -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED, likelihood=likelihood, intercept=0.3)
    task = {
        name: ("task", np.array(ends))
        for name, ends in {"score_lower": [0.0, 0.0], "score_upper": [100.0, 100.0]}.items()
    }
    more = {"n_items": ("record", np.full(len(COMPLETE), 50.0))} | task
    tree = edit(tree, group="constant_data", **more)
    for factor in ("language", "task", "model"):
        effect = tree["posterior"][f"{factor}_effect"].to_numpy()
        tree = edit(tree, **{f"{factor}_effect": effect / 20.0})
    arrays = read_arrays(tree)
    points = np.concatenate([block.points for block in expected_scores(arrays, seed=0).blocks()])
    cells = [
        (la, t, m) for m, la, t in product(("m1", "m2", "m3"), ("de", "en", "fr"), ("nli", "qa"))
    ]
    found, scores = predicted(arrays, cells)
    np.testing.assert_allclose(found, points.reshape(len(points), -1), rtol=1e-10)
    new = predicted(arrays, [("xx", "sum", "m9")])[0]
    assert 0.0 < new.min() < new.max() < 100.0
    if likelihood == "binomial":
        # Shares of the 50 items that a test set of the table has, unless others are given.
        np.testing.assert_allclose(scores / 2.0, np.round(scores / 2.0), atol=1e-9)
        assert (np.round(scores / 2.0) % 5.0 > 0.0).any()
        of_ten = predicted(arrays, cells, n_items=10)[1]
        np.testing.assert_allclose(of_ten / 10.0, np.round(of_ten / 10.0), atol=1e-9)


def z_scores(arrays, cell, centre, variance):
    found, _ = predicted(arrays, [cell])
    return (found[:, 0] - centre) / np.sqrt(variance)


@pytest.mark.parametrize("new", ["language", "task", "model"])
def test_a_new_level_has_the_variance_of_its_population(new: str) -> None:
    tree = make_tree(COMPLETE, interactions=FULL, chains=1, draws=N, sd_cells=4.0)
    arrays = read_arrays(tree)
    place = {"language": 0, "task": 0, "model": 0}
    cell = {f: arrays.levels[f][0] for f in place} | {new: "new"}
    centre = arrays.intercept + sum(
        (arrays.main[f][:, 0] for f in place if f != new), np.zeros(arrays.n_samples)
    )
    # The interaction of the two other factors has a record, the three others have none.
    (known,) = [one for one in arrays.cells if new not in one.members]
    first = np.flatnonzero(np.all([index == 0 for index in known.members.values()], axis=0))
    centre = centre + known.effect[:, first[0]]
    n_levels = len(arrays.levels[new])
    variance = arrays.main_sd[new] ** 2 * (1.0 + 1.0 / n_levels) + 3.0 * 4.0**2
    labels = (cell["language"], cell["task"], cell["model"])
    z = z_scores(arrays, labels, centre, variance)
    assert_within_mcse(z, 0.0)
    assert_within_mcse(z**2, 1.0)
    # Negative control: without the unknown mean of the population.
    narrow = z_scores(arrays, labels, centre, arrays.main_sd[new] ** 2 + 3.0 * 4.0**2)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(narrow**2, 1.0)


def test_models_that_are_a_sample_have_no_unknown_mean() -> None:
    tree = make_tree(COMPLETE, chains=1, draws=N)
    tree["constant_data"].attrs["population"] = "models"
    arrays = read_arrays(tree)
    centre = arrays.intercept + arrays.main["language"][:, 0] + arrays.main["task"][:, 0]
    z = z_scores(arrays, ("de", "nli", "new"), centre, arrays.main_sd["model"] ** 2)
    assert_within_mcse(z**2, 1.0)


def test_draws_belong_to_labels() -> None:
    arrays = read_arrays(make_tree(COMPLETE, interactions=CROSSED, chains=1, draws=N))
    cells = [("xx", "qa", "m1"), ("yy", "qa", "m1"), ("de", "qa", "m9"), ("xx", "qa", "m9")]
    whole, _ = predicted(arrays, cells)
    alone, _ = predicted(arrays, cells[::-1][:3])
    np.testing.assert_array_equal(whole[:, [3, 2, 1]], alone)
    # Effects of two new languages share the unknown mean of their population, and no more.
    plain = read_arrays(make_tree(COMPLETE, chains=1, draws=N))
    pair, _ = predicted(plain, cells[:2])
    rest = plain.intercept + plain.main["task"][:, 1] + plain.main["model"][:, 0]
    first, second = ((pair[:, i] - rest) / plain.main_sd["language"] for i in (0, 1))
    assert_within_mcse(first * second, 1.0 / 3.0)
    # One new language has one effect, whatever the task and the model.
    again, _ = predicted(plain, [("xx", "nli", "m2")])
    shift = again[:, 0] - plain.intercept - plain.main["task"][:, 0] - plain.main["model"][:, 1]
    np.testing.assert_allclose(shift / plain.main_sd["language"], first, atol=1e-9)


def test_a_measurement_has_the_noise_of_its_level_and_its_test_set() -> None:
    tree = make_tree(COMPLETE, chains=1, draws=N, residual_by="task", se=True)
    tree = edit(
        tree,
        sd_log_residual=(("chain", "draw"), np.full((1, N), 0.5)),
    )
    tree = edit(tree, group="constant_data", se_sd=("record", np.full(len(COMPLETE), 2.0)))
    arrays = read_arrays(tree)
    noise = read_measurement_noise(tree, arrays)

    def squares(task, **numbers):
        found, score = predicted(arrays, [("de", task, "m1")], noise=noise, **numbers)
        return (score - found)[:, 0] ** 2

    # sd_residual is 3 for the first task and 6 for the second; the table's own error is 2.
    assert_within_mcse(squares("nli"), 3.0**2 + 2.0**2)
    assert_within_mcse(squares("qa"), 6.0**2 + 2.0**2)
    assert_within_mcse(squares("qa", se=5.0), 6.0**2 + 5.0**2)
    # A task without records: log-normal about the typical sd, 3.
    assert_within_mcse(squares("new"), 3.0**2 * np.exp(2.0 * 0.5**2) + 2.0**2)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(squares("new"), 3.0**2 + 2.0**2)


def test_seeds_are_averaged_and_the_test_set_is_not() -> None:
    arrays = read_arrays(make_tree(COMPLETE, chains=1, draws=N, sd_residual=1e-9))
    n_records, spread = len(COMPLETE), 0.3
    own = np.full((1, n_records), np.nan)
    own[0, 0] = 4.0
    noise = replace(
        SILENT,
        sd={"seed": own, "boot": own / 2.0},
        typical={"seed": np.full((N, 3), 6.0)},
        spread={"seed": np.full(N, spread)},
    )

    def squares(cell, n_seeds):
        found, score = predicted(arrays, [cell], noise=noise, n_seeds=n_seeds)
        return (score - found)[:, 0] ** 2

    measured, other = COMPLETE[0], COMPLETE[1]
    assert_within_mcse(squares(measured, 1), 16.0 + 4.0)
    assert_within_mcse(squares(measured, 4), 16.0 / 4.0 + 4.0)
    # Another cell: log-normal about the typical sd of its model, and the test set of its task.
    assert_within_mcse(squares(other, 4), 36.0 * np.exp(2.0 * spread**2) / 4.0 + 4.0)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(squares(other, 4), 36.0 / 4.0 + 4.0)


def test_n_items_give_a_binomial_error_where_errors_are_known() -> None:
    tree = make_tree(COMPLETE, chains=1, draws=N, sd_residual=1e-9, spread=1e-9, intercept=50.0)
    ends = {"declared_lower": ("task", np.zeros(2)), "declared_upper": ("task", np.full(2, 100.0))}
    bounded = edit(tree, group="constant_data", **ends)
    known = edit(bounded, group="constant_data", se_sd=("record", np.full(len(COMPLETE), 2.0)))
    for source, has in ((known, True), (bounded, False)):
        arrays = read_arrays(source)
        noise = read_measurement_noise(source, arrays)
        found, score = predicted(arrays, [COMPLETE[0]], noise=noise, n_items=25)
        share = found[:, 0].mean() / 100.0
        assert 0.1 < share < 0.9
        expected = 100.0**2 * share * (1.0 - share) / 25.0 if has else 0.0
        if has:
            assert_within_mcse((score - found)[:, 0] ** 2, expected)
        else:
            # The residual contains it.
            assert np.abs(score - found).max() < 1e-6


def test_what_has_no_population_is_refused() -> None:
    fixed = read_arrays(make_tree(COMPLETE, fixed=("language",)))
    with pytest.raises(InputError, match="^language 'xx' is not in the table.*effects are fixed"):
        predicted(fixed, [("xx", "qa", "m1")])
    single = read_arrays(make_tree([row for row in COMPLETE if row[1] == "qa"], fixed=("task",)))
    with pytest.raises(InputError, match="^task 'sum' .*: the table has one task, so how much"):
        predicted(single, [("de", "sum", "m1")])
    tree = make_tree(COMPLETE, likelihood="binomial")
    ends = {"score_lower": ("task", np.zeros(2)), "score_upper": ("task", np.array([1.0, 100.0]))}
    more = {"n_items": ("record", np.full(len(COMPLETE), 50.0))} | ends
    unlike = read_arrays(edit(tree, group="constant_data", **more))
    with pytest.raises(InputError, match="task 'sum' .* have different bounds"):
        predicted(unlike, [("de", "sum", "m1")])


class Counted(np.ndarray):
    """Likelihoods of tasks that count how many are looked at."""

    looked_at = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        Counted.looked_at += np.size(found)
        return found


def test_each_prediction_looks_at_its_own_task_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a table of new tasks grew with the square of their number."""
    extended = cell_scores._with_new_tasks

    def counting(*given):
        arrays = extended(*given)
        family = arrays.response.family.view(Counted)
        return replace(arrays, response=replace(arrays.response, family=family))

    monkeypatch.setattr(cell_scores, "_with_new_tasks", counting)
    arrays = read_arrays(make_tree(COMPLETE, interactions=CROSSED))
    language, _, model = COMPLETE[0]
    looked_at = []
    for n in (20, 40):
        Counted.looked_at = 0
        predicted(arrays, [(language, f"new {i}", model) for i in range(n)])
        looked_at.append(Counted.looked_at)
    assert looked_at[0] > 20
    assert looked_at[1] <= 2 * looked_at[0]
