"""Priors, prior sensitivity and predictive groups, by hand on the smallest tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from bayeseval import names
from bayeseval._random import generator
from bayeseval.checks import powerscale, predictive_draws, predictive_groups, prior
from bayeseval.checks.gaussian import LeaveOneOut, why_no_closed_form
from bayeseval.checks.powerscale import distances_moved, sensitivity_check, sensitivity_table
from bayeseval.checks.prior import (
    draw_prior,
    log_density,
    log_priors,
    outside_share,
    prior_checks,
    prior_tree,
    prior_values,
)
from bayeseval.design import Design, build_design
from bayeseval.estimands import read_arrays
from bayeseval.estimands.predict import replicate_scores
from bayeseval.records import Covariate, Records
from bayeseval.simulation import simulate
from bayeseval.spec import Prior, load_spec
from tests.replicate_tables import frame

NAN = float("nan")


def design(spec: object = "additive", **sizes: Any) -> Design:
    given = {"n_languages": 4, "n_tasks": 3, "n_models": 3, "seed": 4} | sizes
    table = simulate("crossed", **given).records.table
    records = Records.from_frame(table, name="small", mixed_scales="allow")
    return build_design(records, load_spec(spec))


class Uniform:
    """A generator whose uniform draws are all the same."""

    def __init__(self, u: float) -> None:
        self.u = u

    def uniform(self, size: tuple[int, ...]) -> np.ndarray:
        return np.full(size, self.u)


# Priors -----------------------------------------------------------------------------------

T, N, E, G = stats.t, stats.norm, stats.expon, stats.gamma


@pytest.mark.parametrize(
    ("given", "cdf"),
    [
        ({"dist": "normal", "loc": 3.0, "scale": 2.0}, lambda x: N.cdf((x - 3) / 2)),
        ({"dist": "student_t", "df": 3.0, "loc": -1.0, "scale": 2.0},
         lambda x: T.cdf((x + 1) / 2, 3)),
        ({"dist": "half_normal", "scale": 2.0}, lambda x: 2 * N.cdf(x / 2) - 1),
        ({"dist": "half_student_t", "df": 3.0, "scale": 2.0}, lambda x: 2 * T.cdf(x / 2, 3) - 1),
        ({"dist": "half_student_t", "df": 3.0, "scale": 2.0, "low": 1.0},
         lambda x: (T.cdf(x / 2, 3) - T.cdf(0.5, 3)) / T.sf(0.5, 3)),
        ({"dist": "exponential", "scale": 2.0, "low": 0.5}, lambda x: 1 - np.exp(-(x - 0.5) / 2)),
        ({"dist": "gamma", "shape": 2.0, "rate": 0.5}, lambda x: 1 - np.exp(-x / 2) * (1 + x / 2)),
        ({"dist": "gamma", "shape": 2.0, "rate": 0.5, "low": 1.0},
         lambda x: 1 - np.exp(-x / 2) * (1 + x / 2) / (np.exp(-0.5) * 1.5)),
    ],
)  # fmt: skip
def test_draws_invert_the_distribution_function_and_densities_are_its_slope(
    given: dict[str, Any], cdf: Any
) -> None:
    relative = {} if given["dist"] == "gamma" else {"relative": False}
    one = Prior(**given, **relative)
    for u in (0.1, 0.5, 0.93):
        value = prior_values(one, (2, 3), Uniform(u))  # type: ignore[arg-type]
        assert value.shape == (2, 3)
        np.testing.assert_allclose(cdf(value), u, rtol=1e-10)
        step = 1e-4
        slope = (cdf(value + step) - cdf(value - step)) / (2 * step)
        # A central difference of step 1e-4.
        np.testing.assert_allclose(np.exp(log_density(one, value)), slope, rtol=1e-6)


def test_priors_of_levels_and_cells_have_their_scales() -> None:
    one = design({"name": "x", "residual_by": "task"})
    drawn = draw_prior(one, np.random.default_rng(0), 4000)
    assert drawn["sd_residual_task"].shape == (4000, 3)
    # Logs of the sds of tasks differ by the sd of the logs.
    log = np.log(drawn["sd_residual_task"] / drawn["sd_residual"][:, None])
    standard = log / drawn["sd_log_residual"][:, None]
    assert abs(standard.mean()) < 5 / np.sqrt(12_000)
    assert abs((standard**2).mean() - 1.0) < 5 * np.sqrt(2 / 12_000)
    rows = frame("crossed")
    seeds = build_design(Records.from_frame(rows, name="seeds"), load_spec("replicates"))
    drawn = draw_prior(seeds, np.random.default_rng(0), 3000)
    for source in seeds.sources:
        typical = drawn[names.source_model_sd(source.name)]
        assert typical.shape == (3000, 3)
        cells = drawn[names.source_cell_sd(source.name)]
        assert cells.shape == (3000, source.n_cells)
        standard = np.log(cells / typical[:, source.model])
        standard /= drawn[names.source_log_sd(source.name)][:, None]
        assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
        assert abs((standard**2).mean() - 1.0) < 5 * np.sqrt(2 / standard.size)
    # The three models of a source are drawn one by one.
    assert abs(np.corrcoef(typical[:, 0], typical[:, 1])[0, 1]) < 5 / np.sqrt(3000)


def test_the_density_of_fixed_effects_is_joint_and_that_of_pooled_ones_not_a_prior() -> None:
    one = design("paper")
    drawn = draw_prior(one, np.random.default_rng(3), 5)
    parts = log_priors(one, drawn)
    assert list(parts) == [*one.priors, "language_effect", "task_effect"]
    # Of zero-sum effects K - 1 are free.
    sd = 10.0 * one.score.std(ddof=1)
    for name, n in (("language_effect", 4), ("task_effect", 3)):
        expected = (
            -(n - 1) * np.log(sd * np.sqrt(2 * np.pi))
            - 0.5 * (drawn[name] ** 2).sum(axis=1) / sd**2
        )
        np.testing.assert_allclose(parts[name], expected, rtol=1e-10)
    assert list(log_priors(design(), draw_prior(design(), np.random.default_rng(3), 2))) == [
        *design().priors
    ]


def test_scores_outside_their_bounds_are_counted_where_there_are_bounds() -> None:
    scores = np.array([[-1.0, 0.0, 50.0, 7.0], [101.0, 5.0, -3.0, 7.0]])
    low = np.array([0.0, 0.0, -np.inf, -np.inf])
    high = np.array([100.0, np.inf, 40.0, np.inf])
    # The last record has no bound: -1, 101 and 50 are outside, of six.
    assert outside_share(scores, (low, high)) == pytest.approx(3 / 6)


@pytest.mark.parametrize(
    ("n_outside", "spread", "statuses", "said"),
    [
        (75, 4.0, ("pass", "pass"), ("75 %", ".")),
        (76, 4.1, ("warn", "warn"), ("76 %", ": the priors are too wide (a factor of 4 is")),
        (95, 8.0, ("warn", "warn"), ("95 %", ": the priors are too wide")),
        (96, 8.2, ("fail", "fail"), ("96 %", ": the priors are too wide")),
        (0, 0.25, ("pass", "pass"), ("0 %", ".")),
        (0, 0.24, ("pass", "warn"), ("0 %", ": the priors are too narrow")),
        (0, 0.12, ("pass", "fail"), ("0 %", ": the priors are too narrow")),
    ],
)
def test_limits_of_the_scores_that_priors_expect(
    n_outside: int,
    spread: float,
    statuses: tuple[str, str],
    said: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = design()
    n = one.n_records
    sd = one.score.std(ddof=1)
    # Tables whose sds are known: of three, the median counts.
    shape = (one.score - one.score.mean()) / sd
    tables = np.array([factor * sd * shape for factor in (0.001, spread, 1000.0)])
    monkeypatch.setattr(prior, "replicate_scores", lambda arrays, rng, n: tables)
    monkeypatch.setattr(prior, "outside_share", lambda scores, bounds: n_outside / 100)
    bounds = (np.zeros(n), np.full(n, 100.0))
    found = prior_checks(one, bounds, np.random.default_rng(0), n=3)
    assert [check.name for check in found] == ["prior_range", "prior_spread"]
    assert [check.status for check in found] == list(statuses)
    assert found[0].value == n_outside / 100
    assert found[1].value == pytest.approx(spread)
    assert found[0].sentence == (
        f"{said[0]} of the scores that the priors expect are outside the bounds of the scale "
        "(more than 75 % warns: the priors are too wide)."
    )
    assert found[1].sentence.startswith(
        f"The scores have sd {sd:.3g}, tables drawn from the priors typically "
        f"{spread * sd:.3g}{said[1]}"
    )
    unbounded = prior_checks(one, None, np.random.default_rng(0), n=3)[0]
    assert (unbounded.name, unbounded.status) == ("prior_range", "not applicable")
    assert unbounded.sentence == "The scores have no known bounds."


def test_without_an_identity_link_the_spread_is_that_of_logits() -> None:
    records = simulate("logit", n_languages=4, n_tasks=2, n_models=3, seed=3).records
    one = build_design(records, load_spec({"name": "x", "likelihood": "logit_normal"}))
    found = prior_checks(one, None, np.random.default_rng(0), n=200)[1]
    assert found.sentence.startswith("The logits of the scores have sd ")
    tree = prior_tree(one, np.random.default_rng(0), 200)
    draws = tree["posterior"].to_dataset().isel(chain=0)
    eta = draws["intercept"].to_numpy()[:, None] + sum(
        draws[f"{f}_effect"].to_numpy()[:, one.factor_index[f]] for f in names.FACTORS
    )
    own = np.median(eta.std(axis=1, ddof=1)) / one.outcome.linear.std(ddof=1)
    assert found.value == pytest.approx(own, rel=1e-9)


# Predictive groups ------------------------------------------------------------------------


def test_draws_are_evenly_spaced_and_as_many_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert predictive_draws(10, 2, 5).tolist() == [0, 1, 2, 3, 4]
    assert predictive_draws(10, 2, 5, 3).tolist() == [0, 2, 4]
    assert predictive_draws(10, 2, 5, 9).tolist() == [0, 1, 2, 3, 4]
    assert predictive_draws(10, 2, 5, 1).tolist() == [0]
    # Room for 79 // (10 * 2) = 3 draws of two chains; one is always taken.
    monkeypatch.setattr(names, "MOST_POINTWISE", 79)
    assert predictive_draws(10, 2, 5).tolist() == [0, 2, 4]
    monkeypatch.setattr(names, "MOST_POINTWISE", 19)
    assert predictive_draws(10, 2, 5).tolist() == [0]


@pytest.mark.parametrize("draws", [None, 3])
def test_groups_are_drawn_from_streams_of_their_own(draws: int | None) -> None:
    one = design("paper")
    tree = prior_tree(one, np.random.default_rng(1), 7)
    groups = predictive_groups(tree, one, draws=draws, seed=5)
    kept = [0, 3, 6] if draws else list(range(7))
    own = prior_tree(one, generator(5, "prior"), len(kept))
    xr.testing.assert_identical(groups["prior"], own["posterior"].to_dataset())
    thinned = tree.copy()
    thinned["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel(draw=kept))
    for name, source in (("prior_predictive", own), ("posterior_predictive", thinned)):
        scores = groups[name]["score"]
        assert scores.dims == ("chain", "draw", "record")
        expected = replicate_scores(read_arrays(source), generator(5, name))
        np.testing.assert_array_equal(scores[0], expected)
    assert groups["posterior_predictive"]["draw"].to_numpy().tolist() == kept
    assert groups["posterior_predictive"]["record"].size == one.n_records
    # All draws are rated, also those at which nothing is predicted.
    posterior = tree["posterior"].to_dataset()
    variables = {str(name): posterior[name].to_numpy() for name in posterior.data_vars}
    for name, density in log_priors(one, variables).items():
        assert groups["log_prior"][name].dims == ("chain", "draw")
        np.testing.assert_array_equal(groups["log_prior"][name], density)


# Prior sensitivity ------------------------------------------------------------------------


def fitted(n: int = 50, chains: int = 2) -> tuple[xr.DataTree, Design]:
    """Draws of the prior in place of a posterior, and a log likelihood that is made up."""
    one = design()
    drawn = {
        name: values.reshape(chains, n, *values.shape[1:])
        for name, values in draw_prior(one, np.random.default_rng(2), chains * n).items()
    }
    dims = dict.fromkeys(drawn, ("chain", "draw")) | {
        f"{f}_effect": ("chain", "draw", f) for f in names.FACTORS
    }
    posterior = xr.Dataset(
        {name: (dims[name], values) for name, values in drawn.items()},
        coords={f: list(one.coords[f]) for f in names.FACTORS},
    )
    rng = np.random.default_rng(3)
    rank = np.ones((chains, n, 3))
    # A rank that changes in 2.5 % of the draws, one in a draw less, one that is constant.
    changes = round(0.025 * chains * n) if chains * n >= 40 else 0
    rank[..., 0].flat[:changes] = 2.0
    rank[..., 1].flat[: max(changes - 1, 0)] = 2.0
    posterior["standardised_score"] = posterior["model_effect"] + 60.0
    posterior["standardised_score_rank"] = (("chain", "draw", "model"), rank)
    posterior["gap_sd_languages"] = (("chain", "draw", "model"), np.full((chains, n, 3), NAN))
    density = xr.Dataset({"score": (("chain", "draw", "record"), rng.normal(size=(chains, n, 9)))})
    return xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": density}), one


def test_quantities_that_vary_have_their_sensitivity_by_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree, one = fitted(100)
    asked: list[tuple[np.ndarray, np.ndarray]] = []

    def distances(values: np.ndarray, density: np.ndarray) -> np.ndarray:
        asked.append((values, density))
        n = values.shape[-1]
        # Rising for the prior, and 0.05, which is allowed, or more for the likelihood.
        return np.arange(n) / 100 if len(asked) == 1 else np.where(np.arange(n) % 2, 0.051, 0.05)

    # The error of the fourth quantity from the end is that of few draws.
    def errors(values: np.ndarray, density: np.ndarray) -> np.ndarray:
        assert values.shape == (2, 100, n_varying) and density.shape == (2, 100)
        found = np.full(n_varying, 0.001)
        found[-4] = 0.5 * (n_varying - 4) / 100
        return found

    n_varying = 4 + len(one.priors)
    monkeypatch.setattr(powerscale, "distances_moved", distances)
    monkeypatch.setattr(powerscale, "distance_errors", errors)
    table = sensitivity_table(tree, one)
    posterior = tree["posterior"].to_dataset()
    models = list(one.coords["model"])
    # Three scores, the rank that changes in five of 200 draws, and the parameters.
    vary = [*(("standardised_score", m) for m in models), ("standardised_score_rank", models[0])]
    vary += [(name, "") for name in one.priors]
    stay = [("standardised_score_rank", m) for m in models[1:]]
    stay += [("gap_sd_languages", m) for m in models]
    (reported, of_priors), (again, of_data) = asked
    assert again is reported
    assert reported.shape == (2, 100, len(vary))
    np.testing.assert_array_equal(reported[..., 1], posterior["standardised_score"][..., 1])
    np.testing.assert_array_equal(reported[..., -1], posterior[list(one.priors)[-1]])
    draws = {str(name): posterior[name].to_numpy() for name in posterior.data_vars}
    total = sum(log_priors(one, draws).values())
    np.testing.assert_allclose(of_priors, total, rtol=1e-12)
    of_records = tree["log_likelihood"]["score"].to_numpy()
    np.testing.assert_allclose(of_data, of_records.sum(axis=2), rtol=1e-12)
    rows = list(table[["quantity", "level"]].itertuples(index=False, name=None))
    # Largest first, and what does not vary last, in the order of the report.
    assert rows == [*vary[::-1], *stay]
    assert list(table.index) == list(range(len(rows)))
    n = len(vary)
    np.testing.assert_allclose(table["prior"][:n], np.arange(n)[::-1] / 100)
    assert table["prior"][n:].isna().all()
    assert table["likelihood"][n:].isna().all()
    np.testing.assert_allclose(table["prior_mcse"][:3], 0.001)
    np.testing.assert_allclose(table["prior_mcse"][3], 0.005 * (n - 4))
    assert table["prior_mcse"][n:].isna().all()
    kind = dict(zip(rows, table["diagnosis"], strict=True))
    for i, row in enumerate(vary):
        # What is above the limit by less than two of its errors is not told apart from it.
        strong, data_too = i / 100 > 0.052 and i != n - 4, i % 2 == 1
        assert kind[row] == (
            "prior and data" if strong and data_too else "strong prior" if strong else ""
        )
    assert {kind[row] for row in stay} == {""}


def test_the_sensitivity_of_a_prior_that_is_all_there_is() -> None:
    tree, one = fitted(200)
    found = sensitivity_table(tree, one).set_index(["quantity", "level"])
    # The draws are of the prior: all that scales is the prior, the likelihood is noise.
    assert found.loc[("sd_language", ""), "prior"] > 0.05
    assert found.loc[("sd_language", ""), "diagnosis"] in ("strong prior", "prior and data")


def moved(seed: int, shares: list[float], draws: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """Draws of quantities that have a share in what the density depends on."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(4, draws, 1)), rng.normal(size=(4, draws, len(shares)))
    values = np.array(shares) * shared + np.sqrt(1.0 - np.square(shares)) * own
    return values, -np.abs(shared[..., 0] - 1.0)


