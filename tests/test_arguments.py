"""Arguments of the wrong type get one line; numbers of numpy are taken as Python's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval._arguments import LEAST, as_path, split_names
from bayeseval.cli import main
from bayeseval.engines import SamplerSettings
from bayeseval.errors import BayesevalError, EngineError, InputError

Call = Callable[[pd.DataFrame, be.Fit], object]


WRONG: dict[str, tuple[Call, str]] = {
    "bytes": (
        lambda df, fit: be.load(b"a.csv"),
        "got bytes of int; the path of a file is a text or a Path, not bytes$",
    ),
    "mapping file": (
        lambda df, fit: be.load(df, mapping_file=3),
        "mapping_file must be a path, got 3$",
    ),
    "mapping in place of its file": (
        lambda df, fit: be.load("mega", mapping_file={"columns": {}}),
        "mapping_file must be a path, got {'columns': {}}$",
    ),
    "name": (
        lambda df, fit: be.load(df, name=3),
        "name must be a text that is not empty, got 3$",
    ),
    "no name": (
        lambda df, fit: be.load(df, name=""),
        "name must be a text that is not empty, got ''$",
    ),
    "bound": (
        lambda df, fit: be.load(df, units=(np.bool_(False), 100)),
        "lower bound .* is not a number",
    ),
    "open": (lambda df, fit: be.Fit.open(3), "folder must be a path, got 3$"),
    "open nothing": (lambda df, fit: be.Fit.open(None), "folder must be a path, got None$"),
    "cite what is not saved": (
        lambda df, fit: be.cite(fit),
        r"folder must be a path, got Fit; save it first: save\(DIR\) returns the folder$",
    ),
    "save": (lambda df, fit: fit.save(3), "folder must be a path, got 3$"),
    "save a comparison": (
        lambda df, fit: be.compare(df, "additive", fits={"additive": be.fit(df, "additive")}).save(
            3
        ),
        "folder must be a path, got 3$",
    ),
    "predictive draws": (
        lambda df, fit: fit.with_predictive(draws="a"),
        "draws must be a whole number, got 'a'$",
    ),
    "leave out a number": (
        lambda df, fit: be.fit(df, leave_out=3),
        "leave_out must be a list of record, language, task, model, got 3$",
    ),
    "leave out numbers": (
        lambda df, fit: be.fit(df, leave_out=["record", 3]),
        "leave_out must be a list of record, language, task, model, got 3 in it$",
    ),
    "leave out an unknown": (
        lambda df, fit: be.fit(df, leave_out="records"),
        "cannot leave out one 'records' at a time; did you mean 'record'?",
    ),
    "margin": (
        lambda df, fit: be.fit(df, margin="a"),
        r"margin must be a number, got 'a'$",
    ),
    "list of fits": (
        lambda df, fit: be.compare(df, "additive", fits=[fit]),
        "fits must be a dict of names of models to fits, got ",
    ),
    "no fit": (
        lambda df, fit: be.compare(df, "additive", fits={"additive": 3}),
        "fits: additive must be a Fit, got int$",
    ),
    "fit of another model": (
        lambda df, fit: be.compare(df, "additive", fits={"aditive": fit}),
        r"fits has 'aditive', which is not compared; did you mean 'additive'\? "
        r"\(the models are: additive\)$",
    ),
    "refits": (
        lambda df, fit: be.compare(df, "additive", refits="a"),
        r"refits must be a whole number, got 'a'$",
    ),
    "left-out draws": (
        lambda df, fit: fit.leave_one_out(draws="a"),
        "draws must be a whole number, got 'a'$",
    ),
    "ci_prob of a table": (
        lambda df, fit: fit.ranking(ci_prob="a"),
        r"ci_prob must be a number, got 'a'$",
    ),
    "ci_prob of a text": (
        lambda df, fit: fit.summary(ci_prob=None),
        r"ci_prob must be a number, got None$",
    ),
    "save a plan": (
        lambda df, fit: be.plan(fit).save(3, figures=False),
        "folder must be a path, got 3$",
    ),
    "quantity": (lambda df, fit: fit.ranks(3), "a quantity must be a name, got 3$"),
    "quantities": (
        lambda df, fit: fit.ranks(["score"]),
        r"a quantity must be a name, got \['score'\]$",
    ),
    "figures": (
        lambda df, fit: fit.save("unused", figures=3),
        "figures must be a list of formats, got 3$",
    ),
    "checks": (
        lambda df, fit: fit.save("unused", figures=False, checks=3),
        "checks must be what fit.checks\\(\\) returns, or the method itself; got int$",
    ),
    "list of groups": (
        lambda df, fit: be.sensitivity(df, groups=["a"]),
        r"groups must be a dict of names to levels, got \['a'\]$",
    ),
    "group of a number": (
        lambda df, fit: be.sensitivity(df, groups={"a": 3}),
        "groups: a must be a list of levels, got 3$",
    ),
    "one number of seeds": (
        lambda df, fit: be.plan(fit, seeds=3),
        r"seeds must be a list of numbers, got 3$",
    ),
    "languages as text": (
        lambda df, fit: be.plan(fit, languages="a"),
        r"languages must be a list of numbers, got 'a'$",
    ),
    "text in languages": (
        lambda df, fit: be.plan(fit, languages=["a"]),
        r"languages must be a number, got 'a'$",
    ),
    "target": (
        lambda df, fit: be.plan(fit, target_sd="a"),
        r"target_sd must be a number, got 'a'$",
    ),
    "ci_prob": (
        lambda df, fit: be.plan(fit, ci_prob=None),
        r"ci_prob must be a number, got None$",
    ),
    "fixed": (
        lambda df, fit: be.plan(fit, fixed=3),
        r"fixed must be a list of language, task, got 3$",
    ),
    "cost": (
        lambda df, fit: be.plan(fit, cost_task="a"),
        r"cost_task must be a number, got 'a'$",
    ),
    "cost of Costs": (
        lambda df, fit: be.plan(fit, costs=be.Costs(seed="a")),
        "seed of Costs must be a number of at least 0, got 'a'$",
    ),
    "number of languages": (
        lambda df, fit: be.simulate(n_languages="a"),
        "n_languages must be a whole number, got 'a'$",
    ),
    "half a task": (
        lambda df, fit: be.simulate(n_tasks=2.5),
        "n_tasks must be a whole number, got 2.5$",
    ),
    "intercept": (
        lambda df, fit: be.simulate(intercept="a"),
        "intercept must be a number, got 'a'$",
    ),
    "list of sds": (
        lambda df, fit: be.simulate(sds=[1]),
        r"sds must be a dict of names of parameters to numbers, got \[1\]$",
    ),
    "sd": (
        lambda df, fit: be.simulate(sds={"sd_language": "a"}),
        "sd_language must be a number, got 'a'$",
    ),
    "negative seed": (lambda df, fit: be.simulate(seed=-1), "seed must be at least 0, got -1$"),
    "a seed that no folder stores": (
        lambda df, fit: be.simulate(seed=10**30),
        r"seed must be below 2\*\*63, got 1000",
    ),
    "a name longer than names are": (
        lambda df, fit: be.fit(df, "x" * 5000),
        r"^'xx.*\.\.\. is no path: a name in it is longer than the system allows$",
    ),
    "a folder that none can be": (
        lambda df, fit: be.Fit.open("a\0"),
        r"'a\\x00' is no path: it has a character that none has$",
    ),
    "task names of no file": (
        lambda df, fit: be.load("mega", task_names="a\0"),
        r"'a\\x00' is no path: it has a character that none has$",
    ),
    "text as seed": (
        lambda df, fit: be.simulate(seed="a"),
        "seed must be a whole number, got 'a'$",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_get_one_line(
    case: str,
    frame: pd.DataFrame,
    fitted: be.Fit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    call, expected = WRONG[case]
    with pytest.raises(BayesevalError, match=expected) as caught:
        call(frame, fitted)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("bounds", [np.array([-200, 300]), (np.int64(-200), np.float32(300))])
def test_bounds_may_be_numbers_of_numpy(frame: pd.DataFrame, bounds: object) -> None:
    units = be.load(frame, units=bounds).units["t0"]  # type: ignore[arg-type]
    assert (units.lower, units.upper) == (-200.0, 300.0)
    assert type(units.lower) is float


@pytest.mark.parametrize("missing", [np.int64(-1), np.array([-1, -99]), [np.float32(-1.0)]])
def test_missing_scores_may_be_numbers_of_numpy(frame: pd.DataFrame, missing: object) -> None:
    holed = frame.assign(score=frame["score"].where(frame.index != 0, -1.0))
    assert len(be.load(holed, missing=missing)) == len(frame) - 1  # type: ignore[arg-type]


def test_one_text_is_left_out_as_a_list_of_it(frame: pd.DataFrame) -> None:
    alone = be.fit(frame, "additive", draws=50, chains=2, leave_out="record")
    listed = be.fit(frame, "additive", draws=50, chains=2, leave_out=["record"])
    assert "leave_out_record" in alone.data.children
    assert alone.data["leave_out_record"].equals(listed.data["leave_out_record"])


def test_a_folder_is_a_text_or_a_path(fitted: be.Fit, tmp_path: Path) -> None:
    fitted.save(str(tmp_path / "fit"), figures=False)
    assert be.Fit.open(tmp_path / "fit").run["seed"] == 0


def test_a_plan_takes_arrays_and_numbers_of_numpy(fitted: be.Fit) -> None:
    plain = be.plan(fitted, languages=[3, 6], target_sd=5.0, cost_task=2)
    numpy = be.plan(
        fitted, languages=np.array([3, 6]), target_sd=np.float64(5.0), cost_task=np.int64(2)
    )
    pd.testing.assert_frame_equal(numpy.table, plain.table)
    assert numpy.sentence == plain.sentence


def test_a_simulation_takes_numbers_of_numpy() -> None:
    plain = be.simulate(n_languages=6, n_models=4, seed=3, sds={"sd_task": 2})
    numpy = be.simulate(
        n_languages=np.int64(6),
        n_models=np.uint8(4),
        seed=np.int32(3),
        sds={"sd_task": np.int64(2)},
    )
    pd.testing.assert_frame_equal(numpy.records.table, plain.records.table)


@pytest.mark.parametrize("name", ["draws", "tune", "chains", "seed"])
def test_the_least_number_is_the_one_that_the_command_names(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    least = LEAST.get(name, 1)
    assert getattr(SamplerSettings(**{name: least}), name) == least
    with pytest.raises(EngineError, match=f"must be at least {least}, got {least - 1}"):
        SamplerSettings(**{name: least - 1})
    assert main(["fit", "--benchmark", "mega", f"--{name}", "many"]) == 2
    assert f"give a whole number, {least} or more" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["", " ", "\t\n", Path(" ")])
def test_a_path_of_blanks_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="folder is empty; give a path"):
        as_path("folder", value)


def test_a_table_is_no_path() -> None:
    with pytest.raises(InputError, match="folder must be a path, got DataFrame"):
        as_path("folder", pd.DataFrame())


def test_names_separated_by_commas_are_not_empty() -> None:
    assert split_names(" sw, yo ", name="--languages") == ["sw", "yo"]
    assert split_names(None, name="x") == split_names("  ", name="x") == []
    for text in ("xx,,", "xx,", ",xx", "sw, ,yo", ","):
        with pytest.raises(InputError) as caught:
            split_names(text, name="--languages")
        assert str(caught.value) == (
            f"--languages has an empty name in {text!r}; separate names by single commas"
        )
