"""Importance sampling on densities whose moments and integrals are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from bayeseval.engines import _importance
from bayeseval.engines._importance import (
    K_HAT_MAX,
    Proposal,
    fit_proposal,
    quasi_random,
    refit_proposal,
    resample,
    sample_adaptively,
    weigh,
)
from bayeseval.errors import EngineError

SEEDS = np.random.SeedSequence(0).spawn(4)

COVARIANCE = np.array([[0.04, 0.03, 0.0], [0.03, 0.09, -0.01], [0.0, -0.01, 1.0]])
MEAN = np.array([2.0, -1.0, 0.5])


def normal(points: np.ndarray) -> np.ndarray:
    return stats.multivariate_normal(MEAN, COVARIANCE).logpdf(points).reshape(-1)


def skewed(points: np.ndarray) -> np.ndarray:
    """Logs of three independent gamma variables, long tails to the left; normalised."""
    shapes = np.array([1.0, 2.0, 30.0])
    return (stats.gamma(shapes).logpdf(np.exp(points)) + points).sum(axis=1)


def run(log_density, start: np.ndarray, *, n_points: int = 512, df: float = 8.0):
    n = len(start)
    proposal = fit_proposal(log_density, start[None], variances=np.full(n, 0.1), df=df)
    points, log_proposal = proposal.points(quasi_random(n_points, n, SEEDS))
    return proposal, weigh(points, log_density(points) - log_proposal, chains=4)


def test_proposal_finds_mode_and_curvature() -> None:
    proposal, _ = run(normal, np.zeros(3))
    # The search stops within a small part of a standard deviation.
    np.testing.assert_allclose(proposal.mode, MEAN, atol=0.02 * np.sqrt(np.diag(COVARIANCE)).max())
    np.testing.assert_allclose(proposal.axes @ proposal.axes.T, COVARIANCE, rtol=1e-3, atol=1e-4)
    # A normal density is as wide as its curvature says, on both sides.
    np.testing.assert_allclose(proposal.stretch, 1.0, atol=0.02)


def test_proposal_starts_again_where_the_density_is_higher() -> None:
    def two_modes(points: np.ndarray) -> np.ndarray:
        low = stats.norm(-3.0, 0.3).logpdf(points[:, 0]) - 5.0
        return np.logaddexp(low, stats.norm(4.0, 0.3).logpdf(points[:, 0]))

    starts = np.array([[-2.5], [3.0]])
    both = fit_proposal(two_modes, starts, variances=np.full(1, 0.1), df=8.0)
    one = fit_proposal(two_modes, starts[:1], variances=np.full(1, 0.1), df=8.0)
    assert both.mode[0] == pytest.approx(4.0, abs=0.02)
    assert one.mode[0] == pytest.approx(-3.0, abs=0.02)


def test_stretch_follows_a_long_tail() -> None:
    proposal, weighted = run(skewed, np.zeros(3))
    # Log of an exponential variable falls off like exp(phi) to the left.
    first = np.argmax(np.abs(proposal.axes).max(axis=0))
    below, above = proposal.stretch[:, first]
    if proposal.axes[0, first] < 0:
        below, above = above, below
    assert below > 1.4
    assert above < 0.8
    assert weighted.k_hat < 0.7


@pytest.mark.parametrize("stretch", [[[1.0, 1.0], [1.0, 1.0]], [[3.0, 0.6], [0.8, 1.5]]])
def test_proposal_density_is_that_of_its_points(stretch: list[list[float]]) -> None:
    axes = np.array([[0.5, 0.1], [0.0, 0.8]])
    proposal = Proposal(mode=np.zeros(2), axes=axes, stretch=np.array(stretch), df=8.0)
    points, log_density = proposal.points(quasi_random(4096, 2, SEEDS[:1]))
    # The integral of any density over the plane, estimated from the points.
    target = stats.multivariate_normal(np.zeros(2), 0.2 * np.eye(2))
    ratio = np.exp(target.logpdf(points) - log_density)
    assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio))
    # Negative control: a density that ignores the axes does not integrate to one.
    wrong = ratio * np.linalg.det(axes)
    assert abs(wrong.mean() - 1.0) > 20.0 * wrong.std() / np.sqrt(len(wrong))


@pytest.mark.parametrize(("density", "start"), [(normal, np.zeros(3)), (skewed, np.zeros(3))])
def test_evidence_of_a_normalised_density_is_one(density, start: np.ndarray) -> None:
    _, weighted = run(density, start)
    assert weighted.log_evidence_se < 0.02
    assert abs(weighted.log_evidence) < 5.0 * weighted.log_evidence_se

    def doubled(points: np.ndarray) -> np.ndarray:
        return density(points) + np.log(2.0)

    _, twice = run(doubled, start)
    assert twice.log_evidence == pytest.approx(np.log(2.0), abs=5.0 * twice.log_evidence_se)


def test_weighted_moments() -> None:
    _, weighted = run(normal, np.zeros(3))
    weights = np.exp(weighted.log_weights)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert weighted.efficiency > 0.8
    mean = (weights[..., None] * weighted.points).sum(axis=(0, 1))
    mcse = np.sqrt(np.diag(COVARIANCE) / weighted.ess)
    assert (np.abs(mean - MEAN) < 5.0 * mcse).all()
    # Negative control: the points alone are not draws from a skewed density.
    _, crooked = run(skewed, np.zeros(3), df=4.0)
    plain = crooked.points.mean(axis=(0, 1))[0]
    assert abs(plain - -np.euler_gamma) > 5.0 * np.sqrt(np.pi**2 / 6.0 / crooked.ess)
    weights = np.exp(crooked.log_weights)
    found = (weights * crooked.points[..., 0]).sum()
    # The log of an exponential variable has mean minus Euler's constant.
    assert abs(found - -np.euler_gamma) < 5.0 * np.sqrt(np.pi**2 / 6.0 / crooked.ess)


def test_k_hat_flags_a_proposal_that_is_too_narrow() -> None:
    good, weighted = run(normal, np.zeros(3))
    assert weighted.k_hat <= _importance.K_HAT_MAX
    narrow = Proposal(mode=good.mode, axes=0.2 * good.axes, stretch=good.stretch, df=200.0)
    points, log_proposal = narrow.points(quasi_random(512, 3, SEEDS))
    assert weigh(points, normal(points) - log_proposal, chains=4).k_hat > _importance.K_HAT_MAX


def test_a_seed_gives_the_same_points_again() -> None:
    first, again = quasi_random(16, 2, SEEDS), quasi_random(16, 2, SEEDS)
    np.testing.assert_array_equal(first, again)


def test_refitted_proposal_has_the_moments_of_the_weighted_points() -> None:
    narrow = Proposal(mode=MEAN, axes=0.6 * np.eye(3), stretch=np.ones((2, 3)), df=8.0)
    points, log_proposal = narrow.points(quasi_random(4096, 3, SEEDS))
    weighted = weigh(points, normal(points) - log_proposal, chains=4)
    refitted = refit_proposal(narrow, weighted)
    # Second moments about the mode, from more than a thousand effective points.
    np.testing.assert_allclose(refitted.axes @ refitted.axes.T, COVARIANCE, atol=0.1)
    np.testing.assert_allclose(refitted.stretch, 1.0, atol=0.15)
    np.testing.assert_array_equal(refitted.mode, MEAN)
    assert refitted.df == 8.0


def far_and_wide(points: np.ndarray) -> np.ndarray:
    """A peak that is much narrower than the slope it stands on; normalised."""
    peak = stats.norm(0.0, 0.02).logpdf(points).sum(axis=1) + np.log(0.02)
    slope = stats.norm(0.0, 1.0).logpdf(points).sum(axis=1) + np.log(0.98)
    return np.logaddexp(peak, slope)


def without_extra(
    log_density: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.random.SeedSequence], tuple[np.ndarray, None]]:
    return lambda points, _: (log_density(points), None)


def test_proposals_are_refitted_until_the_weights_can_be_relied_on() -> None:
    first = fit_proposal(far_and_wide, np.zeros((1, 2)), variances=np.full(2, 0.1), df=8.0)
    arguments = {"n_points": 512, "chains": 4, "least_ess": 400.0}

    # Negative control: the first proposal alone will not do.
    alone = sample_adaptively(
        without_extra(far_and_wide), first, seed=np.random.SeedSequence(3), tries=1, **arguments
    )
    assert alone.weighted.k_hat > _importance.K_HAT_MAX
    assert alone.proposal is first
    found = sample_adaptively(
        without_extra(far_and_wide), first, seed=np.random.SeedSequence(3), **arguments
    )
    assert found.weighted.k_hat <= _importance.K_HAT_MAX
    assert found.weighted.ess >= 400.0
    assert abs(found.weighted.log_evidence) < 5.0 * found.weighted.log_evidence_se
    assert found.proposal.axes.diagonal().min() > 5.0 * first.axes.diagonal().max()


def test_more_points_are_drawn_when_too_few_are_effective() -> None:
    first = fit_proposal(normal, np.zeros((1, 3)), variances=np.full(3, 0.1), df=8.0)

    def points_used(least_ess: float, tries: int) -> int:
        found = sample_adaptively(
            lambda points, _: (normal(points), points.copy()), first, n_points=128, chains=2,
            seed=np.random.SeedSequence(4), least_ess=least_ess, tries=tries,
        )  # fmt: skip
        # What was kept belongs to the points of the last try.
        np.testing.assert_array_equal(found.kept, found.weighted.points.reshape(-1, 3))
        return found.weighted.log_weights.size

    assert points_used(100.0, tries=4) == 256
    assert points_used(600.0, tries=4) == 1024
    # Both fall short; the one with more of them is what there is.
    assert points_used(1e9, tries=2) == 512


def test_effective_points_of_a_tail_by_hand() -> None:
    points = np.random.default_rng(0).permutation(200.0 * np.eye(1) + np.arange(200)[:, None])
    assert _importance._tail_ess(points, np.full(200, 1 / 200)) == pytest.approx(200.0, rel=1e-9)
    # The uppermost point alone is the tail of 6 %; with the others there are many points.
    weights = np.where(points[:, 0] == points.max(), 0.06, 0.94 / 199)
    squares = 0.06**2 * 0.94**2 + 199 * (0.94 / 199) ** 2 * 0.06**2
    assert _importance._tail_ess(points, weights) == pytest.approx(0.06 * 0.94 / squares)
    assert _importance._tail_ess(points, weights) < 25.0
    assert 1.0 / np.sum(weights**2) > 120.0


def test_more_points_are_drawn_when_too_few_make_up_a_tail() -> None:
    """A wide proposal has enough points, and after a refit few of them in the tails."""
    first = fit_proposal(normal, np.zeros((1, 3)), variances=np.full(3, 0.1), df=8.0)

    def found(least_tail_ess: float) -> list[int]:
        sizes: list[int] = []

        def evaluate(points, _):
            sizes.append(len(points))
            return normal(points), None

        last = sample_adaptively(
            evaluate, first, n_points=128, chains=2, seed=np.random.SeedSequence(4),
            least_ess=100.0, least_tail_ess=least_tail_ess,
        )  # fmt: skip
        assert last.weighted.tail_ess >= least_tail_ess
        return sizes

    assert found(100.0) == [256]
    # Doubled first, and then as often as the weights say.
    assert found(1500.0) == [256, 512, 2048]


def test_points_without_density_get_no_weight() -> None:
    points = np.random.default_rng(0).normal(size=(400, 1))
    log_ratio = np.where(points[:, 0] > 0.0, -0.1 * points[:, 0], -np.inf)
    weighted = weigh(points, log_ratio, chains=4)
    weights = np.exp(weighted.log_weights.reshape(-1))
    assert weights[points[:, 0] <= 0.0].sum() < 1e-6
    assert np.exp(weighted.log_evidence) == pytest.approx(np.exp(log_ratio).mean(), rel=1e-12)


def test_chains_have_points_of_their_own() -> None:
    points = quasi_random(64, 2, np.random.SeedSequence(0).spawn(4)).reshape(4, 64, 2)
    assert len(np.unique(points.reshape(-1, 2), axis=0)) == 256
    again = quasi_random(64, 2, np.random.SeedSequence(0).spawn(4)).reshape(4, 64, 2)
    np.testing.assert_array_equal(points, again)
    # Quasi-random: every quarter of every axis holds a quarter of each chain's points.
    for chain in points:
        for axis in chain.T:
            assert np.histogram(axis, bins=4, range=(0.0, 1.0))[0].tolist() == [16] * 4


def test_resampling_gives_every_point_its_share() -> None:
    rng = np.random.default_rng(1)
    log_weights = rng.normal(0.0, 1.0, 300)
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    chosen, repeat = resample(log_weights, 1000, rng)
    assert repeat.sum() == 1000
    assert len(np.unique(chosen)) == len(chosen)
    count = np.zeros(300)
    count[chosen] = repeat
    # Systematic resampling rounds the share of every point up or down.
    assert (np.abs(count - 1000 * weights) < 1.0 + 1e-9).all()
    assert not np.array_equal(chosen, np.sort(chosen))


def test_neighbouring_duplicates_keep_the_effective_sample_size_honest() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4, 250))
    log_weights = np.zeros(250)
    chains, shuffled = [], []
    for chain in values:
        chosen, repeat = resample(log_weights, 1000, rng)
        chains.append(np.repeat(chain[chosen], repeat))
        shuffled.append(rng.permutation(chains[-1]))
    size = array_stats.ess(np.stack(chains), chain_axis=0, draw_axis=1, method="bulk")
    # A thousand values, each four times; 20 % is what the estimate itself varies by.
    assert size == pytest.approx(1000.0, rel=0.2)
    # Negative control: scattered duplicates look like four thousand values.
    fooled = array_stats.ess(np.stack(shuffled), chain_axis=0, draw_axis=1, method="bulk")
    assert fooled > 3000.0


def test_weights_of_which_nearly_all_are_negligible_are_not_reliable() -> None:
    points = np.zeros((512, 1))
    ratio = np.full(512, -np.inf)
    ratio[:3] = 0.0
    weighted = weigh(points, ratio, chains=2)
    assert np.isfinite(weighted.log_weights).all()
    assert not weighted.k_hat <= K_HAT_MAX
    assert weighted.ess == pytest.approx(3.0)


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_a_density_without_a_mode_is_refused_in_one_line(value: float) -> None:
    with pytest.raises(EngineError, match="has no mode that importance sampling can start from"):
        weigh(np.zeros((64, 1)), np.full(64, value), chains=2)

    def density(points: np.ndarray) -> np.ndarray:
        return np.where(np.abs(points[:, 0]) < 1e-3, 0.0, value)

    with pytest.raises(EngineError, match="has no mode that importance sampling can start from"):
        fit_proposal(density, np.zeros((1, 1)), variances=np.ones(1), df=5.0)
