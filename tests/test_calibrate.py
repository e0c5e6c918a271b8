"""Simulation-based calibration: ranks, bands, a small run, and errors that it must find."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import beta, betabinom, binom, binomtest

import bayeseval as be
from bayeseval import names
from bayeseval._typing import Progress
from bayeseval.calibration import Calibration, PreparedCalibration, prepare_calibration
from bayeseval.calibration.bands import coverage_interval, uniformity
from bayeseval.calibration.draw import Drawn, check_drawable, draw_table
from bayeseval.calibration.quantities import Levels
from bayeseval.calibration.ranks import randomised_rank
from bayeseval.calibration.report import format_calibration
from bayeseval.calibration.run import RANKED_DRAWS, Fitted, Job, draw_and_fit, locate, simulate_one
from bayeseval.calibration.sets import MAY_BE_BEST, SET_WORDS, TIERS, set_rows
from bayeseval.calibration.stored import read_simulations
from bayeseval.calibration.summary import independent_ranks, sentences, summarise
from bayeseval.checks.prior import prior_tree
from bayeseval.cli import main
from bayeseval.design import build_design, rescore
from bayeseval.engines import SamplerSettings
from bayeseval.errors import DesignError, EngineError, InputError
from bayeseval.estimands import derive, read_arrays
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.noise import CellNoise, model_components
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.estimands.ranks import rank_draws
from bayeseval.fitting.gate import ESS_PER_CHAIN, Gate
from bayeseval.output._integrity import digest_of
from bayeseval.output._locks import alone_in
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import Prior, load_spec
from tests.helpers import assert_within_mcse

N = 16
TINY = simulate(
    "additive", n_languages=4, n_tasks=3, n_models=3, observed_share=0.9, seed=2
).records
PREPARED = prepare_calibration("additive", like=TINY, simulations=N)
JOB = Job(PREPARED.like, PREPARED.priors, PREPARED.seed)


# Ranks, bands and coverage: exact.


@pytest.mark.parametrize(
    ("draws", "truth", "u", "rank"),
    [
        # Below, equal and above; the truth counts as one more value.
        ([1.0, 2.0, 2.0, 3.0], 2.0, 0.5, (1 + 0.5 * 3) / 5),
        ([1.0, 2.0, 3.0], 0.0, 0.0, 0.0),
        ([1.0, 2.0, 3.0], 4.0, 1.0, 1.0),
        ([1.0, 2.0, np.nan, np.nan], 1.5, 0.5, (1 + 0.5) / 3),
        ([1.0, 2.0], np.nan, 0.5, np.nan),
        ([np.nan, np.nan], 1.0, 0.5, np.nan),
    ],
)
def test_randomised_rank_by_hand(draws: list[float], truth: float, u: float, rank: float) -> None:
    found = randomised_rank(np.array(draws)[:, None], np.array([truth]), np.array([u]))
    np.testing.assert_allclose(found, [rank])


def test_randomised_ranks_of_ranks_are_uniform() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 4, size=(20, 4000)).astype(float)
    ranks = randomised_rank(values[:-1], values[-1], rng.uniform(size=4000))
    assert uniformity(4000).p_value(ranks) > 0.01
    # Not randomised, ties pile up.
    piled = randomised_rank(values[:-1], values[-1], np.zeros(4000))
    assert uniformity(4000).p_value(piled) < 0.001


def test_p_values_of_uniform_ranks_raise_few_false_alarms() -> None:
    rng = np.random.default_rng(1)
    null = uniformity(40)
    p = np.array([null.p_value(rng.uniform(size=40)) for _ in range(2000)])
    # Three standard errors of 5 % in 2000.
    assert 0.03 < (p <= 0.05).mean() < 0.065
    shifted = [null.p_value(rng.uniform(size=40) ** 2) for _ in range(100)]
    assert np.mean(np.array(shifted) <= 0.05) > 0.8


def test_band_is_that_of_arviz() -> None:
    from arviz_stats.ecdf_utils import ecdf_pit

    rng = np.random.default_rng(2)
    points, _, lower, upper = ecdf_pit(rng.uniform(size=100), 0.95, 4000, rng=rng)
    null = uniformity(100)
    # ArviZ 1 adds the ends, 0 and 1, where every band is closed.
    inner = (points > 0.0) & (points < 1.0)
    np.testing.assert_allclose(null.points, points[inner])
    ours = null.band(0.95)
    # Both simulate the width: one count of a hundred.
    np.testing.assert_allclose(ours[0], lower[inner], atol=0.0101)
    np.testing.assert_allclose(ours[1], upper[inner], atol=0.0101)


@pytest.mark.parametrize(("n", "level"), [(1, 0.1), (26, 0.05 / 13), (60, 0.1), (120, 0.01)])
def test_a_curve_keeps_inside_its_band_if_its_p_value_is_above_the_level(
    n: int, level: float
) -> None:
    rng = np.random.default_rng(3)
    null = uniformity(n)
    lower, upper = null.band(1.0 - level)
    found = []
    for power in np.linspace(0.3, 2.5, 40):
        ranks = rng.uniform(size=n) ** power
        ecdf = null.counts(ranks) / n
        found.append(null.inside(ranks, 1.0 - level))
        assert found[-1] == bool(((ecdf >= lower) & (ecdf <= upper)).all())
        assert found[-1] == (null.p_value(ranks) > level)
    assert n == 1 or 0.1 < np.mean(found) < 0.9


def test_coverage_of_independent_intervals_is_clopper_pearson() -> None:
    inside = np.array([1.0] * 37 + [0.0] * 3)
    share, lower, upper = coverage_interval(inside, np.arange(40))
    exact = binomtest(37, 40).proportion_ci(0.95)
    np.testing.assert_allclose([share, lower, upper], [37 / 40, exact.low, exact.high])


def test_coverage_of_equal_intervals_counts_simulations() -> None:
    inside = np.repeat([1.0] * 18 + [0.0] * 2, 50)
    found = coverage_interval(inside, np.repeat(np.arange(20), 50))
    # Jeffreys' interval of 18 among 20.
    exact = beta.ppf([0.025, 0.975], 18.5, 2.5)
    # The largest correlation that is looked at is 0.98.
    np.testing.assert_allclose(found, [0.9, *exact], atol=0.04)
    # As if they were independent, the interval would be six times as narrow.
    alone = coverage_interval(inside, np.arange(1000))
    assert alone[2] - alone[1] < 0.2 * (found[2] - found[1])


def test_coverage_of_dependent_intervals_is_a_beta_binomial_posterior() -> None:
    """Against the same posterior from draws of share and correlation, weighted."""
    hits, size = np.array([3, 5, 5, 1, 4]), np.array([5, 5, 5, 4, 4])
    inside = np.concatenate(
        [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, size, strict=True)]
    )
    share, lower, upper = coverage_interval(inside, np.repeat(np.arange(5), size))
    rng = np.random.default_rng(7)
    mean, correlation = rng.beta(0.5, 0.5, 200_000), rng.uniform(size=200_000)
    factor = (1.0 - correlation) / correlation
    log_weight = betabinom.logpmf(
        hits[:, None], size[:, None], mean * factor, (1.0 - mean) * factor
    ).sum(axis=0)
    order = np.argsort(mean)
    below = np.cumsum(np.exp(log_weight)[order])
    expected = np.interp([0.025, 0.975], below / below[-1], mean[order])
    assert share == 18 / 23
    np.testing.assert_allclose([lower, upper], expected, atol=0.01)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_coverage_of_0_and_1_is_inside_its_interval(value: float) -> None:
    share, lower, upper = coverage_interval(np.full(60, value), np.repeat(np.arange(20), 3))
    assert share == value == (upper if value else lower)
    # Not wider than that of one value of each simulation.
    assert 0.0 < (1.0 - lower if value else upper) < 1.0 - 0.025 ** (1 / 20)


# Designs with other scores, and tables drawn from priors.


def test_rescore_with_the_same_scores_is_the_same_design() -> None:
    design = build_design(TINY, load_spec("paper"))
    again = rescore(design, design.score, scaled=True)
    assert dict(again.priors) == dict(design.priors)
    assert [(t.name, t.known_sd, t.centred) for t in again.terms] == [
        (t.name, t.known_sd, t.centred) for t in design.terms
    ]
    assert again.coords == design.coords


def test_rescore_keeps_or_scales_the_priors() -> None:
    design = build_design(TINY, load_spec("paper"))
    kept, scaled = (rescore(design, 3.0 * design.score, scaled=s) for s in (False, True))
    assert dict(kept.priors) == dict(design.priors)
    assert kept.term("language").known_sd == design.term("language").known_sd
    assert scaled.priors["sd_model"].scale == pytest.approx(3.0 * design.priors["sd_model"].scale)
    assert scaled.term("language").known_sd == pytest.approx(3.0 * design.term("language").known_sd)
    np.testing.assert_array_equal(kept.score, 3.0 * design.score)
    np.testing.assert_array_equal(kept.outcome.linear, 3.0 * design.score)


@pytest.mark.parametrize("spec", ["bounded", "counts"])
def test_drawn_scores_keep_to_bounds_and_items(spec: str) -> None:
    records = simulate(spec, n_languages=4, n_tasks=2, n_models=3, seed=1).records
    design = build_design(records, load_spec(spec))
    for seed in range(5):
        drawn = draw_table(design, records, np.random.default_rng(seed)).design
        assert ((drawn.score >= 0.0) & (drawn.score <= 100.0)).all()
        assert dict(drawn.priors) == dict(design.priors)
        if spec == "counts":
            assert drawn.outcome.n is not None
            assert drawn.outcome.k is not None
            np.testing.assert_array_equal(drawn.outcome.n, design.outcome.n)
            np.testing.assert_allclose(100.0 * drawn.outcome.k / drawn.outcome.n, drawn.score)


def test_a_drawn_table_at_one_end_of_the_scale_is_refused() -> None:
    """Such a table of `logit` ended in an error of NumPy, simulation 60 of its default table."""
    records = simulate("logit", n_languages=4, n_tasks=2, n_models=3, seed=1).records
    design = build_design(records, load_spec("logit"))
    far = Prior(dist="normal", loc=30.0, scale=1.0)
    beyond = replace(design, priors={**design.priors, "intercept": far})
    with pytest.raises(DesignError, match="all scores of the drawn table are at one end of the"):
        draw_table(beyond, records, np.random.default_rng(0))


def test_drawn_residuals_have_the_sd_of_the_truth() -> None:
    design = PREPARED.like.design
    ratios = []
    for seed in range(60):
        drawn = draw_table(design, TINY, np.random.default_rng(seed))
        posterior = drawn.truth["posterior"].to_dataset().isel(chain=0, draw=0)
        eta = float(posterior["intercept"]) + sum(
            posterior[names.effect_name(f)].values[design.factor_index[f]] for f in names.FACTORS
        )
        ratios.append(np.mean((drawn.design.score - eta) ** 2) / posterior["sd_residual"] ** 2)
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1.0) < 5.0 * error < 0.2


def mean_square_ratios(drawn: Drawn) -> dict[str, np.ndarray]:
    """Mean squares of drawn replicates over those that the likelihood expects, by source."""
    own, posterior = drawn.design.replicates, drawn.truth["posterior"]
    assert own is not None
    expected = np.zeros(len(own.squares))
    for source in own.sources:
        sd = posterior[names.source_cell_sd(source.name)].values[0, 0]
        expected += own.weight[source.name] * sd[own.cell[source.name]] ** 2
    of_source = np.repeat([s.name for s in own.sources], [s.n_cells for s in own.sources])
    ratio = own.squares / own.df / expected
    return {str(name): ratio[of_source == name] for name in np.unique(of_source)}


def test_drawn_replicates_have_the_mean_squares_of_the_truth() -> None:
    """Rows drawn one by one against the expected mean squares of the likelihood.

    Were omega added once more to a run, those of seeds would be too large.
    """
    records = simulate(
        "additive", n_languages=3, n_tasks=2, n_models=2, observed_share=1.0, n_seeds=3, n_boot=4
    ).records
    design = build_design(records, load_spec("additive"))
    ratios: dict[str, list[float]] = {}
    for seed in range(25):
        drawn = draw_table(design, records, np.random.default_rng(seed))
        for name, ratio in mean_square_ratios(drawn).items():
            ratios.setdefault(name, []).append(float(ratio.mean()))
    assert set(ratios) == {"seed", "boot", "seed_boot"}
    for name, values in ratios.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        # Five standard errors; with omega counted twice seeds have a ratio of about 1.5.
        assert abs(np.mean(values) - 1.0) < 5.0 * error < 0.45, name


def test_drawn_test_sets_are_shared_as_the_design_says() -> None:
    """Means of the cells of a language and task have the covariance of its test set."""
    records = simulate(
        "additive", n_languages=4, n_tasks=2, n_models=3, observed_share=1.0, n_seeds=2, n_boot=6
    ).records
    frame = records.table
    test_set = frame["language"] + frame["task"] + frame["boot"].astype(str)
    common = dict(zip(sorted(set(test_set)), np.random.default_rng(1).normal(size=48), strict=True))
    frame["score"] += 25.0 * test_set.map(common)
    records = Records.from_frame(frame, name="shared")
    design = build_design(records, load_spec("additive"))
    shared = [term for term in design.terms if term.is_noise]
    assert "test_set:language:task" in {term.name for term in shared}
    boot = next(source for source in design.sources if source.name == "boot")
    assert 0.0 < boot.share.max() < 0.5
    language, task = (design.factor_index[factor] for factor in ("language", "task"))
    same = np.equal.outer(language, language) & np.equal.outer(task, task)
    np.fill_diagonal(same, False)
    known = sum(np.asarray(term.known_sd)[term.index] ** 2 for term in shared)
    found: dict[str, list[float]] = {"variance": [], "covariance": [], "mean square": []}
    weights: list[float] = []
    for seed in range(30):
        drawn = draw_table(design, records, np.random.default_rng(seed))
        replicates, posterior = drawn.design.replicates, drawn.truth["posterior"]
        assert replicates is not None
        off = drawn.design.score - linear_predictor(read_arrays(drawn.truth))[0]
        expected = known + float(posterior["sd_residual"].values[0, 0]) ** 2
        for source in replicates.sources:
            sd = posterior[names.source_cell_sd(source.name)].values[0, 0]
            expected = expected + source.share * sd[source.of_record] ** 2
            if source.name == "boot":
                np.testing.assert_allclose(source.share, boot.share, rtol=1e-12)
        # Of tables with little other noise, products tell most of the covariance.
        weight = np.outer(known / expected, known / expected)[same]
        weights.append(float(weight.mean()))
        products = (np.outer(off, off) / known[:, None])[same]
        found["covariance"].append(float((weight * (products - 1.0)).mean()))
        found["variance"].append(float((off**2 / expected - 1.0).mean()))
        found["mean square"].append(float(np.mean(mean_square_ratios(drawn)["boot"]) - 1.0))
    for name, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values)) < 4.0 * error, (name, np.mean(values), error)
    # Negative control: without covariance, as of test sets that are not shared, it is found.
    error = np.std(found["covariance"], ddof=1) / np.sqrt(len(weights))
    assert np.mean(weights) > 4.0 * error


def test_drawn_prompts_are_those_of_the_truth() -> None:
    """Contrasts and means of cells have the variances of the likelihood, given the truth."""
    records = simulate(
        "additive",
        n_languages=4,
        n_tasks=2,
        n_models=3,
        n_prompts=4,
        observed_share=0.9,
        drop_share=0.3,
    ).records
    design = build_design(records, load_spec("additive"))
    contrasts, means, naive = [], [], []
    for seed in range(25):
        drawn = draw_table(design, records, np.random.default_rng(seed))
        posterior = drawn.truth["posterior"].to_dataset().isel(chain=0, draw=0)
        (source,) = drawn.design.sources
        assert source.by_cell is not None
        by_cell = source.by_cell
        sums = by_cell.sums([posterior[one.effect].to_numpy() for one in source.shared])
        variance = posterior["sd_prompt_cell"].to_numpy() ** 2
        shift = by_cell.means(sums)
        rest = (by_cell.deviation - sums + shift[:, None]) * by_cell.there
        several = by_cell.count > 1
        df = (by_cell.count - 1)[several]
        contrasts.append(float(np.mean((rest**2).sum(1)[several] / variance[several] / df)))
        naive.append(
            float(np.mean((by_cell.deviation**2).sum(1)[several] / variance[several] / df))
        )
        eta = float(posterior["intercept"]) + sum(
            posterior[names.effect_name(f)].to_numpy()[design.factor_index[f]]
            for f in names.FACTORS
        )
        total = float(posterior["sd_residual"]) ** 2 + variance / by_cell.count
        means.append(float(np.mean((drawn.design.score - eta - shift) ** 2 / total)))
        assert drawn.design.priors == design.priors
    assert_within_mcse(contrasts, 1.0, min_ess=25.0)
    assert_within_mcse(means, 1.0, min_ess=25.0)
    # Were the shared effects not drawn, or those of other rows, their contrasts would be wrong.
    assert np.median(naive) > 1.5


def test_prompts_that_are_not_pooled_are_refused() -> None:
    records = simulate("additive", n_languages=3, n_tasks=2, n_models=3, n_prompts=3).records
    given = load_spec("additive").model_dump() | {"name": "x", "replicates": {"pool": False}}
    with pytest.raises(InputError, match="does not draw sds between prompts that are not pooled"):
        check_drawable(build_design(records, load_spec(given)), records)


def test_published_sds_of_replicates_are_refused() -> None:
    frame = TINY.table.assign(seed_sd=1.0, n_seeds=3)
    records = be.Records.from_frame(frame, name="published", mixed_scales="allow")
    with pytest.raises(InputError, match=r"published: calibrate draws replicates row by row"):
        check_drawable(build_design(records, load_spec("additive")), records)


# A small calibration, and what it must find.


@pytest.fixture(scope="module")
def fits() -> list[Fitted]:
    return [draw_and_fit(JOB, number) for number in range(N)]


@pytest.fixture(scope="module")
def located(fits: list[Fitted]) -> list[pd.DataFrame]:
    return [locate(JOB, i, one).assign(simulation=i) for i, one in enumerate(fits)]


def table_of(fits: list[Fitted], change: Callable[[Fitted], Fitted]) -> pd.DataFrame:
    return table_from(
        [
            locate(JOB, number, change(fitted)).assign(simulation=number)
            for number, fitted in enumerate(fits)
        ]
    )


def table_from(rows: list[pd.DataFrame]) -> pd.DataFrame:
    passed = pd.DataFrame({"simulation": range(len(rows)), "status": "fitted"})
    return summarise(pd.concat(rows, ignore_index=True), passed).set_index("quantity")


def derived_again(fitted: Fitted, posterior: xr.Dataset, *, every: int = 5) -> Fitted:
    """The fit with other draws of its parameters, or some of them."""
    raw = posterior[list(fitted.truth["posterior"].data_vars)].isel(draw=slice(None, None, every))
    groups = {name: fitted.tree[name].to_dataset() for name in ("constant_data", "observed_data")}
    tree = xr.DataTree.from_dict({"posterior": raw, **groups})
    additions, estimands = derive(tree, seed=1)
    tree["posterior"] = xr.DataTree(raw.merge(additions))
    tree["estimands"] = xr.DataTree(estimands)
    return replace(fitted, tree=tree)


def test_additive_on_marginal_is_calibrated(located: list[pd.DataFrame]) -> None:
    table = table_from(located)
    assert set(table["verdict"]) == {"inside"}
    assert {"sd_language", "language_potential", "standardised_score", "score_difference"} < set(
        table.index
    )
    assert {"forecast", "standardised_score_rank", "prr"} < set(table.index)
    assert (table.loc[["language_potential", "forecast"], "n_simulations"] == N).all()
    assert (table["coverage_95_upper"] >= 0.95).all()
    assert table["band_prob"].iloc[0] == pytest.approx(1.0 - 0.05 / len(table))


def test_a_flipped_sign_is_found(fits: list[Fitted]) -> None:
    def flip(fitted: Fitted) -> Fitted:
        posterior = fitted.tree["posterior"].to_dataset()
        flipped = {"language_effect": -posterior["language_effect"]}
        return derived_again(fitted, posterior.assign(flipped))

    table = table_of(fits, flip)
    assert table.loc["language_potential", "verdict"] == "outside"
    assert table.loc["language_potential", "coverage_95_upper"] < 0.9
    assert table.loc["sd_language", "verdict"] == "inside"


def test_a_dropped_square_root_is_found(fits: list[Fitted]) -> None:
    def square(fitted: Fitted) -> Fitted:
        posterior = fitted.tree["posterior"].to_dataset()
        return derived_again(fitted, posterior.assign(sd_model=posterior["sd_model"] ** 2))

    table = table_of(fits, square)
    assert table.loc["sd_model", "verdict"] == "outside"
    assert table.loc["sd_model", "mean_rank"] < 0.2
    assert table.loc["sd_task", "verdict"] == "inside"


def test_a_prior_twice_too_narrow_is_found(fits: list[Fitted]) -> None:
    """The draws are resampled with the ratio of the half-normal densities as weights."""

    def narrow(fitted: Fitted) -> Fitted:
        posterior = fitted.tree["posterior"].to_dataset()
        log_weight = np.zeros(posterior["intercept"].shape)
        for name in ("sd_language", "sd_task", "sd_model", "sd_residual"):
            scale = fitted.design.priors[name].scale
            log_weight -= 1.5 * (posterior[name].values / scale) ** 2
        weight = np.exp(log_weight - log_weight.max()).reshape(-1)
        at = np.random.default_rng(0).choice(weight.size, weight.size, p=weight / weight.sum())
        chain, draw = np.unravel_index(at, log_weight.shape)
        index = {"chain": xr.DataArray(chain, dims="kept"), "draw": xr.DataArray(draw, dims="kept")}
        chosen = posterior.drop_vars(["chain", "draw"]).isel(index).expand_dims("chain")
        return derived_again(fitted, chosen.rename(kept="draw"))

    table = table_of(fits, narrow)
    sds = table.loc[["sd_language", "sd_task", "sd_model"]]
    assert (sds["mean_rank"] > 0.55).all()
    assert "outside" in set(sds["verdict"])


@pytest.mark.parametrize(("again", "uniform"), [(0.0, True), (1.0, False)])
def test_omega_counted_twice_is_found(again: float, uniform: bool) -> None:
    """The sd of one run as the package reports it, from the exact posteriors of conjugate priors.

    Seeds on one test set have the mean square sigma^2, bootstraps of it omega^2. Were sigma^2
    taken from runs with a test set each, omega^2 would be in it as well as beside it.
    """
    rng = np.random.default_rng(4)
    n, df, prior = 300, np.array([8.0, 12.0]), 6.0
    truth = prior / rng.chisquare(prior, size=(n, 2)) * np.array([2.0, 1.0])
    squares = truth * rng.chisquare(df, size=(n, 2)) + prior * np.array([2.0, 1.0])
    draws = squares / rng.chisquare(df + prior, size=(199, n, 2))

    def one_run(seed: np.ndarray, omega: np.ndarray) -> np.ndarray:
        """One model per simulation, each with one cell."""
        cells = np.arange(n)
        arrays = SimpleNamespace(index={names.MODEL: cells})
        sd = {"seed": np.sqrt(seed), "boot": np.sqrt(omega)}
        nothing = np.zeros_like(seed)
        noise = CellNoise(sd, {}, run_variance=nothing, mean_variance=nothing, pooled=True)
        scores = np.zeros((*seed.shape, 2))
        found = model_components(cast(PosteriorArrays, arrays), noise, scores, rng=rng)
        return found["within_sd"]

    runs = one_run(draws[..., 0] + again * draws[..., 1], draws[..., 1])
    ranks = randomised_rank(runs, np.sqrt(truth.sum(axis=1)), rng.uniform(size=n))
    assert (uniformity(n).p_value(ranks) > 0.01) is uniform
    assert uniform or uniformity(n).p_value(ranks) < 0.001


def test_sets_hold_the_truth_by_hand() -> None:
    """Three models whose draws are 3, 2 and 1 with errors, and truths in another order."""
    error = np.random.default_rng(0).uniform(-0.2, 0.2, size=(99, 3))
    draws = np.array([3.0, 2.0, 1.0]) + error
    score, rank = names.STANDARDISED_SCORE, names.rank_name(names.STANDARDISED_SCORE)

    def held(truth: list[float]) -> dict[tuple[str, str], float]:
        def levels(values: np.ndarray) -> dict[str, Levels]:
            ranks = rank_draws(values, highest_first=True)
            return {score: Levels(("a", "b", "c"), values), rank: Levels(("a", "b", "c"), ranks)}

        rows = set_rows(levels(np.vstack([draws, truth])), levels(draws))
        return {(q, level): x for q, level, x in rows[["quantity", "level", "in_95"]].to_numpy()}

    sets, best, first, second = (
        (f"{rank}_set", ""),
        (MAY_BE_BEST, ""),
        (TIERS, "1 before 2"),
        (TIERS, "2 before 3"),
    )
    assert held([3.0, 2.0, 1.0]) == {sets: 1.0, best: 1.0, first: 1.0, second: 1.0}
    assert held([3.0, 1.0, 2.0]) == {sets: 0.0, best: 1.0, first: 1.0, second: 0.0}
    assert held([1.0, 2.0, 3.0]) == {sets: 0.0, best: 0.0, first: 0.0, second: 0.0}


@pytest.mark.parametrize(("hits", "verdict"), [(60, "inside"), (54, "inside"), (45, "outside")])
def test_sets_that_hold_the_truth_too_rarely_are_outside(hits: int, verdict: str) -> None:
    held = np.array([1.0] * hits + [0.0] * (60 - hits))
    rows = pd.DataFrame({"simulation": range(60), "quantity": MAY_BE_BEST, "level": ""})
    rows = rows.assign(rank=np.nan, in_50=1.0, in_90=1.0, in_95=held)
    statuses = pd.DataFrame({"simulation": range(60), "status": "fitted"})
    (row,) = summarise(rows, statuses).to_dict("records")
    assert row["verdict"] == verdict
    # Of three tests, that of the 95 % sets.
    assert row["p_uniform"] == pytest.approx(min(1.0, 3.0 * binom.cdf(hits, 60, 0.95)))
    assert np.isnan(row["mean_rank"])
    assert row["coverage_95"] == hits / 60
    said = sentences(pd.DataFrame([row]), statuses, {"priors_of_fits": "fixed"})[0]
    named = f"models that may be best (95 % intervals hold {100 * hits / 60:.0f} %, p "
    assert (named in said) is (verdict == "outside")
    # Only the sets that there are.
    assert ("bands, and best models contain the true values" in said) is (verdict == "inside")
    assert "tiers" not in said


def test_gates_that_all_failed_are_said() -> None:
    """The table of the simulations that passed had no rows, which was a KeyError."""
    ranks = np.linspace(0.01, 0.99, 60)
    rows = pd.DataFrame(
        {"simulation": range(60), "quantity": "sd_task", "level": "", "rank": ranks}
    )
    rows = rows.assign(in_50=1.0, in_90=1.0, in_95=1.0)
    statuses = pd.DataFrame({"simulation": range(60), "status": "gate failed"})
    table = summarise(rows, statuses)
    assert table["simulations"].tolist() == ["all"]
    *_, said = sentences(table, statuses, {"priors_of_fits": "fixed"})
    assert said.startswith("The convergence gate failed in all of 60 fits:")
    # One that passed has a row of its own.
    statuses.loc[0, "status"] = "fitted"
    assert summarise(rows, statuses)["n_simulations"].tolist() == [60, 1]


REPLICATED = {"n_seeds": 3, "n_boot": 3}
RANKED = {
    "robust": {"nu", "sd_model_language", "gap_sd_languages", "forecast", "score_difference"},
    "bounded": {"dispersion_beta", "language_potential", "prr", "standardised_score_rank"},
    "counts": {"dispersion_beta_binomial", "language_potential", "prr"},
    "replicates": {"sd_seed_model", "seed_sd", "boot_sd", "seed_boot_sd", "within_sd"},
    "prompts": {"sd_prompt_model", "sd_log_prompt", "sd_prompt_model_task", "prompt_sd"},
}


@pytest.mark.parametrize("spec", RANKED)
def test_what_other_models_report_is_ranked(spec: str, tmp_path: Path) -> None:
    """Draws from the prior in the place of a fit, so that no sampler is needed."""
    of = {"replicates": REPLICATED, "prompts": {"n_prompts": 3, "drop_share": 0.2}}.get(spec, {})
    spec_used = "additive" if spec == "prompts" else spec
    drawn_from = "additive" if of else spec
    records = simulate(
        drawn_from,
        n_languages=3,
        n_tasks=2,
        n_models=3,
        observed_share=1.0,
        **of,
    ).records
    design = build_design(records, load_spec(spec_used))
    rows = []
    for number in range(2):
        rng = np.random.default_rng(number)
        drawn = draw_table(design, records, rng)
        prior = prior_tree(drawn.design, rng, 99)
        posterior = prior["posterior"].to_dataset()
        passed = Gate("pass", (), 0)
        fitted = Fitted(drawn.truth, prior, drawn.design, passed, "", number)
        fitted = derived_again(fitted, posterior, every=1)
        rows.append(locate(JOB, number, fitted).assign(simulation=number))
    found = pd.concat(rows, ignore_index=True)
    assert set(found["quantity"]) >= RANKED[spec] | set(design.priors)
    sets = found["quantity"].isin(list(SET_WORDS))
    assert found.loc[~sets, "rank"].between(0.0, 1.0).all()
    assert found.loc[~sets, "truth"].notna().all()
    assert {"language_potential_rank_set", "may_be_best"} < set(found.loc[sets, "quantity"])
    # All of it is read back.
    found.to_csv(tmp_path / "simulations.csv", index=False)
    run = {"simulations": 2, "priors": dict(design.priors), "spec": design.spec.to_dict()}
    again = read_simulations(tmp_path / "simulations.csv", run)
    pd.testing.assert_frame_equal(again, found[again.columns], check_dtype=False)


def test_one_level_of_every_simulation_is_tested(located: list[pd.DataFrame]) -> None:
    rows = pd.concat(located[:6], ignore_index=True)
    ranks = independent_ranks(rows, "language_potential")
    own = rows[rows["quantity"] == "language_potential"]
    assert len(ranks) == 6
    for i, rank in enumerate(ranks):
        assert rank in set(own.loc[own["simulation"] == i, "rank"])
    # Leaving one simulation out does not change the levels of the others.
    without = independent_ranks(rows[rows["simulation"] != 2], "language_potential")
    np.testing.assert_array_equal(without, np.delete(ranks, 2))


# Running, resuming, saving.


def test_an_interrupted_run_continues(
    located: list[pd.DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = replace(PREPARED, simulations=3)

    def stop_after(number: int) -> Progress:
        def stop(stage: str, done: int, total: int, remark: str) -> None:
            if stage == "simulating" and done == number and not remark:
                raise KeyboardInterrupt

        return stop

    with pytest.raises(KeyboardInterrupt):
        few.run(jobs=1, work=tmp_path, progress=stop_after(2))
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["000000.json", "000001.json"]

    # Read, not made again.
    marked = json.loads((folder / "000001.json").read_text())
    assert (marked["piece"], marked["result"]["status"]) == ("simulation 1", "fitted")
    marked["result"]["reason"] = "kept"
    (folder / "000001.json").write_text(json.dumps(with_hash(marked)))
    calibration = few.run(jobs=1, work=tmp_path)
    assert calibration.statuses["reason"].tolist() == ["", "kept", ""]
    # The other piece is found as it was written, missing numbers and all.
    assert capsys.readouterr().err == ""
    pd.testing.assert_frame_equal(
        calibration.simulations,
        pd.concat(located[:3], ignore_index=True)[calibration.simulations.columns],
        check_dtype=False,
    )
    # What a continued run finishes keeps its number when that is interrupted, too.
    more = replace(few, simulations=4)
    with pytest.raises(KeyboardInterrupt):
        more.run(jobs=1, work=tmp_path, progress=stop_after(1))
    pieces = {path.name: json.loads(path.read_text())["piece"] for path in folder.iterdir()}
    assert pieces == {f"{i:06d}.json": f"simulation {i}" for i in range(4)}
    pd.testing.assert_frame_equal(
        more.run(jobs=1, work=tmp_path).simulations,
        pd.concat(located[:4], ignore_index=True)[calibration.simulations.columns],
        check_dtype=False,
    )
    # Another seed is another calibration: it starts from nothing in the same folder.
    other = prepare_calibration(
        "additive", like=TINY, simulations=3, settings=SamplerSettings(seed=1)
    )
    assert other.identity["seed"] == 1
    scaled = replace(few, priors="scaled")
    assert len({one.identity["spec_hash"] for one in (few, other, scaled)}) == 2
    # So are fits with other numbers of draws.
    short = prepare_calibration(
        "additive", like=TINY, simulations=3, settings=SamplerSettings(draws=200)
    )
    assert short.identity["spec_hash"] not in {few.identity["spec_hash"]}
    assert short.run(jobs=1, work=tmp_path).run["settings"] == {"draws": 200}
    assert short.like.settings.draws == 200


def test_a_simulation_is_the_same_alone_and_in_another_process(
    located: list[pd.DataFrame],
) -> None:
    """What another process gets of it, and without the simulations before it.

    `run_all` itself is tested with processes of its own; these would load JAX twice.
    """
    sent = pickle.loads(pickle.dumps(JOB))
    part = simulate_one(sent, 5, None)
    expected = located[5].drop(columns="simulation")
    assert part["simulation"] == 5
    pd.testing.assert_frame_equal(pd.DataFrame(part["rows"]), expected, check_dtype=False)


@pytest.fixture(scope="module")
def calibration(located: list[pd.DataFrame]) -> Calibration:
    parts = []
    for number, table in enumerate(located):
        rows = table.drop(columns="simulation")
        status = "gate failed" if number == 3 else "not fitted" if number == 5 else "fitted"
        reason = "it may not be" if number == 5 else ""
        columns = {} if number == 5 else {str(name): rows[name].tolist() for name in rows}
        part = {"simulation": number, "status": status, "reason": reason, "path": "importance"}
        parts.append({**part, "rows": columns})
    return Calibration.from_parts(parts, PREPARED._run())


def test_failures_are_counted_and_both_results_given(calibration: Calibration) -> None:
    counts = calibration.table.groupby("simulations")["n_simulations"].max()
    assert counts.to_dict() == {"all": N - 1, "gate passed": N - 2}
    text = str(calibration)
    assert f"failed in 1 of {N - 1} fits, which are included; without them:" in text
    assert "1 table could not be fitted and is left out; simulation 5: it may not be." in text
    assert f"{N - 1} simulations can reveal only gross errors; none found: the ranks of" in text
    n_prr = calibration.simulations.query("quantity == 'prr'")["simulation"].nunique()
    said = " ".join(text.split())
    assert (
        f"Only some simulations report PRR of a model ({n_prr} of {N - 1}), because no ratio is "
        "reported where a potential may be zero." in said
    )


def test_a_saved_calibration_opens_as_it_was(calibration: Calibration, tmp_path: Path) -> None:
    folder = calibration.save(tmp_path / "out")
    again = Calibration.open(folder)
    pd.testing.assert_frame_equal(again.simulations, calibration.simulations, check_dtype=False)
    pd.testing.assert_frame_equal(again.statuses, calibration.statuses, check_dtype=False)
    assert again.verdict == calibration.verdict
    run = json.loads((folder / "run.json").read_text())
    assert run["statuses"] == {"fitted": N - 2, "gate failed": 1, "not fitted": 1}
    assert run["verdict"][0].startswith(
        f"{N - 1} simulations can reveal only gross errors; none found: the ranks of all 13 quant"
    )
    assert "figures/calibration.png" in run["files"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"engine": "marginal"}')
    with pytest.raises(InputError, match="other is not a folder of bayeseval calibrate"):
        Calibration.open(tmp_path / "other")


@pytest.mark.parametrize(
    ("file", "column", "value", "allowed"),
    [
        ("simulations", "simulation", "16", "the number of a simulation, 0 to 15"),
        ("simulations", "simulation", "-1", "the number of a simulation, 0 to 15"),
        ("simulations", "simulation", "\u0661", "the number of a simulation, 0 to 15"),
        ("simulations", "quantity", "=1+1", "a quantity of this calibration"),
        ("simulations", "truth", "x", "a number"),
        ("simulations", "rank", "7", "from 0 to 1, or empty for a set"),
        ("simulations", "rank", "inf", "from 0 to 1, or empty for a set"),
        ("simulations", "rank", "", "from 0 to 1, or empty for a set"),
        ("simulations", "in_50", "7", "0 or 1, or empty for a set"),
        ("simulations", "in_95", "", "0 or 1, or empty for a set"),
        ("statuses", "simulation", "", "the number of a simulation, 0 to 15"),
        ("statuses", "simulation", "0", "listed once"),
        ("statuses", "status", "\x1b[31mboo", "one of fitted, gate failed, not fitted"),
    ],
)
def test_a_cell_that_no_calibration_writes_is_refused(
    file: str, column: str, value: str, allowed: str, calibration: Calibration, tmp_path: Path
) -> None:
    folder = calibration.save(tmp_path / "out", figures=False)
    path = folder / "tables" / f"{file}.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[2, column] = value
    table.to_csv(path, index=False)
    # Without its hash, as someone would who wants to mislead.
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    del run["run_sha256"]
    (folder / "run.json").write_text(json.dumps({**run, "sha256": {}}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Calibration.open(folder)
    assert str(caught.value) == (
        f"{path}, line 4, column {column!r}: {value!r} is not {allowed}; put the original back, or"
        " run bayeseval calibrate again with force"
    )


def test_a_run_file_without_the_number_of_simulations_is_refused(
    calibration: Calibration, tmp_path: Path
) -> None:
    folder = calibration.save(tmp_path / "out", figures=False)
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    del run["run_sha256"]
    (folder / "run.json").write_text(json.dumps({**run, "simulations": "x"}), encoding="utf-8")
    with pytest.raises(InputError, match=r"not that of a calibration: simulations: expected a who"):
        Calibration.open(folder)


def test_the_figure_marks_what_is_outside(calibration: Calibration) -> None:
    figure = calibration.plot()
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles[:2] == ["intercept", "sd_language"]
    ranked = calibration.table[calibration.table["mean_rank"].notna()]
    assert len(titles) == ranked["quantity"].nunique()
    squared = calibration.simulations.copy()
    own = squared["quantity"] == "sd_task"
    squared.loc[own, "rank"] **= 4
    wrong = replace(calibration, simulations=squared)
    assert "Outside its band: sd_task (mean rank" in wrong.verdict[0]
    assert "repeat with another seed before you conclude" in wrong.verdict[0]
    assert "Continuing with more simulations after looking raises the 5 %" in wrong.verdict[0]
    titles = [axes.get_title(loc="left") for axes in wrong.plot().axes]
    assert "sd_task: outside" in titles
    with pytest.raises(InputError, match=r"no quantity 'sd_tusk'.*sd_task"):
        calibration.plot("sd_tusk")


# The command.


def test_advice_on_covariates_names_no_option_that_is_not_there() -> None:
    with pytest.raises(InputError) as caught:
        prepare_calibration("mexa", like=TINY)
    assert "'mexa', of which the card of this table names no file" in str(caught.value)
    assert "covariate=" not in str(caught.value)
    # A card that names one.
    assert prepare_calibration("mexa", like=be.load("mega")).like.design.slopes[0].name == "mexa"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "auto"], "the model auto is chosen for a table; name a model"),
        (["--model", "additive", "--engine", "ml"], "calibrate needs draws from a posterior"),
        (["--model", "additive", "--simulations", "0"], "--simulations must be at"),
        (
            ["--model", "additive", "--simulations", "100001"],
            "--simulations must be at most 100000, got 100001",
        ),
        (["--model", "additive", "--priors", "wide"], "'wide' is not one of 'fixed', 'scaled'"),
        (["--model", "mexa"], "covariates"),
        (
            ["--model", "additive", "--format", "table", "--columns", "score=F1"],
            "--columns is about the table of --like, which is left out; name a table with --like,",
        ),
    ],
)
def test_wrong_calls_are_refused_in_one_line(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_command_writes_continues_and_refuses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, out = tmp_path / "tiny.csv", tmp_path / "out"
    TINY.table[["model", "language", "task", "score"]].to_csv(table, index=False)
    call = ["calibrate", "--model", "additive", "--like", str(table), "--out", str(out)]
    call += ["--jobs", "1", "--no-figures", "--quiet"]
    assert main([*call, "--simulations", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Ranks of true values among posterior draws")
    assert printed.endswith(f"Results: {out}\n")
    first = Calibration.open(out).simulations
    # Marked, to see that it is not made again.
    statuses = out / "tables" / "statuses.csv"
    statuses.write_text(statuses.read_text().replace("importance", "marked"))
    with pytest.raises(InputError, match=re.escape(f"{statuses} was edited or is damaged")):
        Calibration.open(out)
    # With the hash of the edited file, as someone would who wants to mislead.
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    del run["run_sha256"]
    edited = {**run, "sha256": {}}
    (out / "run.json").write_text(json.dumps(edited), encoding="utf-8")
    unedited = statuses.read_bytes()
    statuses.write_text("simulation,status\n,fitted\n", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{statuses} is damaged (no column reason);")):
        Calibration.open(out)
    for damaged, problem in {
        "status\nfitted\n": "no column simulation",
        "simulation" + "," * 2000 + "\n": "2001 columns; at most 1000 are read",
        "simulation\0,status\n": "it has NUL characters",
    }.items():
        statuses.write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(f"{statuses} is damaged ({problem}")):
            Calibration.open(out)
    statuses.write_bytes(unedited)
    (out / "run.json").write_text(json.dumps(run), encoding="utf-8")
    run = json.loads((out / "run.json").read_text())
    run["sha256"]["tables/statuses.csv"] = hashlib.sha256(statuses.read_bytes()).hexdigest()
    (out / "run.json").write_text(json.dumps(run))
    assert main([*call, "--simulations", "2"]) == 0
    capsys.readouterr()
    both = Calibration.open(out)
    assert both.statuses["path"].tolist() == ["marked", "importance"]
    pd.testing.assert_frame_equal(both.simulations.iloc[: len(first)], first)
    assert not (tmp_path / "out.unfinished").exists()
    assert main([*call, "--simulations", "2", "--seed", "7"]) == 2
    assert "holds a run with" in capsys.readouterr().err


@pytest.fixture
def call(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """The command on a tiny table; what simulations found is taken from the calibration above."""
    parts = calibration.parts()

    def found(job: Job, number: int, beat: object) -> dict[str, Any]:
        return {**parts[number], "path": f"seed {job.seed}"}

    monkeypatch.setattr("bayeseval.calibration.run.simulate_one", found)
    table = tmp_path / "tiny.csv"
    TINY.table[["model", "language", "task", "score"]].to_csv(table, index=False)

    def run(*options: str, model: str = "additive", out: str = "out") -> int:
        words = ["calibrate", "--model", model, "--like", str(table), "--jobs", "1", "--quiet"]
        words += ["--engine", "marginal", "--no-figures", "--out", str(tmp_path / out)]
        return main([*words, *options])

    return run


def paths_of(folder: Path) -> list[str]:
    return Calibration.open(folder).statuses["path"].tolist()


def test_a_model_that_the_engine_cannot_fit_is_refused_before_simulating(
    call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--simulations", "2", model="robust") == 2
    assert capsys.readouterr().err == (
        "error: engine marginal: it integrates effects out of a normal likelihood, not of "
        "student_t; use the engine numpyro (--engine numpyro)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.csv"]


def test_a_run_in_which_nothing_can_be_fitted_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a KeyError."""

    def refuse(*asked: object) -> Fitted:
        raise InputError("the table is too odd")

    monkeypatch.setattr("bayeseval.calibration.run.draw_and_fit", refuse)
    with pytest.raises(EngineError) as caught:
        replace(PREPARED, simulations=2).run(jobs=1, work=tmp_path / "work")
    assert str(caught.value) == (
        "no simulated table could be fitted (2 simulations); simulation 0: the table is too odd"
    )
    assert list((tmp_path / "work").iterdir()) == []
    none = pd.DataFrame({"simulation": [0], "status": "not fitted", "reason": "too odd"})
    said = sentences(pd.DataFrame(), none, {"priors_of_fits": "fixed"})
    assert said == (
        "No simulated table could be fitted.",
        "1 table could not be fitted and is left out; simulation 0: too odd.",
    )


