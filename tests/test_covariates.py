"""Covariates from the card to the tables: who finds them, what they add, what they explain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bayeseval as be
from bayeseval.comparison import prepare_comparison
from bayeseval.design import build_design, restore_design
from bayeseval.engines import Draws, SamplerSettings, to_tree
from bayeseval.engines._density import random_point, to_posterior
from bayeseval.errors import InputError
from bayeseval.estimands import expected_score, read_arrays
from bayeseval.estimands.covariates import SlopeDraws, explained, variance_by_facet
from bayeseval.fitting.covariates import data_hash, find_covariates, given_covariate
from bayeseval.fitting.run import Fit
from bayeseval.leaving_out.run import sensitivity
from bayeseval.records import Covariate
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

MEXA = load_spec("mexa")


@pytest.fixture(scope="module")
def mega() -> be.Records:
    return be.load("mega")


@pytest.fixture(scope="module")
def fitted(mega: be.Records) -> Fit:
    return be.fit(mega, "mexa", draws=500, chains=2)


def test_the_card_names_the_file_and_the_caller_wins(mega: be.Records) -> None:
    (from_card,) = find_covariates(mega, MEXA)
    assert from_card.name == "mexa"
    assert len(from_card.labels) == 203
    assert from_card.missing(mega.coords["language"]) == ()
    assert from_card.matched["sw"] == "swh_Latn"
    (from_path,) = find_covariates(mega, MEXA, mega.covariate_files["mexa"])
    assert from_path.content_hash == from_card.content_hash
    some = mega.subset(mega.codes("language") != 3, name="some")
    assert some.covariate_files == mega.covariate_files
    assert some.datasets == mega.datasets
    mine = Covariate("mexa", "language", ("en", "sw"), (), np.array([1.0, 0.2]))
    assert find_covariates(mega, MEXA, mine) == (mine,)
    assert find_covariates(mega, load_spec("additive")) == ()


def test_what_cannot_be_given_is_refused(mega: be.Records, tmp_path: Path) -> None:
    mine = Covariate("mexas", "language", ("en", "sw"), (), np.array([1.0, 0.2]))
    with pytest.raises(InputError, match="additive has no covariate.*take the model mexa"):
        find_covariates(mega, load_spec("additive"), mine)
    with pytest.raises(InputError, match="no covariate 'mexas'; did you mean 'mexa'"):
        find_covariates(mega, MEXA, mine)
    two = load_spec({"name": "two", "covariates": ["mexa", "age"]})
    with pytest.raises(InputError, match="one file cannot be all of them"):
        find_covariates(mega, two, "mexa.csv")
    card = "name: t\ntitle: t\nfiles: [s.csv]\ncovariates: {mexa: nowhere.csv}\n"
    (tmp_path / "benchmark.yaml").write_text(card)
    (tmp_path / "s.csv").write_text("model,language,task,score\na,en,t,1\nb,de,t,2\n")
    with pytest.raises(InputError, match=r"covariates: mexa: 'nowhere.csv' is not a file in the"):
        be.load(tmp_path)


def test_comparisons_and_refits_take_a_covariate(tmp_path: Path) -> None:
    records = simulate("additive", n_languages=5, n_models=3, n_tasks=2, seed=1).records
    file = tmp_path / "size.csv"
    languages = records.coords["language"]
    lines = [f"{label},{i * i}" for i, label in enumerate(languages)]
    file.write_text("\n".join(["language,size", *lines]))
    with_one, without, auto = prepare_comparison(
        records, ["mexa", "additive", "auto"], covariate=file
    ).fits
    assert [one.name for one in with_one.covariates] == ["mexa"]
    assert without.covariates == ()
    assert [term.name for term in auto.model.spec.covariates] == ["size"]
    with pytest.raises(InputError, match="none of the models has a covariate; name one that has"):
        prepare_comparison(records, ["additive", "robust"], covariate=file)
    found = sensitivity(
        records, "mexa", drop=[], groups={"g": [languages[2]]}, covariate=file, jobs=1
    )
    assert set(found.table["status"]) == {"fitted"}
    assert given_covariate(found.fit.run) == str(file)


def test_the_run_knows_its_covariate(mega: be.Records, fitted: Fit) -> None:
    # By its name: the commands of the checks name no file of the package.
    assert given_covariate(fitted.run) == "mexa"
    assert given_covariate({"benchmark": "mine", "covariates": {}}) == ""
    covariates = find_covariates(mega, MEXA)
    assert fitted.run["data_hash"] == data_hash(mega, covariates) != mega.content_hash
    said = fitted.run["covariates"]["mexa"]
    assert said["hash"] == covariates[0].content_hash
    assert said["n_languages"] == 203
    assert said["matched"]["en"] == "eng_Latn"
    # Restored with the slope: leaving out needs no records.
    assert np.isfinite(fitted.leave_one_out("language", draws=2)["log_likelihood"]["score"]).all()


def test_potentials_are_on_the_line_plus_language_effects(mega: be.Records, fitted: Fit) -> None:
    posterior = fitted.data["posterior"].to_dataset()
    (covariate,) = find_covariates(mega, MEXA)
    raw, _ = covariate.at(mega.coords["language"])
    x = (raw - raw.mean()) / raw.std(ddof=1)
    for language in ("en", "wo", "sw"):
        expected = (
            posterior["intercept"]
            + posterior["language_effect"].sel(language=language)
            + posterior["mexa_slope"] * x[mega.coords["language"].index(language)]
            + posterior["task_effect"].mean("task")
        )
        np.testing.assert_allclose(
            posterior["language_potential"].sel(language=language), expected, rtol=1e-12
        )
    # Standardised values sum to zero, so the mean over languages is the intercept.
    np.testing.assert_allclose(
        posterior["language_potential"].mean("language"),
        posterior["intercept"] + posterior["task_effect"].mean("task"),
        rtol=1e-12,
    )


def test_slope_and_share_on_mega(fitted: Fit) -> None:
    """The slope is clear of zero (issue's must hold) and explains most of the languages."""
    (row,) = fitted.covariates(detail=True).to_dict("records")
    assert row["slope_lower"] > 5.0
    assert 0.5 < row["explained_lower"] < row["explained_mean"] < row["explained_upper"] < 0.9
    assert row["raw_slope_mean"] == pytest.approx(row["slope_mean"] / row["covariate_sd"])
    components = fitted.components(detail=True).set_index("component")
    assert components.loc["mexa", "kind"] == "covariate"
    assert components["share_mean"].sum() == pytest.approx(1.0)
    # A number of another program: least squares of the potentials of `additive` on x.
    plain = (
        be.fit("mega", "additive", draws=500, chains=2).potential(detail=True).set_index("language")
    )
    (covariate,) = find_covariates(be.load("mega"), MEXA)
    x, _ = covariate.at(list(plain.index))
    slope = np.polyfit(x, plain["potential_mean"], 1)[0]
    # Partial pooling draws the potentials to their mean there and to the line here.
    assert row["raw_slope_mean"] == pytest.approx(slope, rel=0.15)


def test_share_explained_by_hand() -> None:
    line = np.array([[1.0, -1.0, 0.0], [2.0, -2.0, 0.0]])
    effect = np.array([[0.5, 0.5, -1.0], [-2.0, 2.0, 0.0]])
    share = explained(line, effect, np.array([1.0, 2.0]))
    np.testing.assert_allclose(share.population, [1 / (1 + 1), 4 / (4 + 4)])
    # Variances of the effects with ddof 1: 0.75 and 4.
    np.testing.assert_allclose(share.finite, [1 / (1 + 0.75), 4 / (4 + 4)])


def test_covariates_of_models_are_averaged_in_potentials_and_kept_in_expected_scores() -> None:
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=3, seed=2).records
    languages, models = records.coords["language"], records.coords["model"]
    values = np.random.default_rng(4).uniform(size=(3, 5))
    covariate = Covariate("mexa", "model:language", languages, models, values)
    fitted = be.fit(records, MEXA, covariate=covariate, draws=50, chains=1)
    one = fitted.data["posterior"].to_dataset().isel(chain=0, draw=3)
    x = (values - values.mean()) / values.std(ddof=1)
    common = one["intercept"] + one["task_effect"].mean()
    for i, language in enumerate(languages):
        expected = common + one["language_effect"][i] + one["mexa_slope"] * x[:, i].mean()
        assert float(one["language_potential"].sel(language=language)) == pytest.approx(
            float(expected), rel=1e-12
        )
    arrays = read_arrays(fitted.data)
    found = expected_score(arrays)[3]
    for r in range(len(found)):
        m, i, t = (arrays.index[f][r] for f in ("model", "language", "task"))
        expected = (
            one["intercept"]
            + one["language_effect"][i]
            + one["task_effect"][t]
            + one["model_effect"][m]
            + one["mexa_slope"] * x[m, i]
        )
        assert found[r] == pytest.approx(float(expected), rel=1e-12)
    # Ratios know the same expected scores: latent Mean-PRR of one model by hand.
    own = np.flatnonzero(arrays.index["model"] == 1)
    potential = fitted.data["estimands"]["potential"].isel(chain=0, draw=3).to_numpy()
    ratio = found[own] / potential[arrays.pairs.of_record[own]]
    assert float(one["mean_prr_latent"][1]) == pytest.approx(ratio.mean(), rel=1e-12)