def distances_of(values: np.ndarray, density: np.ndarray) -> np.ndarray:
    from arviz_stats import psense

    dims, coords = ("chain", "draw"), {"chain": np.arange(4), "draw": np.arange(values.shape[1])}
    data = {
        "posterior": xr.Dataset({"x": ((*dims, "column"), values)}, coords),
        "log_prior": xr.Dataset({"density": (dims, density)}, coords),
    }
    tree = xr.DataTree.from_dict(data)
    return np.asarray(psense(tree, group="prior", sample_dims=list(dims))["x"].values)


def test_distances_are_those_of_arviz() -> None:
    values, density = moved(3, [0.0, 0.3, 0.9, -0.9])
    # Ranks repeat, and sorting does not say which of equal ones comes first.
    values = np.concatenate([values, np.round(values)], axis=2)
    expected = distances_of(values, density)
    # Rounding: distances are small differences of sums.
    np.testing.assert_allclose(distances_moved(values, density), expected, rtol=1e-6)
    # Negative control: another density moves them by other distances.
    assert not np.allclose(distances_moved(values, 1.1 * density), expected, rtol=1e-3)


def test_errors_of_distances_are_their_spread_over_repetitions() -> None:
    shares = [0.1, 0.4, 0.8, -0.8]
    found = [moved(seed, shares) for seed in range(100)]
    spread = np.std([distances_of(*one) for one in found], axis=0, ddof=1)
    errors = np.mean([powerscale.distance_errors(*one) for one in found], axis=0)
    # The spread of a hundred repetitions has an error of 7 %.
    assert ((errors / spread > 0.7) & (errors / spread < 1.4)).all()
    # Four times the draws have half the error.
    more = np.mean(
        [powerscale.distance_errors(*moved(seed, shares, 1000)) for seed in range(50)], axis=0
    )
    np.testing.assert_allclose(more / errors, 0.5, rtol=0.15)
    # Negative control: draws that come five times each have an error that is larger by sqrt(5),
    # and not that of so many independent draws.
    values, density = moved(0, shares, 50)
    sticky = powerscale.distance_errors(np.repeat(values, 5, 1), np.repeat(density, 5, 1))
    assert (sticky > 1.5 * powerscale.distance_errors(*moved(0, shares))).all()


