"""The density with all effects integrated out, against the model written out in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.engines import _marginal_factor
from bayeseval.engines._marginal_density import Marginal, build_marginal
from bayeseval.engines._marginal_stats import aggregate
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec
from tests.engines.exact_gaussian import (
    Dense,
    log_normal,
    random_sds,
    replicated,
    select,
    with_scores,
    with_test_sets,
    write_out,
)

GAUSSIAN = ("additive", "interaction", "crossed", "paper")

# Specs beside the shipped ones: a term that is not zero-sum is the largest, all
# interactions, and each main effect fixed.
OTHERS = {
    "population": ModelSpec(name="population", population="models"),
    "everything": ModelSpec(
        name="everything",
        interactions=("language:task", "model:task", "model:language", "model:language:task"),
    ),
    "fixed": ModelSpec(name="fixed", effects={"model": "fixed", "language": "fixed"}),
}

# Errors of floating point: log densities of a few hundred to a few thousand, from
# sums of as many squares.
RELATIVE = 1e-10


def small(spec: str | ModelSpec, *, seed: int = 3) -> Design:
    """An incomplete table with up to four records per cell; `test_sets` is one of shared items."""
    if spec == "test_sets":
        return with_test_sets(small("crossed", seed=seed))
    model = OTHERS.get(spec, spec) if isinstance(spec, str) else spec
    table = simulate("crossed", n_languages=6, n_tasks=3, n_models=4, seed=seed).records
    # The three-way interaction needs more than one record in its cells.
    lenient = ModelSpec(name="crossed", interactions=load_spec("crossed").interactions)
    if isinstance(model, ModelSpec) and "model:language:task" in model.interactions:
        base = build_design(table, lenient)
        return replicated(_with_all_cells(base, model), seed)
    return replicated(build_design(table, load_spec(model)), seed)


def _with_all_cells(design: Design, spec: ModelSpec) -> Design:
    """Add the three-way term, which records without replication cannot identify."""
    two = design.term("model:task")
    stacked = np.stack([design.factor_index[f] for f in ("model", "language", "task")])
    cells, index = np.unique(stacked, axis=1, return_inverse=True)
    three = replace(
        two,
        name="model:language:task",
        factors=("model", "language", "task"),
        labels=tuple("|".join(map(str, cell)) for cell in cells.T),
        index=index.reshape(-1),
        members=dict(zip(("model", "language", "task"), cells, strict=True)),
    )
    prior = design.priors["sd_model_task"]
    return replace(
        design,
        spec=spec,
        terms=(*design.terms, three),
        priors={**design.priors, "sd_model_language_task": prior},
    )


def with_errors(design: Design, kind: str) -> Design:
    """Known standard errors: none, one value, three values, or all different."""
    rng = np.random.default_rng(11)
    n = design.n_records
    if kind == "one":
        return replace(design, se=np.full(n, 2.5))
    if kind == "three":
        return replace(design, se=rng.choice([0.0, 1.5, 6.0], n))
    return replace(design, se=rng.uniform(0.5, 6.0, n)) if kind == "all" else design


def phi_of(marginal: Marginal, sds: dict[str, float]) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log([[sds[name] for name in marginal.scales.names]])


class UnitNoise:
    """In the place of a random generator: no noise first, then one unit at a time."""

    def __init__(self) -> None:
        self.start = 1

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        noise = np.zeros(shape)
        # The last column of the first call stands for the scores and is not used.
        used = shape[1] - (self.start == 1)
        noise[self.start + np.arange(used), np.arange(used)] = 1.0
        self.start += used
        return noise


def engine_moments(
    marginal: Marginal, dense: Dense, sds: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the engine's effect draws, without drawing.

    The draws are linear in standard normal noise: without it they are the mean, and
    one unit of each gives a root of the covariance.
    """
    statistics = marginal.statistics
    count = 1 + statistics.n_kept + statistics.eliminated.size
    factor = marginal.factor(phi_of(marginal, sds))
    draws = dense.coordinates(marginal._effects(factor, np.array([count]), UnitNoise()))
    root = draws[1:] - draws[0]
    return draws[0], root.T @ root


@pytest.mark.parametrize("errors", ["none", "one", "three", "all"])
@pytest.mark.parametrize("spec", [*GAUSSIAN, *OTHERS, "test_sets"])
def test_density_is_the_multivariate_normal_of_the_scores(spec: str, errors: str) -> None:
    design = with_errors(small(spec), errors)
    marginal, dense = build_marginal(design), write_out(design)
    rng = np.random.default_rng(0)
    for _ in range(3):
        sds = random_sds(design, rng)
        value = marginal.log_likelihood(phi_of(marginal, sds))[0]
        assert value == pytest.approx(dense.log_marginal(sds), rel=RELATIVE)


