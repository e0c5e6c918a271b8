"""YAML of language tables: the code `no` is Norwegian, not false."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeseval._yaml import read_yaml
from bayeseval.errors import InputError


def test_norwegian_is_not_false(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("no: Norwegian\non: x\nflag: true\nempty: null\n", encoding="utf-8")
    assert read_yaml(path) == {"no": "Norwegian", "on": "x", "flag": True, "empty": None}


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3: not valid YAML: key 'a' is given twice"),
        (b"a: \xff\xfe\n", "cannot be read"),
        (b"? [1, 2]\n: x\n", "a key must be a plain word"),
        (b"a: !!python/object:os.system x\n", "not valid YAML"),
        (b"a: " + b"[" * 5000, "not valid YAML"),
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