def test_distances_are_what_their_errors_are_of() -> None:
    from bayeseval.checks.powerscale import _influence

    values, density = moved(3, [0.0, 0.3, 0.9, -0.9])
    flat, centred = values.reshape(-1, 4), density.ravel() - density.mean()
    up, down = _influence(flat, centred)[0], _influence(-flat, centred)[0]
    np.testing.assert_allclose(np.maximum(up, down), distances_of(values, density), rtol=0.06)
    # The influence of a draw is the change of the distance where the draw counts twice.
    step = np.concatenate([np.arange(len(flat)), [7]])
    twice = _influence(flat[step], density.ravel()[step] - density.ravel()[step].mean())[0]
    influence = _influence(flat, centred)[1][7]
    np.testing.assert_allclose((twice - up) * len(step), influence, rtol=0.05)
    assert np.abs(influence).min() > 0.001


def test_reasons_why_sensitivity_is_not_checked() -> None:
    tree, one = fitted(49, 2)
    for given, design_of, reason, said in (
        (tree, one, "", "Not checked: the fit has fewer than 100 draws."),
        (fitted(50, 2)[0].drop_nodes("log_likelihood"), one, "",
         "Not checked: the fit has no group log_likelihood."),
        (tree, None, "replicate noise was sampled", "Not checked: replicate noise was sampled."),
    ):  # fmt: skip
        check, table = sensitivity_check(given, design_of, reason)
        assert (check.name, check.status) == ("prior_sensitivity", "not applicable")
        assert check.sentence == said
        assert len(table) == 0


