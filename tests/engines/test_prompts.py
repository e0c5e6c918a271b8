"""The density of scores by prompt: two backends, and the dense density of all scores."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayeseval import names
from bayeseval.design import Design
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines._likelihood import shared_noise
from bayeseval.engines._prompt_effects import arrays_of, with_prompts
from bayeseval.engines.base import pointwise_log_likelihood
from tests import prompt_tables as tables

REL = 1e-8


def _with_forms(design: Design, *centred: bool) -> Design:
    """The same design with other forms of the effects that cells share."""
    source = tables.source(design)
    assert source.by_cell is not None
    assert design.replicates is not None
    shared = tuple(
        replace(one, centred=own) for one, own in zip(source.shared, centred, strict=True)
    )
    other = replace(source, by_cell=replace(source.by_cell, shared=shared))
    return replace(design, replicates=replace(design.replicates, sources=(other,)))


def test_backends_agree() -> None:
    design = _with_forms(tables.design(), True, False, False)
    point = random_point(design, np.random.default_rng(3))
    ours = pymc_engine.log_density(design, point)
    theirs = numpyro_engine.log_density(design, point)
    assert set(ours) == set(theirs) == {*sampled_variables(design), "score", names.CONTRASTS}
    for name, value in ours.items():
        assert value == pytest.approx(theirs[name], rel=REL), name
    posterior = to_posterior(design, point)
    likelihood = pointwise_log_likelihood(design, posterior).sum()
    assert ours["score"] == pytest.approx(likelihood, rel=REL)
    assert ours[names.CONTRASTS] == pytest.approx(_contrasts(design, posterior), rel=REL)


def _contrasts(design: Design, posterior: dict[str, np.ndarray]) -> float:
    """Density of the contrasts among the prompts of all cells."""
    source = tables.source(design)
    assert source.by_cell is not None
    sums = source.by_cell.sums([posterior[one.effect] for one in source.shared])
    variance = posterior[names.source_cell_sd(source.name)] ** 2
    return float(source.by_cell.log_density(sums, variance).sum())


def test_the_density_is_that_of_all_scores() -> None:
    """Given the effects, the scores of a cell share its residual and nothing else."""
    records = tables.records()
    design = tables.design(records)
    posterior = to_posterior(design, random_point(design, np.random.default_rng(5)))
    table, source = records.table, tables.source(design)
    eta = posterior["intercept"] + sum(
        posterior[f"{f}_effect"][design.factor_index[f]] for f in names.FACTORS
    )
    levels = {one.name: dict(zip(one.labels, posterior[one.effect], strict=True))
              for one in source.shared}  # fmt: skip
    assert [*levels] == ["prompt:task", "prompt:language:task", "prompt:model:task"]
    total, naive = 0.0, 0.0
    codes = np.stack([records.codes(f) for f in names.FACTORS])
    sizes = []
    for i in range(design.n_records):
        own = np.stack([design.factor_index[f][i] for f in names.FACTORS])
        rows = table[(codes == own[:, None]).all(axis=0)]
        sizes.append(len(rows))
        means = np.array(
            [
                eta[i]
                + levels["prompt:task"][f"{row.prompt}|{row.task}"]
                + levels["prompt:language:task"][f"{row.prompt}|{row.language}|{row.task}"]
                + levels["prompt:model:task"][f"{row.prompt}|{row.task}|{row.model}"]
                for row in rows.itertuples()
            ]
        )
        f2 = posterior["sd_prompt_cell"][source.of_record[i]] ** 2
        covariance = f2 * np.eye(len(rows)) + posterior["sd_residual"] ** 2
        scores = rows["score"].to_numpy()
        total += stats.multivariate_normal.logpdf(scores, means, covariance)
        naive += stats.multivariate_normal.logpdf(scores, np.full(len(rows), eta[i]), covariance)
    assert sorted(set(sizes)) == [1, 2, 3]
    # The mean is that of orthonormal contrasts, over the root of the number of prompts.
    jacobian = 0.5 * np.log(sizes).sum()
    ours = pointwise_log_likelihood(design, posterior).sum() + _contrasts(design, posterior)
    assert ours - jacobian == pytest.approx(total, rel=1e-10)
    assert ours - jacobian != pytest.approx(naive, rel=1e-2)


def test_a_model_on_some_prompts_has_the_mean_of_their_effects() -> None:
    design = tables.design()
    source = tables.source(design)
    posterior = to_posterior(design, random_point(design, np.random.default_rng(6)))
    first, *others = source.shared
    posterior |= {one.effect: np.zeros(one.n_levels) for one in others}
    easy = np.array([20.0 if label.startswith("p2|") else 0.0 for label in first.labels])
    shift = shared_noise(design, posterior | {first.effect: easy})
    assert shift is not None
    model = np.array(design.coords["model"])[design.factor_index["model"]]
    assert set(shift[model == "p"]) == {0.0}
    assert set(np.round(shift[(model == "m") | (model == "o")], 9)) == {round(20.0 / 3.0, 9)}


def test_the_form_of_shared_effects_does_not_change_the_model() -> None:
    design = tables.design()
    one, other = _with_forms(design, True, True, True), _with_forms(design, False, False, False)
    point = random_point(other, np.random.default_rng(8))
    moved, jacobian = dict(point), 0.0
    for effect, twin in zip(tables.source(other).shared, tables.source(one).shared, strict=True):
        moved[twin.drawn] = point[effect.sd] * moved.pop(effect.drawn)
        jacobian += effect.n_levels * np.log(point[effect.sd])
    first, second = to_posterior(other, point), to_posterior(one, moved)
    for name, values in first.items():
        np.testing.assert_allclose(second[name], values, rtol=1e-12)
    assert sum(numpyro_engine.log_density(other, point).values()) - jacobian == pytest.approx(
        sum(numpyro_engine.log_density(one, moved).values()), rel=1e-10
    )


def _normal_to_effects(design: Design, z: np.ndarray) -> tuple[np.ndarray, float]:
    """Effects of prompts at standard normal variables, and the log determinant."""
    source = tables.source(design)
    posterior = to_posterior(design, random_point(design, np.random.default_rng(1)))
    shared = [(one.effect, one.sd) for one in source.shared]
    ends = np.cumsum([one.n_levels for one in source.shared])[:-1]
    values = dict(zip([name for name, _ in shared], jnp.split(jnp.asarray(z), ends), strict=True))
    moved, log_determinant = with_prompts(
        source.name, shared, arrays_of(source.by_cell), posterior, values
    )
    return jnp.concatenate([moved[name] for name, _ in shared]), log_determinant


def test_the_jacobian_of_sampled_effects_is_exact() -> None:
    """With cells that lack prompts."""
    design = tables.design()
    n = sum(one.n_levels for one in tables.source(design).shared)
    z = np.random.default_rng(2).normal(size=n)
    with jax.enable_x64(True):
        program = jax.jacobian(lambda x: (_normal_to_effects(design, x),) * 2, has_aux=True)
        (matrix, _), (_, found) = jax.jit(program)(jnp.asarray(z))
    sign, expected = np.linalg.slogdet(np.asarray(matrix))
    assert sign == 1.0
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_sampled_effects_are_independent_of_what_contrasts_say() -> None:
    """With one effect and equal sds, contrasts and prior leave standard normal variables."""
    design = tables.design(tables.records(complete=True))
    source = tables.source(design)
    by_cell = replace(source.by_cell, shared=source.shared[:1])
    variance, sd = np.full(source.n_cells, 0.7**2), 2.5
    known = {"sd_prompt_task": sd, "sd_residual": 1.3, "sd_prompt_cell": np.sqrt(variance)}
    (one,) = by_cell.shared

    def rest(z: np.ndarray) -> float:
        with jax.enable_x64(True):
            moved, log_determinant = with_prompts(
                "prompt", [(one.effect, one.sd)], arrays_of(by_cell), known,
                {one.effect: jnp.asarray(z)},
            )  # fmt: skip
        effect = np.asarray(moved[one.effect])
        contrasts = by_cell.log_density(by_cell.sums([effect]), variance).sum()
        density = contrasts + stats.norm.logpdf(effect, scale=sd).sum() + float(log_determinant)
        return float(density - stats.norm.logpdf(z).sum())

    rng = np.random.default_rng(4)
    # Of the mean over prompts, contrasts say nothing: z that sum to zero in each task.
    task = arrays_of(by_cell)["shared"][0]["group"]
    draws = rng.normal(size=(3, one.n_levels))
    for i in np.unique(task):
        draws[:, task == i] -= draws[:, task == i].mean(axis=1, keepdims=True)
    at = [rest(z) for z in draws]
    assert at[1:] == pytest.approx([at[0]] * 2, rel=1e-10)
    assert rest(draws[0] + 1.0) != pytest.approx(at[0], rel=1e-3)


def test_left_out_records_leave_the_contrasts() -> None:
    """Refits without a record keep what its prompts say about the noise."""
    design = tables.design()
    assert design.replicates is not None
    kept = np.arange(design.n_records) != 4
    (source,) = design.replicates.take(kept).sources
    posterior = to_posterior(design, random_point(design, np.random.default_rng(9)))
    smaller = replace(design, replicates=design.replicates.take(kept))
    np.testing.assert_array_equal(
        shared_noise(smaller, posterior), shared_noise(design, posterior)[kept]
    )
    assert source.by_cell is tables.source(design).by_cell
