"""The front door of Python: data frames in, one line for what is no table, progress on request."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import bayeseval as be
from bayeseval._html import html_table
from bayeseval.comparison import Comparison
from bayeseval.errors import BayesevalError, ConvergenceWarning, InputError
from bayeseval.fitting.plots import Plots
from bayeseval.fitting.report.tables import result_tables
from bayeseval.output.result import Result


@pytest.fixture(scope="module")
def alone(frame: pd.DataFrame) -> Comparison:
    return be.compare(frame, "additive")


def test_a_frame_is_a_table_wherever_a_table_goes(frame: pd.DataFrame, fitted: be.Fit) -> None:
    records = be.load(frame)
    assert records.name == be.Records.from_frame(frame).name == "table"
    assert be.load(frame, name="pilot").name == "pilot"
    assert fitted.run["benchmark"] == "table"
    assert fitted.run["data_hash"] == records.content_hash
    found = be.sensitivity(frame, "additive", drop="task", jobs=1)
    assert sorted(set(found.table["without"])) == sorted(records.coords["task"])


def test_a_frame_is_read_with_the_options_of_files(frame: pd.DataFrame) -> None:
    renamed = frame.rename(columns={"score": "F1"})
    first = frame["model"].iloc[0]
    records = be.load(
        renamed, columns={"score": "F1"}, units=(-200, 300), drop={"model": [first]}, name="x"
    )
    assert first not in records.coords["model"]
    assert {(unit.lower, unit.upper) for unit in records.units.values()} == {(-200.0, 300.0)}


def test_a_mapping_file_holds_for_a_frame(frame: pd.DataFrame, tmp_path: Any) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("columns: {score: F1}\nunits: {lower: -200, upper: 300}\n", encoding="utf-8")
    records = be.load(frame.rename(columns={"score": "F1"}), mapping_file=path)
    assert {(unit.lower, unit.upper) for unit in records.units.values()} == {(-200.0, 300.0)}


def test_two_frames_become_one_table(frame: pd.DataFrame) -> None:
    half = len(frame) // 2
    together = be.load([frame.iloc[:half], frame.iloc[half:]])
    assert together.content_hash == be.load(frame).content_hash


TABLES: dict[str, tuple[object, str]] = {
    "number": (3, "got int$"),
    "none": (None, "got NoneType$"),
    "series": (pd.Series([1.0]), "got Series; give the whole frame$"),
    "rows": ([{"model": "a"}], r"got list of dict; pandas\.DataFrame\(rows\) makes a data frame"),
    "mapping": ({"model": ["a"]}, "got dict$"),
    "nothing": ([], "no benchmark was named"),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("function", [be.load, be.fit, be.sensitivity])
def test_what_is_no_table_is_refused_in_one_line(
    case: str, function: Callable[[Any], object]
) -> None:
    given, expected = TABLES[case]
    with pytest.raises(InputError, match=expected) as caught:
        function(given)
    assert "\n" not in str(caught.value)


WRONG: dict[str, tuple[Callable[[pd.DataFrame, be.Fit], object], str]] = {
    "spec": (lambda df, fit: be.fit(df, spec=5), "a model must be the name .* got int"),
    "frame as spec": (lambda df, fit: be.fit(df, spec=df), "a model must be .* got DataFrame"),
    "progress": (lambda df, fit: be.fit(df, progress=3), "progress must be True, False or a func"),
    "seed": (
        lambda df, fit: be.fit(df, seed="x"),
        r"seed must be a whole number, got 'x'",
    ),
    "draws": (
        lambda df, fit: be.fit(df, draws=1.5),
        r"draws must be a whole number, got 1.5",
    ),
    "truth value": (
        lambda df, fit: be.fit(df, draws=np.bool_(True)),
        r"draws must be a whole number, got True",
    ),
    "no seed": (
        lambda df, fit: be.fit(df, seed=None),
        r"seed must be a whole number, got None",
    ),
    "target_accept": (
        lambda df, fit: be.fit(df, engine="numpyro", target_accept="a"),
        r"target_accept must be a number, got 'a'",
    ),
    "jobs": (
        lambda df, fit: be.compare(df, "additive", jobs="a"),
        r"jobs must be a whole number, got 'a'",
    ),
    "pairs": (lambda df, fit: be.fit(df, pairs=3), "pairs are any, shared, .* got int"),
    "covariate": (lambda df, fit: be.fit(df, covariate=3), "a covariate is a file, .* got int"),
    "specs": (lambda df, fit: be.compare(df, 3), "or a list of these; got int"),
    "no specs": (
        lambda df, fit: be.compare(df, []),
        r"a comparison needs a model; name at least one: specs=\['additive'\]$",
    ),
    "format": (lambda df, fit: be.load(df, format="lm-eval"), "is for files; this is a data frame"),
    "metric": (
        lambda df, fit: be.load(df, metric="acc"),
        r"metric is for results of",
    ),
    "drop": (lambda df, fit: be.sensitivity(df, drop=3), "or a list of these; got 3"),
    "plan of no fit": (lambda df, fit: be.plan(df), "the first argument is a Fit, .* DataFrame"),
    "forecast of no fit": (lambda df, fit: be.forecast("x"), "the first argument is a Fit, .* str"),
    "costs": (lambda df, fit: be.plan(fit, costs=3), "costs must be a Costs, .* got int"),
    "costs twice": (
        lambda df, fit: be.plan(fit, costs=be.Costs(seed=1.0), cost_item=1.0),
        "either costs or cost_seed",
    ),
}


def test_settings_may_be_numbers_of_numpy(frame: pd.DataFrame) -> None:
    """As they come out of an array or a sweep; `run.json` needs Python's own."""
    plain = be.fit(frame, "additive", draws=50, seed=1, chains=2)
    numpy = be.fit(frame, "additive", draws=np.int64(50), seed=np.uint8(1), chains=np.int32(2))
    assert numpy.data["posterior"].equals(plain.data["posterior"])
    assert type(numpy.run["seed"]) is int
    assert numpy.run["settings"] == plain.run["settings"]
    assert json.loads(json.dumps(numpy.run["settings"])) == plain.run["settings"]


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_get_one_line(case: str, frame: pd.DataFrame, fitted: be.Fit) -> None:
    call, expected = WRONG[case]
    with pytest.raises(BayesevalError, match=expected) as caught:
        call(frame, fitted)
    assert "\n" not in str(caught.value)


