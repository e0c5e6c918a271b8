"""What checks advise: models that are shipped and that the table identifies, and what it means."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayeseval.checks.advice import Situation, advised
from bayeseval.checks.container import Check
from bayeseval.design import build_design, identified_interactions
from bayeseval.errors import addressing_command_line
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import list_models, load_spec

TWO_WAY = ("language:task", "model:task", "model:language")
THREE_WAY = "model:language:dataset"
CHECKS = (
    *("prior_range", "prior_spread", "prior_sensitivity", "calibration", "highest_residual"),
    *("lowest_residual", "sd_by_language", "outside_bounds", "residual_normality"),
    *("equal_variance_language", "equal_variance_task", "equal_variance_model", "independence"),
    *("normality_language", "normality_task", "normality_model", "influential_records"),
    "connectivity",
)
FIT = Situation(
    benchmark="my scores.csv",
    model="additive",
    terms=(),
    identified=(*TWO_WAY, THREE_WAY),
    likelihood="normal",
    residual_by=None,
    bounded=True,
    alike=("language:task",),
    outliers=3,
    unconnected=0.2,
)


def advice(name: str, fit: Situation, status: str = "fail") -> Check:
    return advised(Check(name, status), fit)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    with addressing_command_line():
        yield


def models_of(command: str) -> list[str]:
    words = shlex.split(command)
    flag = "--models" if "--models" in words else "--model"
    return words[words.index(flag) + 1].split(",")


def test_each_check_says_what_it_means_and_what_comes_next() -> None:
    for name in CHECKS:
        found = advice(name, FIT)
        assert found.meaning.endswith(".")
        if not name.startswith("prior_"):
            assert shlex.split(found.command)[:4] in (
                ["bayeseval", "fit", "--benchmark", "my scores.csv"],
                ["bayeseval", "compare", "--benchmark", "my scores.csv"],
                ["bayeseval", "sensitivity", "--benchmark", "my scores.csv"],
            )
        passed = advice(name, FIT, "pass")
        assert (passed.status, passed.meaning, passed.command) == ("pass", "", "")


@pytest.mark.parametrize(
    ("n_tasks", "n_metrics", "missing"),
    [(1, 1, {"interaction", "crossed", "dataset", "robust", "by_task"}), (5, 1, {"dataset"}),
     (6, 2, set())],
)  # fmt: skip
def test_the_models_that_are_named_can_be_fitted(
    n_tasks: int, n_metrics: int, missing: set[str]
) -> None:
    records = simulate("logit", n_tasks=n_tasks, n_metrics=n_metrics, seed=2).records
    design = build_design(records, load_spec("additive"))
    sizes = {f: len(design.coords[f]) for f in design.factor_index}
    identified = identified_interactions(design.factor_index, sizes)
    named: set[str] = set()
    for alike in ((), ("language:task",), (THREE_WAY,), TWO_WAY):
        fit = replace(FIT, identified=identified, alike=alike)
        for check in CHECKS:
            if advice(check, fit).command:
                named |= set(models_of(advice(check, fit).command))
    # Specs of one's own are fitted below.
    named = {model for model in named if not model.endswith(".yaml")}
    assert named <= set(list_models())
    for model in named:
        build_design(records, load_spec(model))
    shipped = {"additive", "interaction", "crossed", "dataset", "robust", "by_task", "logit"}
    # One task cannot tell language:task from the language, and so on.
    assert shipped - named == missing


def test_commands_read_the_same_table_again() -> None:
    fit = replace(FIT, options="--mapping 'my units.yaml'", alike=("language:task",))
    commands = [fit.fit("crossed"), fit.compare("crossed", "robust"), fit.sensitivity("model")]
    for command in commands:
        words = shlex.split(command)
        assert words[2:6] == ["--benchmark", "my scores.csv", "--mapping", "my units.yaml"]
    assert "--mapping" not in FIT.fit("crossed")


def test_commands_keep_the_covariate() -> None:
    fit = replace(FIT, model="mexa", covariates=("mexa",), covariate="my mexa.csv", alike=())
    for command, words in (
        (advice("calibration", fit).command, "compare --models mexa,auto,robust"),
        (advice("independence", replace(fit, alike=TWO_WAY)).command, "fit --model auto"),
        (advice("normality_task", fit).command, "sensitivity --model mexa --drop task"),
    ):
        found = shlex.split(command)
        assert found[:4] == ["bayeseval", words.split()[0], "--benchmark", "my scores.csv"]
        assert found[4:] == [*words.split()[1:], "--covariate", "my mexa.csv"]
    # Nothing is fuller than auto with the covariate.
    full = replace(fit, model="auto", terms=FIT.identified)
    assert models_of(advice("calibration", full).command) == ["auto", "robust"]
    # A spec of one's own has no name, and another model would lose its covariate.
    mine = replace(fit, model="mine", covariate="")
    assert {advice(name, mine).command for name in ("residual_normality", "normality_task")} == {""}


def test_in_python_the_advice_is_a_call() -> None:
    with addressing_command_line(False):
        assert FIT.fit("crossed") == "be.fit(records, 'crossed')"
        assert FIT.compare("robust") == "be.compare(records, ['additive', 'robust'])"
        given = replace(FIT, covariates=("mexa",), covariate="mexa")
        assert given.sensitivity("outliers=3") == (
            "be.sensitivity(records, 'additive', drop='outliers=3', covariate='mexa')"
        )


def test_models_follow_from_what_is_alike_and_from_what_was_fitted() -> None:
    for alike, model in (
        (("language:task",), "interaction"),
        (("model:task", "language:task"), "crossed"),
        ((THREE_WAY,), "dataset"),
    ):
        command = advice("independence", replace(FIT, alike=alike)).command
        assert command == f"bayeseval fit --benchmark 'my scores.csv' --model {model}"
    crossed = replace(FIT, model="crossed", terms=TWO_WAY, alike=(THREE_WAY,))
    assert models_of(advice("calibration", crossed).command) == ["crossed", "dataset", "robust"]
    assert models_of(advice("equal_variance_task", crossed).command) == [
        *("crossed", "by_task", "robust"),
    ]
    # Nobody is sent to what the model has.
    robust = replace(crossed, model="robust", likelihood="student_t")
    assert models_of(advice("residual_normality", robust).command) == ["robust", "dataset"]
    assert advice("highest_residual", robust).command.endswith("--drop outliers=10")
    by_task = replace(crossed, model="by_task", residual_by="task")
    assert "by_task,robust" in advice("equal_variance_task", by_task).command
    # It would let a task with compressed effects decide those of all.
    near_zero = advice("equal_variance_task", replace(crossed, narrow=("hard",)))
    assert near_zero.command.endswith("--model crossed --drop task")
    assert "Scores of hard vary less than half as much as those of other tasks" in near_zero.meaning
    # A spec of one's own has no name that a command could take.
    mine = replace(FIT, model="mine", terms=("model:task",))
    assert models_of(advice("independence", mine).command) == ["crossed"]
    assert "mine" not in "".join(advice(check, mine).command for check in CHECKS)
    chosen = replace(mine, model="auto", alike=())
    assert models_of(advice("calibration", chosen).command) == ["auto", "crossed", "robust"]
    assert "--model auto --drop" in advice("normality_task", chosen).command
    few = replace(FIT, identified=("language:task",), alike=("model:task",))
    found = advice("independence", few)
    assert "too few records to estimate model:task" in found.meaning
    assert found.command == ""
    assert models_of(advice("outside_bounds", FIT).command) == ["additive", "logit", "bounded"]


def test_identified_interactions_are_those_of_auto() -> None:
    frame = simulate("additive", n_tasks=4, n_metrics=2, seed=0, observed_share=1.0).records.table
    design = build_design(
        Records.from_frame(frame, name="t", mixed_scales="allow"), load_spec("additive")
    )
    sizes = {f: len(design.coords[f]) for f in design.factor_index}
    assert identified_interactions(design.factor_index, sizes) == (*TWO_WAY, THREE_WAY)
    # Without datasets every task is one.
    plain = {f: design.factor_index[f] for f in ("language", "task", "model")}
    assert identified_interactions(plain, sizes) == TWO_WAY
    one = {f: np.zeros_like(v) if f == "task" else v for f, v in plain.items()}
    assert identified_interactions(one, sizes | {"task": 1}) == ("model:language",)


def test_a_model_with_bounds_is_not_sent_back_to_one_without() -> None:
    beta = replace(FIT, model="bounded", likelihood="beta", alike=("language:task",))
    found = advice("independence", beta)
    assert found.meaning.endswith(
        " The shipped models with interactions have no bounds; a spec of your own can have both. "
        "Write these lines to beta_interactions.yaml, and give the file to --model: 'name: "
        "beta_interactions', 'likelihood: beta', 'interactions: [language:task]'."
    )
    assert found.command == (
        "bayeseval fit --benchmark 'my scores.csv' --model beta_interactions.yaml"
    )
    # Without a term that residuals indicate, all of two factors that it lacks.
    logit = replace(FIT, model="logit", likelihood="logit_normal", alike=(), terms=TWO_WAY[:1])
    spec = f"interactions: [{', '.join(TWO_WAY)}]"
    assert f"'likelihood: logit_normal', '{spec}'" in advice("calibration", logit).meaning
    for check in CHECKS:
        command = advice(check, beta).command
        if command:
            own = {f"beta_by_{factor}.yaml" for factor in ("language", "task", "model")}
            allowed = {"bounded", "logit", "beta_interactions.yaml", *own}
            assert set(models_of(command)) <= allowed
    # Nothing is left to add: no command.
    whole = replace(beta, model="mine", terms=FIT.identified)
    assert advice("independence", whole).command == ""
    assert advice("normality_task", whole).command.endswith("--model bounded --drop task")
    with addressing_command_line(False):
        found = advice("independence", beta)
        own = {"name": "beta_interactions", "likelihood": "beta", "interactions": ["language:task"]}
        assert found.command == f"be.fit(records, {own})"
        assert f"Give this spec in place of a name: {own}." in found.meaning


def test_scores_beyond_bounds_are_answered_with_bounds_and_the_terms_of_the_model() -> None:
    crossed = replace(FIT, model="crossed", terms=TWO_WAY)
    lines = f"'likelihood: beta', 'interactions: [{', '.join(TWO_WAY)}]'."
    found = advice("outside_bounds", crossed)
    assert found.meaning.endswith(lines)
    assert models_of(found.command) == ["crossed", "logit", "bounded"]
    assert "a spec of your own" not in advice("outside_bounds", FIT).meaning
    # A language at a floor: heavier tails would not help.
    assert "robust" in advice("sd_by_language", crossed).command
    flat = advice("sd_by_language", replace(crossed, crowded=True))
    assert models_of(flat.command) == ["crossed", "logit", "bounded"]
    assert flat.meaning.endswith(
        " Scores at a bound vary less than others, which needs a model with bounds."
    )


def test_without_bounds_of_every_task_the_next_step_is_to_declare_them() -> None:
    unknown = replace(FIT, bounded=False, options="--mapping units.yaml")
    found = advice("outside_bounds", unknown, "warn")
    assert found.command == "bayeseval validate 'my scores.csv' --mapping units.yaml"
    assert found.meaning.endswith(
        " Models with bounds need both bounds of every task: declare those that the scales of "
        "other tasks have, and leave tasks without bounds out."
    )
    with addressing_command_line(False):
        assert advice("outside_bounds", unknown).command == "records.report.notes"


def test_unequal_variances_are_answered_with_a_spec_where_no_shipped_model_has_them() -> None:
    beta = replace(FIT, model="bounded", likelihood="beta", terms=())
    found = advice("equal_variance_language", beta)
    assert found.meaning.endswith(
        " A spec of your own can have residual_by: language. Write these lines to "
        "beta_by_language.yaml, and give the file to --model: 'name: beta_by_language', "
        "'likelihood: beta', 'residual_by: language'."
    )
    assert (
        found.command == "bayeseval fit --benchmark 'my scores.csv' --model beta_by_language.yaml"
    )
    few = replace(FIT, identified=("language:task",), terms=("language:task",))
    assert advice("equal_variance_task", few).meaning.endswith(
        "'name: normal_by_task', 'likelihood: normal', 'interactions: [language:task]', "
        "'residual_by: task'."
    )
    # Counts have no sd, and a spec of one's own would lose a covariate.
    counts = advice("equal_variance_model", replace(FIT, model="counts", likelihood="binomial"))
    assert ("residual_by" in counts.meaning, counts.command) == (False, "")
    covariate = replace(few, model="mine", covariates=("mexa",), covariate="mexa")
    assert advice("equal_variance_model", covariate).meaning.endswith("residual_by: model.")


def test_the_specs_that_are_advised_can_be_fitted(tmp_path: Path) -> None:
    records = simulate("logit", n_tasks=5, seed=2).records
    for likelihood in ("beta", "logit_normal"):
        with addressing_command_line(False):
            fit = replace(FIT, model="x", likelihood=likelihood, alike=())
            command = advice("calibration", fit).command
        spec = ast.literal_eval(command.removeprefix("be.fit(records, ").removesuffix(")"))
        design = build_design(records, load_spec(spec))
        assert {term.name for term in design.terms} >= set(TWO_WAY)
        assert design.outcome.families == (likelihood,)
        lines = re.findall("'([^']*)'", advice("calibration", fit).meaning)
        path = tmp_path / f"{spec['name']}.yaml"
        path.write_text("\n".join(lines), encoding="utf-8")
        assert advice("calibration", fit).command.endswith(f"--model {path.name}")
        assert load_spec(path) == load_spec(spec)
        lines = re.findall("'([^']*)'", advice("equal_variance_model", fit).meaning)
        path.write_text("\n".join(lines), encoding="utf-8")
        assert load_spec(path).residual_by == "model"
        assert build_design(records, load_spec(path)).outcome.families == (likelihood,)
