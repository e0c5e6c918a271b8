"""`predictive=True`: log priors, predicted scores and prior draws, as ArviZ reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from arviz_stats import psense_summary
from scipy import stats

from bayeseval import Fit, fit, names
from bayeseval.checks import predictive_groups
from bayeseval.checks.prior import prior_tree
from bayeseval.cli import main
from bayeseval.design import Design, build_design
from bayeseval.engines import numpyro, pymc
from bayeseval.engines._density import random_point, sampled_variables
from bayeseval.errors import InputError
from bayeseval.estimands import expected_score, read_arrays
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.helpers import assert_within_mcse
from tests.replicate_tables import frame

ADDED = {"log_prior", "posterior_predictive", "prior", "prior_predictive"}
SDS = ["sd_language", "sd_task", "sd_model", "sd_residual"]


@pytest.fixture(scope="module")
def table() -> Records:
    rows = simulate("additive", n_languages=12, seed=3).records.table
    rows["se"] = np.linspace(0.5, 8.0, len(rows))
    return Records.from_frame(rows, name="with errors", mixed_scales="allow")


@pytest.fixture(scope="module")
def found(table: Records) -> Fit:
    return fit(table, "additive", engine="marginal", predictive=True)


def small(spec: object) -> Design:
    rows = simulate("crossed", n_languages=5, n_tasks=3, n_models=3, seed=4).records.table
    return build_design(Records.from_frame(rows, name="small", mixed_scales="allow"),
                        load_spec(spec))  # fmt: skip


def with_seeds() -> Design:
    rows = frame("crossed")
    return build_design(Records.from_frame(rows, name="seeds"), load_spec("replicates"))


DESIGNS = {
    "additive": lambda: small("additive"),
    "fixed effects": lambda: small("paper"),
    "heavy tails": lambda: small("robust"),
    "replicates": with_seeds,
}


@pytest.mark.parametrize("engine", [numpyro, pymc], ids=["numpyro", "pymc"])
@pytest.mark.parametrize("kind", DESIGNS)
def test_log_priors_are_those_of_the_sampled_density(kind: str, engine: object) -> None:
    design = DESIGNS[kind]()
    tree = prior_tree(design, np.random.default_rng(1), 3)
    densities = predictive_groups(tree, design, seed=0)["log_prior"]
    fixed = [term.effect for term in design.terms if isinstance(term.known_sd, float)]
    assert list(densities) == [*design.priors, *fixed]
    if kind == "replicates":
        assert densities["sd_seed_model"].dims == ("chain", "draw", "model")
    posterior = tree["posterior"].to_dataset()
    for draw in range(3):
        # The densities of parameters do not depend on the variables that are random here.
        point = random_point(design, np.random.default_rng(draw))
        for name in sampled_variables(design):
            if name in posterior:
                point[name] = posterior[name].to_numpy()[0, draw]
        for term in design.terms:
            if not term.centred and term.effect in fixed:
                point[term.offset] = posterior[term.effect].to_numpy()[0, draw] / term.known_sd
        parts = engine.log_density(design, point)
        for name in densities:
            own = float(densities[name][0, draw].sum())
            if name in parts:
                assert own == pytest.approx(parts[name], rel=1e-9, abs=1e-9)
            else:
                # A fixed effect that is sampled on unit scale.
                term = next(term for term in design.terms if term.effect == name)
                scale = (term.n_levels - term.zero_sum) * np.log(term.known_sd)
                assert own == pytest.approx(parts[term.offset] - scale, rel=1e-9)


def test_log_priors_of_a_fit_have_their_closed_form(found: Fit, table: Records) -> None:
    score = table.table["score"]
    sd = score.std(ddof=1)
    posterior, densities = found.data["posterior"], found.data["log_prior"]
    assert densities["intercept"].dims == ("chain", "draw")
    expected = stats.norm(score.mean(), 2.5 * sd).logpdf(posterior["intercept"])
    np.testing.assert_allclose(densities["intercept"], expected, rtol=1e-12)
    for name in SDS:
        expected = stats.halfnorm(scale=sd).logpdf(posterior[name])
        np.testing.assert_allclose(densities[name], expected, rtol=1e-12)


def noise(result: Fit, scores: np.ndarray) -> np.ndarray:
    """Errors of predicted scores in known standard deviations, (draws, records)."""
    arrays = read_arrays(result.data)
    sd = np.sqrt(arrays.residual_sd**2 + arrays.se**2)
    return (scores.reshape(arrays.n_samples, -1) - expected_score(arrays)) / sd


def test_predicted_scores_have_the_mean_and_sd_of_their_draws(found: Fit) -> None:
    scores = found.data["posterior_predictive"]["score"]
    assert scores.dims == ("chain", "draw", "record")
    errors = noise(found, scores.to_numpy())
    for record in range(errors.shape[1]):
        assert_within_mcse(errors[:, record], 0.0)
        assert_within_mcse(errors[:, record] ** 2, 1.0)
    # Negative controls: predictions of other records, and noise with 5 % more sd.
    shifted = noise(found, np.roll(scores.to_numpy(), 1, axis=2))
    assert np.abs(shifted.mean(axis=0)).max() > 0.5
    with pytest.raises(AssertionError, match="MCSE away"):
        for record in range(errors.shape[1]):
            assert_within_mcse(1.1 * errors[:, record] ** 2, 1.0)


def test_prior_predictive_scores_have_the_mean_and_sd_of_prior_draws(found: Fit) -> None:
    prior = found.data["prior"].to_dataset()
    scores = found.data["prior_predictive"]["score"].to_numpy()[0]
    constant = found.data["constant_data"]
    eta = prior["intercept"].to_numpy()[0][:, None] + sum(
        prior[f"{f}_effect"].to_numpy()[0][:, constant[f"{f}_index"].to_numpy()]
        for f in names.FACTORS
    )
    sd = np.sqrt(prior["sd_residual"].to_numpy()[0][:, None] ** 2 + constant["se"].to_numpy() ** 2)
    errors = (scores - eta) / sd
    assert_within_mcse(errors.mean(axis=1), 0.0)
    assert_within_mcse((errors**2).mean(axis=1), 1.0)
    assert len(scores) == 1000
    sd = float(found.data["observed_data"]["score"].std(ddof=1))
    assert_within_mcse(prior["sd_task"].to_numpy()[0], stats.halfnorm(scale=sd).mean())


def test_nuts_predicts_the_scores_that_the_marginal_engine_predicts(
    found: Fit, table: Records
) -> None:
    other = fit(table, "additive", engine="numpyro", draws=500, tune=500, chains=2, predictive=True)
    assert set(other.data.children) > ADDED
    errors = noise(other, other.data["posterior_predictive"]["score"].to_numpy())
    assert_within_mcse(errors.mean(axis=1), 0.0)
    assert_within_mcse((errors**2).mean(axis=1), 1.0)
    # Expected scores of 4,000 independent draws, whose own error is small beside that of
    # single predicted scores of a thousand.
    expected = expected_score(read_arrays(found.data)).mean(axis=0)
    scores = other.data["posterior_predictive"]["score"].to_numpy()
    for record in range(0, len(expected), 10):
        assert_within_mcse(scores[:, :, record], expected[record])
    own = [float(result.data["log_prior"]["sd_task"].mean()) for result in (found, other)]
    assert own[0] == pytest.approx(own[1], abs=0.1)


def test_the_fit_itself_does_not_change(found: Fit, table: Records) -> None:
    plain = fit(table, "additive", engine="marginal")
    assert set(found.data.children) - set(plain.data.children) == ADDED
    for name in plain.data.children:
        xr.testing.assert_identical(plain.data[name].to_dataset(), found.data[name].to_dataset())
    assert (plain.run["predictive"], found.run["predictive"]) == (False, True)
    # Added later, they are the same numbers.
    later = plain.with_predictive()
    assert later.run["predictive"] is True
    for name in ADDED:
        xr.testing.assert_identical(later.data[name].to_dataset(), found.data[name].to_dataset())


def test_the_command_stores_them(table: Records, found: Fit, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "scores.csv")
    arguments = ["fit", "-b", str(tmp_path / "scores.csv"), "-m", "additive", "-q", "--predictive"]
    arguments += ["--no-checks", "--no-figures", "--no-report", "--out", str(tmp_path / "one")]
    assert main(arguments) == 0
    again = Fit.open(tmp_path / "one")
    assert again.run["predictive"] is True
    for name in ADDED:
        xr.testing.assert_allclose(
            again.data[name].to_dataset(), found.data[name].to_dataset(), rtol=1e-12
        )
    summary = psense_summary(again.data, var_names=SDS)
    assert summary.index.tolist() == SDS


def test_power_scaling_flags_a_prior_that_is_far_too_tight(found: Fit, table: Records) -> None:
    tight = {"name": "tight", "priors": {"sd_language": {"dist": "half_normal", "scale": 0.05}}}
    wrong = fit(table, tight, engine="marginal", predictive=True)
    sensitivity = [
        psense_summary(result.data, var_names=["sd_language"])["prior"].item()
        for result in (found, wrong)
    ]
    # ArviZ's limit.
    assert float(sensitivity[0]) < 0.05
    assert float(sensitivity[1]) > 0.2


def test_a_point_estimate_is_refused_in_one_line(
    table: Records, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = r"needs draws from a posterior, and the engine ml gives a point estimate; use the"
    with pytest.raises(InputError, match=r"^predictive " + line):
        fit(table, "paper", engine="ml", predictive=True)
    with pytest.raises(InputError, match=r"^with_predictive " + line):
        fit(simulate(seed=1).records, "paper", engine="ml").with_predictive()
    table.to_csv(tmp_path / "scores.csv")
    arguments = ["fit", "-b", str(tmp_path / "scores.csv"), "-m", "paper", "--engine", "ml"]
    assert main([*arguments, "--predictive", "-q", "--out", str(tmp_path / "no")]) == 2
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "--predictive" in line]
    assert said.startswith("error: --predictive needs draws")
    assert not (tmp_path / "no").exists()


def test_a_large_table_keeps_some_of_the_predicted_scores(
    table: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MOST_POINTWISE", len(table) * 4 * 25)
    some = fit(table, "additive", engine="marginal", predictive=True)
    kept = some.data["posterior_predictive"]["draw"].to_numpy()
    assert (len(kept), kept[0], kept[-1]) == (25, 0, 999)
    assert some.data["prior"].sizes["draw"] == 25
    assert some.data["log_prior"].sizes["draw"] == 1000
    (note,) = [note for note in some.run["notes"] if "posterior_predictive" in note]
    assert note.startswith("posterior_predictive holds 25 of the 1000 draws of each chain")


def test_a_fit_with_replicates_predicts_from_the_design_at_hand() -> None:
    design = with_seeds()
    tree = prior_tree(design, np.random.default_rng(2), 400)
    scores = predictive_groups(tree, design, seed=5)["posterior_predictive"]["score"]
    arrays = read_arrays(tree)
    variance = arrays.residual_sd[:, arrays.index[names.MODEL]] ** 2 + arrays.error_variance()
    errors = (scores.to_numpy()[0] - expected_score(arrays)) / np.sqrt(variance)
    assert_within_mcse(errors.mean(axis=1), 0.0, min_ess=400)
    assert_within_mcse((errors**2).mean(axis=1), 1.0, min_ess=400)