def test_costs_are_one_object_or_four_numbers(fitted: be.Fit) -> None:
    costs = be.Costs(seed=10.0, item=0.1, language=3.0)
    together = be.plan(fitted, languages=[3, 6], costs=costs)
    one_by_one = be.plan(fitted, languages=[3, 6], cost_seed=10.0, cost_item=0.1, cost_language=3.0)
    pd.testing.assert_frame_equal(together.table, one_by_one.table)
    assert together.table["cost"].iloc[0] == pytest.approx(6 * 3.0 + 3 * 10.0 + 6 * 3 * 0.1)


def test_one_model_has_its_elpd_and_nothing_to_compare_with(alone: Comparison) -> None:
    assert list(alone.table["spec"]) == ["additive"]
    assert alone.table["elpd"].iloc[0] == pytest.approx(alone.pointwise["additive"].sum())
    assert alone.verdict[0] == "Only one model, additive, was given: there is no comparison."
    assert not any("for lack of" in sentence for sentence in alone.verdict)


def test_one_model_is_saved_with_its_figure(alone: Comparison, tmp_path: Any) -> None:
    folder = alone.save(tmp_path / "one")
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["samplers"] == {
        name: {key: fit.run["sampling"][key] for key in ("path", "path_reason")}
        for name, fit in alone.fits.items()
    }
    assert (folder / "figures" / "comparison.png").stat().st_size > 5_000


