"""Pieces of the checks against closed forms, other libraries and dense matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from bayeseval.checks.connections import connection_check
from bayeseval.checks.container import FAIL, WARN, Check, Checks, judge, two_numbers
from bayeseval.checks.gaussian import LeaveOneOut, why_no_closed_form
from bayeseval.checks.prior import draw_prior, log_density, log_prior, prior_values
from bayeseval.checks.realised import between_groups, levene
from bayeseval.checks.uniformity import GRID, counts, distance, independent_counts
from bayeseval.design import Design, build_design
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import Prior, load_spec


def design(spec: object = "additive", *, with_se: bool = False) -> Design:
    frame = simulate("crossed", n_languages=5, n_tasks=3, n_models=3, seed=4).records.table
    if with_se:
        frame["se"] = np.linspace(0.5, 3.0, len(frame))
    records = Records.from_frame(frame, name="small", mixed_scales="allow")
    return build_design(records, load_spec(spec))


PRIORS = [
    Prior(dist="normal", loc=3.0, scale=2.0, relative=False),
    Prior(dist="student_t", df=3.0, loc=-1.0, scale=2.0, relative=False),
    Prior(dist="half_normal", scale=2.0, relative=False),
    Prior(dist="half_student_t", df=3.0, scale=2.0, low=1.0, relative=False),
    Prior(dist="exponential", scale=2.0, low=0.5, relative=False),
    Prior(dist="gamma", shape=2.0, rate=0.5, low=1.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.dist)
def test_draws_of_a_prior_have_its_density(prior: Prior) -> None:
    low = (prior.low or 0.0) if prior.positive else -np.inf
    area = integrate.quad(lambda x: np.exp(log_density(prior, np.array(x))), low, np.inf)[0]
    assert area == pytest.approx(1.0, abs=1e-6)
    draws = prior_values(prior, (4000,), np.random.default_rng(1))
    assert draws.min() >= low

    def below(x: float) -> float:
        return float(integrate.quad(lambda v: np.exp(log_density(prior, np.array(v))), low, x)[0])

    # One in a thousand correct programs fails; half as wide a prior would by far.
    points = np.quantile(draws, [0.1, 0.5, 0.9])
    share = np.array([below(x) for x in points])
    np.testing.assert_allclose(share, [0.1, 0.5, 0.9], atol=3.3 * 0.5 / np.sqrt(4000))
    wrong = np.array([below(2.0 * x) for x in points])
    assert np.abs(wrong - [0.1, 0.5, 0.9]).max() > 0.05


def test_prior_draws_of_a_design() -> None:
    drawn = draw_prior(design("robust"), np.random.default_rng(0), 3000)
    assert drawn["language_effect"].shape == (3000, 5)
    np.testing.assert_allclose(drawn["language_effect"].sum(axis=1), 0.0, atol=1e-9)
    # Effects have their sd: variance (1 - 1/K) sd^2 of zero-sum ones, sd^2 of cells.
    for effect, sd, share in (
        ("language_effect", "sd_language", 0.8),
        ("language_task_effect", "sd_language_task", 1.0),
    ):
        ratio = (drawn[effect] ** 2).mean() / (drawn[sd] ** 2).mean()
        assert ratio == pytest.approx(share, rel=0.1)
    assert drawn["nu"].min() >= 1.0


def test_log_prior_is_that_of_parameters_and_fixed_effects() -> None:
    one = design("paper")
    drawn = draw_prior(one, np.random.default_rng(3), 4)
    sd = one.score.std(ddof=1)
    expected = stats.norm(one.score.mean(), 2.5 * sd).logpdf(drawn["intercept"])
    for name in ("sd_model", "sd_residual"):
        expected = expected + stats.halfnorm(scale=sd).logpdf(drawn[name])
    for name in ("language_effect", "task_effect"):
        effect = drawn[name]
        # Density of a zero-sum vector with respect to its K - 1 free directions.
        contrasts = np.linalg.svd(np.eye(effect.shape[1]) - 1.0 / effect.shape[1])[0][:, :-1]
        expected = expected + stats.norm(0.0, 10.0 * sd).logpdf(effect @ contrasts).sum(axis=1)
    np.testing.assert_allclose(log_prior(one, drawn), expected, rtol=1e-10)
    # Pooled effects are the model, not the prior.
    pooled = design()
    drawn = draw_prior(pooled, np.random.default_rng(3), 4)
    moved = drawn | {"language_effect": 7.0 * drawn["language_effect"]}
    np.testing.assert_array_equal(log_prior(pooled, drawn), log_prior(pooled, moved))


@pytest.mark.parametrize(("spec", "with_se"), [("additive", False), ("crossed", True),
                                               ("paper", False)])  # fmt: skip
def test_leave_one_out_against_dense_matrices(spec: str, with_se: bool) -> None:
    one = design(spec, with_se=with_se)
    sds = {name: np.array(3.0 + i) for i, name in enumerate(one.priors) if name != "intercept"}
    at = LeaveOneOut(one, sds)
    n = one.n_records
    covariance = np.full((n, n), float(one.priors["intercept"].scale or 0.0) ** 2)
    for term in one.terms:
        x = np.eye(term.n_levels)[term.index]
        if term.zero_sum:
            x = x - 1.0 / term.n_levels
        sd = float(sds[term.sd]) if term.sd else float(term.known_sd)
        covariance += sd**2 * x @ x.T
    noise = float(sds["sd_residual"]) ** 2 + (0.0 if one.se is None else one.se**2)
    inverse = np.linalg.inv(covariance + np.eye(n) * noise)
    precision = np.diag(inverse)
    centred = one.score - one.score.mean()
    np.testing.assert_allclose(at.precision, precision, rtol=1e-8)
    np.testing.assert_allclose(
        at.errors(one.score), inverse @ centred / np.sqrt(precision), rtol=1e-7
    )
    # The same through the engine, which knows nothing of this module.
    density = leave_out_log_density(one, {k: v[None] for k, v in sds.items()})[0]
    own = 0.5 * np.log(at.precision / (2.0 * np.pi)) - 0.5 * at.errors(one.score) ** 2
    np.testing.assert_allclose(own, density, rtol=1e-8)
    # Tables drawn from the model have its covariance, and standard errors of one.
    tables = at.tables(20_000, np.random.default_rng(2))
    drawn = np.cov(tables)
    assert np.abs(drawn / np.diag(drawn).mean() - (covariance + np.eye(n) * noise)
                  / np.diag(covariance + np.eye(n) * noise).mean()).max() < 0.06  # fmt: skip
    assert at.errors(tables).std(axis=1) == pytest.approx(np.ones(n), rel=0.03)


def test_what_has_no_closed_form() -> None:
    assert why_no_closed_form(design()) is None
    assert why_no_closed_form(design("robust")) == "the likelihood is student_t"


def test_levene_and_analysis_of_variance_against_scipy() -> None:
    rng = np.random.default_rng(0)
    values, group = rng.normal(size=(3, 40)), rng.integers(0, 5, 40)
    for row, w, p in zip(values, levene(values, group, 6), between_groups(values, group)[0],
                         strict=True):  # fmt: skip
        parts = [row[group == g] for g in range(5)]
        assert w == pytest.approx(stats.levene(*parts, center="median").statistic, rel=1e-12)
        assert p == pytest.approx(stats.f_oneway(*parts).pvalue, rel=1e-9)
    assert np.isnan(levene(values, np.zeros(40, dtype=int), 1)).all()
    # Two values lie at the same distance from their median.
    assert np.isnan(levene(values, np.arange(40) // 2, 20)).all()
    assert np.isnan(between_groups(values, np.arange(40))[0]).all()


def test_intraclass_correlation_is_found() -> None:
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(300), 4)
    shared = rng.normal(size=(1, 300))[:, group]
    p, correlation = between_groups(shared + rng.normal(size=(1, 1200)), group)
    assert p[0] < 1e-6
    assert correlation == pytest.approx(0.5, abs=0.06)


def test_distance_of_uniform_values_has_its_simulated_distribution() -> None:
    rng = np.random.default_rng(5)
    null = distance(independent_counts(200, 999, rng), 200)
    fresh = distance(counts(rng.uniform(size=(400, 200))), 200)
    share = (fresh > np.quantile(null, 0.95)).mean()
    assert 0.02 < share < 0.09
    crooked = distance(counts(rng.uniform(size=(50, 200)) ** 1.5), 200)
    assert (crooked > np.quantile(null, 0.95)).mean() > 0.9
    by_hand = counts(np.array([[0.1, 0.2, 0.955]]))[0]
    assert set(by_hand[GRID > 0.956]) == {1.0}
    assert by_hand[10] == pytest.approx(1 / 3)


def test_p_values_become_outcomes() -> None:
    assert [judge(p) for p in (0.001, FAIL, WARN, 0.5, np.nan)] == [
        "fail", "warn", "pass", "pass", "not applicable",
    ]  # fmt: skip


def test_connections() -> None:
    def check(rows: list[tuple[str, str, str]]) -> tuple[str, str]:
        frame = pd.DataFrame(rows, columns=["model", "language", "task"])
        levels = {f: tuple(sorted(set(frame[f]))) for f in frame}
        index = {f: np.searchsorted(levels[f], frame[f]) for f in frame}
        found = connection_check(index, levels)
        return found.status, found.sentence

    full = [(m, lang, t) for m in "ab" for lang in "xy" for t in "st"]
    assert check(full) == (
        "pass",
        "Every two models share at least 4 language-task pairs (a and b).",
    )
    status, said = check([*full, ("c", "x", "u"), ("c", "y", "u"), ("c", "z", "u")])
    assert status == "warn"
    assert "2 of 3 pairs of models share no language-task pair" in said
    assert "a and c, b and c; with a single record: language z." in said


def test_what_does_not_apply_is_named_with_its_reason() -> None:
    checks = [
        Check("prior_range", "not applicable", sentence="The scores have no known bounds."),
        Check("calibration", "pass", sentence="Fine."),
        Check("outside_bounds", "not applicable", sentence="The scores have no known bounds."),
        Check("normality_task", "not applicable", sentence="Fewer than four tasks."),
    ]
    text = str(Checks.of(checks, {}))
    assert text.startswith("Model checks: 1 passed, 3 not applicable\n")
    assert text.endswith(
        "\n  pass  calibration"
        "\n  n/a   prior range, outside bounds (the scores have no known bounds); normality task "
        "(fewer than\n        four tasks)"
    )
    assert "n/a" not in str(Checks.of(checks[1:2], {}))


@pytest.mark.parametrize(
    ("pair", "texts"),
    [
        ((32.31, 52.74), ("32.3", "52.7")),
        ((443_213.0, 745_812.0), ("443,000", "746,000")),
        ((4.432e-7, 7.458e-7), ("4.43e-07", "7.46e-07")),
        ((0.50000044, 0.50000078), ("0.5000004", "0.5000008")),
        ((71.24, 71.26), ("71.24", "71.26")),
        ((1.0, 1.0), ("1", "1")),
        ((0.0, -0.25), ("0", "-0.25")),
    ],
)
def test_two_numbers_are_told_apart(pair: tuple[float, float], texts: tuple[str, str]) -> None:
    assert two_numbers(*pair) == texts
