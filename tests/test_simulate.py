"""Simulated tables have the stated shape, share and truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bayeseval import names
from bayeseval.design import build_design
from bayeseval.errors import InputError
from bayeseval.records import reduce_replicates
from bayeseval.simulation import Simulation, simulate
from bayeseval.spec import load_spec
from tests.helpers import assert_within_mcse


@pytest.mark.parametrize("spec", ["additive", "interaction", "crossed", "robust", "paper"])
def test_scores_are_the_truth_plus_noise_of_the_stated_size(spec: str) -> None:
    drawn = simulate(
        spec, n_languages=20, n_tasks=8, n_models=9, observed_share=0.6, seed=3, sds={"sd_model": 9}
    )
    design = build_design(drawn.records, load_spec(spec))
    expected = drawn.expected[
        design.factor_index["language"], design.factor_index["task"], design.factor_index["model"]
    ]
    residual = design.score - expected
    n = round(0.6 * 20 * 8 * 9)
    assert design.n_records == n
    sd = drawn.truth["sd_residual"]
    if spec == "robust":
        sd = sd * np.sqrt(drawn.truth["nu"] / (drawn.truth["nu"] - 2.0))
    # The mean of n residuals: five standard errors.
    assert abs(residual.mean()) < 5.0 * sd / np.sqrt(n)
    if spec != "robust":
        # Variance of a sample variance of normals is 2 sd^4 / (n - 1).
        assert abs(residual.var() / sd**2 - 1.0) < 5.0 * np.sqrt(2.0 / (n - 1))
    assert drawn.truth["sd_model"] == 9.0


def test_the_expected_scores_are_the_sum_of_the_effects() -> None:
    drawn = simulate("crossed", n_languages=4, n_tasks=3, n_models=5, seed=1)
    truth = drawn.truth
    for lang, task, model in np.ndindex(drawn.expected.shape):
        potential = (
            truth["intercept"]
            + truth["language_effect"][lang]
            + truth["task_effect"][task]
            + truth["language_task_effect"][lang, task]
        )
        expected = (
            potential
            + truth["model_effect"][model]
            + truth["model_task_effect"][model, task]
            + truth["model_language_effect"][model, lang]
        )
        assert drawn.potential[lang, task] == pytest.approx(potential, abs=1e-9)
        assert drawn.expected[lang, task, model] == pytest.approx(expected, abs=1e-9)
    assert drawn.language_potential == pytest.approx(drawn.potential.mean(axis=1))


def test_main_effects_sum_to_zero_unless_models_are_a_sample() -> None:
    assert simulate("additive", seed=2).truth["model_effect"].sum() == pytest.approx(0.0, abs=1e-9)
    assert abs(simulate("paper", seed=2).truth["model_effect"].sum()) > 1e-3


def test_the_same_seed_gives_the_same_table_and_streams_are_apart() -> None:
    first, again = simulate("additive", seed=5), simulate("additive", seed=5)
    assert first.records.content_hash == again.records.content_hash
    other = simulate("additive", seed=6)
    assert other.records.content_hash != first.records.content_hash
    pinned = [simulate("additive", seed=s, pattern_seed=9).records.table for s in (1, 2)]
    cells = ["language", "task", "model"]
    assert pinned[0][cells].equals(pinned[1][cells])
    assert not np.allclose(pinned[0]["score"], pinned[1]["score"])


def test_a_zero_sd_takes_the_term_out() -> None:
    drawn = simulate("interaction", seed=0, sds={"sd_language_task": 0.0, "sd_residual": 0.0})
    assert np.all(drawn.truth["language_task_effect"] == 0.0)


def test_hierarchical_residuals_differ_by_level() -> None:
    spec = load_spec({"name": "x", "residual_by": "language"})
    drawn = simulate(spec, seed=4, sds={"sd_residual": 6.0, "sd_log_residual": 0.5})
    levels = drawn.truth["sd_residual_language"]
    assert levels.shape == (12,)
    assert np.log(levels / 6.0).std() > 0.1


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"sds": {"sd_langage": 1.0}}, "did you mean 'sd_language'?"),
        ({"sds": {"sd_task": -1.0}}, "sd_task must be zero or more, got -1"),
        ({"sds": {"sd_task": float("nan")}}, "sd_task must be zero or more, got nan"),
        ({"intercept": float("nan")}, "intercept must be a finite number, got nan"),
        ({"intercept": float("inf")}, "intercept must be a finite number, got inf"),
        ({"observed_share": 0.0}, "observed_share must lie in (0, 1], got 0"),
        ({"observed_share": 0.01}, "raise observed_share"),
        ({"n_items": 0}, "n_items must be at least 1, got 0"),
        ({"n_models": 1}, "at least two languages, one task and two models"),
    ],
)
def test_impossible_shapes_are_refused(arguments: dict[str, object], phrase: str) -> None:
    with pytest.raises(InputError) as caught:
        simulate("additive", **arguments)  # type: ignore[arg-type]
    assert phrase in str(caught.value)


def _with_replicates(**more: Any) -> Simulation:
    given = {"n_languages": 12, "n_tasks": 2, "n_models": 25, "observed_share": 1.0, "seed": 4}
    sds = {"sd_seed_model": 2.0, "sd_boot_model": 3.0, "sd_seed_boot_model": 1.5}
    spreads = {"sd_log_seed": 0.0, "sd_log_boot": 0.0, "sd_log_seed_boot": 0.0}
    sizes = {"n_seeds": 4, "n_boot": 5}
    return simulate("additive", **given, **(sizes | {"sds": sds | spreads} | more))


def test_replicates_have_the_variances_that_were_asked_for() -> None:
    drawn = _with_replicates()
    cells = reduce_replicates(drawn.records)
    assert len(cells) == 600
    assert len(drawn.records) == 600 * 4 * 5
    assert {len(drawn.truth[f"sd_{s}_cell"].shape) for s in names.RUN_SOURCES} == {3}
    for stratum, df, expected in (
        (cells.seed, 3, 2.0**2 + 1.5**2 * (1 + 1 / 5)),
        (cells.boot, 4, 3.0**2 + 1.5**2 / 4),
        (cells.cross, 12, 1.5**2),
    ):
        assert set(stratum.df) == {float(df)}
        # A chi-square with 600 df degrees of freedom: five standard errors.
        assert stratum.mean_square.mean() / expected == pytest.approx(
            1.0, abs=5.0 * np.sqrt(2.0 / (600 * df))
        )
    at = tuple(cells.codes[f] for f in names.FACTORS)
    error = cells.mean - drawn.truth["cell_mean"][at]
    # Test-set noise does not average away over the bootstraps.
    expected = (2.0**2 + 1.5**2 * (1 + 1 / 5)) / 4 + 3.0**2 * (1 + 1 / 5)
    assert error.var() / expected == pytest.approx(1.0, abs=5.0 * np.sqrt(2.0 / 600))
    assert abs(error.mean()) < 5.0 * np.sqrt(expected / 600)


def _boots(drawn: Simulation) -> npt.NDArray[np.float64]:
    """Scores by language, task, model and bootstrap."""
    table = drawn.records.table.sort_values([*names.FACTORS, "boot"])
    shape = [len(drawn.records.coords[factor]) for factor in names.FACTORS]
    return np.asarray(table["score"].to_numpy().reshape(*shape, -1))


@pytest.mark.parametrize(
    "shares", [{"task": 0.2, "language:task": 0.4, "model:task": 0.1}, {"model:task": 1.0}, None]
)
def test_bootstraps_of_equal_labels_covary_as_asked(shares: dict[str, float] | None) -> None:
    drawn = simulate(
        n_languages=4,
        n_tasks=2,
        n_models=3,
        n_boot=4000,
        observed_share=1.0,
        sds={"sd_boot_model": 2.0, "sd_log_boot": 0.4},
        test_set_shares=shares,
    )
    covariance = np.cov(_boots(drawn).reshape(24, 4000))
    language, task, model = (
        at.ravel()[:, None] == at.ravel() for at in np.indices((4, 2, 3), dtype=int)
    )
    given = shares or {}
    expected = given.get("task", 0.0) + given.get("language:task", 0.0) * language
    expected = task * (expected + given.get("model:task", 0.0) * model)
    np.fill_diagonal(expected, 1.0)
    sd = np.asarray(drawn.truth["sd_boot_cell"]).ravel()
    assert np.log(sd).std() > 0.2
    # Five standard errors of a covariance of 4,000 draws of unit variance.
    error = 5.0 * np.sqrt(2.0 / 4000)
    assert np.abs(covariance / np.outer(sd, sd) - expected).max() < error


def test_the_test_set_at_hand_is_shared_like_its_bootstraps() -> None:
    sds = {"sd_boot_model": 3.0, "sd_log_boot": 0.0}
    drawn = _with_replicates(n_seeds=0, n_boot=2, sds=sds, test_set_shares={"language:task": 1.0})
    error = _boots(drawn).mean(axis=-1) - drawn.truth["cell_mean"]
    # One draw for all models of a pair, with the variance of a test set and half of it.
    assert np.ptp(error, axis=2).max() == pytest.approx(0.0, abs=1e-9)
    assert error[..., 0].var() / (9.0 * 1.5) == pytest.approx(1.0, abs=5.0 * np.sqrt(2.0 / 24))


def test_the_sds_of_cells_differ_as_asked_and_are_those_of_their_replicates() -> None:
    drawn = _with_replicates(n_seeds=40, n_boot=0, sds={"sd_seed_model": 2.0, "sd_log_seed": 0.7})
    truth = drawn.truth["sd_seed_cell"]
    assert np.log(truth / 2.0).std() == pytest.approx(0.7, abs=5.0 * 0.7 / np.sqrt(2 * 600))
    cells = reduce_replicates(drawn.records)
    own = np.sqrt(cells.seed.mean_square) / truth[tuple(cells.codes[f] for f in names.FACTORS)]
    # Five standard errors of an sd on 39 degrees of freedom, in the farthest of 600.
    assert np.abs(own - 1.0).max() < 5.0 / np.sqrt(2 * 39)
    assert "sd_boot_model" not in drawn.truth
    assert "boot" not in drawn.records.table


def test_replicates_leave_the_cells_as_they_were() -> None:
    plain = _with_replicates(n_seeds=0, n_boot=0, sds={})
    drawn = _with_replicates()
    assert (plain.expected == drawn.expected).all()
    assert "cell_mean" not in plain.truth
    table = plain.records.table
    own = drawn.truth["cell_mean"][tuple(plain.records.codes(f) for f in names.FACTORS)]
    assert table["score"].to_numpy() == pytest.approx(own)


def test_dropped_replicates_make_incomplete_cells() -> None:
    drawn = _with_replicates(drop_share=0.3)
    n = 600 * (4 + 0.7 * 16)
    assert abs(len(drawn.records) - n) < 5.0 * np.sqrt(600 * 16 * 0.21)
    cells = reduce_replicates(drawn.records)
    assert cells.unbalanced is not None
    assert len(cells.unbalanced) > 550
    counts = drawn.records.table.groupby(list(names.FACTORS))[["seed", "boot"]].nunique()
    assert counts.min().min() >= 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_seeds": -1}, "n_seeds must be zero or more, got -1"),
        ({"n_boot": 3, "drop_share": 1.0}, "drop_share must lie in"),
        (
            {"n_boot": 3, "test_set_shares": {"task:language": 0.5}},
            "test_set_shares: 'task:language' is not known; did you mean 'language:task'\\? "
            "\\(known: task, language:task, model:task\\)",
        ),
        (
            {"n_boot": 3, "test_set_shares": {"task": 1.5}},
            r"test_set_shares\['task'\] must lie in \[0, 1\], got 1.5",
        ),
        (
            {"n_boot": 3, "test_set_shares": {"task": 0.5, "model:task": 0.7}},
            "test_set_shares must add up to at most 1, got 1.2",
        ),
        ({"test_set_shares": {"task": 0.5}}, "test_set_shares needs bootstrapped test sets"),
        ({"drop_share": 0.2}, "set n_seeds, n_boot or n_prompts"),
        ({"spec": "mexa"}, "simulation does not support covariates, and mexa has mexa"),
        ({"spec": "robust", "n_seeds": 3}, "need the likelihood normal; robust has student_t"),
        ({"n_seeds": 3, "sds": {"sd_boot_model": 1.0}}, "has no parameter 'sd_boot_model'"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(**given)


@pytest.mark.parametrize("likelihood", ["logit_normal", "beta", "binomial", "beta_binomial"])
def test_bounded_scores_scatter_about_their_expectation(likelihood: str) -> None:
    spec = load_spec({"name": "x", "likelihood": likelihood, "chance": True})
    shape = {"n_languages": 15, "n_tasks": 6, "n_models": 8, "observed_share": 0.9}
    drawn = simulate(spec, seed=1, chance=25.0, n_items=50, **shape)
    design = build_design(drawn.records, spec)
    expected = drawn.expected[
        design.factor_index["language"], design.factor_index["task"], design.factor_index["model"]
    ]
    error = design.score - expected
    assert abs(error.mean()) < 5.0 * error.std() / np.sqrt(design.n_records)
    assert expected.min() > 25.0
    assert ((drawn.potential > 25.0) & (drawn.potential < 100.0)).all()
    if likelihood == "binomial":
        share = expected / 100.0
        sd = 100.0 * np.sqrt(share * (1.0 - share) / 50.0)
        # Squares of standardised counts have mean one and sd of about sqrt(2).
        assert abs(((error / sd) ** 2).mean() - 1.0) < 5.0 * np.sqrt(2.0 / design.n_records)
        np.testing.assert_allclose(design.score, 2.0 * drawn.records.numbers("k"))
    # A model drawn anew scores on average what the potential says; at its mean effect it does not.
    sd_model = float(drawn.truth["sd_model"])
    effects = sd_model * np.random.default_rng(2).standard_normal(200_000)
    centre = drawn.truth["intercept"] + drawn.truth["language_effect"][0]
    centre = centre + drawn.truth["task_effect"][0]
    if likelihood != "logit_normal":
        scores = 25.0 + 75.0 / (1.0 + np.exp(-(centre + effects)))
        error = scores.std() / np.sqrt(len(scores))
        assert abs(scores.mean() - drawn.potential[0, 0]) < 5.0 * error
        plugged = 25.0 + 75.0 / (1.0 + np.exp(-centre))
        assert abs(plugged - drawn.potential[0, 0]) > 5.0 * error


@pytest.mark.parametrize(
    ("spec", "more", "message"),
    [
        ({"likelihood": "beta"}, {"intercept": 120.0}, "between 0 and 100"),
        ({"likelihood": "beta"}, {"chance": 25.0}, "has no chance levels"),
        ({"likelihood": "beta", "chance": True}, {}, "pass a chance level"),
        (
            {"likelihood": {"default": "beta", "t0": "normal"}},
            {},
            "one likelihood for all tasks; x has several",
        ),
        (
            {"likelihood": "binomial"},
            {"sds": {"sd_residual": 1.0}},
            "has no parameter 'sd_residual'",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_refused(
    spec: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        simulate(load_spec({"name": "x", **spec}), **more)


PROMPTS = {"n_languages": 5, "n_tasks": 3, "n_models": 4, "n_prompts": 6, "seed": 3}


def _codes(simulation: Simulation) -> tuple[np.ndarray, ...]:
    """Language, task, model and prompt of every row."""
    table, coords = simulation.records.table, simulation.records.coords
    factors = [table[f].map(list(coords[f]).index).to_numpy() for f in names.FACTORS]
    return (*factors, table["prompt"].str[1:].astype(int).to_numpy())


def _of_prompts(simulation: Simulation) -> np.ndarray:
    """What the truth says that the prompt of every row does to several cells."""
    language, task, model, prompt = _codes(simulation)
    truth = simulation.truth
    return np.asarray(
        truth["prompt_task_effect"][prompt, task]
        + truth["prompt_language_task_effect"][prompt, language, task]
        + truth["prompt_model_task_effect"][prompt, task, model]
    )


def test_prompts_are_those_of_the_truth() -> None:
    """Rows are the cell, what its prompt does to several cells, and its own part."""
    still = simulate("additive", **PROMPTS, sds={"sd_prompt_model": 0.0})
    language, task, model, _ = _codes(still)
    cell = still.truth["cell_mean"][language, task, model]
    np.testing.assert_allclose(still.records.scores, cell + _of_prompts(still), rtol=0.0, atol=1e-9)
    assert {f"sd_prompt_{part}" for part in ("task", "language_task", "model_task")} < set(
        still.truth
    )
    noisy = simulate("additive", **PROMPTS, sds={"sd_prompt_task": 30.0})
    own = noisy.records.scores - cell - _of_prompts(noisy)
    sd = noisy.truth["sd_prompt_cell"][language, task, model]
    assert_within_mcse((own / sd) ** 2, 1.0, min_ess=200.0)
    # The effects of all cells of a task are no part of it.
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(((noisy.records.scores - cell) / sd) ** 2, 1.0, min_ess=200.0)


def test_prompts_are_the_same_for_all_runs_of_a_cell() -> None:
    """The table is one that a fit takes: every prompt of a cell has the same seeds."""
    simulation = simulate("additive", **PROMPTS, n_seeds=2, drop_share=0.4)
    table = simulation.records.table
    runs = table.groupby([*names.FACTORS, "prompt"]).size()
    assert set(runs) == {2}
    per_cell = runs.groupby(list(names.FACTORS)).size()
    assert per_cell.min() >= 2 and 2 < per_cell.mean() < 6
    design = build_design(simulation.records, load_spec("additive"))
    assert [source.name for source in design.sources] == ["seed", "prompt"]
    assert len(simulation.records) == 2 * len(runs)
