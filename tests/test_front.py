"""The front door of Python: data frames in, one line for what is no table, progress on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import bayeseval as be
from bayeseval.comparison import Comparison
from bayeseval.errors import BayesevalError, InputError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    made = be.simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1)
    return made.records.table


@pytest.fixture(scope="module")
def fitted(frame: pd.DataFrame) -> be.Fit:
    return be.fit(frame, "additive", draws=100, chains=2)


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
    "spec": (lambda df, fit: be.fit(df, spec=5), "a model is the name .* got int"),
    "frame as spec": (lambda df, fit: be.fit(df, spec=df), "a model is .* got DataFrame"),
    "progress": (lambda df, fit: be.fit(df, progress=3), "progress must be True, False or a func"),
    "seed": (lambda df, fit: be.fit(df, seed="x"), "seed must be a whole number, got 'x'"),
    "draws": (lambda df, fit: be.fit(df, draws=1.5), "draws must be a whole number, got 1.5"),
    "pairs": (lambda df, fit: be.fit(df, pairs=3), "pairs are any, shared, .* got int"),
    "covariate": (lambda df, fit: be.fit(df, covariate=3), "a covariate is a file, .* got int"),
    "specs": (lambda df, fit: be.compare(df, 3), "or a list of these; got int"),
    "no specs": (lambda df, fit: be.compare(df, []), "a comparison needs a model"),
    "format": (lambda df, fit: be.load(df, format="lm-eval"), "is for files; this is a data frame"),
    "metric": (lambda df, fit: be.load(df, metric="acc"), "metric is for results of an evaluation"),
    "drop": (lambda df, fit: be.sensitivity(df, drop=3), "or a list of these; got 3"),
    "plan of no fit": (lambda df, fit: be.plan(df), "the first argument is a Fit, .* DataFrame"),
    "forecast of no fit": (lambda df, fit: be.forecast("x"), "the first argument is a Fit, .* str"),
    "costs": (lambda df, fit: be.plan(fit, costs=3), "costs must be a Costs, .* got int"),
    "costs twice": (
        lambda df, fit: be.plan(fit, costs=be.Costs(seed=1.0), cost_item=1.0),
        "either costs or cost_seed",
    ),
}


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
    assert alone.verdict[0] == "There is one model, additive, and nothing to compare it with."
    assert not any("for want of" in sentence for sentence in alone.verdict)


def test_one_model_is_saved_with_its_figure(alone: Comparison, tmp_path: Any) -> None:
    folder = alone.save(tmp_path / "one")
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
