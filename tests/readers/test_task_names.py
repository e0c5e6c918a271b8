"""Names of tasks that no rule knows: the table that is proposed for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval.cli import main
from bayeseval.readers.proposals import Proposal, propose
from bayeseval.readers.task_lines import TaskLines
from bayeseval.readers.task_names import (
    NamedTask,
    TaskNames,
    UnknownTasksError,
    parse_task,
    proposed_table,
    read_task_names,
)
from bayeseval.records import load

OLD = [
    *("mybench_de", "mybench_sw", "mybench_all", "lex_swh_Latn_q", "lex_deu_Latn_q"),
    *("hendrycksTest-law", "hendrycksTest-biology", "hendrycksTest-abstract"),
    *("exams_eu_a", "exams_eu_b_x", "exams_eu_c", "quiz-Swahili", "gsm8k", "arc:challenge"),
]


def parsed(path: Path, proposals: list[Proposal]) -> TaskNames:
    path.write_text(proposed_table(proposals), encoding="utf-8")
    return read_task_names(path)


def test_lines_are_grouped_by_pattern(tmp_path: Path) -> None:
    lines = propose(OLD)
    assert {(line.pattern, line.language, len(line.tasks)) for line in lines} == {
        ("mybench_{language}", "", 2),
        ("lex_{language}_q", "", 2),
        ("exams_eu_*", "eu", 3),
        ("quiz-{language}", "", 1),
        ("hendrycksTest-*", "", 3),
        ("mybench_all", "", 1),
        ("gsm8k", "", 1),
        ("arc:challenge", "", 1),
    }
    assert [line.pattern for line in lines if line.leaves_out] == [
        *("arc:challenge", "mybench_all", "gsm8k", "hendrycksTest-*"),
    ]
    names = parsed(tmp_path / "names.csv", lines)
    assert {task: names.parse(task) for task in OLD} == {
        "mybench_de": NamedTask("mybench", "de"),
        "mybench_sw": NamedTask("mybench", "sw"),
        # Behind the pattern, "all" would be a language.
        "mybench_all": None,
        "lex_swh_Latn_q": NamedTask("lex_q", "swh_Latn"),
        "lex_deu_Latn_q": NamedTask("lex_q", "deu_Latn"),
        **dict.fromkeys(["hendrycksTest-law", "hendrycksTest-biology", "gsm8k"]),
        **dict.fromkeys(["hendrycksTest-abstract", "arc:challenge"]),
        "exams_eu_a": NamedTask("exams_eu_a", "eu"),
        "exams_eu_b_x": NamedTask("exams_eu_b_x", "eu"),
        "exams_eu_c": NamedTask("exams_eu_c", "eu"),
        "quiz-Swahili": NamedTask("quiz", "Swahili"),
    }


PARTS = st.sampled_from(["a", "b2", "de", "sw", "fr", "swh_Latn", "German", "all", "x", "mt"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(PARTS, min_size=1, max_size=4).flatmap(
            lambda parts: st.sampled_from("_-").map(lambda mark: mark.join(parts))
        ),
        min_size=1,
        max_size=12,
        unique=True,
    )
)
def test_every_task_is_named_as_its_line_says(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[str]
) -> None:
    lines = propose(tasks)
    exceptions = {line.tasks[0] for line in lines if line.dataset}
    names = parsed(tmp_path_factory.mktemp("names") / "names.csv", lines)
    told = {task for line in lines for task in line.tasks}
    assert told == set(tasks)
    for line in lines:
        before, slot, after = line.pattern.partition("{language}")
        for task in line.tasks:
            named = names.parse(task)
            if line.leaves_out and task not in exceptions:
                assert named is None
            elif slot:
                assert named is not None
                assert named.language == task[len(before) : len(task) - len(after)]


def test_the_proposed_file_is_read_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = ["xnli_sw", "xnli_de", "xnli_eu", *OLD]
    for shift, model in enumerate("ab"):
        run = tmp_path / "runs" / model / "results_2024-01-01T00-00-00.json"
        run.parent.mkdir(parents=True)
        values = {
            task: {"acc,none": 0.5 + (i + shift) / 40, "acc_stderr,none": 0.1}
            for i, task in enumerate(tasks)
        }
        document = {"results": values, "config": {"model": model}}
        run.write_text(json.dumps(document), encoding="utf-8")
    runs, names = tmp_path / "runs", tmp_path / "names.csv"
    cut = runs / "c" / "results_2024-01-01T00-00-00.json"
    cut.parent.mkdir()
    cut.write_text(run.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    assert main(["validate", str(runs)]) == 2
    error = capsys.readouterr().err
    assert "; 1 file cannot be read: c/results_2024-01-01T00-00-00.json (" in error
    assert "no language is known for 14 tasks: exams_eu_* (3), hendrycksTest-* (3)," in error
    assert "'bayeseval validate ... --propose-task-names FILE' writes one to edit" in error

    assert main(["validate", str(runs), "--propose-task-names", str(names)]) == 2
    out = capsys.readouterr().out
    assert f"Proposed: {names}, 8 lines. They give 8 tasks a language and leave out 6 tasks" in out
    assert out.splitlines()[-1].endswith(f"pass --task-names {names}")
    assert main(["validate", str(runs), "--task-names", str(names)]) == 0
    records = load(runs, task_names=names)
    assert records.coords["task"] == (
        *("exams_eu_a:acc", "exams_eu_b_x:acc", "exams_eu_c:acc"),
        *("lex_q:acc", "mybench:acc", "quiz:acc", "xnli:acc"),
    )

    # Lines that the user has already written stay, and come first.
    own = tmp_path / "own.csv"
    own.write_text("task,dataset,language\ngsm8k,,en\n", encoding="utf-8")
    capsys.readouterr()
    options = ["--task-names", str(own), "--propose-task-names", str(names)]
    # A table that was edited is not replaced.
    before = names.read_bytes()
    assert main(["validate", str(runs), *options]) == 2
    assert "names.csv: the file exists, and may hold lines that you" in capsys.readouterr().err
    assert names.read_bytes() == before
    names.unlink()
    assert main(["validate", str(runs), *options]) == 2
    assert names.read_text(encoding="utf-8").startswith("task,dataset,language\ngsm8k,,en\n")
    assert "gsm8k:acc" in load(runs, task_names=names).coords["task"]


def test_names_that_no_line_can_say_are_left_to_the_user() -> None:
    odd = ["{language}{language}", "x{language}y", "a*b", "a\nb", "a\0b", "q" * 301]
    assert propose(odd) == []
    assert [line.tasks for line in propose([*odd, "mybench_de", "mybench_sw"])] == [
        ("mybench_de", "mybench_sw")
    ]
    lines = propose(["q{language}", "qaa-aa!", "de_b", "sw_b"])
    assert {line.pattern for line in lines} == {"qaa-aa!", "{language}_b"}


def test_names_that_no_line_can_say_are_listed(tmp_path: Path) -> None:
    """The list was empty for a name with a star."""
    with pytest.raises(UnknownTasksError, match=r"for 2 tasks: quiz, a\*b_x; name it"):
        TaskNames().parse_all(["quiz", "a*b_x"], "f")
    assert TaskNames([("a*b_x", "", "de")]).parse("a*b_x") == NamedTask("a*b_x", "de")


@given(
    st.lists(st.text("ab*_L", max_size=5), max_size=8),
    st.lists(st.text("ab*_", max_size=7), max_size=8),
)
def test_the_first_line_is_that_of_trying_all(lines: list[str], tasks: list[str]) -> None:
    lines = [line.replace("L", "{language}", 1).replace("L", "") for line in lines]

    def fits(line: str, task: str) -> bool:
        pattern = re.escape(line).replace(r"\*", ".*")
        slot = "[A-Za-z]+(?:[-_][A-Za-z]{2,4})*"
        return bool(re.fullmatch(pattern.replace(re.escape("{language}"), slot), task))

    found = TaskLines(lines)
    for task in tasks:
        place = next((i for i, line in enumerate(lines) if fits(line, task)), None)
        first = found.first(task)
        assert (None if first is None else first[0]) == place


def test_wildcards_need_no_backtracking(tmp_path: Path) -> None:
    """Each ``*`` was ``.*``: nine of them did not end on a name of 400 letters."""
    path = tmp_path / "names.csv"
    path.write_text(
        "task,dataset,language\n" + "*a" * 60 + "b,d,en\n" + "x" + "*y" * 60 + "{language}*,,\n"
        "m*mlu_*_{language}_*x,,\n",
        encoding="utf-8",
    )
    names = read_task_names(path)
    for task in ("a" * 299, "x" + "y1" * 149):
        with pytest.raises(LookupError):
            names.parse(task)
    assert names.parse("za" * 60 + "b") == NamedTask("d", "en")
    assert names.parse("mmmlu_pro_de_lax") == NamedTask("mmmlu_pro_lax", "de")
    # A slot at the beginning leaves no separator behind.
    path.write_text("task,dataset,language\n{language}-quiz,,\n", encoding="utf-8")
    assert read_task_names(path).parse("de-quiz") == NamedTask("quiz", "de")


def test_a_code_that_does_not_exist_is_corrected() -> None:
    """Japanese of XWinograd is ``jp``, which no other file calls it."""
    assert parse_task("xwinograd_jp") == NamedTask("xwinograd", "ja")
    assert parse_task("xwinograd_pt") == NamedTask("xwinograd", "pt")
    assert parse_task("mgsm_direct_ja") == NamedTask("mgsm_direct", "ja")
