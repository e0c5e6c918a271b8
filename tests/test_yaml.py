"""YAML of language tables: the code `no` is Norwegian, not false."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bayeseval._yaml import parse_config, parse_yaml, read_yaml
from bayeseval.errors import InputError, SpecError
from bayeseval.records.registry import BenchmarkCard, read_mapping
from bayeseval.records.remote import Remote
from bayeseval.records.settings import UnitsConfig
from bayeseval.spec import ModelSpec, Prior

LAUGHS = b"a0: &a0 [lol, lol]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 11)
)


def test_norwegian_is_not_false(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("no: Norwegian\non: x\nflag: true\nempty: null\n", encoding="utf-8")
    assert read_yaml(path) == {"no": "Norwegian", "on": "x", "flag": True, "empty": None}


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3: not valid YAML: key 'a' is given twice"),
        (b"a: 1\nb: \xff\xfe\n", "line 2: not UTF-8 text: byte 0xff"),
        (b"? [1, 2]\n: x\n", "a key must be a plain word"),
        (b"a: !!python/object:os.system x\n", "not valid YAML"),
        (b"a: " + b"[" * 5000, "not valid YAML: nested too deeply"),
        (b"- " * 5000, "not valid YAML: nested too deeply"),
        (
            b'language_names: {sw: "x\\uD800y"}\n',
            "line 1: not valid YAML: 'x\\ud800y' holds half of",
        ),
        # Each line stands for nine of the one before it, and the last for 10^10 words.
        (LAUGHS, "aliases expand to more than 524,288 values"),
        (b"a: &a [*a]\n", "more than 524,288 values, or to themselves"),
        # Short, but written out the text would fill the memory.
        (
            b"a: &a " + b"x" * 20_000 + b"\nb: [" + b"*a, " * 60 + b"]\n",
            "its aliases expand to more than 1.0 million characters of text",
        ),
        (
            b"a: &a {" + b"x" * 1000 + b": 1}\nb: [" + b"*a, " * 1100 + b"]\n",
            "its aliases expand to more than 1.0 million characters of text",
        ),
        (
            b"a0: &a0 [x]\n"
            + b"".join(b"a%d: &a%d [*a%d]\n" % (i, i, i - 1) for i in range(1, 250)),
            "not valid YAML: nested too deeply",
        ),
        (b"a: 0x" + b"f" * 5000 + b"\n", "line 1: not valid YAML: '0xfff"),
        (b"a: &a {x: 1}\nb: {<<: *a}\n", "line 2: not valid YAML: merge keys (<<) are not read"),
        (b"a: 1\nb: !!bool x\n", "line 2: not valid YAML: 'x' is no bool"),
        (b"a: 2001-99-99\n", "line 1: not valid YAML: '2001-99-99' is no timestamp"),
        (b"? !!set {a, b}\n: x\n", "a key must be a plain word"),
        (b"a: \0\n", "not valid YAML: unacceptable character #x0000"),
        (b"#" * 3_000_000, "the file has 3 MB; at most 1 MB of YAML are read"),
        (
            b"#" * (1 << 20) + b"\n",
            "the file has 1,048,577 bytes; at most 1,048,576 bytes of YAML are read",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(content: bytes, phrase: str, tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    assert phrase in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_long_file_without_aliases_is_read() -> None:
    text = "- [" + "1, " * 110_000 + "1]\n"
    assert len(parse_yaml(text, Path("long.yaml"))[0]) == 110_001


def test_numbers_are_those_of_the_core_schema(tmp_path: Path) -> None:
    """YAML 1.1 reads other numbers than people write: 0755 as 493, 12:30 as 750, 1e5 as text."""
    path = tmp_path / "card.yaml"
    path.write_text(
        "[0755, 1_000, 12:30, 12:30.5, 0b11, 1e5, -.5e-1, +7, 0o17, 0x1F, 3., -.inf, no, 1.2.3]",
        encoding="utf-8",
    )
    values = [755, "1_000", "12:30", "12:30.5", "0b11", 1e5, -0.05, 7, 15, 31, 3.0, -math.inf]
    read = read_yaml(path)
    assert read == [*values, "no", "1.2.3"]
    assert [type(value) for value in read[:7]] == [int, str, str, str, str, float, float]


def test_aliases_of_a_few_values_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("\ufeffa: &a [1, 2]\nb: *a\n", encoding="utf-8")
    assert read_yaml(path) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("columns:\n", "columns: expected keys and values, got nothing"),
        ("format: 3\n", "format: expected text, got 3"),
        ("constants: {n_seeds: [5]}\n", "constants.n_seeds: expected text or a number, got [5]"),
        ("metric: [acc]\n", "metric: expected text or keys and values, got ['acc']"),
        ("mixed_scales: no\n", "mixed_scales: expected 'refuse' or 'allow', got 'no'"),
        ("units: {lower: low}\n", "units.lower: expected a number, got 'low'"),
        ("units: {lower: 2, upper: 1}\n", "units: lower bound 2 is not below upper bound 1"),
        (
            "units: {tasks: {t: {low: 0}}}\n",
            "unknown key 'units.tasks.t.low'; did you mean 'lower'",
        ),
        ("metric: {squad: 1}\n", "metric.squad: expected text, got 1"),
        (
            "drop: {modle: [a]}\n",
            "drop: expected 'model', 'language' or 'task', got 'modle'; did you mean 'model'?",
        ),
        ("units: {tasks: {t: {upper: .inf}}}\n", "units: upper bound inf is not finite; leave it"),
    ],
)
def test_values_of_a_mapping_file_are_explained(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_mapping(path)
    assert str(caught.value).startswith(f"{path}: {line}")


SPEC = {"name": "s"}
HALF = {"dist": "half_normal", "scale": 1}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"name": "a b"},
            "name: expected letters, digits, '.', '_' and '-', a letter or digit first, got 'a b'",
        ),
        (
            SPEC | {"covariates": "Mexa"},
            "covariates.0.name: expected lower-case letters, digits and '_', a letter first, "
            "got 'Mexa'",
        ),
        (SPEC | {"covariates": ["a", "a"]}, "covariates: a covariate is named twice"),
        (
            SPEC | {"likelihood": "norml"},
            "likelihood: unknown likelihood 'norml'; did you mean 'normal'",
        ),
        (SPEC | {"likelihood": {"qa": 3}}, "likelihood: unknown likelihood 3 of qa (allowed: norm"),
        (SPEC | {"likelihood": {}}, "likelihood: the mapping is empty; give default: NAME"),
        (SPEC | {"edge": 1}, "edge: expected a number less than 0.5, got 1"),
        (SPEC | {"fixed_scale": 0}, "fixed_scale: expected a number greater than 0, got 0"),
        (SPEC | {"chance": True}, "chance needs a logit link, and normal scores have an identity"),
        (SPEC | {"interactions": ["language:task"] * 2}, "interactions: an interaction is named t"),
        (SPEC | {"centring": {"taks": "centred"}}, "centring: the model has no term 'taks'; did y"),
        (SPEC | {"priors": {"sd_tsk": HALF}}, "priors: the model has no parameter 'sd_tsk'"),
        (
            SPEC | {"priors": {"sd_task": HALF | {"rate": 2}}},
            "priors.sd_task: half_normal does not take r",
        ),
        (
            SPEC | {"priors": {"sd_task": HALF | {"scale": float("nan")}}},
            "priors.sd_task.scale: must be a finite number",
        ),
        (
            SPEC | {"priors": {"sd_task": {"dist": "normal", "loc": 0, "scale": 1}}},
            "sd_task needs a positive prior, not normal",
        ),
    ],
)
def test_every_validator_of_a_spec_speaks_in_one_line(values: dict[str, Any], line: str) -> None:
    """From a file and from Python, without a word of pydantic's."""
    with pytest.raises(SpecError) as read:
        parse_config(ModelSpec, values, source="spec.yaml", error=SpecError)
    with pytest.raises(SpecError) as made:
        ModelSpec(**values)
    for error, start in ((read, "spec.yaml"), (made, "ModelSpec")):
        assert str(error.value).startswith(f"{start}: {line}")
        assert "\n" not in str(error.value)
        for word in ("Value error", "Input should", "String should", "pydantic"):
            assert word not in str(error.value)


def test_parts_made_by_hand_are_refused_in_one_line() -> None:
    with pytest.raises(SpecError, match=r"^Prior: half_normal needs scale; its parameters: scale$"):
        Prior(dist="half_normal")
    with pytest.raises(InputError, match=r"^UnitsConfig: lower bound 2 is not below upper bound"):
        UnitsConfig(lower=2.0, upper=1.0)
    with pytest.raises(InputError, match=r"^Remote: sha256: expected 64 hexadecimal digits, got '"):
        Remote(address="https://a.org/t.csv", sha256="f00")
    with pytest.raises(
        InputError, match=r"^card: remote\.address: expected the URL of a file, https://HOST/FILE, "
    ):
        parse_config(
            BenchmarkCard,
            {"name": "b", "title": "t", "remote": {"address": "ftp://x"}},
            source="card",
        )
    with pytest.raises(InputError, match=r"^card: title: expected text that is not empty, got ''$"):
        parse_config(BenchmarkCard, {"name": "b", "title": ""}, source="card")
