"""What checks advise: models that are shipped and that the table identifies, and what it means."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.checks.advice import advised_together
from bayeseval.checks.container import Check
from bayeseval.checks.situation import Situation
from bayeseval.design import build_design, identified_interactions
from bayeseval.errors import addressing_command_line
from bayeseval.estimands import read_arrays
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
    return advised_together([Check(name, status)], fit)[0]  # type: ignore[arg-type]


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
    assert models_of(found.command) == ["beta_interactions.yaml"]
    assert "a spec of your own" not in advice("outside_bounds", FIT).meaning
    # Where no score is at a bound, normal logits are exact and fast.
    inside = advice("outside_bounds", replace(crossed, inside=True))
    assert inside.meaning.endswith(lines.replace("beta", "logit_normal"))
    # Likelihoods with bounds refuse standard errors in score units, and seeds.
    for fit in (crossed, FIT):
        for name in ("outside_bounds", "sd_by_language"):
            known = advice(name, replace(fit, errors=True, crowded=True))
            assert known.command == ""
            assert known.meaning.endswith(
                " Models with bounds accept neither given standard errors nor seeds: to fit such "
                "a model, leave out the errors and average over the seeds. Numbers of items (n) "
                "can stay, and 'counts' accepts rows of right and wrong items as they are."
            )
    # A language at a floor: heavier tails would not help.
    assert "robust" in advice("sd_by_language", crossed).command
    flat = advice("sd_by_language", replace(crossed, crowded=True))
    assert flat.command == found.command
    assert (
        " Scores at a bound vary less than others, which needs a model with bounds. The shipped "
        "models with interactions have no bounds; a spec of your own can have both. Write these"
    ) in flat.meaning
    plain = advice("sd_by_language", replace(FIT, alike=(), identified=(), crowded=True))
    assert models_of(plain.command) == ["additive", "logit", "bounded"]


NEAR_ZERO = replace(
    FIT,
    model="crossed",
    terms=TWO_WAY,
    alike=(),
    narrow=("hard",),
    inside=True,
    even_on_logits=True,
)
COMPRESSED = (
    " Scores of hard vary less than half as much as those of other tasks, as they do near a bound "
    "or near chance level, and so do differences between models and languages there: residual sds "
    "by task {} them the largest weight. {}"
)
UNDONE = "A likelihood with bounds undoes this."
LEFT_OUT = (
    "Leave these tasks out if your conclusions depend on differences between models or languages."
)


def test_a_task_near_a_bound_is_answered_with_normal_logits_and_the_terms_of_the_model() -> None:
    spec = (
        " The shipped models with interactions have no bounds; a spec of your own can have both. "
        "Write these lines to logit_normal_interactions.yaml, and give the file to --model: 'name: "
        "logit_normal_interactions', 'likelihood: logit_normal', "
        f"'interactions: [{', '.join(TWO_WAY)}]'."
    )
    fitted = "bayeseval fit --benchmark 'my scores.csv' --model logit_normal_interactions.yaml"
    found = advice("equal_variance_task", NEAR_ZERO)
    assert found.meaning.endswith(COMPRESSED.format("would give", UNDONE) + spec)
    assert found.command == fitted
    # A fit of by_task has them by now; its residuals may be correlated for this reason.
    by_task = replace(NEAR_ZERO, model="by_task", residual_by="task", alike=("model:language",))
    found = advice("independence", by_task)
    assert found.meaning.endswith(COMPRESSED.format("give", UNDONE) + spec)
    assert found.command == fitted
    # Another model has other reasons.
    crossed = advice("independence", replace(by_task, residual_by=None))
    assert ("Scores of hard" in crossed.meaning, "logit" in crossed.command) == (False, False)
    # The shipped model suffices without interactions.
    additive = advice("equal_variance_task", replace(NEAR_ZERO, model="additive", terms=()))
    assert additive.meaning.endswith(COMPRESSED.format("would give", UNDONE))
    assert models_of(additive.command) == ["additive", "logit"]


@pytest.mark.parametrize(
    "unfit",
    [
        {"inside": False, "even_on_logits": False},
        # Far from a bound, or at chance level: logits do not expand it.
        {"even_on_logits": False},
        *({"errors": True}, {"bounded": False}, {"covariates": ("mexa",)}),
    ],
)
def test_a_task_near_a_bound_that_logits_do_not_suit_is_left_out(unfit: dict[str, Any]) -> None:
    covariate = "mexa" if "covariates" in unfit else ""
    for name, residual_by in (("equal_variance_task", None), ("independence", "task")):
        fit = replace(NEAR_ZERO, residual_by=residual_by, covariate=covariate, **unfit)
        found = advice(name, fit)
        give = "would give" if residual_by is None else "give"
        assert found.meaning.endswith(COMPRESSED.format(give, LEFT_OUT))
        assert "--model crossed --drop task" in found.command


def test_a_narrow_task_is_spoken_of_where_residual_sds_by_task_are() -> None:
    beyond = advice("outside_bounds", NEAR_ZERO)
    assert models_of(beyond.command) == ["logit_normal_interactions.yaml"]
    assert "vary less than half as much" not in beyond.meaning
    # Bounds that do not spread the scores of the narrow task are not for it.
    checks = [Check("outside_bounds", "warn"), Check("equal_variance_task", "warn", p=0.01)]
    for even, said in ((True, " The spec given at 'outside bounds' is for this, too."),
                       (False, COMPRESSED.format("would give", LEFT_OUT))):  # fmt: skip
        beyond, by_task = advised_together(checks, replace(NEAR_ZERO, even_on_logits=even))
        assert by_task.meaning.endswith(said)
        assert (UNDONE in beyond.meaning) == even


@pytest.mark.parametrize(("middle", "is_undone"), [(3.0, True), (28.0, False)])
def test_logits_are_advised_where_they_spread_the_scores_of_a_narrow_task(
    middle: float, is_undone: bool
) -> None:
    rng = np.random.default_rng(4)
    cells = list(product("abcdef", ("de", "en", "fi", "hi", "sw"), ("mt", "nli", "qa", "hard")))
    table = pd.DataFrame(cells, columns=["model", "language", "task"])
    logits = np.log(middle / (100.0 - middle)) + rng.uniform(-0.8, 0.8, len(cells))
    near = 100.0 / (1.0 + np.exp(-logits)) if is_undone else rng.uniform(23.0, 33.0, len(cells))
    is_hard = table["task"] == "hard"
    table["score"] = np.where(is_hard, near, rng.uniform(30.0, 70.0, len(cells))).round(2)
    records = Records.from_frame(table, name="t", units=(0, 100))
    found = be.fit(records, "additive", engine="marginal", draws=200, chains=2, seed=1).checks()
    row = found.table.set_index("check").loc["equal_variance_task"]
    assert row["status"] == "fail"
    assert (UNDONE in row["meaning"], LEFT_OUT in row["meaning"]) == (is_undone, not is_undone)
    assert row["command"].endswith("additive,logit" if is_undone else "--drop task")


def test_what_several_checks_ask_for_is_in_one_spec() -> None:
    logit = replace(FIT, model="logit", likelihood="logit_normal", alike=TWO_WAY[:1])
    checks = [
        Check("calibration", "warn"),
        Check("equal_variance_model", "warn", p=0.02),
        Check("equal_variance_task", "fail", p=0.004),
        Check("independence", "fail", p=0.001),
        Check("influential_records", "warn"),
        Check("outside_bounds", "pass"),
    ]
    calibrated, by_model, by_task, alike, influential, bounds = advised_together(checks, logit)
    command = "bayeseval fit --benchmark 'my scores.csv' --model logit_normal_by_task.yaml"
    assert {one.command for one in (calibrated, by_task, alike)} == {command}
    assert by_task.meaning.endswith(
        " The shipped models with interactions have no bounds; a spec of your own can have both, "
        "and residual_by: task. Write these lines to logit_normal_by_task.yaml, and give the file "
        "to --model: 'name: logit_normal_by_task', 'likelihood: logit_normal', 'interactions: "
        "[language:task]', 'residual_by: task'."
    )
    for one in (calibrated, alike):
        assert one.meaning.endswith(" The spec given at 'equal variance task' is for this, too.")
    # A spec has residual sds by one factor.
    assert by_model.meaning.endswith("residual_by: model in place of residual_by: task.")
    assert by_model.command == ""
    # It is about records, not about the model.
    assert influential.command.endswith("--model logit --drop outliers=3")
    assert (bounds.meaning, bounds.command) == ("", "")
    # Sds by task that the fit has are kept.
    kept = replace(logit, residual_by="task")
    assert models_of(advice("independence", kept).command) == ["logit_normal_by_task.yaml"]
    assert "'residual_by: task'" in advice("independence", kept).meaning


def test_a_spec_has_the_terms_that_residuals_indicate_and_does_not_hide_heavy_tails() -> None:
    crossed = replace(FIT, model="crossed", terms=TWO_WAY, alike=(THREE_WAY,))
    warned = [Check(name, "warn") for name in ("calibration", "outside_bounds", "independence")]
    calibrated, beyond, alike = advised_together(warned, crossed)
    assert models_of(calibrated.command) == ["crossed", "dataset", "robust"]
    assert models_of(beyond.command) == models_of(alike.command) == ["beta_interactions.yaml"]
    assert beyond.meaning.endswith(f"'interactions: [{', '.join((*TWO_WAY, THREE_WAY))}]'.")
    assert alike.meaning.endswith(" The spec given at 'outside bounds' is for this, too.")
    # A spec without the term is not for it.
    few = replace(FIT, model="interaction", terms=TWO_WAY[:1], identified=TWO_WAY[:1])
    beyond, alike = advised_together(warned[1:], replace(few, alike=("model:task",)))
    assert models_of(beyond.command) == ["beta_interactions.yaml"]
    assert alike.meaning.endswith("too few records to estimate model:task; add tasks or metrics.")
    assert alike.command == ""
    # Without bounds in question, the shipped model has the term.
    assert models_of(advice("independence", crossed).command) == ["dataset"]


FACTORS = {"model:language": 2}


def test_low_rank_interactions_are_written_as_a_spec_takes_them(tmp_path: Path) -> None:
    table = simulate("logit", n_tasks=1, seed=2).records.table
    found = be.fit(table, "factors", draws=100, chains=2, tune=100, seed=1)
    arrays = read_arrays(found.data)
    fit = Situation.of(
        arrays, benchmark="t.csv", model="factors", bounded=True, alike=(), outliers=0
    )
    assert (fit.terms, fit.low_rank) == ((), FACTORS)
    beyond = advice("outside_bounds", fit)
    assert beyond.meaning.endswith(
        "'name: beta_interactions', 'likelihood: beta', 'low_rank: {model:language: 2}'."
    )
    assert models_of(beyond.command) == ["beta_interactions.yaml"]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(re.findall("'([a-z_]+: [^']*)'", beyond.meaning)), encoding="utf-8")
    assert load_spec(path).low_rank == FACTORS
    build_design(simulate("logit", n_tasks=1, seed=2).records, load_spec(path))
    with addressing_command_line(False):
        assert advice("outside_bounds", fit).command == (
            "be.fit(records, {'name': 'beta_interactions', 'likelihood': 'beta', "
            "'low_rank': {'model:language': 2}})"
        )
    # The full interaction contains it; `interaction` does not have it.
    several = replace(FIT, model="factors", low_rank=FACTORS)
    assert models_of(advice("independence", several).command) == ["crossed"]
    odd = ("model:language:task",)
    written = advice("independence", replace(several, alike=odd, identified=odd))
    assert written.meaning.endswith(
        "interactions: [model:language:task], low_rank: {model:language: 2}."
    )


FITS = (
    FIT,
    NEAR_ZERO,
    replace(NEAR_ZERO, model="by_task", residual_by="task", alike=("model:language",)),
    replace(NEAR_ZERO, inside=False, even_on_logits=False, crowded=True),
    replace(NEAR_ZERO, even_on_logits=False),
    replace(FIT, model="mine", identified=TWO_WAY[:1], terms=TWO_WAY[:1]),
    replace(FIT, model="mine", identified=TWO_WAY[:1], alike=TWO_WAY[:1]),
    replace(FIT, identified=TWO_WAY[:1], alike=()),
    replace(FIT, model="factors", low_rank=FACTORS, inside=True),
    replace(FIT, model="factors", identified=TWO_WAY[:1], terms=TWO_WAY[:1], low_rank=FACTORS),
    replace(FIT, model="robust", likelihood="student_t", terms=TWO_WAY),
    replace(FIT, model="logit", likelihood="logit_normal", alike=TWO_WAY[1:]),
    replace(FIT, model="mine", likelihood="logit_normal", residual_by="task"),
    replace(FIT, model="bounded", likelihood="beta", alike=()),
)


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: f"{fit.model} {fit.likelihood}")
def test_whatever_checks_warn_one_spec_is_advised_and_can_be_fitted(
    fit: Situation, tmp_path: Path
) -> None:
    records = simulate("logit", n_tasks=5, seed=2).records
    rng = np.random.default_rng(0)
    written: set[str] = set()
    for _ in range(200):
        statuses = rng.choice(["pass", "warn", "fail"], size=len(CHECKS), p=[0.6, 0.2, 0.2])
        checks = [
            Check(name, status, p=p)
            for name, status, p in zip(CHECKS, statuses, rng.random(len(CHECKS)), strict=True)
        ]
        found = advised_together(checks, fit)
        files = {word for one in found for word in one.command.split() if word.endswith(".yaml")}
        given = [m for m in (one.meaning for one in found) if "Write these lines" in m]
        assert (len(files), len(given)) in {(0, 0), (1, 1)}
        written |= {";".join(re.findall("'([a-z_]+: [^']*)'", meaning)) for meaning in given}
    assert written
    for number, lines in enumerate(sorted(written)):
        path = tmp_path / f"{number}.yaml"
        path.write_text("\n".join(lines.split(";")), encoding="utf-8")
        build_design(records, load_spec(path))


def test_without_bounds_of_every_task_the_next_step_is_to_declare_them() -> None:
    unknown = replace(FIT, bounded=False, options="--mapping units.yaml")
    found = advice("outside_bounds", unknown, "warn")
    assert found.command == "bayeseval validate 'my scores.csv' --mapping units.yaml"
    assert found.meaning.endswith(
        " Models with bounds need a lower and an upper bound for every task: declare the bounds "
        "that are missing, and leave out tasks whose scale has none."
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
    # Beside bounds, which shipped models have.
    beyond, unequal = advised_together(
        [Check("outside_bounds", "warn"), Check("equal_variance_language", "warn", p=0.01)],
        replace(FIT, identified=("language:task",)),
    )
    assert models_of(beyond.command) == ["additive", "logit", "bounded"]
    assert unequal.meaning.endswith(
        " A spec of your own can have residual_by: language. Write these lines to "
        "normal_by_language.yaml, and give the file to --model: 'name: normal_by_language', "
        "'likelihood: normal', 'residual_by: language'."
    )
    assert models_of(unequal.command) == ["normal_by_language.yaml"]
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