@pytest.mark.parametrize("errors", ["none", "three"])
@pytest.mark.parametrize("spec", ["additive", "crossed", "population"])
def test_density_is_exact_when_a_standard_deviation_is_zero(spec: str, errors: str) -> None:
    design = with_errors(small(spec), errors)
    marginal, dense = build_marginal(design), write_out(design)
    sds = random_sds(design, np.random.default_rng(1))
    for term in design.terms:
        without_it = {**sds, term.sd: 0.0}
        value = marginal.log_likelihood(phi_of(marginal, without_it))[0]
        assert value == pytest.approx(dense.log_marginal(without_it), rel=RELATIVE)
        assert value != pytest.approx(dense.log_marginal(sds), rel=1e-4)


@pytest.mark.parametrize("errors", ["none", "all"])
@pytest.mark.parametrize("spec", GAUSSIAN)
def test_identity_of_marginal_joint_and_conditional_on_mega(spec: str, errors: str) -> None:
    """log p(y | sds) = log p(y, beta | sds) - log p(beta | y, sds), for any beta."""
    design = with_errors(build_design(load("mega"), load_spec(spec)), errors)
    marginal, dense = build_marginal(design), write_out(design)
    rng = np.random.default_rng(2)
    sds = random_sds(design, rng)
    mean, covariance = engine_moments(marginal, dense, sds)
    beta = dense.prior_mean() + dense.prior_sd(sds) * rng.normal(size=len(mean))
    right = dense.log_joint(sds, beta) - log_normal(beta - mean, covariance)
    left = marginal.log_likelihood(phi_of(marginal, sds))[0]
    assert left == pytest.approx(right, rel=1e-8)
    # The identity sees a conditional that is off by a hundredth of a point.
    wrong = dense.log_joint(sds, beta) - log_normal(beta - mean - 0.01, covariance)
    assert left != pytest.approx(wrong, rel=1e-8)


@pytest.mark.parametrize("errors", ["none", "three"])
@pytest.mark.parametrize("spec", ["additive", "crossed", "paper", "everything", "test_sets"])
def test_effects_have_the_conditional_mean_and_covariance(spec: str, errors: str) -> None:
    design = with_errors(small(spec), errors)
    marginal, dense = build_marginal(design), write_out(design)
    sds = random_sds(design, np.random.default_rng(4))
    mean, covariance = engine_moments(marginal, dense, sds)
    expected_mean, expected_covariance = dense.conditional(sds)
    # Absolute, in points and squared points; effects are several points large. The
    # reference loses digits to prior variances of 1e5 (fixed effects).
    np.testing.assert_allclose(mean, expected_mean, atol=1e-7)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-6)
    # Negative control: without the scores the same comparison fails.
    assert np.abs(np.diag(dense.prior_sd(sds) ** 2) - expected_covariance).max() > 1.0


def test_zero_sum_effects_sum_to_zero_in_every_draw() -> None:
    design = small("crossed")
    marginal = build_marginal(design, eliminate="language")
    phi = phi_of(marginal, random_sds(design, np.random.default_rng(5)))
    drawn = marginal.effects(phi, np.array([20]), seed=np.random.SeedSequence(1))
    for term in design.terms:
        sums = np.abs(drawn[term.name].sum(axis=1))
        if term.zero_sum:
            assert sums.max() < 1e-10
        else:
            assert sums.min() > 1e-3


