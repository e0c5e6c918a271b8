"""Aligned tables: long names are shortened so that they stay distinct, numbers never are."""

from __future__ import annotations

import os

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bayeseval.output import text as text_module
from bayeseval.output.language_names import add_language_names, name_and_code
from bayeseval.output.text import shorten_names, terminal_width, text_table, wrapped

LONG = "organisation/a-family-of-models-with-a-name-{}-70B-instruct-v0.3-final"


def test_whole_without_a_terminal() -> None:
    models = [LONG.format(i) for i in range(3)]
    lines = text_table("heading", {"model": models, "x": ["1", "22", "333"]}).splitlines()
    assert lines[0] == "heading"
    assert [line.split()[0] for line in lines[2:]] == models


def test_escaped_characters_have_their_room() -> None:
    lines = text_table("heading", {"model": ["a\u202eb", "c"], "x": ["1", "22"]}).splitlines()
    assert lines[1:] == ["  model       x", "  a\\u202eb    1", "  c          22"]


def test_numbers_are_never_cut() -> None:
    columns = {"model": [LONG.format("a"), LONG.format("b")]}
    columns |= {f"column {i}": ["1234567.89 [1234567.12, 1234568.34]", "-"] for i in range(4)}
    text = text_table("heading", columns, width=80)
    assert text.count("1234567.89 [1234567.12, 1234568.34]") == 4
    rows = text.splitlines()[2:]
    # The names gave way as far as they can be read, and differ.
    assert [cell_len(row.strip().split("  ")[0]) for row in rows] == [16, 16]
    assert len({row[:18] for row in rows}) == 2


def test_a_table_fills_the_terminal_and_no_more() -> None:
    columns = {"model": [LONG.format("a"), "b"], "score": ["1.00 [0.90, 1.10]", "2.00"]}
    lines = text_table("heading", columns, width=60).splitlines()
    assert max(cell_len(line) for line in lines) == 60
    assert "…" in lines[2]
    wide = text_table("heading", columns, width=200)
    assert LONG.format("a") in wide


def test_columns_are_aligned_in_cells() -> None:
    models = ["a", "中文模型", "हिन्दी", "café", "dddd"]
    lines = text_table("h", {"model": models, "x": ["1", "2", "3", "4", "5"]}).splitlines()[1:]
    assert len({cell_len(line) for line in lines}) == 1


def test_several_columns_of_names_share_the_room() -> None:
    columns = {"model": [LONG.format("a")], "language": ["de"], "task": ["t" * 60], "x": ["1.5"]}
    line = text_table("h", columns, names=3, width=80).splitlines()[2]
    assert cell_len(line) == 80
    assert " de " in line
    assert line.endswith("1.5")


def test_names_beyond_reading_are_cut_on_a_wide_terminal_and_whole_in_a_file() -> None:
    names = ["a" * 299 + end for end in "xyz"]
    columns = {"model": [*names, "b"], "score": ["1", "2", "3", "4"]}
    lines = text_table("t", columns, width=1000).splitlines()[2:]
    assert max(map(len, lines)) <= 100
    assert len({line.split()[0] for line in lines}) == 4
    assert all("…" in line for line in lines[:3])
    assert lines[3].split() == ["b", "4"]
    # Here the output goes to a file, which other programs may read.
    piped = [line.split() for line in text_table("t", columns).splitlines()[2:]]
    assert piped == [[name, str(i)] for i, name in enumerate([*names, "b"], start=1)]


def test_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_width() is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for columns, width in ((60, 80), (132, 132)):
        size = os.terminal_size((columns, 24))
        # pytest asks for the width too, with arguments of its own.
        monkeypatch.setattr(
            text_module.shutil, "get_terminal_size", lambda *_, size=size, **__: size
        )
        assert terminal_width() == width


@pytest.mark.parametrize(("terminal", "widest"), [(None, 100), (80, 80), (132, 100)])
def test_running_text_is_as_wide_as_the_terminal_and_no_wider_than_a_page(
    terminal: int | None, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "terminal_width", lambda: terminal)
    lines = wrapped("word " * 100).splitlines()
    assert widest - 5 < max(map(len, lines)) <= widest


def test_a_table_that_is_too_wide_gives_up_names_then_blanks_then_long_titles() -> None:
    columns = {
        "model": ["organisation/a-model", "b"],
        "sd of the observed levels": ["1.2 [1.1, 1.3]", "2"],
        "share": ["3", "4"],
    }
    assert text_table("t", columns, width=58).splitlines()[1:] == [
        "  model                  sd of the observed levels   share",
        "  organisation/a-model              1.2 [1.1, 1.3]       3",
        "  b                                              2       4",
    ]
    columns["model"][0] = "quite-a-long-name"
    assert text_table("t", columns, width=52).splitlines()[1:3] == [
        "  model             sd of the observed levels  share",
        "  quite-a-l…g-name             1.2 [1.1, 1.3]      3",
    ]
    assert text_table("t", columns, width=44).splitlines()[1:] == [
        "                          sd of the",
        "                           observed",
        "  model                      levels  share",
        "  quite-a-long-name  1.2 [1.1, 1.3]      3",
        "  b                               2      4",
    ]


