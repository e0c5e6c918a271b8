"""All checks on tables whose faults are known; the folder, the figure, the predictive groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayeseval import Fit, fit
from bayeseval.checks import Check, Checks, run_checks
from bayeseval.checks.container import FALSE_ALARMS, WARN
from bayeseval.checks.prior import prior_checks
from bayeseval.checks.realised import realised_pit
from bayeseval.cli import main
from bayeseval.design import build_design
from bayeseval.estimands import expected_score, read_arrays
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

RESULTS = Path(__file__).parents[2] / "perf" / "results"
RESIDUAL = (
    *("calibration", "highest_residual", "lowest_residual", "sd_by_language"),
    *("residual_normality", "equal_variance_language", "independence"),
)


@pytest.fixture(scope="module")
def table() -> Records:
    return simulate("additive", n_languages=14, seed=3).records


def changed(table: Records, kind: str) -> Records:
    """The same table with noise that the model does not have."""
    rng = np.random.default_rng(1)
    frame, n = table.table, len(table)
    language, task = table.codes("language"), table.codes("task")
    if kind == "heavy tails":
        noise = 4.0 * rng.standard_t(1.5, n)
    elif kind == "unequal variance":
        noise = np.where(language % 2 == 0, 1.6, 20.0) * rng.standard_normal(n)
    else:
        noise = 10.0 * rng.standard_normal((14, 5))[language, task]
    frame["score"] += noise
    return Records.from_frame(frame, name=kind, units=(-400, 500))


@pytest.fixture(scope="module")
def good(table: Records) -> Fit:
    return fit(table, "additive")


@pytest.fixture(scope="module")
def found(good: Fit) -> Checks:
    return good.checks()


def test_equal_variance_does_not_apply_to_groups_of_two() -> None:
    rng = np.random.default_rng(1)
    rows = [
        (f"m{model}", f"l{language}", "t", 60.0 + 5.0 * rng.normal())
        for model in range(2)
        for language in range(12)
    ]
    table = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    checks = fit(table, "additive", draws=200, chains=2).checks().table.set_index("check")
    row = checks.loc["equal_variance_language"]
    assert row["status"] == "not applicable"
    assert row["sentence"] == (
        "No language has three records or more: there is no variance to compare."
    )
    assert checks.loc["equal_variance_model", "status"] != "not applicable"


def test_a_table_of_the_model_passes(found: Checks) -> None:
    assert found.status("calibration") == "pass"
    assert set(found.table["status"]) == {"pass"}
    assert list(found.table.columns) == [
        "check", "status", "value", "p", "p_classical", "sentence", "meaning", "command",
    ]  # fmt: skip
    # What passes needs no advice.
    assert set(found.table["meaning"]) == set(found.table["command"]) == {""}
    assert found.table["sentence"].str.endswith(".").all()
    said = " ".join(str(found).split())
    assert said.startswith(
        "Model checks: 18 passed 13 of them have p-values; if the model were true, about 0.04 of "
        "these would warn or fail by chance. "
    )
    assert found.table["p"].notna().sum() == 13
    ecdf = found.details["calibration"]
    assert ((ecdf["ecdf"] >= ecdf["lower"]) & (ecdf["ecdf"] <= ecdf["upper"])).all()


def test_the_expected_number_of_false_alarms_is_the_measured_one(table: Records) -> None:
    """It was that of uniform p-values, eight times as large."""
    measured = pd.read_csv(RESULTS / "checks.csv")
    posterior = measured.query("limit == 'p-value' and drawn_from == fitted_with and tables == 200")
    assert len(posterior) == 4 * 13
    rate = posterior["flagged"].sum() / posterior["tables"].sum()
    assert rate == pytest.approx(FALSE_ALARMS, abs=5e-4)
    # No model has three times as many.
    assert posterior.groupby("fitted_with")["share"].mean().max() < 3 * FALSE_ALARMS
    # The p-values of a point estimate are nearly uniform.
    point = fit(table, "paper", engine="ml").checks()
    n = int(point.table["p"].notna().sum())
    assert f"about {n * WARN:.1g} of these would warn" in " ".join(str(point).split())


def test_few_tables_exclude_only_frequent_false_alarms() -> None:
    """What docs/checks.md says of models that need NUTS."""
    measured = pd.read_csv(RESULTS / "checks.csv")
    true = measured.query("limit == 'p-value' and drawn_from == fitted_with")
    assert true["lower"].max() <= WARN
    few = true.query("tables == 20")
    assert sorted(set(few["fitted_with"])) == ["replicates", "robust"]
    assert few["flagged"].max() == 0
    assert few["upper"].to_numpy() == pytest.approx(1 / 6, abs=0.005)
    more = true.query("tables == 40 and flagged == 0")
    assert more["upper"].to_numpy() == pytest.approx(1 / 11, abs=0.005)
    assert set(true["tables"]) == {20, 40, 200}


def test_priors_that_scale_with_the_scores_lower_ranks_most_where_levels_are_few() -> None:
    """What docs/checks.md says of `prior_calibration.csv`."""
    ranks = pd.read_csv(RESULTS / "prior_calibration.csv").set_index("quantity")
    assert ((ranks["fixed"] - 0.5).abs() < 3.0 * ranks["fixed_se"]).all()
    assert (ranks["scaled"] < 0.5).all()
    np.testing.assert_allclose(ranks["scaled"] - ranks["fixed"], ranks["difference"], atol=2e-5)
    few = ranks["levels"].idxmin()
    assert few == ranks["scaled"].idxmin() == ranks["difference"].idxmin() == "sd_task"
    assert ranks.loc[few, "difference"] < -5.0 * ranks.loc[few, "difference_se"]


@pytest.mark.parametrize(
    ("kind", "caught", "spared"),
    [
        (
            "heavy tails",
            {"residual_normality", "calibration", "lowest_residual", "sd_by_language"},
            {"independence"},
        ),
        (
            "unequal variance",
            {"equal_variance_language", "residual_normality"},
            {"independence", "equal_variance_model", "equal_variance_task"},
        ),
        ("dependence", {"independence"}, {"residual_normality", "highest_residual"}),
    ],
)
def test_what_the_model_does_not_have_is_flagged(
    table: Records, kind: str, caught: set[str], spared: set[str]
) -> None:
    checks = fit(changed(table, kind), "additive").checks()
    assert {name: checks.status(name) for name in caught} == dict.fromkeys(caught, "fail")
    assert {name: checks.status(name) for name in spared} == dict.fromkeys(spared, "pass")
    if kind == "dependence":
        sentence = checks.table.set_index("check")["sentence"]["independence"]
        assert sentence.startswith("Residuals of the same language and task (0.")
        command = checks.table.set_index("check")["command"]["independence"]
        assert command == "be.fit(records, 'interaction')"
        assert f"        Next: {command}\n" in str(checks)


def test_records_that_stand_out_are_named(table: Records) -> None:
    frame = table.table
    frame.loc[7, "score"] -= 70.0
    odd = Records.from_frame(frame, name="odd", units=(-400, 500))
    result = fit(odd, "additive")
    checks = result.checks()
    assert checks.status("influential_records") == "warn"
    worst = checks.details["influential_records"].iloc[0]
    assert all(worst[k] == frame.loc[7, k] for k in ("model", "language", "task", "score"))
    assert worst["error_sds"] < -5.0
    named = f"{worst['model']} in {worst['language']} on {worst['task']}"
    assert named in str(checks)
    again = run_checks(result.data, None, language_names={worst["language"]: "Quenya"})
    sentence = again.table.set_index("check")["sentence"]["influential_records"]
    assert f"{worst['model']} in Quenya ({worst['language']}) on {worst['task']}" in sentence
    # Tables keep the codes.
    assert again.details["influential_records"]["language"].iloc[0] == worst["language"]


def test_commands_name_auto_for_a_model_that_auto_assembled(
    good: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def record(*_: object, model: str, **__: object) -> Checks:
        seen.append(model)
        return Checks.of([Check("calibration", "pass")], {})

    monkeypatch.setattr("bayeseval.checks.run_checks", record)
    because = ["model auto -> ..."]
    for name, reasons in (
        ("additive", []),
        ("auto-model_task", because),
        ("additive", because),
        ("mine", []),
    ):
        spec = {**good.run["spec"], "name": name}
        replace(good, run={**good.run, "spec": spec, "model_reasons": reasons}).checks()
    assert seen == ["additive", "auto", "additive", "mine"]


SDS = ("sd_language", "sd_task", "sd_model", "sd_residual")


@pytest.mark.parametrize(
    ("scales", "status", "words"),
    [
        # Default priors have the scale of the scores.
        ({}, "pass", ""),
        (dict.fromkeys(SDS, 2.0), "pass", ""),
        (dict.fromkeys(SDS, 20.0), "fail", "the priors are too wide"),
        (dict.fromkeys(SDS, 0.05), "fail", "the priors are too narrow"),
        ({"sd_language": 20.0}, "fail", "the priors are too wide"),
    ],
)
@pytest.mark.parametrize("likelihood", ["normal", "logit_normal"])
def test_priors_of_another_scale_than_the_scores(
    scales: dict[str, float], status: str, words: str, likelihood: str
) -> None:
    records = simulate("logit", n_languages=8, seed=3).records
    # Scales are in sds of the scores, or of their logits.
    priors = {name: {"dist": "half_normal", "scale": scale} for name, scale in scales.items()}
    spec = load_spec({"name": "odd", "likelihood": likelihood, "priors": priors})
    found = prior_checks(build_design(records, spec), None, np.random.default_rng(0))
    spread = {check.name: check for check in found}["prior_spread"]
    assert (spread.status, np.isnan(spread.p)) == (status, True)
    assert words in spread.sentence


@pytest.mark.parametrize("name", ["additive", "interaction", "crossed", "dataset", "robust"])
def test_default_priors_never_warn_of_their_spread(name: str) -> None:
    for seed in range(4):
        records = simulate("additive", n_tasks=6, n_metrics=2, seed=seed).records
        found = prior_checks(build_design(records, load_spec(name)), None, np.random.default_rng(0))
        assert found[1].status == "pass"
        assert 0.8 < found[1].value < 3.0


def test_priors_a_hundred_times_too_wide_or_narrow(table: Records) -> None:
    def checks(scale: float) -> Checks:
        priors = {name: {"dist": "half_normal", "scale": scale} for name in SDS}
        return fit(table, {"name": "odd", "priors": priors}).checks()

    wide, narrow = checks(200.0), checks(0.01)
    # Nearly all expected scores are impossible, and the data say enough all the same.
    assert wide.status("prior_range") in ("warn", "fail")
    # Additive models do not estimate how even models are: there is nothing to be sensitive.
    table_of = wide.details["prior_sensitivity"].set_index("quantity")
    assert table_of.loc["gap_sd_languages", "prior"].isna().all()
    assert table_of.loc["standardised_score", "prior"].notna().all()
    assert (wide.status("prior_spread"), wide.status("prior_sensitivity")) == ("fail", "pass")
    assert "too wide" in str(wide)
    assert "Meaning: The priors have a different scale from the scores" in str(wide)
    assert narrow.status("prior_range") == "pass"
    assert (narrow.status("prior_spread"), narrow.status("prior_sensitivity")) == ("fail", "warn")
    assert "too narrow" in str(narrow)
    sensitive = narrow.details["prior_sensitivity"]
    # Of what is reported, not only of parameters.
    assert {"language_potential", "language_potential_rank"} <= set(
        sensitive.loc[sensitive["prior"] > 0.05, "quantity"]
    )


def test_without_a_closed_form_or_a_design(good: Fit) -> None:
    checks = run_checks(good.data, None, why_no_design="replicate noise was sampled")
    assert checks.status("calibration") == "pass"
    assert checks.details["calibration"]["kind"].iloc[0].startswith("PIT at draws")
    # Left-out errors by importance sampling, with its k-hats.
    assert checks.status("influential_records") == "pass"
    found, exact = (one.details["influential_records"] for one in (checks, good.checks()))
    assert found["k_hat"].max() < 0.7
    record = ["model", "language", "task"]
    both = exact.merge(found, on=record)
    # Those of the closed form; the three largest errors are 2.6 to 2.8 sds.
    assert len(both) >= 8
    np.testing.assert_allclose(both["error_sds_y"], both["error_sds_x"], atol=0.15)
    np.testing.assert_allclose(both["expected_y"], both["expected_x"], atol=1.0)
    sentences = checks.table.set_index("check")["sentence"]
    for name in ("prior_range", "prior_spread", "prior_sensitivity"):
        assert sentences[name] == "Not checked: replicate noise was sampled."
    assert checks.status("outside_bounds") == "not applicable"


def test_a_point_estimate_is_asked_nothing_about_priors(table: Records) -> None:
    point = fit(table, "paper", engine="ml").checks()
    assert point.status("prior_spread") == point.status("prior_sensitivity") == "not applicable"
    assert point.status("calibration") == "pass"
    sentences = point.table.set_index("check")["sentence"]
    for name in ("prior_range", "prior_spread", "prior_sensitivity"):
        assert sentences[name] == "Not checked: maximum likelihood does not use priors."


def test_pit_of_every_likelihood(good: Fit) -> None:
    arrays, draws = read_arrays(good.data), np.array([3, 700])
    rng = np.random.default_rng(0)
    pit = realised_pit(arrays, draws, rng)
    error = (arrays.score - expected_score(arrays)[draws]) / arrays.residual_sd[draws]
    np.testing.assert_allclose(pit, stats.norm.cdf(error), rtol=1e-9)
    heavy = replace(arrays, likelihood="student_t", extra={"nu": np.full(arrays.n_samples, 4.0)})
    np.testing.assert_allclose(realised_pit(heavy, draws, rng), stats.t.cdf(error, 4.0), rtol=1e-9)
    # By rank among 99 replicates where there is no distribution function at hand.
    ranked = realised_pit(replace(arrays, likelihood="other"), draws, rng)
    assert np.abs(ranked - pit).max() < 5 * 0.5 / np.sqrt(99)
    assert np.abs(ranked - pit).mean() < 0.04


def test_same_seed_same_checks_and_nothing_changes(good: Fit, found: Checks) -> None:
    before = list(good.data.children)
    pd.testing.assert_frame_equal(good.checks().table, found.table)
    assert list(good.data.children) == before


def test_predictive_groups(good: Fit) -> None:
    more = good.with_predictive(draws=40)
    assert "prior" not in good.data.children
    predicted = more.data["posterior_predictive"]["score"]
    assert predicted.dims == ("chain", "draw", "record")
    assert predicted.shape == (4, 40, 294)
    assert more.data["prior_predictive"]["score"].shape == (1, 40, 294)
    assert more.data["prior"]["language_effect"].shape == (1, 40, 14)
    # About the data, and as wide as the residual says; the prior is far wider.
    error = predicted - good.data["observed_data"]["score"]
    assert abs(float(error.mean())) < 1.0
    ratio = float(error.std() / good.data["posterior"]["sd_residual"].mean())
    assert 1.2 < ratio < 1.6
    spread = float(more.data["prior_predictive"]["score"].std())
    assert spread > 1.5 * float(predicted.std())


def test_the_command_stores_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: Records
) -> None:
    table.to_csv(tmp_path / "scores.csv")
    arguments = ["fit", "-b", str(tmp_path / "scores.csv"), "-m", "additive", "-q"]
    arguments += ["--draws", "250"]
    assert main([*arguments, "--out", str(tmp_path / "one")]) == 0
    assert "Model checks: " in capsys.readouterr().out
    stored = pd.read_csv(tmp_path / "one" / "tables" / "checks.csv")
    again = Fit.open(tmp_path / "one")
    # What --benchmark was, so that the commands that checks name can be run.
    assert again.run["source"] == str(tmp_path / "scores.csv")
    # The order, the outcomes and the numbers, from the folder alone.
    # In a file, no advice is an empty cell.
    pd.testing.assert_frame_equal(
        stored.astype(object).fillna(""), again.checks().table.astype(object).fillna("")
    )
    for name in ("calibration", "sd_by_language", "influential_records", "prior_sensitivity"):
        assert (tmp_path / "one" / "tables" / f"{name}.csv").is_file()
    assert (tmp_path / "one" / "figures" / "checks.png").stat().st_size > 10_000
    assert main([*arguments, "--no-checks", "--no-figures", "--out", str(tmp_path / "two")]) == 0
    assert "Model checks" not in capsys.readouterr().out
    assert not (tmp_path / "two" / "tables" / "checks.csv").exists()