@pytest.mark.parametrize("errors", ["none", "three"])
def test_order_of_elimination_does_not_matter(errors: str) -> None:
    design = with_errors(small("crossed"), errors)
    dense, sds = write_out(design), random_sds(design, np.random.default_rng(6))
    default = build_marginal(design)
    value = default.log_likelihood(phi_of(default, sds))[0]
    moments = engine_moments(default, dense, sds)
    for term in design.terms:
        other = build_marginal(design, eliminate=term.name)
        assert other.statistics.eliminated.name == term.name
        assert other.log_likelihood(phi_of(other, sds))[0] == pytest.approx(value, rel=RELATIVE)
        for found, expected in zip(engine_moments(other, dense, sds), moments, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_test_sets_are_never_eliminated_and_their_sds_matter() -> None:
    """Their levels have sds of their own, and elimination needs equal ones."""
    design = with_test_sets(small("additive"))
    largest = max(design.terms, key=lambda term: term.n_levels)
    assert largest.is_noise
    marginal = build_marginal(design)
    assert marginal.statistics.eliminated.name == "language"
    phi = phi_of(marginal, random_sds(design, np.random.default_rng(6)))
    # Negative control: the same number of effects with one sd is another density.
    level = replace(
        design,
        terms=tuple(
            replace(t, known_sd=np.full(t.n_levels, np.mean(t.known_sd))) if t.is_noise else t
            for t in design.terms
        ),
    )
    value = marginal.log_likelihood(phi)
    assert build_marginal(level).log_likelihood(phi) != pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("errors", ["none", "all"])
def test_order_of_records_does_not_matter(errors: str) -> None:
    design = with_errors(small("crossed"), errors)
    rows = np.random.default_rng(7).permutation(design.n_records)
    marginal, shuffled = build_marginal(design), build_marginal(select(design, rows))
    phi = phi_of(marginal, random_sds(design, np.random.default_rng(8)))
    expected = marginal.log_likelihood(phi)
    assert shuffled.log_likelihood(phi) == pytest.approx(expected, rel=RELATIVE)
    # Negative control: scores that change places do matter.
    swapped = build_marginal(with_scores(design, design.score[rows]))
    assert swapped.log_likelihood(phi) != pytest.approx(expected, rel=1e-3)


def test_the_work_does_not_grow_with_the_number_of_records() -> None:
    design = build_design(load("mega"), load_spec("crossed"))
    many = select(design, np.tile(np.arange(design.n_records), 20))
    few, more = build_marginal(design).statistics, build_marginal(many).statistics
    assert more.cells.n_cells == few.cells.n_cells == 1364
    assert more.cells.count.sum() == 20 * 1364
    for one, other in ((few.cross_map, more.cross_map), (few.link_map, more.link_map)):
        assert one.shape == other.shape
        assert one.nnz == other.nnz
    # Never a row per record and a column per coefficient: 1364 x 856 would be a million.
    assert few.cross_map.nnz + few.link_map.nnz < 100_000


def test_cells_hold_what_a_normal_likelihood_needs() -> None:
    design = with_errors(small("additive"), "three")
    cells = aggregate(design, centre=50.0)
    assert cells.n_cells < design.n_records
    for cell in range(cells.n_cells):
        rows = cells.record == cell
        scores = design.score[rows] - 50.0
        assert rows.sum() == cells.count[cell]
        assert scores.mean() == pytest.approx(cells.mean[cell], rel=1e-12)
        assert ((scores - scores.mean()) ** 2).sum() == pytest.approx(cells.within[cell], abs=1e-9)
        assert (design.se[rows] ** 2 == cells.known[cells.noise[cell]]).all()
        for factor, level in cells.factors.items():
            assert (design.factor_index[factor][rows] == level[cell]).all()


def test_a_forgotten_zero_sum_would_be_noticed() -> None:
    """Negative control: every density test above fails on the wrong constraint."""
    design = small("additive")
    marginal, dense = build_marginal(design), write_out(design)
    sds = random_sds(design, np.random.default_rng(9))
    phi, expected = phi_of(marginal, sds), dense.log_marginal(sds)
    statistics = marginal.statistics
    free_kept = tuple(replace(block, zero_sum=False) for block in statistics.kept)
    free_eliminated = replace(statistics.eliminated, zero_sum=False)
    for wrong in (
        replace(statistics, kept=free_kept),
        replace(statistics, eliminated=free_eliminated),
    ):
        value = replace(marginal, statistics=wrong).log_likelihood(phi)[0]
        assert abs(value - expected) > 1e-3


def test_points_that_floating_point_cannot_handle_have_no_density() -> None:
    design = small("additive")
    marginal = build_marginal(design)
    good = phi_of(marginal, random_sds(design, np.random.default_rng(10)))[0]
    # At exp(30) and exp(-30) it depends on the processor whether a factor exists.
    absurd = np.array([30.0, 30.0, 30.0, -60.0])
    values = marginal.log_likelihood(np.stack([good, absurd, good]))
    assert values[1] == -np.inf
    assert np.isfinite(values[[0, 2]]).all()
    assert values[0] == values[2]


@pytest.mark.parametrize("errors", ["none", "three"])
def test_points_are_independent_of_the_batch_they_come_in(errors: str) -> None:
    design = with_errors(small("interaction"), errors)
    marginal = build_marginal(design)
    phi = np.log(np.random.default_rng(12).uniform(1.0, 20.0, (50, marginal.scales.n)))
    together = marginal.log_likelihood(phi)
    apart = [marginal.log_likelihood(point[None])[0] for point in phi]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    assert len(np.unique(together)) == 50


@pytest.mark.parametrize("spec", ["additive", "population", "crossed"])
@pytest.mark.parametrize("errors", ["none", "three"])
def test_draws_of_many_levels_are_written_in_blocks(
    spec: str, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = with_errors(small(spec), errors)
    marginal = build_marginal(design)
    rng = np.random.default_rng(4)
    phi = np.stack([phi_of(marginal, random_sds(design, rng))[0] for _ in range(5)])
    repeat = np.array([3, 1, 2, 4, 3])
    whole = marginal.effects(phi, repeat, seed=np.random.SeedSequence(8))
    density = marginal.log_likelihood(phi)
    # Two draws of a level at a time, in the middle of a point too.
    monkeypatch.setattr(_marginal_factor, "_BLOCK_BYTES", 1)
    cut = marginal.effects(phi, repeat, seed=np.random.SeedSequence(8))
    assert whole.keys() == cut.keys()
    for name, values in whole.items():
        assert len(values) == 13
        np.testing.assert_array_equal(cut[name], values)
    np.testing.assert_array_equal(marginal.log_likelihood(phi), density)
