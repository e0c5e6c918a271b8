"""`fit` from Python: provenance, views, saving and reading back, ArviZ on the result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval as be
from bayeseval import Fit, fit
from bayeseval.errors import BayesevalError, InputError
from bayeseval.records import Covariate
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec


@pytest.fixture(scope="module")
def small() -> Fit:
    records = simulate("interaction", n_languages=6, n_tasks=4, n_models=5, seed=8).records
    return fit(records, "interaction", engine="numpyro", draws=250, tune=250, seed=3)


def test_a_result_knows_how_it_was_made(small: Fit) -> None:
    run = small.run
    assert run["engine"] == "numpyro"
    assert run["spec"]["interactions"] == ["language:task"]
    assert run["priors"]["sd_language_task"].startswith("half_normal(scale=")
    assert run["levels"] == {"language": 6, "task": 4, "model": 5}
    assert {"jax", "numpyro", "numpy", "python", "xarray"} <= set(run["versions"])
    assert run["settings"]["chains"] == 4
    assert len(run["data_hash"]) == len(run["spec_hash"]) == 64
    assert json.loads(json.dumps(run)) == run


def test_the_views_are_labelled_tables_best_first(small: Fit) -> None:
    potential = small.potential(detail=True)
    assert sorted(potential["language"]) == [f"l{i}" for i in range(6)]
    assert potential["potential_mean"].is_monotonic_decreasing
    means = small.data["posterior"]["language_potential"].mean(("chain", "draw"))
    best = str(means["language"].to_numpy()[int(np.argmax(means.to_numpy()))])
    assert potential["language"].iloc[0] == best
    assert potential["potential_mean"].iloc[0] == pytest.approx(float(means.max()))

    ranking = small.ranking(detail=True)
    assert ranking["score_mean"].is_monotonic_decreasing
    assert ranking["rank_median"].iloc[0] == 1
    assert len(small.by_language(detail=True)) == 5 * 6
    assert set(small.prr(detail=True)["support"]) == {"observed"}
    pd.testing.assert_frame_equal(small.prr(detail=True), small.disparity(detail=True))
    common = small.disparity(support="common", flavour="latent", detail=True)
    assert set(common["support"]) == {"common"}
    assert set(common["prr"]) == {"latent"}
    assert small.components(detail=True)["component"].tolist() == [
        "language",
        "task",
        "model",
        "language:task",
        "residual",
    ]
    assert len(small.pairwise(detail=True)) == 10
    ranks = small.ranks("standardised_score")
    assert ranks.groupby("level")["probability"].sum().to_numpy() == pytest.approx(np.ones(5))


def test_intervals_are_as_wide_as_asked_for(small: Fit) -> None:
    wide, narrow = small.potential(ci_prob=0.95), small.potential(ci_prob=0.5)
    draws = small.data["posterior"]["language_potential"].sel(language=wide["language"].iloc[0])
    lower, upper = np.quantile(draws.to_numpy(), [0.25, 0.75])
    assert narrow["potential_lower"].iloc[0] == pytest.approx(lower)
    assert narrow["potential_upper"].iloc[0] == pytest.approx(upper)
    assert (wide["potential_lower"] < narrow["potential_lower"]).all()


def test_a_fit_survives_the_disk(small: Fit, tmp_path: Path) -> None:
    folder = small.save(tmp_path / "here", figures=False)
    again = Fit.open(folder)
    xr.testing.assert_identical(again.data, small.data)
    assert again.gate == small.gate
    assert again.spec == small.spec
    assert again.potential(detail=True).equals(small.potential(detail=True))


# The small table has influential records; that ArviZ says so is not what is tested.
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto:UserWarning")
def test_arviz_takes_the_data_as_they_are(small: Fit) -> None:
    from arviz_stats import loo, summary

    table = summary(small.data, var_names=["sd_task"], round_to="none")
    draws = small.data["posterior"]["sd_task"].to_numpy()
    assert float(table.loc["sd_task", "mean"]) == pytest.approx(draws.mean())
    elpd = loo(small.data, pointwise=True)
    assert elpd.n_data_points == small.run["n_records"]
    assert np.isfinite(elpd.elpd)


def test_the_same_seed_gives_the_same_numbers_through_everything() -> None:
    records = simulate("additive", seed=1).records
    # The programs of the retry below, once compiled.
    first, again = (
        fit(records, "additive", engine="numpyro", draws=50, tune=20, chains=2, seed=9)
        for _ in range(2)
    )
    for group in ("posterior", "estimands", "log_likelihood"):
        xr.testing.assert_identical(first.data[group], again.data[group])


def test_estimands_recover_the_truth_of_a_noiseless_table() -> None:
    drawn = simulate("additive", seed=2, sds={"sd_residual": 0.05}, observed_share=1.0)
    result = fit(drawn.records, "additive", seed=0)
    table = result.potential(detail=True).set_index("language")["potential_mean"]
    truth = drawn.language_potential
    assert table.loc[list(drawn.records.coords["language"])].to_numpy() == pytest.approx(
        truth,
        abs=0.05,  # five standard errors of a mean of 30 scores with sd 0.05
    )


def test_the_default_is_the_fullest_model_under_its_own_name(tmp_path: Path) -> None:
    drawn = simulate("crossed", n_languages=6, n_tasks=4, n_models=4, seed=4)
    result = fit(drawn.records, draws=100, chains=2)
    # Without two metrics of one dataset.
    assert result.spec == load_spec("crossed")
    assert result.run["spec_hash"] == load_spec("crossed").content_hash
    assert result.run["model_reasons"][0].startswith("model auto -> crossed: language:task (")
    assert "no dataset has two tasks" in result.run["model_reasons"][1]
    named = fit(drawn.records, "crossed", draws=100, chains=2)
    assert named.run["model_reasons"] == []
    xr.testing.assert_identical(result.data["posterior"], named.data["posterior"])
    # It is the same run: it may take the other's place without force.
    named.save(tmp_path / "here", figures=False)
    result.save(tmp_path / "here", figures=False)
    published = fit(drawn.records, engine="ml")
    assert published.spec == load_spec("paper")
    assert published.run["model_reasons"] == [
        "model auto -> paper: the engine ml implements the published procedure for this model"
    ]


def test_the_default_takes_a_covariate_that_is_given() -> None:
    records = simulate("additive", n_languages=8, n_tasks=1, n_models=3, seed=4).records
    languages = records.coords["language"]
    speakers = Covariate("speakers", "language", languages, (), np.arange(8.0))
    result = fit(records, covariate=speakers, draws=100, chains=2)
    assert result.spec.name == "additive-speakers"
    assert list(result.covariates(detail=True)["covariate"]) == ["speakers"]
    assert result.run["covariates"]["speakers"]["by"] == "language"


def test_a_failing_gate_is_retried_once_with_stricter_settings() -> None:
    records = simulate("additive", seed=1).records
    told: list[str] = []
    result = fit(
        records,
        "additive",
        engine="numpyro",
        draws=10,
        tune=20,
        chains=2,
        progress=lambda stage, done, total, remark: told.append(stage),
    )
    assert told.count("retry") == 1
    # Nothing is derived from draws that are replaced.
    assert told.index("retry") < told.index("computing results")
    assert result.gate.status == "fail"
    assert result.run["retried"] is True
    settings = result.run["settings"]
    assert (settings["draws"], settings["tune"], settings["target_accept"]) == (20, 40, 0.99)


def test_an_engine_without_warm_up_is_retried_with_more_draws() -> None:
    records = simulate("additive", seed=1).records
    result = fit(records, "additive", engine="auto", draws=10, chains=2)
    assert result.run["engine"] == "marginal"
    assert result.run["retried"] is True
    assert result.run["settings"] == {"draws": 20, "chains": 2, "seed": 0}
    assert result.gate.status == "fail"


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"spec": "crosed"}, "did you mean 'crossed'?"),
        ({"engine": "nuts"}, "allowed: auto, numpyro, pymc, marginal, ml"),
        ({"spec": {"name": "x", "likelihood": "poisson"}}, "(allowed: normal, student_t"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        (
            {"draws": 10**9},
            "draws 1,000,000,000 for each of 4 chains are 4,000,000,000 draws; at most "
            "10,000,000 are allowed in all; give fewer",
        ),
        ({"tune": 10**8, "chains": 1}, "tune 100,000,000 for each of 1 chain are 100,000,000"),
        ({"chains": 10**6}, "at most 10,000,000 are allowed in all; give fewer"),
        ({"target_accept": 1.5}, "target_accept must lie between 0 and 1"),
        ({"engine": "ml", "spec": "paper", "chains": 2}, "engine ml does not take chains"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, object], phrase: str) -> None:
    with pytest.raises(BayesevalError) as caught:
        fit("mega", **arguments)  # type: ignore[arg-type]
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_view_arguments_are_refused(small: Fit) -> None:
    with pytest.raises(InputError, match="no support 'all' .allowed: observed, common"):
        small.disparity(support="all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no PRR flavour 'raw' .allowed: observed, latent"):
        small.disparity(flavour="raw")  # type: ignore[arg-type]


def test_the_margin_is_a_positive_number_of_score_units() -> None:
    records = simulate("additive", n_languages=4, n_tasks=3, n_models=4, seed=8).records
    with pytest.raises(InputError, match=r"margin must be a positive number of score units, got 0"):
        be.fit(records, "additive", margin=0.0)


def test_common_pairs_are_chosen_and_kept(tmp_path: Path) -> None:
    records = simulate("additive", n_languages=4, n_tasks=3, n_models=4, seed=8).records
    file = tmp_path / "pairs.csv"
    first = records.table[["language", "task"]].drop_duplicates().head(3)
    first.to_csv(file, index=False)
    fitted = be.fit(records, "additive", engine="marginal", draws=50, pairs=file)
    assert fitted.run["pairs"] == str(file)
    constant = fitted.data["constant_data"].to_dataset()
    found = {
        (str(constant["language"].values[i]), str(constant["task"].values[j]))
        for i, j in zip(
            constant["common_pair_language"].values,
            constant["common_pair_task"].values,
            strict=True,
        )
    }
    assert found == set(first.itertuples(index=False, name=None))
    again = be.fit(records, "additive", engine="marginal", draws=50, pairs=first)
    pd.testing.assert_frame_equal(again.ranking(detail=True), fitted.ranking(detail=True))
    everywhere = be.fit(records, "additive", engine="marginal", draws=50).ranking(detail=True)
    assert not np.allclose(everywhere["score_mean"], fitted.ranking(detail=True)["score_mean"])


def test_opening_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such result folder"):
        be.Fit.open(tmp_path / "nothing")
