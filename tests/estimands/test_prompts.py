"""What a fit to scores by prompt says: noise of cells, of one run and of new measurements."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import bayeseval as be
from bayeseval.checks.prior import prior_tree
from bayeseval.comparison.holdout import measured_cells
from bayeseval.design import restore_design
from bayeseval.engines._likelihood import shared_noise
from bayeseval.estimands import (
    components_table,
    derive,
    model_components_table,
    noise_sources,
    read_arrays,
    run_text,
    sources_text,
)
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.effects import Effects, Rows, read_effects
from bayeseval.estimands.measurement import measurement_variance
from bayeseval.estimands.noise import cell_means, model_components, read_noise
from bayeseval.estimands.plan_variances import Study, present_study, read_plan_variances
from bayeseval.estimands.planning import absolute_variance, error_variance
from bayeseval.estimands.predict import replicate_scores
from bayeseval.estimands.predictor import expected_score, mean_residual
from bayeseval.estimands.table_prompts import read_table_prompts
from bayeseval.fitting.report.sentences import residual_sentence
from bayeseval.records import Records
from tests import prompt_tables as tables
from tests.helpers import assert_within_mcse

DESIGN = tables.design()
SOURCE = tables.source(DESIGN)


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    """Made-up draws of every variable of the posterior."""
    return prior_tree(DESIGN, np.random.default_rng(4), 4000)


def _sds(tree: xr.DataTree) -> np.ndarray:
    """Variance of what cells share, (n_samples,)."""
    posterior = tree["posterior"]
    return sum(posterior[one.sd].to_numpy().reshape(-1) ** 2 for one in SOURCE.shared)


def _own(tree: xr.DataTree) -> np.ndarray:
    drawn = tree["posterior"]["sd_prompt_cell"].to_numpy()
    return drawn.reshape(-1, drawn.shape[-1])[:, SOURCE.of_record]


def test_the_sd_between_prompts_contains_what_cells_share(tree: xr.DataTree) -> None:
    noise = read_noise(tree)
    assert noise is not None
    total = _own(tree) ** 2 + _sds(tree)[:, None]
    np.testing.assert_allclose(noise.sd["prompt"] ** 2, total, rtol=1e-12)
    np.testing.assert_allclose(noise.run_variance, total, rtol=1e-12)
    np.testing.assert_allclose(noise.mean_variance, SOURCE.share * total, rtol=1e-12)


def _posterior(tree: xr.DataTree) -> dict[str, np.ndarray]:
    return {
        one.effect: tree["posterior"][one.effect].to_numpy().reshape(4000, -1)
        for one in SOURCE.shared
    }


def _added(effects: Effects, cells: dict[str, np.ndarray]) -> Rows:
    """What prompts add to measurements of cells."""
    place = [cells[factor] for factor in ("model", "language", "task")]
    return effects.rows(*place, measured=True) - effects.rows(*place)


def test_measurements_share_the_prompts_of_the_table(tree: xr.DataTree) -> None:
    arrays = read_arrays(tree)
    effects = read_effects(arrays, seed=0, prompts=read_table_prompts(tree, arrays))
    added = effects.draws_of(_added(effects, DESIGN.factor_index)) * np.sqrt(3999.0)
    shift = shared_noise(DESIGN, _posterior(tree))
    assert shift is not None
    expected = (shift - shift.mean(axis=0)).T
    # A cell that lacks prompts would be measured with all those of its model on the task.
    whole = np.ones(DESIGN.n_records, dtype=bool)
    whole[SOURCE.record[SOURCE.by_cell.count == 1.0]] = False
    assert whole.sum() == DESIGN.n_records - 1
    np.testing.assert_allclose(added[whole], expected[whole], rtol=1e-9, atol=1e-9)
    assert np.abs(added[~whole] - expected[~whole]).max() > 1.0
    plain = read_effects(arrays, seed=0)
    assert abs(_added(plain, DESIGN.factor_index)).sum() == 0.0

    noise, own = read_measurement_noise(tree, arrays), _own(tree) ** 2
    residual = arrays.residual_sd.reshape(4000, -1)[:, 0] ** 2
    of_one = measurement_variance(plain, noise, DESIGN.factor_index, None)
    of_all = measurement_variance(effects, noise, DESIGN.factor_index, None)
    single = residual[:, None] + own + _sds(tree)[:, None]
    np.testing.assert_allclose(of_one, single.mean(axis=0), rtol=1e-9)
    count = np.where(whole, SOURCE.by_cell.count[SOURCE.of_record], 3.0)
    np.testing.assert_allclose(of_all, (residual[:, None] + own / count).mean(axis=0), rtol=1e-9)


def test_unknown_effects_of_prompts_cancel_between_models() -> None:
    """On a pair without records, models share what prompts do to the language there."""
    frame = tables.frame(complete=True).query("language != 'sw' or task != 'nli'")
    design = tables.design(Records.from_frame(frame))
    tree = prior_tree(design, np.random.default_rng(4), 200)
    arrays = read_arrays(tree)
    effects = read_effects(arrays, seed=0, prompts=read_table_prompts(tree, arrays))
    place = {"model": [0, 1, 0], "language": [2, 2, 1], "task": [0, 0, 0]}
    assert [design.coords[f][place[f][0]] for f in ("language", "task")] == ["sw", "nli"]
    added = _added(effects, {f: np.array(codes) for f, codes in place.items()})
    unknown = added[:, effects.n_drawn :]
    covariance = (unknown.multiply(effects.prior) @ unknown.T).toarray()
    sd = tree["posterior"]["sd_prompt_language_task"].to_numpy()
    expected = np.zeros((3, 3))
    expected[:2, :2] = np.mean(sd**2) / 3.0
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)


def test_shared_effects_are_taken_off_the_records(tree: xr.DataTree) -> None:
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    shift = shared_noise(DESIGN, _posterior(tree))
    np.testing.assert_allclose(arrays.shared_error(), shift, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(noise.shared, shift, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(arrays.error_variance(), SOURCE.share * _own(tree) ** 2)
    expected = expected_score(arrays)
    np.testing.assert_allclose(
        mean_residual(arrays), arrays.score - (expected + shift).mean(axis=0), rtol=1e-9
    )
    # Drawn anew, the same prompts are asked.
    errors = replicate_scores(arrays, np.random.default_rng(1)) - expected - shift
    variance = arrays.residual_sd**2 + arrays.error_variance()
    assert_within_mcse((errors**2 - variance).mean(axis=1), 0.0)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(((errors + shift) ** 2 - variance).mean(axis=1), 0.0)
    # A cell without a residual is where its score and the effects of its prompts put it.
    still = replace(arrays, residual_sd=1e6 * arrays.residual_sd)
    quiet = tuple(replace(one, sd=1e-9 * one.sd) for one in still.replicates)
    means = cell_means(replace(still, replicates=quiet), noise, rng=np.random.default_rng(2))
    np.testing.assert_allclose(means, arrays.score - shift, atol=1e-6)


def test_cells_of_one_run_share_its_prompt(tree: xr.DataTree) -> None:
    noise = read_noise(tree)
    assert noise is not None
    centre = np.zeros(noise.run_variance.shape)
    run = noise.one_run(centre, np.random.default_rng(3))
    index = DESIGN.factor_index
    same = {f: index[f][:, None] == index[f] for f in ("task", "model", "language")}
    task, language, model = (
        tree["posterior"][one.sd].to_numpy().reshape(-1) ** 2 for one in SOURCE.shared
    )

    def assert_covariance(pairs: np.ndarray, wanted: np.ndarray | float) -> None:
        """The mean product of two cells less its expectation, draw by draw."""
        one, other = np.nonzero(pairs)
        assert_within_mcse((run[:, one] * run[:, other]).mean(axis=1) - wanted, 0.0)

    assert_within_mcse((run**2 - noise.run_variance).mean(axis=1), 0.0)
    assert_covariance(same["task"] & ~same["model"] & ~same["language"], task)
    of_model = same["task"] & same["model"] & ~same["language"]
    assert_covariance(of_model, task + model)
    assert_covariance(same["task"] & ~same["model"] & same["language"], task + language)
    assert_covariance(~same["task"], 0.0)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_covariance(of_model, task)


def test_a_new_measurement_has_the_noise_of_its_prompts(tree: xr.DataTree) -> None:
    arrays = read_arrays(tree)
    noise = read_measurement_noise(tree, arrays)
    # A cell of the table, and one of a new language, whose own sd is drawn.
    place = {f: np.array([values[0], values[0]]) for f, values in arrays.index.items()}
    place["language"] = np.array([arrays.index["language"][0], 3])
    arrays = replace(arrays, levels=arrays.levels | {"language": ("de", "en", "sw", "xx")})

    def variance(prompts: np.ndarray | None) -> np.ndarray:
        error = noise.standard_error(
            arrays,
            place,
            np.zeros((4000, 2)),
            n_items=np.full(2, np.nan),
            se=np.full(2, np.nan),
            n_seeds=np.full(2, 8.0),
            n_prompts=prompts,
            seed=1,
        )
        assert error is not None
        return error**2

    one = variance(None)
    np.testing.assert_allclose(one[:, 0], _own(tree)[:, 0] ** 2 + _sds(tree), rtol=1e-12)
    assert (one[:, 1] > _sds(tree)).all()
    np.testing.assert_allclose(variance(np.array([4.0, np.nan])), one / [4.0, 1.0], rtol=1e-12)


def test_components_count_the_noise_of_the_records(tree: xr.DataTree) -> None:
    table = components_table(tree).set_index("component")
    error = SOURCE.share * (_own(tree) ** 2 + _sds(tree)[:, None])
    wanted = np.sqrt(error.mean(axis=1)).mean()
    assert table.loc["replicates", "sd_mean"] == pytest.approx(wanted, rel=1e-9)


def test_components_of_models_tell_what_they_share(tree: xr.DataTree) -> None:
    """What models share of a prompt cancels in their differences, the rest does not."""
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    scores = np.random.default_rng(1).normal(size=(4000, 4, 3))
    parts = model_components(arrays, noise, scores, rng=np.random.default_rng(2))
    task, language, model = (
        tree["posterior"][one.sd].to_numpy().reshape(-1, 1) ** 2 for one in SOURCE.shared
    )
    np.testing.assert_allclose(parts["prompt_shared_sd"] ** 2, np.tile(task + language, 4))
    own = [_own(tree)[:, arrays.index["model"] == m] for m in range(4)]
    cells = np.stack([(values**2).mean(axis=1) for values in own], axis=1)
    np.testing.assert_allclose(parts["prompt_own_sd"] ** 2, cells + model, rtol=1e-9)
    np.testing.assert_allclose(parts["within_sd"], parts["prompt_sd"], rtol=1e-12)
    replaced = replace(noise, shared_of_run=noise.shared_of_run[2:])
    alone = model_components(arrays, replaced, scores, rng=np.random.default_rng(2))
    assert "prompt_shared_sd" not in alone


def test_words_say_what_a_run_is(tree: xr.DataTree) -> None:
    assert run_text(["boot"]) == "one seed on one test set"
    assert run_text(["seed", "judge"]) == "one seed on one test set, scored by one judge"
    assert sources_text(["seed"]) == "seeds"
    assert sources_text(["given_se"]) == sources_text(["boot"]) == "test sets"
    assert sources_text(["seed", "boot", "seed_boot"]) == "seeds and test sets"
    assert sources_text(["seed", "seed_boot", "prompt", "se"]) == "seeds, test sets and prompts"
    additions, estimands = derive(tree.copy(), seed=1)
    definition = additions["median_run"].attrs["definition"]
    assert definition.endswith("one run: one seed on one test set with one prompt")
    said = estimands["cell_mean"].attrs["definition"]
    assert said == "score of the cell without the noise of prompts"
    merged = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset().merge(additions)})
    assert noise_sources(merged) == ("prompt", "prompt_own", "prompt_shared")
    table = model_components_table(merged).set_index(["model", "component"])
    whole = table.loc[("m", "prompt"), "share_mean"]
    halves = table.loc[[("m", "prompt_own"), ("m", "prompt_shared")], "share_mean"]
    assert halves.sum() == pytest.approx(whole, rel=1e-9)
    assert 0.0 < halves.min() < whole < 1.0
    assert residual_sentence(components_table(tree), noise_sources(merged)).startswith(
        "residual: its sd leaves out the noise of prompts, which"
    )


def _covariance(variances: dict[str, float], own: tuple[float, float], shape: Study) -> np.ndarray:
    """Dense covariance of what prompts do to every score of two models in a study."""
    sizes = (2, int(shape.languages), int(shape.tasks), int(shape.prompts))
    model, language, task, prompt = np.indices(sizes).reshape(4, -1)
    parts = {
        "task": (task, prompt),
        "language_task": (language, task, prompt),
        "model_task": (model, task, prompt),
    }
    total = np.diag(np.array(own)[model])
    for name, codes in parts.items():
        of = np.ravel_multi_index(codes, [int(code.max()) + 1 for code in codes])
        total = total + variances[name] * (of[:, None] == of)
    return total


@pytest.mark.parametrize("numbers", [(3.0, 2.0, 3.0), (6.0, 2.0, 1.0), (3.0, 5.0, 4.0)])
def test_plans_add_up_what_prompts_do(tree: xr.DataTree, numbers: tuple[float, ...]) -> None:
    """Errors of a study are those of the dense covariance of all of its scores."""
    v = read_plan_variances(tree, fixed=(), seed=1)
    study = Study(np.nan, np.nan, *numbers)
    none = replace(v, prompt=None, shared_prompts={})
    assert v.prompt is not None
    relative = error_variance(v, study) - error_variance(none, study)
    absolute = absolute_variance(v, study) - absolute_variance(none, study)
    n = int(np.prod(numbers))
    for i in (0, 17, 3999):
        shared = {name: float(values[i]) for name, values in v.shared_prompts.items()}
        own = (float(v.prompt[i, 0]), float(v.prompt[i, 3]))
        dense = _covariance(shared, own, study)
        difference = np.repeat([1.0, -1.0], n) / n
        wanted = float(difference @ dense @ difference)
        assert relative[i, [0, 3]].sum() == pytest.approx(wanted, rel=1e-9)
        # Prompts that are read as seeds: all of their noise is that of single cells.
        as_seeds = (sum(own) + 2.0 * sum(shared.values())) / n
        assert as_seeds != pytest.approx(wanted, rel=0.01)
        level = np.repeat([1.0, 0.0], n) / n
        of_others = float(v.prompt[i].mean() - own[0]) / n
        assert absolute[i] == pytest.approx(float(level @ dense @ level) + of_others, rel=1e-9)


def test_plan_variances_of_prompts_are_those_of_the_fit(tree: xr.DataTree) -> None:
    v = read_plan_variances(tree, fixed=(), seed=1)
    for part, one in zip(("task", "language_task", "model_task"), SOURCE.shared, strict=True):
        drawn = tree["posterior"][one.sd].to_numpy().reshape(-1)
        np.testing.assert_allclose(v.shared_prompts[part], drawn**2, rtol=1e-12)
    model = read_arrays(tree).index["model"]
    own = np.stack([(_own(tree)[:, model == m] ** 2).mean(axis=1) for m in range(4)], axis=1)
    np.testing.assert_allclose(v.prompt, own, rtol=1e-9, atol=1e-12)
    assert present_study(tree, v)[2:] == (3.0, 2.0, 3.0)
    assert not [note for note in v.notes if note.startswith("prompts")]


def test_prompts_of_single_models_do_not_cancel() -> None:
    """Where no two models have a prompt in common, nothing tells what they would share."""
    frame = tables.frame(complete=True)
    design = tables.design(
        Records.from_frame(frame.assign(prompt=frame["model"] + frame["prompt"]))
    )
    drawn = prior_tree(design, np.random.default_rng(4), 100)
    v = read_plan_variances(drawn, fixed=(), seed=1)
    sd = drawn["posterior"]["sd_prompt_task"].to_numpy().reshape(-1)
    assert set(v.shared_prompts) == {"model_task"}
    np.testing.assert_allclose(v.shared_prompts["model_task"], sd**2, rtol=1e-12)
    assert any("no two models have a prompt in common" in note for note in v.notes)
    noise = read_noise(drawn)
    assert noise is not None
    run = noise.one_run(np.zeros(noise.run_variance.shape), np.random.default_rng(1))
    # What a run's prompt does to one model tells nothing of another.
    code = read_arrays(drawn).index
    cells = [np.flatnonzero((code["model"] == m) & (code["task"] == 0))[0] for m in (0, 1)]
    assert_within_mcse(run[:, cells[0]] * run[:, cells[1]], 0.0, min_ess=100.0)


def test_more_prompts_are_planned_and_paid(tree: xr.DataTree) -> None:
    records = be.Records.from_frame(tables.frame(complete=True).query("prompt == 'p0'"))
    fit = replace(be.fit(records, "paper", engine="ml"), data=tree)
    found = be.plan(fit, prompts=[1, 2, 50], languages=[3], tasks=[2], cost_item=1, cost_prompt=10)
    table = found.table.set_index("prompts")
    assert table.loc[3.0, "present"]
    assert table.loc[[1.0, 2.0, 50.0], "cost"].tolist() == [26.0, 52.0, 1300.0]
    assert table.loc[[1.0, 2.0, 3.0, 50.0], "sd_difference_mean"].is_monotonic_decreasing
    assert "2 tasks, 3 prompts; sd" in found.sentence
    assert "unlimited prompts would leave an sd of" in found.sentence
    assert "more prompts" in str(found)
    with pytest.raises(be.BayesevalError, match="no information on several prompts or judges"):
        be.plan(replace(fit, data=_without_prompts()), prompts=[2])


def _without_prompts() -> xr.DataTree:
    frame = tables.frame(complete=True).groupby(["model", "language", "task"], as_index=False)
    averaged = frame["score"].mean()
    return prior_tree(tables.design(Records.from_frame(averaged)), np.random.default_rng(1), 50)


def test_what_does_not_know_prompts_says_so(tree: xr.DataTree) -> None:
    not_pooled = prior_tree(tables.design(replicates={"pool": False}), np.random.default_rng(1), 10)
    with pytest.raises(be.BayesevalError, match="how many prompts the cells have.* pool: true"):
        read_plan_variances(not_pooled, fixed=(), seed=1)
    with pytest.raises(be.BayesevalError, match="noise of replicates .seeds, bootstraps, prompts."):
        restore_design(tree, DESIGN.spec)


def test_held_out_means_have_as_many_prompts_as_the_table() -> None:
    fit = SimpleNamespace(design=DESIGN, records=tables.records())
    assert SOURCE.by_cell is not None
    measured = measured_cells(fit)  # type: ignore[arg-type]
    np.testing.assert_array_equal(measured.n_prompts, SOURCE.by_cell.count)
    assert np.isnan(measured.n_seeds).all()
