"""What commands that fit, compare and forecast propose is pasted, and gets past the refusal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from bayeseval.calibration.run import PreparedCalibration
from bayeseval.checks.advice import Situation
from bayeseval.cli import main
from bayeseval.comparison import PreparedComparison, PreparedHoldout
from bayeseval.errors import InputError, addressing_command_line
from bayeseval.fitting import Prepared
from bayeseval.fitting.gate import Check as GateCheck
from bayeseval.fitting.gate import Gate, gate_advice
from bayeseval.forecasting.run import _fit_with_covariate
from bayeseval.leaving_out.run import PreparedSensitivity
from tests.test_pasted_advice import COMMANDS, grid

_BEGINS = "sampling would begin"
_OPTION = re.compile(r"(--[a-z][a-z-]*)(?: ('[^']*'|(?!or |for |in |with )[^\s,;()']+))?")
_UNITS = re.compile(r"'(units: \{[^']*\})'")


@pytest.fixture(autouse=True)
def _no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end where they would begin to sample: all that is refused is refused before."""

    def stop(*_: object, **__: object) -> None:
        raise InputError(_BEGINS)

    for prepared in (
        *(Prepared, PreparedComparison, PreparedHoldout),
        *(PreparedSensitivity, PreparedCalibration),
    ):
        monkeypatch.setattr(prepared, "run", stop)


def _items(*, se: bool) -> pd.DataFrame:
    frame = grid("qa", "nli").assign(n=80)
    frame["k"] = frame["score"].round()
    frame["score"] = frame["k"] / 80
    return frame.assign(se=0.05) if se else frame


def _two_metrics() -> pd.DataFrame:
    em = grid("qa", "nli").rename(columns={"task": "dataset"})
    em["score"] += (em.index * 37 % 11) * 0.7
    return pd.concat([em.assign(metric="em"), em.assign(metric="f1", score=em["score"] + 7.5)])


def _sums_of_pairs() -> pd.DataFrame:
    """Scores that no sum of effects reproduces, and sums of effects of pairs do."""
    frame = grid("qa", "nli", "sum")
    pairs = [frame["model"] + frame["language"], frame["language"] + frame["task"]]
    parts = [pair.map({one: i * i % 7 for i, one in enumerate(pair.unique())}) for pair in pairs]
    return frame.assign(score=40.0 + parts[0] + parts[1])


def _one_model_each() -> pd.DataFrame:
    """Every pair of language and task of one model alone."""
    frame = grid("qa", "nli", "sum")
    place = frame["language"].map({"de": 0, "en": 1, "sw": 2})
    task = frame["task"].map({"qa": 0, "nli": 1, "sum": 2})
    return frame[frame["model"].map({"A": 0, "B": 1, "C": 2}) == (place + task) % 3]


@dataclass(frozen=True)
class _Case:
    """A table, the options of a command, what it says of them, and the options that it proposes."""

    table: Callable[[], pd.DataFrame]
    command: str
    said: str
    proposed: tuple[str, ...]
    spec: str = ""


_BINOMIAL = "name: items\nlikelihood: binomial\n"
CASES: dict[str, _Case] = {
    "errors of items": _Case(
        lambda: _items(se=True), "fit --model SPEC", "counted twice", ("--columns se=",), _BINOMIAL
    ),
    "no covariate": _Case(
        lambda: grid("qa", "nli"),
        "fit --model mexa",
        "has the covariate 'mexa', which this table",
        ("--covariate mexa", "--covariate FILE"),
    ),
    "fewer terms": _Case(
        _sums_of_pairs, "fit --model crossed", "fit a model with fewer terms", ("--model additive",)
    ),
    "bounds": _Case(
        lambda: grid("qa", "nli").assign(score=lambda f: f["score"] + 90),
        "fit --model SPEC",
        "are not known",
        ("units: {lower: 0, upper: 200}",),
        "name: shares\nlikelihood: beta\n",
    ),
    "sampler": _Case(
        lambda: grid("qa", "nli"),
        "fit --nuts-sampler nutpie",
        "nutpie needs the engine pymc",
        ("--engine pymc",),
    ),
    "no model": _Case(
        lambda: grid("qa", "nli"), "compare --models ''", "needs a model", ("--models additive",)
    ),
    "one level": _Case(
        lambda: grid("qa"),
        "compare --models additive --by task",
        "there is one task",
        ("--by record",),
    ),
    "too large a share": _Case(
        lambda: grid("qa", "nli"),
        "compare --models additive --holdout 0.9",
        "90 % of 18 cells cannot be left out",
        ("--holdout 0.66",),
    ),
    "no share": _Case(
        lambda: grid("qa", "nli"),
        "compare --models additive --repeats 3",
        "no share to leave out",
        ("--holdout 0.3",),
    ),
    "fixed levels": _Case(
        lambda: grid("qa", "nli"),
        "compare --models SPEC --holdout 0.3 --by language",
        "mine has fixed language effects",
        ("--by record",),
        "name: mine\neffects: {language: fixed}\n",
    ),
    "no shared pair": _Case(
        _one_model_each, "fit --pairs shared", "was tested on two models", ("--pairs any",)
    ),
}