def test_a_run_removes_its_own_unfinished_simulations_only(
    call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = {
        seed: prepare_calibration(
            "additive",
            like=be.load(str(tmp_path / "tiny.csv")),
            engine="marginal",
            settings=SamplerSettings(seed=seed),
        )
        for seed in (1, 2)
    }
    work = tmp_path / "out.unfinished"
    interrupted = {seed: one.kept_in(work) for seed, one in seeds.items()}
    for one in seeds.values():
        replace(one, simulations=2).run(jobs=1, work=work)
    assert call("--simulations", "3", "--seed", "1") == 0
    assert paths_of(tmp_path / "out") == ["seed 1"] * 3
    # The other one goes on where it was, and says what stands in its way.
    assert list(work.iterdir()) == [interrupted[2]]
    assert call("--simulations", "2", "--seed", "2") == 2
    assert "holds a run with seed 1" in capsys.readouterr().err
    assert sorted(path.name for path in interrupted[2].iterdir()) == ["000000.json", "000001.json"]
    assert call("--simulations", "2", "--seed", "2", "--force") == 0
    assert not work.exists()


def test_another_run_of_the_same_calibration_is_refused(
    call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    like = be.load(str(tmp_path / "tiny.csv"))
    own = prepare_calibration("additive", like=like, engine="marginal").kept_in(
        tmp_path / "out.unfinished"
    )
    with alone_in(own):
        assert call("--simulations", "2") == 2
        assert f"works in {own}; wait until it has ended, or choose another folder (--out)" in (
            capsys.readouterr().err
        )
        # Another seed is another calibration.
        assert call("--simulations", "2", "--seed", "5") == 0
        assert own.is_dir()
    assert call("--simulations", "2", "--force") == 0
    assert paths_of(tmp_path / "out") == ["seed 0"] * 2


def test_simulations_of_a_run_that_may_not_be_saved_are_kept(
    call: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*asked: object, **others: object) -> Path:
        raise InputError("out holds a run with seed 7")

    with monkeypatch.context() as patch:
        patch.setattr("bayeseval.calibration.container.Calibration.save", refuse)
        assert call("--simulations", "2") == 2
    (kept,) = (tmp_path / "out.unfinished").iterdir()
    assert capsys.readouterr().err == (
        f"error: out holds a run with seed 7; the simulations are kept in {kept}, and this "
        "command continues from them\n"
    )
    assert len(list(kept.iterdir())) == 2


def test_fewer_simulations_than_there_are_need_force(
    call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call("--simulations", "4") == 0
    capsys.readouterr()
    assert call("--simulations", "3") == 2
    assert capsys.readouterr().err == (
        f"error: {out} holds 4 simulations of this calibration, and --simulations 3 would remove "
        "some; ask for 4 or more, or choose another folder (--out) or overwrite it with --force\n"
    )
    assert len(paths_of(out)) == 4
    assert call("--simulations", "3", "--force") == 0
    assert len(paths_of(out)) == 3
    # Those that an interrupted run keeps are not removed either.
    like = be.load(str(tmp_path / "tiny.csv"))
    other = prepare_calibration("additive", like=like, engine="marginal", simulations=3)
    other.run(jobs=1, work=tmp_path / "b.unfinished")
    capsys.readouterr()
    assert call("--simulations", "2", out="b") == 2
    kept = other.kept_in(tmp_path / "b.unfinished")
    assert capsys.readouterr().err.startswith(f"error: {kept} holds 3 simulations of this")


@pytest.mark.parametrize("damage", ["edited", "removed", "run.json"])
def test_force_replaces_a_damaged_folder(
    damage: str, call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--simulations", "2") == 0
    capsys.readouterr()
    table = tmp_path / "out" / "tables" / "simulations.csv"
    if damage == "removed":
        table.unlink()
    elif damage == "edited":
        table.write_text("simulation\n", encoding="utf-8")
    else:
        (tmp_path / "out" / "run.json").write_text("{", encoding="utf-8")
    assert call("--simulations", "2") == 2
    error = capsys.readouterr().err
    said = (
        "or overwrite it with" if damage == "run.json" else "or run bayeseval calibrate again with"
    )
    assert error.endswith(f"{said} --force\n")
    assert error.count("\n") == 1
    assert call("--simulations", "2", "--force") == 0
    assert paths_of(tmp_path / "out") == ["seed 0"] * 2


def with_hash(piece: dict[str, Any]) -> dict[str, Any]:
    """A finished piece as it is kept, with the hash of its contents."""
    contents = {key: piece[key] for key in ("piece", "result")}
    return {**contents, "sha256": digest_of(contents)}


def kept_as(number: int, **part: object) -> str:
    """A file of an unfinished run."""
    result = {"reason": "", "path": "", **part}
    return json.dumps(with_hash({"piece": f"simulation {number}", "result": result}))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is damaged: not JSON"),
        ("{}", "is damaged: it is not what simulation 0 found"),
        (kept_as(0, status="fitted", rows={}), "is damaged: it is not what simulation 0 found"),
        (kept_as(0, status="fitted", rows=7), "is damaged: it is not what simulation 0 found"),
        (kept_as(0, status="lost", rows={}), "is damaged: it is not what simulation 0 found"),
        (kept_as(1, status="not fitted", rows={}), "is of another piece than simulation 0"),
    ],
)
def test_a_damaged_unfinished_simulation_is_made_again(
    content: str,
    problem: str,
    call: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    like = be.load(str(tmp_path / "tiny.csv"))
    own = prepare_calibration("additive", like=like, engine="marginal").kept_in(
        tmp_path / "out.unfinished"
    )
    own.mkdir(parents=True)
    (own / "000000.json").write_text(content, encoding="utf-8")
    assert call("--simulations", "1") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{own / '000000.json'} {problem}")
    assert line.endswith("; simulation 0 is made again")
    assert paths_of(tmp_path / "out") == ["seed 0"]


def test_a_small_p_inside_its_band_is_explained() -> None:
    n = 100
    even = pd.DataFrame({"simulation": range(n), "quantity": "sd_task", "level": ""})
    even = even.assign(rank=(np.arange(n) + 0.5) / n, in_50=1.0, in_90=1.0, in_95=1.0)
    statuses = pd.DataFrame({"simulation": range(n), "status": "fitted"})

    def said(power: float) -> tuple[pd.DataFrame, str]:
        quantities = [even.assign(quantity=f"sd_{i}") for i in range(9)]
        table = summarise(
            pd.concat([*quantities, even.assign(rank=even["rank"] ** power)]), statuses
        )
        return table, " ".join(sentences(table, statuses, {"priors_of_fits": "fixed"}))

    table, text = said(1.5)
    assert 0.005 < table["p_uniform"].min() < 0.05
    assert (table["verdict"] == "inside").all()
    assert (
        "Each p is that of one quantity. Of 10 quantities, one is outside its band if its p is at "
        "most 0.005, which is 5 % divided by their number, so that a band is left by chance with "
        "probability 5 % in all." in text
    )
    assert "Each p is" not in said(1.0)[1]
    assert "Each p is" not in said(3.0)[1]


@pytest.mark.parametrize(
    ("n", "first"),
    [
        (1, "1 simulation cannot show a deviation: the ranks of so few stay inside their bands"),
        (3, "3 simulations cannot show a deviation: the ranks of so few stay inside their bands"),
        (12, "12 simulations can reveal only gross errors; none found: the ranks of all 1 quanti"),
        (49, "49 simulations can reveal only gross errors; none found: the ranks of all 1 quanti"),
        (50, "No deviation found: the ranks of all 1 quantity stay inside their bands (50 simul"),
    ],
)
def test_too_few_simulations_cannot_show_a_deviation(n: int, first: str) -> None:
    rows = pd.DataFrame({"simulation": range(n), "quantity": "sd_task", "level": ""})
    rows = rows.assign(rank=(np.arange(n) + 0.5) / n, in_50=1.0, in_90=1.0, in_95=1.0)
    statuses = pd.DataFrame({"simulation": range(n), "status": "fitted"})
    said = sentences(summarise(rows, statuses), statuses, {"priors_of_fits": "fixed"})
    assert said[0].startswith(first)
    # Sets without a coverage at some probability: no number, and no word on them.
    tiers = rows.assign(quantity="tiers", rank=np.nan, in_90=np.nan, in_95=np.nan)
    table = summarise(pd.concat([rows, tiers], ignore_index=True), statuses)
    verdict = sentences(table, statuses, {"priors_of_fits": "fixed"})
    assert "nan" not in format_calibration(table, verdict)
    assert "tiers contain" not in " ".join(verdict)
    # The most extreme ranks: outside, or it is true that they cannot be.
    extreme = sentences(
        summarise(rows.assign(rank=0.0), statuses), statuses, {"priors_of_fits": "fixed"}
    )
    assert extreme[0].startswith("Outside its band" if n >= 12 else first)
    assert extreme[0].endswith(f" {n} simulations can reveal only gross errors.") is (12 <= n < 50)


@pytest.mark.parametrize("finished", [True, False])
def test_after_ctrl_c_the_error_says_what_is_kept(
    finished: bool,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(self: PreparedCalibration, *, work: Path, **others: object) -> Calibration:
        self.kept_in(work).mkdir(parents=True)
        if finished:
            (self.kept_in(work) / "000000.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("bayeseval.calibration.run.PreparedCalibration.run", stop)
    out = tmp_path / "out"
    assert main(["calibrate", "--model", "additive", "--out", str(out), "--quiet"]) == 130
    error = capsys.readouterr().err
    if finished:
        (kept,) = (tmp_path / "out.unfinished").iterdir()
        again = f"kept in {kept}; run the same command again to continue"
        assert error == f"error: interrupted; finished simulations are {again}\n"
    else:
        assert error == "error: interrupted; nothing was saved\n"
        assert list(tmp_path.iterdir()) == []


def test_autocorrelation_that_the_gate_allows_moves_ranks_little() -> None:
    """docs/calibrate.md: it is negligible beside the errors of some hundred simulations."""
    chains, draws, n = 4, 1000, 4000
    rng = np.random.default_rng(3)

    def deviation(effective: float) -> float:
        """Largest distance of the ECDF of ranks from uniform, for chains of one lag."""
        time = chains * draws / effective
        lag = ((time - 1.0) / (time + 1.0)) ** (chains * draws / RANKED_DRAWS)
        steps = rng.normal(size=(RANKED_DRAWS, n))
        for i in range(1, RANKED_DRAWS):
            steps[i] = lag * steps[i - 1] + np.sqrt(1.0 - lag**2) * steps[i]
        ranks = np.sort(randomised_rank(steps, rng.normal(size=n), rng.uniform(size=n)))
        return float(np.abs(ranks - (np.arange(n) + 0.5) / n).max())

    # A uniform sample of 4,000 deviates by 0.026 at most in 99 of 100 cases.
    band_of_300 = 1.36 / np.sqrt(300)
    assert deviation(ESS_PER_CHAIN * chains) < 0.026 < band_of_300 / 3.0
    # Negative control: an effective sample of four draws shows.
    assert deviation(4.0) > 0.04