def test_a_hundred_draws_are_enough_and_sentences_name_languages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree, one = fitted(50, 2)
    tables: list[pd.DataFrame] = []
    monkeypatch.setattr(powerscale, "sensitivity_table", lambda tree, design: tables[-1])

    def outcome(
        rows: list[tuple[str, str, float]], languages: Any = None, error: float = 0.004
    ) -> tuple[str, str]:
        table = pd.DataFrame(rows, columns=["quantity", "level", "prior"])
        tables.append(table.assign(prior_mcse=error))
        check, table = sensitivity_check(tree, one, "", languages)
        assert table is tables[-1]
        if check.status != "not applicable":
            worst = [p for q, _, p in rows if not q.startswith("sd_")][0]
            assert check.value == worst
        return check.status, check.sentence

    rest = [("standardised_score", "m1", 0.01), ("standardised_score", "m2", NAN)]
    # A parameter is no reported quantity, however sensitive; 0.05 is allowed.
    parameter = ("sd_language", "", 0.9)
    known = [parameter, ("language_potential", "hi", 0.05), *rest]
    assert outcome(known, {"hi": "Hindi (hi)"}) == (
        "pass",
        "No reported quantity or rank is sensitive to the priors: largest distance 0.05 "
        "(potential of Hindi (hi); 0.05 is allowed).",
    )  # fmt: skip
    found = outcome(
        [
            ("language_potential_rank", "hi", 0.3),
            ("standardised_score", "hi", 0.2),
            ("standardised_score", "m0", 0.1),
            *rest,
        ],
        {"hi": "Hindi (hi)"},
    )
    assert found == (
        "warn",
        "Sensitive to the priors: 2 of 3 scores, 1 of 1 rank by potential; the most sensitive is "
        "the rank by potential of Hindi (hi) (its distribution moves by 0.30 when the priors get "
        "twice the weight; 0.05 is allowed; cumulative Jensen-Shannon distance).",
    )
    # A model that is called as a language is.
    assert (
        "score of hi (its distribution moves by 0.06"
        in outcome([("standardised_score", "hi", 0.06)], {"hi": "Hindi (hi)"})[1]
    )
    assert (
        "potential of xx (its distribution moves by"
        in outcome([("language_potential", "xx", 0.06)], {"hi": "Hindi (hi)"})[1]
    )
    assert outcome([parameter]) == ("not applicable", "No reported quantity varies.")
    # Above the limit, but by less than two Monte-Carlo errors.
    unclear = [parameter, ("language_potential", "hi", 0.057), ("standardised_score", "m0", 0.051)]
    assert outcome([*unclear, *rest], {"hi": "Hindi (hi)"}) == (
        "pass",
        "No reported quantity or rank is clearly sensitive to the priors: largest distance 0.06 "
        "(potential of Hindi (hi); 0.05 is allowed); 2 distances above 0.05 may be so by chance, "
        "as the Monte-Carlo standard error is 0.004: more draws decide it.",
    )
    # With the error of more draws, and with an error that is not known.
    assert outcome(unclear, error=0.003)[0] == "warn"
    assert "1 of 1 potential;" in outcome(unclear, error=0.003)[1]
    assert outcome(unclear, error=NAN)[0] == "warn"