def test_progress_is_shown_on_request(
    frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = be.fit(frame, "additive", draws=50, chains=2)
    assert capsys.readouterr().err == ""
    shown = be.fit(frame, "additive", draws=50, chains=2, progress=True)
    captured = capsys.readouterr()
    assert "computing results: done" in captured.err
    assert captured.out == ""
    assert shown.data["posterior"].equals(quiet.data["posterior"])
    stages: list[str] = []
    be.fit(
        frame,
        "additive",
        draws=50,
        chains=2,
        progress=lambda stage, done, total, remark: stages.append(stage),
    )
    assert "computing results" in stages
    assert capsys.readouterr().err == ""


def test_saving_shows_progress_on_request(
    fitted: be.Fit, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted.save(tmp_path / "quiet", figures=False)
    assert capsys.readouterr().err == ""
    fitted.save(tmp_path / "shown", figures=False, progress=True)
    assert f"writing results: {tmp_path / 'shown'}" in capsys.readouterr().err
    with pytest.raises(InputError, match="progress must be True, False or a function"):
        fitted.save(tmp_path / "wrong", figures=False, progress=3)  # type: ignore[arg-type]


def test_figures_without_checks_cannot_be_made_into_a_fit() -> None:
    class Unchecked(Plots):
        pass

    with pytest.raises(TypeError, match="abstract method.*checks"):
        Unchecked()  # type: ignore[abstract]


def test_ranks_are_drawn_from_tables_that_are_computed_once(
    fitted: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []

    def counted(*args: Any, **options: Any) -> dict[str, pd.DataFrame]:
        computed.append("tables")
        return result_tables(*args, **options)

    monkeypatch.setattr("bayeseval.fitting.report.tables.result_tables", counted)
    assert fitted.plot_ranks().axes[0].get_xlabel() == "Rank"
    assert computed == ["tables"]


FAILED = {"status": "fail", "checks": [], "n_quantities": 1}


def failed(result: be.Fit) -> be.Fit:
    """The fit as if its convergence gate had failed."""
    return replace(result, run={**result.run, "gate": FAILED})


@pytest.fixture(scope="module")
def results(frame: pd.DataFrame, fitted: be.Fit, alone: Comparison) -> dict[str, Result]:
    return {
        "fit": fitted,
        "comparison": alone,
        "sensitivity": be.sensitivity(frame, "additive", drop="model", jobs=1),
        "plan": be.plan(fitted, languages=[3, 6]),
        "checks": fitted.checks(),
        "forecast": forecast_of(frame),
    }


def forecast_of(frame: pd.DataFrame) -> Result:
    labels = (*be.load(frame).coords["language"], "de", "fr")
    values = np.arange(len(labels), dtype=float)
    covariate = be.Covariate("size", "language", labels=labels, models=(), values=values)
    spec = {"name": "size", "covariates": ["size"]}
    fit = be.fit(frame, spec, covariate=covariate, draws=200, chains=2)
    return be.forecast(fit, covariate=covariate, check=False)


KINDS = ("fit", "comparison", "sensitivity", "plan", "checks", "forecast")


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_one_line_a_text_tables_and_html(kind: str, results: dict[str, Result]) -> None:
    result = results[kind]
    assert "\n" not in repr(result)
    assert repr(result).startswith(f"{type(result).__name__}(")
    assert str(result) == result.summary()
    assert all(isinstance(table, pd.DataFrame) for table in result.tables.values())
    assert result._repr_html_().startswith("<div><p>")
    assert "<table>" in result._repr_html_()


def test_the_short_form_says_the_main_result(results: dict[str, Result]) -> None:
    fit, compared, sensitivity = (results[k] for k in ("fit", "comparison", "sensitivity"))
    assert isinstance(fit, be.Fit)
    first = fit.ranking(detail=True).iloc[0]
    assert repr(fit).startswith(
        "Fit(table, model additive, engine marginal; 50 records, gate passed; "
        f"{first['model']} is ahead, and the best of the 4 models with probability "
    )
    # The terminal says the same, and lists more names.
    said = " ".join(fit.summary().split())
    assert repr(fit).split("; ")[2].rstrip(")") in said
    assert repr(compared) == (
        "Comparison(table, 1 model; Only one model, additive, was given: there is no comparison)"
    )
    table = results["sensitivity"].tables["sensitivity"]
    # The quantity that agrees least, whichever it is.
    lowest = table["kendall"].min()
    assert repr(sensitivity).startswith("Sensitivity(table, model additive, engine marginal; in 4 ")
    assert repr(sensitivity).endswith(f"Kendall at least {lowest:.3f})")


def test_very_small_scores_have_one_unit_everywhere(frame: pd.DataFrame) -> None:
    small = frame.assign(score=1e-7 * frame["score"])
    fit = be.fit(small, "additive", draws=100, chains=2)
    plan, forecast = be.plan(fit, target_sd=1e-6, languages=[3, 6]), forecast_of(small)
    unit = "units of 1e-6 of the scale 0 to 1"
    assert unit in plan.summary()
    assert "at most 1 units of 1e-6" in plan.sentence
    mean = 1e6 * plan.table["sd_difference_mean"].iloc[0]
    assert f"{mean:.3f} [" in plan.summary()
    assert plan.plot().axes[1].get_ylabel().endswith(f"({unit})")
    assert f"Forecast potential, {unit} (" in forecast.summary()
    assert repr(forecast).endswith(f"] {unit})")
    assert forecast.plot().axes[0].get_ylabel() == f"Language potential ({unit})"
    # Tables stay in the units of the scores.
    assert forecast.tables["forecast"]["potential_mean"].max() < 1e-4


def test_a_failed_gate_leaves_no_main_result(fitted: be.Fit) -> None:
    assert repr(failed(fitted)) == (
        "Fit(NOT CONVERGED; table, model additive, engine marginal; 50 records, gate failed)"
    )


def test_a_point_estimate_has_a_highest_score_and_no_probability(frame: pd.DataFrame) -> None:
    made = be.fit(frame, "paper", engine="ml")
    first = made.ranking()["model"].iloc[0]
    assert repr(made).endswith(
        f"gate not applicable; {first} has the highest score; a point estimate has no "
        "probabilities)"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_returned_and_pyplot_knows_nothing_of_them(
    kind: str, results: dict[str, Result]
) -> None:
    drawn = results[kind].figures()
    assert drawn
    assert all(isinstance(figure, Figure) for figure in drawn.values())
    first = next(iter(drawn.values()))
    # What a notebook shows, with pyplot never imported.
    assert first._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert plt.get_fignums() == []


def test_a_failed_gate_stands_first_everywhere(fitted: be.Fit, alone: Comparison) -> None:
    bad = failed(fitted)
    with pytest.warns(ConvergenceWarning):
        planned = be.plan(bad, languages=[3, 6])
    compared = replace(alone, fits={"additive": failed(alone.fits["additive"])})
    for result in (bad, compared, planned, bad.checks()):
        assert repr(result).startswith(f"{type(result).__name__}(NOT CONVERGED; ")
        first = re.search("<strong>(.*?)</strong>", result._repr_html_())
        assert first is not None
        assert first[1] == "NOT CONVERGED: do not rely on these numbers"
    assert set(planned.table["gate"]) == {"fail"}
    assert set(compared.tables["comparison"]["gate"]) == {"fail"}


def test_narrow_views_are_columns_of_the_whole(fitted: be.Fit) -> None:
    for view in ("ranking", "potential", "by_language", "disparity", "components", "pairwise"):
        narrow, whole = getattr(fitted, view)(), getattr(fitted, view)(detail=True)
        assert len(narrow.columns) <= 10, view
        assert len(narrow.columns) < len(whole.columns), view
        pd.testing.assert_frame_equal(narrow, whole[list(narrow.columns)])
        assert narrow.attrs == whole.attrs
    assert list(fitted.ranking().columns) == [
        *("model", "score_mean", "score_lower", "score_upper"),
        *("rank_median", "rank_lower", "rank_upper", "tier", "share_predicted"),
    ]
    assert list(fitted.potential().columns[:2]) == ["language", "language_name"]
    assert set(fitted.tables["model_ranking"].columns) > set(fitted.ranking(detail=True).columns)


def test_axes_of_ones_own_are_drawn_on(fitted: be.Fit) -> None:
    own, (left, right) = plt.subplots(1, 2)
    assert fitted.plot_ranking(ax=left) is own
    assert failed(fitted).plot_potential(ax=right) is own
    assert left.get_xlabel().startswith("Expected score")
    assert [label.get_text() for label in left.get_yticklabels()] == list(fitted.ranking()["model"])
    assert left.get_title() == ""
    assert right.get_title().startswith("Convergence gate failed")
    part = plt.figure().subfigures(1, 2)[0].subplots()
    assert fitted.plot_ranking(ax=part) is plt.gcf()
    plt.close("all")


@pytest.mark.parametrize(
    ("kind", "method", "label"),
    [
        ("fit", "plot_ranking", "Expected score"),
        ("fit", "plot_potential", "Language potential"),
        ("fit", "plot_disparity", "Mean-PRR"),
        ("fit", "plot_components", "Standard deviation"),
        ("fit", "plot_ranks", "Rank"),
        ("comparison", "plot", "Elpd less that of the best model"),
        ("sensitivity", "plot", "Rank (1 = best)"),
        ("plan", "plot", "Tasks"),
        ("forecast", "plot", "size"),
    ],
)
def test_figures_are_drawn_on_axes_of_ones_own(
    kind: str, method: str, label: str, results: dict[str, Result]
) -> None:
    own, (left, right) = plt.subplots(1, 2)
    assert getattr(results[kind], method)(ax=left) is own
    assert left.get_xlabel().startswith(label)
    assert left.collections or left.images
    assert not right.has_data()
    # Header and caption are those of a figure of ours.
    assert own.texts == []
    plt.close("all")


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *(("fit", f"plot_{name}") for name in ("ranking", "potential", "disparity")),
        *(("fit", f"plot_{name}") for name in ("components", "ranks", "checks")),
        *((kind, "plot") for kind in KINDS if kind != "fit"),
    ],
)
def test_figures_have_the_size_that_is_asked_for(
    kind: str, method: str, results: dict[str, Result]
) -> None:
    drawn = getattr(results[kind], method)(figsize=(9.0, 6.0))
    assert tuple(drawn.get_size_inches()) == (9.0, 6.0)


def test_a_figure_without_room_is_refused(fitted: be.Fit) -> None:
    with pytest.raises(InputError, match="leaves too little room below the header"):
        fitted.plot_potential(figsize=(6.0, 1.0))
    with pytest.raises(InputError) as caught:
        fitted.plot_components(figsize=(4.0, 2.5))
    least = float(str(caught.value).rpartition(" at least ")[2])
    figure = fitted.plot_components(figsize=(4.0, least))
    figure.canvas.draw()
    rows = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    heights = sorted((row.y0, row.y1) for row in rows)
    assert all(below[1] <= above[0] for below, above in itertools.pairwise(heights))


def test_labels_are_escaped_in_html() -> None:
    shown = html_table("a <b>", {"model": ["<script>", "x"]}, warning="&", most=1)
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<strong>&amp;</strong>" in shown
    assert "and 1 more rows" in shown
    # Control characters are not allowed there, other than those that turn a text.
    assert "<td>a\\x1b[31m\u202eb</td>" in html_table("", {"model": ["a\x1b[31m\u202eb"]})
