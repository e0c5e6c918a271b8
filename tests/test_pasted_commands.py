"""What commands that fit, compare and forecast propose is pasted, and gets past the refusal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.calibration.run import PreparedCalibration
from bayeseval.checks.situation import Situation
from bayeseval.cli import main
from bayeseval.comparison import PreparedComparison, PreparedHoldout, scores
from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings, marginal
from bayeseval.errors import EngineError, InputError, addressing_command_line
from bayeseval.fitting import Prepared
from bayeseval.fitting.gate import Check as GateCheck
from bayeseval.fitting.gate import Gate, gate_advice
from bayeseval.forecasting.run import _fit_with_covariate
from bayeseval.leaving_out.run import PreparedSensitivity
from bayeseval.records import Records, choose_pairs, warn_of_sole_pairs
from bayeseval.spec import ModelSpec, load_spec
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
        ("units: {lower: LOWER, upper: UPPER}",),
        "name: shares\nlikelihood: beta\n",
    ),
    "sampler": _Case(
        lambda: grid("qa", "nli"),
        "fit --nuts-sampler nutpie",
        "nutpie needs the engine pymc",
        ("--engine pymc",),
    ),
    "no model": _Case(
        lambda: grid("qa", "nli"), "compare --models ' '", "needs a model", ("--models additive",)
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
    "refits": _Case(
        lambda: grid("qa", "nli"),
        "compare --models robust --by language --refits 1",
        "it takes 3 refits, more than the 1 allowed",
        ("--refits 3",),
    ),
    "no shared pair": _Case(
        _one_model_each, "fit --pairs shared", "was tested on two models", ("--pairs any",)
    ),
}


def records(frame: pd.DataFrame) -> Records:
    return Records.from_frame(frame, name="t")


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
            filled = one.replace("LOWER", "0").replace("UPPER", "200")
            mapping.write_text(filled, encoding="utf-8")
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
        own = tmp_path / "my own.csv"
        own.write_text("language,speakers\nde,1\nen,3\nsw,2\n", encoding="utf-8")
        run = {"source": str(table), "source_options": "--format table"}
        of_file = _fit_with_covariate(run, own).removeprefix("fit one with ")
    fit = re.search(r"bayeseval fit .*? --covariate mexa", forecast)
    assert fit is not None
    for number, text in enumerate([*found, fit[0], of_file]):
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


def test_unreliable_records() -> None:
    bad = np.array([0.9, 0.8, 0.1])
    design = build_design(records(grid("qa", "nli")), ModelSpec(name="t", likelihood="student_t"))
    with addressing_command_line(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(scores, "why_no_mixture", lambda _: "no closed form")
        patched.setattr(scores, "refit_units", lambda _, __, units, **___: (0.0, 0.0 * bad[units]))

        def scored(refits: int) -> scores.Scores:
            plain = (np.zeros(3), bad)
            progress = lambda *_: None  # noqa: E731
            return scores._other_records(
                design, None, plain, seed=0, refits=refits, jobs=1, progress=progress, work=None
            )

        (note,) = scored(1).notes
        found = re.search(r"--refits (\d+) computes it", note)
        assert found is not None, note
        assert scored(int(found[1])).notes == ()


def test_shares_of_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    frame = grid("qa", "nli").rename(columns={"task": "dataset"})
    frame.assign(metric="accuracy", n=200).to_csv(table, index=False)
    with addressing_command_line():
        notes = build_design(be.load(table), load_spec("additive")).notes
    found = re.search(r"known binomial standard errors; (--columns n=) ignores n", " ".join(notes))
    assert found is not None, notes
    for options, uses in (([], True), (found[1].split(), False)):
        main(["validate", str(table), *options])
        assert ("items per cell: 200" in capsys.readouterr().out) == uses


def test_pairs_of_one_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, frame = tmp_path / "t.csv", grid("qa", "nli", "sum")
    frame = frame.query("model == 'A' or (language != 'sw' and task != 'sum')")
    frame.to_csv(table, index=False)
    main(["validate", str(table)])
    found = re.search(r"; --pairs (\w+) leaves such pairs out", capsys.readouterr().out)
    assert found is not None
    assert _BEGINS in _err(
        capsys,
        ["fit", "-b", str(table), "--pairs", found[1], "--out", str(tmp_path / "out")],
    )
    table_records = be.load(table)
    assert warn_of_sole_pairs(table_records, choose_pairs(table_records)) != ()
    assert warn_of_sole_pairs(table_records, choose_pairs(table_records, found[1])) == ()


def test_copied_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, spec, mapping = tmp_path / "t.csv", tmp_path / "s.yaml", tmp_path / "m.yaml"
    _two_metrics().to_csv(table, index=False)
    spec.write_text("name: outputs\ninteractions: [model:language:dataset]\n", encoding="utf-8")
    command = ["fit", "-b", str(table), "--out", str(tmp_path / "out"), "--model"]
    message = _err(capsys, [*command, str(spec)])
    found = re.search(
        r"drop one of the two metrics \((drop: \{task: \[TASK\]\}) in a --mapping file\) and "
        r"select the model anew \(--model (\w+)\)",
        message,
    )
    assert found is not None, message
    mapping.write_text(found[1].replace("TASK", "qa:em, nli:em"), encoding="utf-8")
    assert _BEGINS in _err(capsys, [*command, found[2], "--mapping", str(mapping)])


def test_folder_of_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out"
    grid("qa", "nli").to_csv(table, index=False)
    out.mkdir()
    (out / "run.json").write_text('{"seed": 3}', encoding="utf-8")
    command = ["fit", "-b", str(table), "--out"]
    message = _err(capsys, [*command, str(out)])
    assert message.endswith("choose another folder (--out) or overwrite it with --force")
    assert _BEGINS in _err(capsys, [*command, str(out), "--force"])
    # A file on the way, and the folder in which the command runs.
    for place, way in ((table, "choose another folder"), (tmp_path, "choose a folder inside it")):
        with pytest.MonkeyPatch.context() as moved:
            moved.chdir(tmp_path)
            assert f"; {way} (--out)" in _err(capsys, [*command, str(place)])
            assert _BEGINS in _err(capsys, [*command, str(tmp_path / "other")])


def test_marginal_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    grid("qa", "nli", seeds=3).to_csv(table, index=False)
    with addressing_command_line(), pytest.raises(EngineError) as caught:
        marginal.sample(
            build_design(be.load(table), load_spec("additive")), SamplerSettings(draws=10)
        )
    found = re.fullmatch(
        r"engine marginal: it needs known errors, and the noise of seeds has to be estimated; "
        r"use the engine numpyro \((--engine numpyro)\)",
        str(caught.value),
    )
    assert found is not None, caught.value
    out = ["--out", str(tmp_path / "out")]
    assert _BEGINS in _err(capsys, ["fit", "-b", str(table), *found[1].split(), *out])


def test_calibration_of_auto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    grid("qa", "nli").to_csv(table, index=False)
    command = ["calibrate", "--out", str(tmp_path / "out"), "--model"]
    message = _err(capsys, [*command, "auto"])
    assert "name a model (--model), or a table whose shape simulated tables have (--l" in message
    assert _BEGINS in _err(capsys, [*command, "additive"])
    assert _BEGINS in _err(capsys, [*command, "auto", "--like", str(table)])


def test_tasks_of_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, names = tmp_path / "t.csv", tmp_path / "names.csv"
    alone = [grid(f"xnli_{lang}").query("language == @lang") for lang in ("de", "en")]
    pd.concat([grid("qa"), *alone]).to_csv(table, index=False)
    main(["validate", str(table)])
    message = " ".join(capsys.readouterr().out.split())
    found = re.search(
        r"a CSV file with the columns (\S+) and the line (\S+) and give the file as (--task-names)",
        message,
    )
    assert found is not None, message
    names.write_text(f"{found[1]}\n{found[2]}\n", encoding="utf-8")
    main(["validate", str(table), found[3], str(names)])
    after = capsys.readouterr().out
    assert "2 tasks: qa 9, xnli 6" in after
    assert "named after a language" not in after


def test_mexa(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to where the model would be loaded."""

    def stop(*_: object, **__: object) -> None:
        raise InputError(_BEGINS)

    monkeypatch.setattr("bayeseval.mexa.run.align", stop)
    texts, tables = tmp_path / "texts", tmp_path / "tables"
    texts.mkdir()
    tables.mkdir()
    (tables / "deu_Latn.csv").write_text("a,b\n", encoding="utf-8")
    lines = {"eng_Latn": "a\nb\nc\nd\n", "deu_Latn": "a\nb\nc\nd\n"}

    def said(*options: str, folder: Path = texts, **changed: str) -> str:
        for label, text in (lines | changed).items():
            (texts / f"{label}.txt").write_text(text, encoding="utf-8")
        fixed = ["--model", "m", "--out", str(tmp_path / "out"), "--parallel", str(folder)]
        return _err(capsys, ["mexa", *fixed, *options])

    assert said().endswith(_BEGINS)
    blank = said(deu_Latn="a\n\nc\nd\n")
    assert "; --keep-blank counts it against its language" in blank
    assert said("--keep-blank", deu_Latn="a\n\nc\nd\n").endswith(_BEGINS)
    short = re.search(
        r"it ends after line (\d), .* or use fewer sentences \((--sentences)\)",
        said(deu_Latn="a\nb\nc\n"),
    )
    assert short is not None
    assert said(short[2], short[1], deu_Latn="a\nb\nc\n").endswith(_BEGINS)
    other = re.search(
        r"\(available: (\w+), .*\); choose another pivot \((--pivot)\)", said("--pivot", "fra_Latn")
    )
    assert other is not None
    assert said(other[2], other[1]).endswith(_BEGINS)
    empty = said(folder=tables)
    assert "the folder of parallel texts (--parallel) must hold one text file per language" in empty
    # Advice on the precision, which follows when a model is loaded or has been read.
    for options in (["--dtype", "bfloat16"], ["--dtype", "float32"], ["--device", "auto"]):
        assert said(*options).endswith(_BEGINS)


def test_the_list_names_these_cases() -> None:
    tests = {
        name.removeprefix("test_").replace("_", " ")
        for name in globals()
        if name.startswith("test_") and not name.startswith(("test_a_", "test_the_"))
    }
    assert {case for cases in COMMANDS.values() for case in cases} == {*CASES, *tests}