# Closed forms -----------------------------------------------------------------------------


def test_reasons_why_there_is_no_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    from bayeseval.checks import gaussian

    rows = frame("crossed")
    seeds = build_design(Records.from_frame(rows, name="seeds"), load_spec("replicates"))
    by_task = design({"name": "x", "residual_by": "task"})
    for one in (design(), design("crossed"), design("paper"), seeds, by_task):
        assert why_no_closed_form(one) is None
    # The slope of a covariate is no effect with an sd.
    table = simulate("additive", n_languages=4, n_tasks=3, n_models=3, seed=4).records
    languages = table.coords["language"]
    values = [0.3, NAN, 0.5, 0.9]
    covariate = Covariate("size", "language", languages, (), values)
    terms = {"name": "x", "covariates": [{"name": "size", "missing": "model"}]}
    sloped = build_design(table, load_spec(terms), [covariate])
    assert why_no_closed_form(sloped) == "the model has size_slope"
    # The value that is missing is drawn on its standardised scale.
    drawn = draw_prior(sloped, np.random.default_rng(0), 4000)[sloped.slopes[0].drawn]
    assert drawn.shape == (4000, 1)
    assert abs(drawn.mean()) < 5 / np.sqrt(4000)
    assert abs((drawn**2).mean() - 1.0) < 5 * np.sqrt(2 / 4000)
    loose = {"intercept": {"dist": "student_t", "df": 3.0, "scale": 2.0}}
    assert why_no_closed_form(design({"name": "x", "priors": loose})) == (
        "the intercept's prior is not normal"
    )
    # 4 + 3 + 3 effects, without the intercept.
    monkeypatch.setattr(gaussian, "_MOST_COEFFICIENTS", 10)
    assert why_no_closed_form(design()) is None
    monkeypatch.setattr(gaussian, "_MOST_COEFFICIENTS", 9)
    assert why_no_closed_form(design()) == "the model has too many effects"


