"""Effects that are nested in the levels of a factor, against the model written out in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, _importance, _marginal_schur, marginal
from bayeseval.engines._leave_out import Point
from bayeseval.engines._marginal_density import Marginal, build_marginal
from bayeseval.engines._marginal_layout import choose_elimination, lay_out
from bayeseval.errors import EngineError
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import random_sds, replicated, write_out
from tests.engines.test_marginal_density import (
    RELATIVE,
    engine_moments,
    phi_of,
    with_errors,
)

# Languages, tasks, models, and the factor whose groups leave the smallest core.
SHAPES = {"language": (7, 3, 4), "task": (3, 8, 4), "model": (3, 4, 9)}


def crossed(factor: str, errors: str = "none") -> Design:
    languages, tasks, models = SHAPES[factor]
    table = simulate(
        "crossed", n_languages=languages, n_tasks=tasks, n_models=models, seed=3
    ).records
    return with_errors(replicated(build_design(table, load_spec("crossed")), 3), errors)


@pytest.mark.parametrize("errors", ["none", "three", "all"])
@pytest.mark.parametrize("factor", SHAPES)
def test_groups_of_any_factor_leave_density_and_effects_exact(factor: str, errors: str) -> None:
    design = crossed(factor, errors)
    chosen = choose_elimination(design.terms)
    assert chosen.factor == factor
    assert len(chosen.nested) == 2
    engine, dense = build_marginal(design), write_out(design)
    assert engine.statistics.layout.n_nested == sum(term.n_levels for term in chosen.nested)
    sds = random_sds(design, np.random.default_rng(0))
    value = engine.log_likelihood(phi_of(engine, sds))[0]
    assert value == pytest.approx(dense.log_marginal(sds), rel=RELATIVE)
    # Points and squared points; effects are several points large.
    for found, expected in zip(
        engine_moments(engine, dense, sds), dense.conditional(sds), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_a_forgotten_constraint_of_nested_effects_would_be_noticed() -> None:
    """Negative control of the test above."""
    design = crossed("language")
    engine, dense = build_marginal(design), write_out(design)
    sds = random_sds(design, np.random.default_rng(0))
    layout = engine.statistics.layout
    assert layout.last is not None
    assert len(layout.last) == 7
    free = replace(engine, statistics=replace(engine.statistics, layout=replace(layout, last=None)))
    assert abs(free.log_likelihood(phi_of(engine, sds))[0] - dense.log_marginal(sds)) > 1e-3


@pytest.mark.parametrize("spec", ["interaction", "crossed", "dataset"])
def test_groups_and_one_dense_matrix_have_the_same_density_on_mega(spec: str) -> None:
    design = build_design(load("mega"), load_spec(spec))
    engine = build_marginal(design)
    layout = engine.statistics.layout
    assert layout.n_nested > layout.n_core
    phi = np.random.default_rng(1).normal(1.5, 0.5, (3, engine.scales.n))
    dense = engine.without_nesting()
    assert dense.statistics.layout.n_nested == 0
    # Log densities of some thousands have rounding errors of 1e-11.
    np.testing.assert_allclose(engine.log_likelihood(phi), dense.log_likelihood(phi), rtol=1e-12)


@pytest.mark.parametrize("errors", ["none", "all"])
def test_left_out_records_and_groups_do_not_depend_on_the_layout(errors: str) -> None:
    design = crossed("language", errors)
    engine = build_marginal(design)
    sds = random_sds(design, np.random.default_rng(2))

    def found(engine: Marginal) -> tuple[np.ndarray, np.ndarray]:
        at = Point(engine, engine.factor(phi_of(engine, sds)))
        level = engine.statistics.cells.factors["task"]
        return at.records(design.score), at.groups([np.flatnonzero(level == i) for i in range(3)])

    nested, dense = found(engine), found(engine.without_nesting())
    for one, other in zip(nested, dense, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert np.ptp(nested[0]) > 0.1


def test_products_of_single_points_and_of_a_batch_are_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    design = crossed("language")
    engine = build_marginal(design)
    assert engine.statistics.layout.size < _marginal_schur._LARGE
    phi = np.random.default_rng(4).normal(1.5, 0.5, (5, engine.scales.n))
    together = engine.log_likelihood(phi)
    monkeypatch.setattr(_marginal_schur, "_LARGE", 0)
    np.testing.assert_allclose(engine.log_likelihood(phi), together, rtol=1e-13)
    assert np.ptp(together) > 1.0


def test_points_that_floating_point_cannot_handle_have_no_density() -> None:
    design = crossed("language")
    engine = build_marginal(design)
    good = phi_of(engine, random_sds(design, np.random.default_rng(10)))[0]
    points = np.stack([good, np.append(np.full(len(good) - 1, 30.0), -30.0), good])
    values = engine.log_likelihood(points)
    assert values[1] == -np.inf
    assert np.isfinite(values[0])
    assert values[0] == values[2]


def test_every_entry_has_a_place_of_its_own() -> None:
    # Two core coefficients; the first term has a group's last coefficient.
    layout = lay_out(2, [np.array([0, 1, 2]), np.array([2, 0, 2, 1])], zero_sum=0)
    assert [(run.size, run.n_groups) for run in layout.runs] == [(2, 2), (3, 1)]
    assert layout.columns.tolist() == [6, 2, 8, 3, 5, 7, 4]
    assert layout.last is not None
    assert layout.columns[layout.last].tolist() == [2, 3, 4]
    group = dict(zip(range(2, 9), [0, 1, 2, 2, 0, 2, 1], strict=True))
    row, column = np.tril_indices(10)
    stored = [
        (i, j)
        for i, j in zip(row, column, strict=True)
        if not (2 <= j < i < 9) or group[i] == group[j]
    ]
    rows, columns = np.array(stored).T
    place = layout.position(rows, columns)
    assert len(np.unique(place)) == len(place)
    assert place.min() >= 0
    assert place.max() == layout.size - 1


@pytest.mark.parametrize("spec", ["interaction", "crossed"])
def test_storage_is_linear_in_the_languages(spec: str) -> None:
    def size(n: int) -> int:
        table = simulate(spec, n_languages=n, n_tasks=4, n_models=3, seed=0).records
        return build_marginal(build_design(table, load_spec(spec))).statistics.layout.size

    few, more, most = size(25), size(50), size(100)
    assert most - more < 2.3 * (more - few)


def test_effects_drawn_after_the_weights_have_the_same_posterior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    design = crossed("language")
    settings = SamplerSettings(draws=500, chains=2, seed=1)
    before = marginal.sample(design, settings)
    monkeypatch.setattr(marginal, "_PREPARED_BYTES", 0.0)
    after = marginal.sample(design, settings)
    for name in ("sd_language", "sd_residual"):
        np.testing.assert_array_equal(before.posterior[name], after.posterior[name])
    one, other = (drawn.posterior["language_effect"] for drawn in (before, after))
    assert np.abs(one - other).max() > 0.1
    assert np.abs(other.sum(axis=-1)).max() < 1e-9
    spread = other.std(axis=(0, 1))
    # Means of 1,000 draws of the same distribution.
    error = spread * np.sqrt(2.0 / 1000)
    assert (np.abs(one.mean(axis=(0, 1)) - other.mean(axis=(0, 1))) < 5.0 * error).all()


def test_too_many_effects_for_nuts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_importance, "K_HAT_MAX", -np.inf)
    monkeypatch.setattr(marginal, "_MOST_FOR_NUTS", 10)
    with pytest.raises(EngineError, match="too many for NUTS on the standard deviations"):
        marginal.sample(crossed("language"), SamplerSettings(draws=100, chains=2))
