"""Effects integrated out of the density that NUTS samples, against dense linear algebra."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpyro.infer.util import potential_energy, unconstrain_fn
from scipy import linalg, stats

from bayeseval._typing import Floats
from bayeseval.design import Design, build_design
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines._density import random_point
from bayeseval.engines._integrated_effects import (
    Conditional,
    blocks_of,
    columns_of,
    conditional,
    integrates,
    split,
    with_offsets,
)
from bayeseval.engines._numpyro_density import data_of, joint_density, structure_of
from bayeseval.records import Records
from bayeseval.spec import load_spec
from tests import prompt_tables
from tests import replicate_tables as tables

SPECS: dict[str, dict[str, Any]] = {
    "additive": {},
    "sds by model": {"residual_by": "model"},
    "interactions": {"interactions": ["language:task", "model:language"]},
    "fixed effects": {"spec": "paper"},
}


@dataclass(frozen=True)
class Case:
    """A design at a point, and the distribution of its offsets there."""

    design: Design
    structure: Any
    data: dict[str, Any]
    values: dict[str, Any]
    known: dict[str, Any]
    found: Conditional

    @property
    def columns(self) -> Floats:
        """Weights of the offsets, from the terms of the design one by one."""
        parts = []
        for term in self.design.terms:
            sd = term.known_sd if term.sd is None else float(self.known[term.sd])
            weight = np.broadcast_to(sd, term.n_levels)[:, None] * np.eye(term.n_levels)
            if term.zero_sum:
                weight = weight @ (np.eye(term.n_levels) - 1.0 / term.n_levels)
            parts.append(weight[term.index])
        return np.hstack(parts)

    @property
    def rest(self) -> Floats:
        """Scores less the intercept, the centre without effects."""
        return np.asarray(self.design.score - float(self.known["intercept"]))

    @property
    def variance(self) -> Floats:
        """Of the scores given the effects."""
        return np.asarray(self.known["score_sd"], dtype=np.float64) ** 2


def case(spec: dict[str, Any], kind: str = "crossed", seed: int = 0) -> Case:
    design = with_offsets(tables.design(kind, **spec))
    assert integrates(design)
    structure = replace(structure_of(design), integrated=blocks_of(design))
    data = data_of(design) | {"columns": columns_of(design)}
    point = random_point(design, np.random.default_rng(seed))
    values = unconstrain_fn(joint_density, (structure, data), {}, point)
    zero = {b.offset: np.zeros(b.size - b.zero_sum) for b in structure.integrated}
    values = values | zero
    known, found = numpyro_engine._of_offsets(structure, data, values)
    return Case(design, structure, data, values, known, found)


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("kind", ["seeds", "crossed", "unbalanced"])
@pytest.mark.parametrize("spec", list(SPECS))
def test_the_energy_is_that_of_scores_with_the_covariance_of_all_effects(
    spec: str, kind: str
) -> None:
    one = case(SPECS[spec], kind)
    noise = np.diag(one.variance)
    covariance = noise + one.columns @ one.columns.T
    zero = np.zeros(len(one.rest))
    gain = stats.multivariate_normal.logpdf(one.rest, zero, covariance)
    gain -= stats.multivariate_normal.logpdf(one.rest, zero, noise)
    assert float(one.found.energy - one.found.at_zero) == pytest.approx(-gain, rel=1e-9)
    # Negative controls: without the determinant, and with sds a tenth too large.
    without = one.found.energy - np.log(np.diag(one.found.root)).sum()
    assert float(without - one.found.at_zero) != pytest.approx(-gain, rel=1e-3)
    wider = noise + 1.1**2 * one.columns @ one.columns.T
    other = stats.multivariate_normal.logpdf(one.rest, zero, wider)
    assert other - stats.multivariate_normal.logpdf(one.rest, zero, noise) != pytest.approx(
        gain, rel=1e-4
    )


@pytest.mark.parametrize("spec", list(SPECS))
def test_the_joint_energy_at_offsets_is_that_of_the_joint_density(spec: str) -> None:
    one = case(SPECS[spec])
    for seed in range(3):
        offsets = one.found.draw(jax.random.key(seed), one.structure.integrated)
        drawn = split(offsets, one.structure.integrated)
        for term in one.design.terms:
            if term.zero_sum:
                assert float(drawn[term.offset].sum()) == pytest.approx(0.0, abs=1e-9)
        point = {**one.known, **drawn}
        free = unconstrain_fn(joint_density, (one.structure, one.data), {}, point)
        expected = potential_energy(joint_density, (one.structure, one.data), {}, free)
        found = one.found.joint_energy(offsets)
        assert float(found) == pytest.approx(float(expected), rel=1e-9)
        # Negative control: the energy at other offsets.
        assert float(one.found.joint_energy(1.01 * offsets)) != pytest.approx(
            float(expected), rel=1e-9
        )


@pytest.mark.parametrize("spec", ["sds by model", "interactions"])
def test_offsets_have_the_mean_and_the_covariance_of_the_conditional_distribution(
    spec: str,
) -> None:
    one = case(SPECS[spec])
    keys = jax.random.split(jax.random.key(5), 20_000)
    drawn = np.asarray(jax.vmap(lambda key: one.found.draw(key, one.structure.integrated))(keys))
    scaled = one.columns / np.sqrt(one.variance)[:, None]
    covariance = np.linalg.inv(np.eye(scaled.shape[1]) + scaled.T @ scaled)
    mean = covariance @ scaled.T @ (one.rest / np.sqrt(one.variance))
    of_centred = linalg.block_diag(
        *(np.eye(b.size) - b.zero_sum / b.size for b in one.structure.integrated)
    )
    mean, covariance = of_centred @ mean, of_centred @ covariance @ of_centred
    error = np.sqrt(np.diag(covariance) / len(drawn))
    assert (np.abs(drawn.mean(0) - mean) < 5.0 * error).all()
    # The variance of a variance, or of a covariance, of normal draws.
    outer = np.outer(np.diag(covariance), np.diag(covariance))
    error = np.sqrt((outer + covariance**2) / len(drawn))
    assert (np.abs(np.cov(drawn.T) - covariance) < 5.0 * error + 1e-12).all()
    # Negative control: the mean and the covariance of the offsets without scores.
    assert (np.abs(drawn.mean(0)) > 5.0 * np.sqrt(np.diag(covariance) / len(drawn))).mean() > 0.5
    assert (np.abs(np.diag(np.cov(drawn.T) - of_centred)) > 5.0 * np.diag(error)).any()


def test_the_columns_of_two_terms() -> None:
    design = tables.design("seeds", spec="additive")
    term = design.terms[0]
    assert term.name == "language" and term.zero_sum
    varied = replace(term, known_sd=np.arange(1.0, 1.0 + term.n_levels), zero_sum=True)
    plain = replace(design.terms[1], zero_sum=False)
    columns = columns_of(replace(design, terms=(varied, plain)))
    offsets = np.random.default_rng(0).normal(size=columns.shape[1])
    first, second = offsets[: term.n_levels], offsets[term.n_levels :]
    expected = (np.arange(1.0, 1.0 + term.n_levels) * (first - first.mean()))[term.index]
    np.testing.assert_allclose(columns @ offsets, expected + second[plain.index], rtol=1e-12)


def _design(frame: pd.DataFrame) -> Design:
    return build_design(Records.from_frame(frame, name="x"), load_spec("additive"))


def test_effects_are_integrated_out_beside_replicates_on_small_tables() -> None:
    assert integrates(tables.design("crossed", spec="replicates"))
    assert not integrates(tables.design("crossed", centring={"model": "centred"}))
    assert not integrates(prompt_tables.design())
    means = tables.frame("crossed").drop_duplicates(tables.CELL).drop(columns=["seed", "boot"])
    assert not integrates(_design(means))
    large = tables.frame("seeds", n_languages=40, n_tasks=2, n_models=10)
    assert not integrates(_design(large))
    # Negative control of the last: half of the languages and of the models.
    smaller = tables.frame("seeds", n_languages=10, n_tasks=2, n_models=5)
    assert integrates(_design(smaller))


def test_the_conditional_distribution_of_one_offset() -> None:
    (block,) = (b for b in blocks_of(tables.design("seeds", spec="additive")) if b.sd == "sd_task")
    one = block._replace(size=1, zero_sum=False)
    found = conditional(
        [one],
        np.array([[1.0], [1.0]]),
        {"sd_task": 2.0},
        3.0,
        rest=np.array([1.0, 3.0]),
        variance=np.array([1.0, 4.0]),
    )
    # Precision 1 + 2^2 (1 / 1 + 1 / 4) = 6; gradient 2 (1 / 1 + 3 / 4) = 3.5.
    assert float(found.root[0, 0]) ** 2 == pytest.approx(6.0)
    assert float(found.gradient[0]) == pytest.approx(3.5)
    assert float(found.energy) == pytest.approx(3.0 - 0.5 * 3.5**2 / 6.0 + 0.5 * np.log(6.0))