def test_unknown_values_come_from_the_draws() -> None:
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=3, seed=2).records
    languages = records.coords["language"]
    values = np.array([0.1, np.nan, 0.4, 0.9, 0.2])
    covariate = Covariate("mexa", "language", languages, (), values)
    spec = load_spec({"name": "x", "covariates": [{"name": "mexa", "missing": "model"}]})
    design = build_design(records, spec, [covariate])
    rng = np.random.default_rng(0)
    draws = [to_posterior(design, random_point(design, rng)) for _ in range(4)]
    posterior = {name: np.stack([draw[name] for draw in draws])[None] for name in draws[0]}
    tree = to_tree(design, Draws(posterior, {}, SamplerSettings()), engine="by hand")
    (slope,) = read_arrays(tree).slopes
    there = np.delete(values, 1)
    for draw in range(4):
        expected = (values - there.mean()) / there.std(ddof=1)
        expected[1] = draws[draw]["mexa_unknown"][0]
        np.testing.assert_allclose(slope.standardised[draw], expected, rtol=1e-12)
        np.testing.assert_allclose(
            slope.of_languages()[draw], draws[draw]["mexa_slope"] * expected, rtol=1e-12
        )
    restored = restore_design(tree, spec)
    np.testing.assert_array_equal(restored.slopes[0].unknown, [1])
    assert restored.slopes[0].labels == ("l1",)


def test_the_variance_of_a_covariate_by_facet_is_that_of_a_two_way_table() -> None:
    """By hand, with values far from zero: their mean adds the same to every score."""
    of_models = np.array([[[3.0, 4.0, 8.0], [1.0, 4.0, 6.0]]]) + 100.0
    slope = np.array([2.0, -1.0])
    found = variance_by_facet(SlopeDraws("x", slope, of_models, 0.0, 1.0, "model:language"))
    expected = {"language": 38 / 9, "model": 4 / 9, "model:language": 2 / 9}
    assert set(found) == set(expected)
    for facet, variance in expected.items():
        np.testing.assert_allclose(found[facet], slope**2 * variance, rtol=1e-9, err_msg=facet)
    alone = variance_by_facet(SlopeDraws("x", slope, of_models.mean(axis=1), mean=0.0, sd=1.0))
    assert set(alone) == {"language"}
    np.testing.assert_allclose(alone["language"], slope**2 * 38 / 9, rtol=1e-9)
