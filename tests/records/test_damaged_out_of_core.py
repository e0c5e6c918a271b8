"""Files that are no text, or only a part of a file, are refused in the words of memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bayeseval as be
from bayeseval.errors import InputError
from tests.records.reduced_tables import MEMORY, table


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def said(file: Path, memory: str | None) -> str:
    with pytest.raises(InputError) as caught:
        be.load(file, memory=memory)
    return str(caught.value)


def _zero_byte(content: bytes) -> bytes:
    return content.replace(b",", b"\0,", 9)


def _utf16(content: bytes) -> bytes:
    return content.decode().encode("utf-16")


@pytest.mark.parametrize("damage", [_zero_byte, _utf16])
def test_text_is_refused_as_in_memory(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "rows.csv"
    table(1, unit="item", seeds=1, share=1.0).to_csv(file, index=False)
    file.write_bytes(damage(file.read_bytes()))
    assert said(file, MEMORY) == said(file, None)


@pytest.mark.parametrize("n", [1, 100])
def test_an_end_of_zero_bytes_is_an_incomplete_copy(tmp_path: Path, n: int) -> None:
    file = tmp_path / "rows.csv"
    table(1, unit="item", seeds=1, share=1.0).to_csv(file, index=False)
    file.write_bytes(file.read_bytes() + bytes(n))
    assert said(file, MEMORY) == (
        f"{file}: the end of the file holds zero bytes, so it is not text; check that the copy is"
        " complete"
    )


def test_a_parquet_file_without_its_end_is_an_incomplete_copy(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    table(1, unit="item", seeds=1, share=1.0).to_parquet(file, index=False)
    file.write_bytes(file.read_bytes()[:-100])
    expected = f"{file}: damaged Parquet file: its end is missing; check that the copy is complete"
    assert said(file, MEMORY) == expected
    assert said(file, None) == expected