def test_leave_one_out_with_noise_by_task_against_dense_matrices() -> None:
    one = design({"name": "x", "residual_by": "task"})
    sds = {name: np.array(3.0 + i) for i, name in enumerate(one.priors) if name != "intercept"}
    sds["sd_residual_task"] = np.array([1.0, 4.0, 9.0])
    at = LeaveOneOut(one, sds)
    n, loc = one.n_records, float(one.priors["intercept"].loc or 0.0)
    covariance = np.full((n, n), float(one.priors["intercept"].scale or 0.0) ** 2)
    for term in one.terms:
        x = np.eye(term.n_levels)[term.index] - 1.0 / term.n_levels
        covariance += float(sds[str(term.sd)]) ** 2 * x @ x.T
    noise = sds["sd_residual_task"][one.factor_index["task"]] ** 2
    inverse = np.linalg.inv(covariance + np.diag(noise))
    precision = np.diag(inverse)
    np.testing.assert_allclose(at.precision, precision, rtol=1e-8)
    errors = inverse @ (one.score - loc) / np.sqrt(precision)
    np.testing.assert_allclose(at.errors(one.score), errors, rtol=1e-7)
    # Several tables at once, one in each column.
    both = np.stack([one.score, one.score[::-1]], axis=1)
    np.testing.assert_allclose(at.errors(both)[:, 0], errors, rtol=1e-7)
    assert at.errors(both).shape == (n, 2)
    tables = at.tables(4000, np.random.default_rng(0))
    # Location and scale of every record: five standard errors of mean and variance.
    spread = np.sqrt(np.diag(covariance) + noise)
    assert np.abs((tables.mean(axis=1) - loc) / spread).max() < 5 / np.sqrt(4000)
    assert np.abs(tables.var(axis=1) / spread**2 - 1).max() < 5 * np.sqrt(2 / 4000)