@pytest.mark.parametrize(
    "names",
    [
        [LONG.format(i) for i in "abc"],
        # The same head, tail and length; two differences.
        ["x" * 30 + a + "y" * 30 + b + "z" * 30 for a in "12" for b in "12"],
        ["x" * 40 + "a" + "y" * n for n in range(20, 24)],
        ["模型" * 12 + c + "模型" * 12 for c in "甲乙丙"],
    ],
)
def test_shortened_names_stay_distinct(names: list[str]) -> None:
    for width in (16, 20, 24, 40):
        short = shorten_names([*names, names[0], "short"], width)
        assert max(cell_len(name) for name in short) <= width
        assert len(set(short)) == len(names) + 1
        assert short[-2] == short[0]
        assert short[-1] == "short"


def test_identifiers_of_a_hub_lose_their_developer_first() -> None:
    llamas = ["meta-llama/Llama-3.1-405B-Instruct-FP8", "meta-llama/Llama-3.1-8B-Instruct", "o1"]
    assert shorten_names(llamas, 34) == [
        "Llama-3.1-405B-Instruct-FP8",
        "Llama-3.1-8B-Instruct",
        "o1",
    ]
    assert shorten_names(llamas, 40) == llamas  # all fit
    # Two developers with a model of one name, and names with a slash that are no identifiers.
    same = ["first-developer/some-model-7b", "other-developer/some-model-7b"]
    assert shorten_names(same, 20) == ["first-develo…odel-7b", "other-develo…odel-7b"]
    mixed = ["meta-llama/Llama-3.1-8B", "unsloth/Llama-3.1-8B", "some-developer/Teuken-7B-instruct"]
    assert shorten_names(mixed, 24) == [*mixed[:2], "Teuken-7B-instruct"]
    # Left as they are where one would become another.
    taken = ["x/b/aaaaaaaaaaaaaaaaaaaaaaaa", "b/a", "c/a"]
    assert len(set(shorten_names(taken, 16))) == 3
    prose = ["reads input / writes output model"]
    assert shorten_names(prose, 20) == ["reads input …t model"]


@given(
    st.lists(st.text("ab/", min_size=1, max_size=40), min_size=1, max_size=12), st.integers(16, 30)
)
def test_shortening_never_merges_names(names: list[str], width: int) -> None:
    short = shorten_names(names, width)
    assert len(set(short)) == len(set(names))
    assert all(len(text) <= width for text in short)
    # Panels and tables of other orders call every model the same.
    assert shorten_names(names[::-1], width) == short[::-1]


def test_numbers_belong_to_names_in_any_order() -> None:
    names = [f"a-family-of-{size}-instruct-and-{end}" for size in ("1b", "2b") for end in "ba"]
    short = ["a-family…nd-b #2", "a-family…nd-a #1", "a-family…nd-b #4", "a-family…nd-a #3"]
    assert shorten_names(names, 16) == short
    # In a figure that has room for others of the names, too.
    assert shorten_names([*names, "0"], 16) == [
        "a-family…nd-b #3",
        "a-family…nd-a #2",
        "a-family…nd-b #5",
        "a-family…nd-a #4",
        "0",
    ]


def test_a_remark_behind_all_names_goes_before_their_parts() -> None:
    remark = "Instruct (5-shot, chat template)"
    names = [f"org/aya-{size}-{remark}" for size in ("8b", "32b")]
    assert shorten_names(names, 22) == ["aya-8b-Instruct…", "aya-32b-Instruct…"]
    # Not where one of them ends in other words.
    assert shorten_names([*names, "org/llama-3.1-8b-Instruct-2407"], 22)[:2] == [
        "aya-8b-Instru…emplate)",
        "aya-32b-Instr…emplate)",
    ]


def test_names_beside_codes() -> None:
    known = {"de": "German", "xx": "xx"}
    assert name_and_code(["de", "xx", "sw"], known) == ["German (de)", "xx", "sw"]
    table = pd.DataFrame({"language": ["de", "sw"], "value": [1, 2], "ci_kind": "eti"})
    named = add_language_names(table, known)
    assert list(named.columns) == ["language", "value", "language_name", "ci_kind"]
    assert list(named["language_name"]) == ["German", "sw"]
    assert list(table.columns) == ["language", "value", "ci_kind"]
    assert add_language_names(named, {}) is named
    models = pd.DataFrame({"model": ["a"]})
    assert add_language_names(models, known) is models
