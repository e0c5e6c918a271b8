"""Files that are no text, or only a part of a file, are refused in the words of memory."""

from __future__ import annotations

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


@pytest.mark.parametrize("at", [0.0001, 0.5, 0.9999])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_zero_byte_is_found_wherever_it_is(tmp_path: Path, suffix: str, at: float) -> None:
    file, rows = tmp_path / f"rows{suffix}", table(1, unit="item", seeds=1, share=1.0)
    if suffix == ".csv":
        content = rows.to_csv(index=False).encode()
    else:
        content = rows.to_json(orient="records", lines=True).encode()
    # More than is read to tell formats apart; nobody comes to what repeated rows mean.
    content += content.partition(b"\n")[2] * ((3 << 20) // len(content))
    place = int(at * len(content))
    file.write_bytes(content[:place] + b"\0" + content[place:])
    words = said(file, MEMORY)
    assert words == said(file, None)
    assert f"not a text file: byte 0x00 at position {place}; expected CSV" in words


def test_text_of_two_bytes_is_refused_as_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    rows = table(1, unit="item", seeds=1, share=1.0)
    file.write_bytes(rows.to_csv(index=False).encode("utf-16"))
    assert said(file, MEMORY) == said(file, None)


@pytest.mark.parametrize("n", [2, 100])
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
