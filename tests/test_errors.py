"""Errors and notes name what their reader can write: arguments in Python, options in a shell."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bayeseval as be
from bayeseval.cli import main
from bayeseval.errors import (
    addressing_command_line,
    argument,
    by_option,
    setting,
    wording,
)

_SOURCES = Path(be.__file__).parent
_CHOICES = {"wording", "by_option", "setting"}
_OPTION = re.compile(r"--[a-z]")


def test_messages_are_worded_for_their_reader() -> None:
    def said() -> tuple[str, str, str, str]:
        return argument("ci_prob"), by_option("--out"), setting("mixed", "allow"), wording("a", "b")

    python = ("ci_prob", "", "mixed='allow'", "a")
    assert said() == python
    with addressing_command_line():
        assert said() == ("--ci-prob", " (--out)", "mixed: allow in a --mapping file", "b")
        with addressing_command_line(False):
            assert said() == python
    assert said() == python


def test_the_same_error_in_a_shell_and_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("llm,system,language,score\na,b,en,1\n")
    assert main(["validate", str(path)]) == 2
    assert "choose --columns model=llm or --columns model=system\n" in capsys.readouterr().out
    with pytest.raises(be.BayesevalError) as caught:
        be.load(path)
    assert str(caught.value).endswith(
        "choose columns={'model': 'llm'} or columns={'model': 'system'}"
    )


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: be.fit(model="additive"),
            "fit: records must be given; there is no argument 'model'; it is called 'spec'; "
            "call fit(records, spec='auto', ...)",
        ),
        (
            lambda: be.fit("mega", enigne="ml"),
            "fit: there is no argument 'enigne'; did you mean 'engine'?; "
            "call fit(records, spec='auto', ...)",
        ),
        (
            lambda: be.fit("mega", "additive", "ml"),
            "fit: too many positional arguments; call fit(records, spec='auto', ...)",
        ),
        (
            lambda: be.compare("mega"),
            "compare: specs must be given; call compare(records, specs, ...)",
        ),
        (
            lambda: be.Covariate(),
            "Covariate: name, by, labels, models and values must be given; "
            "call Covariate(name, by, labels, models, values, ...)",
        ),
    ],
)
def test_a_wrong_call_says_how_to_call(call: Callable[[], object], line: str) -> None:
    with pytest.raises(be.BayesevalError) as caught:
        call()
    assert str(caught.value) == line


@pytest.mark.parametrize("name", [n for n in be.__all__ if inspect.isfunction(getattr(be, n))])
def test_every_public_function_explains_wrong_calls(name: str) -> None:
    function = getattr(be, name)
    with pytest.raises(
        be.BayesevalError, match=rf"^{name}: .*no argument 'nonsense'.*; call {name}"
    ):
        function(nonsense=1)
    assert inspect.signature(function).parameters.keys() == (
        inspect.signature(function.__wrapped__).parameters.keys()
    )


def test_no_text_names_an_option_without_asking_who_reads_it() -> None:
    """Texts with an option of ours stand in calls that choose the wording."""
    # The command line itself; mexa, which is a command only; commands to type; Graphviz.
    elsewhere = {"cli", "mexa", "situation.py", "bibliography.py"}
    stray = []
    for path in sorted(_SOURCES.rglob("*.py")):
        if elsewhere.isdisjoint(path.relative_to(_SOURCES).parts):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            stray += [f"{path.name}: {text}" for text in _texts(tree) if _OPTION.search(text)]
    assert stray == []


def _texts(node: ast.AST) -> Iterator[str]:
    """Texts below a node, except docstrings and what is given to a choice of wording."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _CHOICES:
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)
