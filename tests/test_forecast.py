"""Forecasts: the formula of a new language, how well they do on MEGA, and what is refused."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.checks.container import Check, Checks
from bayeseval.cli import main
from bayeseval.design import build_design, restore_design
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.errors import (
    ConvergenceWarning,
    DesignError,
    InputError,
    addressing_command_line,
)
from bayeseval.estimands import read_arrays
from bayeseval.estimands.forecast import lowest_quarter, new_potential, sample_crps
from bayeseval.fitting.covariates import find_covariates
from bayeseval.fitting.run import Fit
from bayeseval.forecasting.check import _without_covariate, check_forecasts
from bayeseval.forecasting.report import beyond_scale, forecast_figure, idle_covariate, weak_check
from bayeseval.forecasting.run import Forecast, _failed_checks, _true_values, forecast
from bayeseval.records import Covariate
from bayeseval.simulation import simulate
from bayeseval.spec import CovariateTerm, load_spec
from tests.estimands.trees import make_tree


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return be.fit("mega", "mexa", draws=1000, chains=2)


@pytest.fixture(scope="module")
def found(fitted: Fit) -> Forecast:
    return forecast(fitted, check=False)


def test_a_new_language_has_the_stated_mean_and_variance() -> None:
    tree = make_tree(interactions=("language:task",), chains=4, draws=2000, sd_cells=6.0)
    arrays = read_arrays(tree)
    line = np.zeros((arrays.n_samples, 1)) + 3.0
    values = new_potential(arrays, line, rng=np.random.default_rng(0), seed=0)[:, 0]
    centre = arrays.intercept + arrays.main["task"].mean(axis=1) + 3.0
    # Four languages and three tasks in the table.
    variance = arrays.main_sd["language"] ** 2 * (1 + 1 / 4) + 36.0 / 3
    z = (values - centre) / np.sqrt(variance)
    assert z.mean() == pytest.approx(0.0, abs=5 / 8000**0.5)
    assert z.std() == pytest.approx(1.0, abs=5 / 16000**0.5)
    # Negative control: without the share of the population's mean the spread is too small.
    narrow = np.sqrt(arrays.main_sd["language"] ** 2 + 36.0 / 3)
    assert ((values - centre) / narrow).std() > 1.0 + 5 / 16000**0.5


def test_every_language_with_alignment_and_no_records(found: Forecast) -> None:
    table = found.table
    assert len(table) == 203
    assert int((~table["observed"]).sum()) == 150
    own = table[table["observed"]]
    new = table[~table["observed"]]
    outside = (new["mexa"] < own["mexa"].min()) | (new["mexa"] > own["mexa"].max())
    assert (new["extrapolation"] == outside).all()
    assert not own["extrapolation"].any()
    assert int(outside.sum()) == 30
    # A quarter of 203, on average over the draws.
    assert table["p_lowest_quarter"].sum() == pytest.approx(51, abs=1e-9)
    # By the label of the benchmark where there is one, and of the source.
    swahili = table.set_index("language").loc["sw"]
    assert swahili["source_label"] == "swh_Latn"
    # Means lie on the line, within Monte-Carlo error of N(0, 6) over 2,000 draws.
    on_line = np.interp(new["mexa"], found.line["covariate"], found.line["potential_mean"])
    assert np.abs(new["potential_mean"] - on_line).max() < 5 * 6.3 / 2000**0.5


def test_chosen_languages_are_printed_and_the_table_is_whole(fitted: Fit, found: Forecast) -> None:
    some = forecast(fitted, languages=["cat_Latn", "swh_Latn"], check=False)
    # By the source's label; in the table under the benchmark's.
    assert set(some.languages) == {"cat_Latn", "sw"}
    pd.testing.assert_frame_equal(some.table, found.table)
    shown = str(some).partition("\nnote: ")[0]
    assert set(re.findall(r"\w+_[A-Z][a-z]{3}\b", shown)) == {"cat_Latn", "swh_Latn"}
    assert "(2 of 203 languages)\n  +: with records\n" in str(some)
    assert "Swahili (swh_Latn) +" in str(some)
    assert "Catalan (cat_Latn)" in str(some)
    with pytest.raises(InputError, match="no language 'cat_Lat' in the covariate.*'cat_Latn'"):
        forecast(fitted, languages=["cat_Lat"])
    with pytest.raises(InputError, match="no language 'cat_Lat'"):
        forecast(fitted, languages="cat_Lat")


def test_a_posterior_with_infinite_potentials_is_damaged(fitted: Fit) -> None:
    tree = fitted.data.copy(deep=True)
    tree["posterior"]["language_potential"].values[0, 3, 1] = np.inf
    with pytest.raises(InputError, match=r"^the fit is damaged: language_potential has infinite"):
        forecast(replace(fitted, data=tree), check=False)


def test_languages_are_chosen_by_code_or_name(fitted: Fit, found: Forecast) -> None:
    asked = ["swh", "Catalan", "pt-BR", "ace", "de", "eng_Latn"]
    some = forecast(fitted, languages=asked, check=False)
    assert set(some.languages) == {"sw", "cat_Latn", "pt", "ace_Latn", "de", "en"}
    assert some.notes[0] == (
        "languages: 'swh' is read as 'swh_Latn'; 'Catalan' is read as 'cat_Latn'; "
        "'pt-BR' is read as 'por_Latn' (BR is ignored); "
        "'ace' is read as 'ace_Latn' (Latn is its usual script ('ace_Arab' is there too))"
    )
    assert some.notes[1:] == found.notes
    with pytest.raises(InputError, match=r"no language 'Catlan' in .*; did you mean 'Catalan'\?"):
        forecast(fitted, languages=["Catlan"])
    with pytest.raises(InputError, match=r"no language 'Klingon' in the covariate \(it has"):
        forecast(fitted, languages=["Klingon"])
    with pytest.raises(InputError, match="languages: 'zh-Latn' was not matched: .* are near, but"):
        forecast(fitted, languages=["zh-Latn"])


def test_a_table_of_ones_own_gets_from_the_refusal_to_the_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that an error names is run as it is printed."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = itertools.product("ABC", ["sw", "hi", "en", "de", "ta"], ["qa", "nli"])
    table = pd.DataFrame(rows, columns=["model", "language", "task"])
    table.assign(score=rng.normal(60, 9, 30).round(2)).to_csv("my scores.csv", index=False)
    quick = ["--draws", "50", "--chains", "1", "--no-figures", "--no-report", "--no-checks", "-q"]
    main(["fit", "-b", "my scores.csv", "-m", "additive", "--out", "plain", *quick])
    capsys.readouterr()
    assert main(["forecast", "plain"]) == 2
    told = re.search(r"fit one with bayeseval (.*) \(mexa: ", capsys.readouterr().err)
    assert told is not None
    assert told[1] == "fit --benchmark 'my scores.csv' --model mexa --covariate mexa"
    assert main(["fit", "-b", "my scores.csv", "-m", "mexa"]) == 2
    assert "take the one shipped with mega (--covariate mexa)" in capsys.readouterr().err
    assert main([*shlex.split(told[1]), "--out", "with", *quick]) in (0, 3)
    assert main(["forecast", "with", "--languages", "fr", "--no-check", "--no-figures", "-q"]) in (
        0,
        3,
    )
    assert "French (fra_Latn)" in capsys.readouterr().out


def test_the_short_form_names_the_highest_and_the_lowest_forecast(
    fitted: Fit, found: Forecast
) -> None:
    new = found.table[~found.table["observed"]]
    first, last = (new.iloc[i] for i in (0, -1))
    short = repr(found)
    assert short.startswith(f"Forecast(mega, model {fitted.spec.name}, engine marginal; 150 langu")
    assert f"highest {first['language_name']} ({first['source_label']}) " in short
    assert f"lowest {last['language_name']} ({last['source_label']}) " in short
    assert f"{last['potential_mean']:.0f} [" in short
    assert found.fit is fitted
    gate = {"status": "fail", "checks": [], "n_quantities": 1}
    failed = replace(found, fit=replace(fitted, run={**fitted.run, "gate": gate}))
    assert repr(failed) == (
        f"Forecast(NOT CONVERGED; mega, model {fitted.spec.name}, engine marginal)"
    )
    assert set(failed.tables["forecast"]["gate"]) == {"fail"}


def test_forecasts_beyond_the_scale_are_said_to_be(found: Forecast) -> None:
    new = found.table[~found.table["observed"]]
    assert beyond_scale(new, None) == beyond_scale(new, (-1e9, 1e9)) == ""
    assert beyond_scale(new.head(0), (0.0, 1.0)) == ""
    high = float(new["potential_mean"].nlargest(4).iloc[3])
    n_ends = int((new["potential_upper"] > high).sum())
    said = beyond_scale(new, (-1e9, high))
    assert f"of {len(new)} forecasts, 3 lie outside and {n_ends} have intervals that reach" in said
    run = {**found.fit.run, "bounds": {"a": [-200.0, high], "b": [-200.0, high]}}
    bounded = replace(found, fit=replace(found.fit, run=run))
    printed = " ".join(bounded.summary().split())
    assert f"possible scores are from -200 to {high:g}, and a linear model" in printed
    assert f"reach outside the scale, -200 to {high:g})" in repr(bounded)
    unknown = replace(found, fit=replace(found.fit, run={**run, "bounds": {"a": [0.0, None]}}))
    assert "possible scores" not in unknown.summary()


def test_a_covariate_that_does_not_help_is_reported(found: Forecast) -> None:
    check = pd.DataFrame(
        {"with_covariate": [True, True, False, False], "error": [3.0, -4.0, 1.0, 2.0]}
        | {"language": ["x", "y"] * 2, "crps": [3.0, 1.5, 0.5, 1.0], "elpd": -1.0}
        | {"covered_90": True, "covered_95": True}
    )
    sentence = (
        "the covariate does not help: forecasts of left-out languages have a CRPS of 2.25 with it "
        "and 0.75 without it"
    )
    assert idle_covariate(check) == sentence
    small = check.assign(crps=check["crps"] / 100.0)
    assert idle_covariate(small).endswith("a CRPS of 0.0225 with it and 0.0075 without it")
    better = check.assign(with_covariate=~check["with_covariate"])
    assert idle_covariate(better) == (
        "the covariate may not help: forecasts of left-out languages have a CRPS of 0.75 with it "
        "and 2.25 without it, a difference of 1.5 with a standard error of 1"
    )
    assert idle_covariate(better.assign(crps=[3.0, 1.5, 1.5, 0.25])) == ""
    assert idle_covariate(check.iloc[:0]) == ""
    printed = replace(found, check=check).summary()
    assert f"note: {sentence}" in " ".join(printed.split())
    assert "the target is in 100 % of the 90 % intervals and 100 % of the 95 %" in printed


def test_too_narrow_intervals_of_left_out_languages_are_reported(found: Forecast) -> None:
    def check(inside: int, n: int) -> pd.DataFrame:
        covered = np.arange(n) < inside
        parts = [
            {"language": "x", "with_covariate": is_with, "error": 0.1, "crps": 0.1, "elpd": -1.0}
            for is_with in (True, False)
        ]
        # Without the covariate all are covered: that does not count.
        return pd.concat(
            pd.DataFrame([part] * n).assign(covered_90=hit, covered_95=hit)
            for part, hit in zip(parts, (covered, True), strict=True)
        )

    assert weak_check(check(8, 10)) == (
        "only 8 of 10 left-out languages (80 %) lie inside the 95 % intervals of their forecasts, "
        "and about 9.5 should: the intervals of new languages are probably too narrow"
    )
    # P(at most 9 of 10) is 0.40, at most 47 of 53 0.046 and at most 48 of 53 0.12.
    assert weak_check(check(9, 10)) == weak_check(check(48, 53)) == weak_check(found.check) == ""
    assert weak_check(check(47, 53)).startswith("only 47 of 53 left-out languages (89 %)")
    printed = replace(found, check=check(8, 10)).summary()
    assert "note: only 8 of 10 left-out languages (80 %)" in " ".join(printed.split())
    assert "RMSE 0.1," in printed


def test_failed_checks_of_the_fit_are_named(fitted: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Checks.of([Check("sd_by_language", "fail"), Check("calibration", "warn")], {})
    monkeypatch.setattr(Fit, "checks", lambda fit: failed)
    assert [note.partition(":")[0] for note in _failed_checks(fitted)] == [
        "the fit fails 1 check (sd by language)"
    ]
    monkeypatch.setattr(Fit, "checks", lambda fit: Checks.of([Check("calibration", "warn")], {}))
    assert _failed_checks(fitted) == []


def test_captions_count_the_table_and_the_forecasts(found: Forecast) -> None:
    counts = "13 models, 53 languages, 15 tasks, 1364 records. Forecasts: 150 languages without"
    figures = found.figures()
    assert set(figures) == {"forecast", "forecast_by_script", "forecast_map"}
    for figure in figures.values():
        assert counts in " ".join(text.get_text() for text in figure.texts)


def test_of_many_languages_the_least_expected_are_named(
    found: Forecast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayeseval.forecasting.report._NAMED", 4)
    figure = found.plot()
    own = found.table[found.table["observed"]]
    line = np.interp(own["mexa"], found.line["covariate"], found.line["potential_mean"])
    distance = (own["potential_mean"] - line).abs().to_numpy()
    farthest = own.iloc[np.argsort(-distance)[:4]]
    (axes,) = figure.axes
    written = {text.get_text() for text in axes.texts}
    assert {t.rpartition("(")[2].rstrip(")") for t in written if t} == set(farthest["language"])
    said = " ".join(text.get_text() for text in figure.texts)
    assert "Named: the 4 languages with records that lie farthest from the line." in said


def test_without_scripts_there_is_no_figure_of_them(found: Forecast) -> None:
    table = found.table.assign(source_label=found.table["language"].str.split("_").str[0])
    assert set(replace(found, table=table).figures()) == {"forecast", "forecast_map"}


def test_a_map_names_some_of_many_languages_without_a_place(found: Forecast) -> None:
    lost = [f"qq{i}" for i in range(len(found.table) - 30)]
    labels = [*found.table["source_label"].head(30), *lost]
    table = found.table.assign(source_label=labels, language=labels, language_name=labels)
    figure = replace(found, table=table).plot_map()
    assert figure is not None
    said = " ".join(text.get_text() for text in figure.texts)
    assert said.count("qq") == 20
    assert f" and {len(lost) - 20} others. Data:" in said


def test_chosen_languages_are_marked_and_all_are_drawn(found: Forecast) -> None:
    drawn = forecast_figure(
        found.table,
        found.line,
        covariate="mexa",
        subtitle="",
        gate_status="pass",
        languages=("cat_Latn", "ace_Arab"),
    )
    # Not the line of the slope, nor those from labels to their points.
    dots = [line for line in drawn.axes[0].lines if line.get_marker() == "o"]
    assert [len(np.atleast_1d(line.get_xdata())) for line in dots] == [120, 30, 53, 2]
    # Names lie beside the points, on none of them.
    points = np.vstack([drawn.axes[0].transData.transform(line.get_xydata()) for line in dots])
    for text in drawn.axes[0].texts:
        box = text.get_window_extent()
        assert not any(box.contains(x, y) for x, y in points), text.get_text()
    texts = {text.get_text() for text in drawn.axes[0].texts}
    named = {"Catalan (cat_Latn)", "Acehnese (ace_Arab)", "Lombard (lmo_Latn)"}
    assert texts & named == {"Catalan (cat_Latn)", "Acehnese (ace_Arab)"}


def test_alignment_of_every_model() -> None:
    """A language that lacks some models is told, not forecast from nothing."""
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=2, seed=2).records
    values = np.array([[0.1, 0.4, 0.5, 0.7, 0.9, 0.2, 0.3], [0.2, 0.3, 0.6, 0.9, 1.0, 0.4, np.nan]])
    labels = (*records.coords["language"], "whole", "partly")
    covariate = Covariate("mexa", "model:language", labels, records.coords["model"], values)
    fitted = be.fit(records, "mexa", covariate=covariate, draws=200, chains=1)
    found = forecast(fitted, covariate=covariate, check=False)
    assert set(found.table["language"]) == {*labels} - {"partly"}
    assert found.table.set_index("language").loc["whole", "mexa"] == pytest.approx(0.3)
    assert np.isfinite(found.table.select_dtypes("number")).all(axis=None)
    # The gate of so few draws is another note.
    assert "not forecast, because mexa is missing for some models: partly" in found.notes
    # Values of another kind than those of the fit are told too.
    other = Covariate("mexa", "model:language", labels, records.coords["model"], values / 2)
    assert "sd away from the values that the model was fitted to" in str(
        forecast(fitted, covariate=other, check=False).notes
    )


def test_errors_of_models_are_independent() -> None:
    arrays = read_arrays(make_tree(chains=4, draws=2000))
    x, se = np.array([[1.0], [0.5]]), np.array([[1.0], [0.5]])
    term = CovariateTerm(name="mexa", measurement_error=True)
    drawn = _true_values(x, se, term, arrays, np.random.default_rng(3))
    # Shares of the measurement: 1/2 and 4/5, against a prior N(0, 1).
    assert drawn.mean() == pytest.approx((0.5 * 1.0 + 0.8 * 0.5) / 2, abs=5 * 0.42 / 8000**0.5)
    sd = ((0.5 + 0.2) / 4) ** 0.5
    assert drawn.std() == pytest.approx(sd, abs=5 * sd / 16000**0.5)
    # Negative control: one error for all models, of their mean size.
    assert drawn.std() < 0.75 * (1 - 1 / (1 + 0.75**2)) ** 0.5
    exact = _true_values(x, 0 * se, term, arrays, np.random.default_rng(3))
    assert exact.tolist() == [[0.75]]


def test_left_out_languages_on_a_small_table() -> None:
    """Densities as in closed form; a covariate that is the truth makes forecasts better."""
    truth = simulate("additive", n_languages=8, n_tasks=4, n_models=4, seed=5)
    effects = np.asarray(truth.truth["language_effect"])
    covariate = Covariate("mexa", "language", truth.records.coords["language"], (), effects / 10.0)
    design = build_design(truth.records, load_spec("mexa"), [covariate])
    table = check_forecasts(design)
    assert list(table["with_covariate"]) == [True] * 8 + [False] * 8
    rmse = table["error"].pow(2).groupby(table["with_covariate"]).mean().pow(0.5)
    assert rmse[True] < 0.6 * rmse[False]
    # elpd of the group by another route: closed form at draws of the whole table's sds.
    fitted = be.fit(truth.records, "mexa", covariate=covariate, draws=500, chains=2)
    posterior = {k: fitted.data["posterior"][k].to_numpy() for k in fitted.data["posterior"]}
    density = leave_out_log_density(design, posterior, by="language").reshape(-1, 8)
    harmonic = -np.log(np.mean(np.exp(-density), axis=0))
    own = table[table["with_covariate"]]["elpd"].to_numpy()
    # Importance weights of a left-out eighth of a small table: close, not exact.
    np.testing.assert_allclose(own, harmonic, atol=0.3)
    assert _without_covariate(design).slopes == ()


def test_forecasts_on_mega_do_as_documented(fitted: Fit) -> None:
    """Each of the 53 languages left out; the table of docs/forecast.md, which has 500 draws.

    The rows without the covariate are the negative control: they fail what the others pass.
    """
    table = check_forecasts(restore_design(fitted.data, fitted.spec), draws=100)
    by = table.groupby("with_covariate")
    rmse = by["error"].apply(lambda error: np.sqrt((error**2).mean()))
    assert rmse[True] <= 7.0
    # With 200 draws a forecast of sd s has an error of s / sqrt(200), and the RMSE of 53
    # of them one of s / sqrt(200 * 53): 0.06 for s = 6.3, 0.11 for s = 11. Three of each.
    assert rmse[True] == pytest.approx(6.9, abs=0.2)
    assert rmse[False] == pytest.approx(11.1, abs=0.35)
    # A mean of absolute errors, so the same errors again.
    assert by["crps"].mean()[True] == pytest.approx(3.69, abs=0.2)
    assert by["crps"].mean()[False] == pytest.approx(6.17, abs=0.35)
    # Documented: 91 and 92 %. A language is 1.9 %, and two are at the edge of theirs.
    assert 0.85 <= by["covered_90"].mean()[True] <= 0.97
    assert by["covered_90"].mean().to_numpy() == pytest.approx([0.92, 0.91], abs=0.04)
    # The evidence is an importance-weighted mean; seeds differ in its third decimal.
    assert by["elpd"].sum()[True] == pytest.approx(-5314.2, abs=0.1)
    assert by["elpd"].sum()[False] == pytest.approx(-5340.8, abs=0.1)


def test_alignment_explains_the_languages_of_mega_as_documented(fitted: Fit) -> None:
    """Slope and share of docs/model.md; the model without alignment is the control."""
    (row,) = fitted.covariates(detail=True).to_dict("records")
    # The slope's sd is 0.9 and the share's 7 %: Monte-Carlo errors of 2,000 draws are
    # 0.02 and 0.2 %, twice that at the ends of an interval, and all are rounded.
    slope = [row[f"slope_{which}"] for which in ("mean", "lower", "upper")]
    assert slope == pytest.approx([8.4, 6.6, 10.3], abs=0.25)
    assert row["slope_lower"] > 0.0
    share = [row[f"explained_{which}"] for which in ("mean", "lower", "upper")]
    assert share == pytest.approx([0.69, 0.53, 0.81], abs=0.02)
    left = fitted.components(detail=True).set_index("component").loc["language", "sd_mean"]
    assert left == pytest.approx(5.6, abs=0.15)
    # tests/test_mega.py has 10.15 without it.
    assert left < 0.6 * 10.15


def test_crps_and_quarter_by_hand() -> None:
    # E|X - 1| = 1 and E|X - X'| = 1 for draws 0 and 2.
    assert sample_crps(np.array([2.0, 0.0]), 1.0) == pytest.approx(1.0 - 0.5 * 1.0)
    z = np.random.default_rng(0).standard_normal(200_000)
    # Of a standard normal at its mean: (sqrt(2) - 1) / sqrt(pi).
    assert sample_crps(z, 0.0) == pytest.approx((2**0.5 - 1) / np.pi**0.5, abs=2e-3)
    ranks = np.array([[1.0, 2, 3, 4], [4.0, 3, 2, 1]])
    assert lowest_quarter(ranks).tolist() == [[False] * 3 + [True], [True] + [False] * 3]


def test_a_forecast_of_a_failed_fit_warns_once_and_says_it(fitted: Fit) -> None:
    gate = {**fitted.run["gate"], "status": "fail"}
    failed = replace(fitted, run={**fitted.run, "gate": gate})
    with pytest.warns(ConvergenceWarning, match="the convergence gate failed") as told:
        found = forecast(failed, check=False)
    assert [one.filename for one in told] == [__file__]
    assert found.notes[0].startswith("the convergence gate of the fit failed")


def test_a_fit_whose_data_are_not_all_kept_forecasts_without_a_check(
    fitted: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise DesignError("not available for a model that estimates noise of replicates")

    monkeypatch.setattr("bayeseval.forecasting.run.restore_design", refused)
    made = forecast(fitted)
    assert len(made.table) and not len(made.check)
    assert (
        "no check of the forecasts: not available for a model that estimates noise of replicates"
        in made.notes
    )


def test_what_is_refused() -> None:
    plain = be.fit("mega", "additive", draws=20, chains=1)
    refused = (
        "the model additive has no covariate of languages and does not relate them, and a "
        "forecast needs one of these; fit a spec with "
        "'languages: {place: 1000 km, family: glottolog, script: true}', or fit one with "
    )
    with pytest.raises(InputError) as caught:
        forecast(plain)
    assert str(caught.value) == f"{refused}be.fit(records, 'mexa')"
    with addressing_command_line(), pytest.raises(InputError) as caught:
        forecast(plain)
    assert str(caught.value) == f"{refused}bayeseval fit --benchmark mega --model mexa"
    without = (
        "the model additive has no covariate of languages, and {0} gives the values of one that "
        "the model has: the fit estimates what it adds to a potential; fit one with {1}, and "
        "forecast from its folder"
    )
    for given, python, command in (
        ("mexa", "'mexa'", "--model mexa"),
        ("my own.csv", "'auto', covariate='my own.csv'", "--model auto --covariate 'my own.csv'"),
        (
            Covariate("x", "language", ("en", "de"), (), np.array([1.0, 2.0])),
            "'auto', covariate=covariate",
            None,
        ),
    ):
        with pytest.raises(InputError) as caught:
            forecast(plain, covariate=given)
        assert str(caught.value) == without.format("covariate", f"be.fit(records, {python})")
        if command is not None:
            with addressing_command_line(), pytest.raises(InputError) as caught:
                forecast(plain, covariate=given)
            called = f"bayeseval fit --benchmark mega {command}"
            assert str(caught.value) == without.format("--covariate", called)
    logit = make_tree()
    arrays = read_arrays(logit)
    bent = replace(arrays, response=replace(arrays.response, link="logit"))
    with pytest.raises(InputError, match="logit link"):
        new_potential(bent, np.zeros((arrays.n_samples, 1)), rng=np.random.default_rng(0), seed=0)


def test_the_command_adds_to_the_folder(
    fitted: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fitted.save(tmp_path / "r", figures=False)
    arguments = ["--languages", "cat_Latn,ace_Arab", "--no-check", "-q"]
    (folder / "report.html").write_text("older than the forecast", encoding="utf-8")
    assert main(["forecast", str(folder), *arguments]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == f"Report: {folder}/report.html"
    assert "cat_Latn" in (folder / "report.html").read_text(encoding="utf-8")
    assert "cat_Latn" in said
    assert "(ace_Arab) *" in said
    table = pd.read_csv(folder / "tables" / "forecast.csv")
    # The file is whole, whatever was asked for.
    assert len(table) == 203
    assert (table["gate"] == "pass").all()
    assert (folder / "figures" / "forecast.png").stat().st_size > 10_000
    assert (folder / "figures" / "forecast_by_script.png").stat().st_size > 5_000
    assert (folder / "figures" / "forecast_map.png").stat().st_size > 50_000
    assert main(["forecast", str(tmp_path / "nowhere")]) == 2


def test_the_covariate_of_the_fit_is_found_again(fitted: Fit) -> None:
    (covariate,) = find_covariates(be.load("mega"), load_spec("mexa"))
    given = forecast(fitted, covariate=covariate, check=False)
    pd.testing.assert_frame_equal(given.table, forecast(fitted, check=False).table)


@pytest.mark.parametrize(
    "folder", ["/home/else/bayeseval/benchmarks/mega/covariates/", r"C:\bayeseval\_data\mega\\"]
)
def test_a_shipped_covariate_is_found_again_on_another_machine(
    fitted: Fit, found: Forecast, folder: str
) -> None:
    def moved(file: str, digest: str) -> Fit:
        said = {"mexa": {**fitted.run["covariates"]["mexa"], "source": file, "hash": digest}}
        return replace(fitted, run={**fitted.run, "covariates": said})

    digest = fitted.run["covariates"]["mexa"]["hash"]
    elsewhere = forecast(moved(f"{folder}mexa.csv", digest), check=False)
    pd.testing.assert_frame_equal(elsewhere.table, found.table)
    # Another file, or other values under the same name, are not taken for it.
    for fit in (moved(f"{folder}mine.csv", digest), moved(f"{folder}mexa.csv", "0" * 64)):
        with pytest.raises(
            InputError, match="that the fit was made with are not at .*with covariate$"
        ):
            forecast(fit, check=False)