def _err(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    main([*words, "--quiet"])
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", CASES)
def test_a_command_goes_on_with_what_it_proposed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    table, spec, covariate = tmp_path / "t.csv", tmp_path / "s.yaml", tmp_path / "c.csv"
    case.table().to_csv(table, index=False)
    spec.write_text(case.spec, encoding="utf-8")
    covariate.write_text("language,mexa\nde,0.75\nen,1\nsw,0.25\n", encoding="utf-8")
    words = shlex.split(case.command.replace("SPEC", str(spec)))
    command = [words[0], "--benchmark", str(table), *words[1:], "--out", str(tmp_path / "out")]
    message = _err(capsys, command)
    assert case.said in message
    found = [" ".join(filter(None, one)) for one in _OPTION.findall(message)]
    found = [one for one in found if one != "--mapping file"] + _UNITS.findall(message)
    assert tuple(found) == case.proposed, message
    for one in found:
        if one.startswith("--"):
            added = shlex.split(one.replace("FILE", str(covariate)))
        else:
            mapping = tmp_path / "m.yaml"
            mapping.write_text(one, encoding="utf-8")
            added = ["--mapping", str(mapping)]
        # What is given twice is taken from the end.
        after = _err(capsys, [*_without(command, added[0]), *added])
        assert _BEGINS in after, (added, after)


def _without(command: list[str], option: str) -> list[str]:
    at = command.index(option) if option in command else len(command)
    return [*command[:at], *command[at + 2 :]]


def test_whole_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "my scores.csv"
    grid("qa", "nli", "sum").to_csv(table, index=False)
    situation = Situation(
        benchmark=str(table),
        model="additive",
        terms=(),
        identified=(),
        likelihood="normal",
        residual_by=None,
        bounded=True,
        alike=(),
        outliers=0,
        options="--columns score=score",
    )
    with addressing_command_line():
        found = [
            situation.fit("crossed"),
            situation.compare("crossed", "robust"),
            situation.sensitivity("language"),
        ]
        forecast = _fit_with_covariate({"source": str(table), "source_options": "--format table"})
    fit = re.search(r"bayeseval fit .*? --covariate mexa", forecast)
    assert fit is not None
    for number, text in enumerate([*found, fit[0]]):
        words = shlex.split(text)
        assert words[0] == "bayeseval"
        after = _err(capsys, [*words[1:], "--out", str(tmp_path / str(number))])
        assert _BEGINS in after, (text, after)


@pytest.mark.parametrize(("engine", "other"), [("marginal", "numpyro"), ("pymc", "marginal")])
def test_failed_gate(
    engine: str, other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    grid("qa", "nli").to_csv(table, index=False)
    checks = (GateCheck("ess_bulk", 300.0, 400.0, "a", False),)
    gate = Gate(status="fail", checks=checks, n_quantities=1)
    run = {"engine": engine, "spec": {"likelihood": "normal"}, "settings": {"draws": 100}}
    with addressing_command_line():
        text = gate_advice(gate, run)
    found = [" ".join(one) for one in _OPTION.findall(text.removesuffix("."))]
    assert found[0].startswith("--draws ")
    assert found[1] == f"--engine {other}"
    for one in found:
        after = _err(capsys, ["fit", "--benchmark", str(table), *one.split()])
        assert _BEGINS in after, after


def test_unknown_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, names = tmp_path / "runs", tmp_path / "names.csv"
    folder.mkdir()
    result = {"acc,none": 0.5, "acc_stderr,none": 0.1}
    for i, model in enumerate("ab"):
        results = {f"quiz_{lang}": result | {"acc,none": 0.5 + i / 9} for lang in ("de", "sw")}
        text = json.dumps({"results": results, "configs": {}, "model_name": model})
        (folder / f"results_{i}.json").write_text(text, encoding="utf-8")
    message = _err(capsys, ["fit", "--benchmark", str(folder)])
    found = re.search(r"'bayeseval (validate) \.\.\. (--propose-task-names) FILE'", message)
    assert found is not None, message
    assert "given as --task-names" in message
    main([found[1], str(folder), found[2], str(names)])
    capsys.readouterr()
    main(["validate", str(folder), "--task-names", str(names)])
    assert "2 languages: de (German) 2, sw (Swahili) 2" in capsys.readouterr().out


def test_the_list_names_these_cases() -> None:
    tests = {"whole commands", "failed gate", "unknown tasks"}
    assert {case for cases in COMMANDS.values() for case in cases} == {*CASES, *tests}
