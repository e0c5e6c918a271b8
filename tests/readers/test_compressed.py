"""Packed files: what they hold is read within bounds, and damage is said."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bayeseval.errors import InputError
from bayeseval.readers.archives import refuse_zip_bomb
from bayeseval.readers.base import Head, file_bytes
from bayeseval.readers.compressed import stem_of, suffix_of, unpack
from bayeseval.records import load
from bayeseval.records.out_of_core import refuse_large
from tests.readers.good_files import FIXTURES

TIDY = "model,language,task,score\na,de,x,0.5\na,sw,x,0.25\nb,de,x,0.75\n"
ROWS = [dict(zip(TIDY.split("\n")[0].split(","), line.split(","), strict=True)) for line in
        TIDY.strip().split("\n")[1:]]  # fmt: skip


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (zstd, ".zst")])
@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".csv", TIDY),
        (".tsv", TIDY.replace(",", "\t")),
        (".jsonl", "".join(json.dumps(row) + "\n" for row in ROWS)),
        (".json", json.dumps(ROWS)),
    ],
)
def test_packed_tables(
    tmp_path: Path, pack: Callable[[bytes], bytes], ending: str, suffix: str, text: str
) -> None:
    plain = tmp_path / f"scores{suffix}"
    plain.write_text(text, encoding="utf-8")
    expected = load(plain)
    packed = tmp_path / "packed" / f"scores{suffix}{ending}"
    packed.parent.mkdir()
    packed.write_bytes(pack(text.encode()))
    records = load(packed)
    assert records.name == "scores"
    assert records.content_hash == expected.content_hash
    assert load(packed.parent).content_hash == expected.content_hash


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (zstd, ".zst")])
def test_a_packed_wide_table(tmp_path: Path, pack: Callable[[bytes], bytes], ending: str) -> None:
    # Longer than the beginning by which a file is known, so that its last line there is cut.
    lines = ["model,de,sw", *(f"model-{i},0.5,0.25" for i in range(2000))]
    path = tmp_path / f"exams.csv{ending}"
    path.write_bytes(pack("\n".join(lines).encode()))
    records = load(path)
    assert len(records) == 4000
    assert records.coords["task"] == ("exams",)


def test_packed_more_than_once_and_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv.gz"
    head, rest = TIDY[:40].encode(), TIDY[40:].encode()
    path.write_bytes(gzip.compress(head) + gzip.compress(rest))
    assert len(load(path)) == 3
    path.write_bytes(gzip.compress(gzip.compress(TIDY.encode())))
    with pytest.raises(InputError, match=r"scores\.csv\.gz: this is gzip-compressed; expected CSV"):
        load(path)


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (zstd, "zstandard")])
def test_damage_is_said(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    path = tmp_path / "scores.csv.gz"
    whole = pack(TIDY.encode() * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"^{path}: damaged {name} file: "):
        load(path)
    # Its beginning is known nevertheless.
    assert Head.of(path).text.startswith("model,language") or name == "zstandard"


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_small_file_that_holds_much_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    bomb = pack(bytes(70_000_000))
    assert len(bomb) < 100_000
    with pytest.raises(InputError, match="the unpacked file is larger than 17 MB, the most"):
        unpack(tmp_path / "t.csv.gz", bomb, limit=1 << 30)
    # As much as the limit is read.
    assert unpack(tmp_path / "t.csv.gz", pack(bytes(10)), limit=10) == bytes(10)
    with pytest.raises(InputError, match="larger than 0 MB"):
        unpack(tmp_path / "t.csv.gz", pack(bytes(11)), limit=10)


def test_sizes_beyond_a_limit_read_unlike_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"")
    # Nothing of it is stored.
    os.truncate(path, (1 << 30) + 1)
    two = "has 1,073,741,825 bytes(;|, and) at most 1,073,741,824 bytes are read"
    with pytest.raises(InputError, match=f"the file {two}"):
        file_bytes(path)
    with pytest.raises(InputError, match=f"the file {two} into memory; memory='2GB' reduces"):
        refuse_large([path])
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a", b"12345")
    with pytest.raises(InputError, match="the unpacked file has 5 bytes; at most 4 bytes are read"):
        refuse_zip_bomb(tmp_path / "t.zip", limit=4)


def test_what_cannot_be_unpacked_says_what_to_do(tmp_path: Path) -> None:
    for name, data, said in (
        ("t.csv.xz", lzma.compress(b"a"), "this is xz-compressed (unpack it); expected CSV"),
        ("t.csv.bz2", bz2.compress(b"a"), "this is bzip2-compressed (unpack it); expected CSV"),
        ("t.xlsx", b"<html>", "a web page, not an Excel workbook; open it in a spreadsheet and"),
        ("u.xlsx", b"a,b", "a text file, not an Excel workbook; rename it to .csv or .tsv"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(InputError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: {said}")


def test_names_of_packed_files() -> None:
    assert [suffix_of(Path(x)) for x in ("a.CSV.GZ", "a.b.tsv.zst", "a.csv", "a.gz")] == [
        *(".csv", ".tsv", ".csv", ""),
    ]
    assert [stem_of(Path(x)) for x in ("a.CSV.GZ", "a.b.tsv.zst", "a.csv", "a.gz")] == [
        *("a", "a.b", "a", "a"),
    ]


def test_frames_of_zstandard(tmp_path: Path) -> None:
    """One without data may come first; one of a long window takes too much memory."""
    whole = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note" + zstd(TIDY.encode())
    path = tmp_path / "scores.csv.zst"
    path.write_bytes(whole)
    assert len(load(path)) == 3
    # A window of 2^(10 + 17) bytes is the largest; one raw block of three bytes.
    frame = b"\x28\xb5\x2f\xfd\x00%c\x19\x00\x00abc"
    assert unpack(path, frame % (17 << 3), limit=10) == b"abc"
    with pytest.raises(
        InputError, match=r"csv\.zst: compressed by zstd with a window of more than"
    ):
        unpack(path, frame % (18 << 3), limit=10)


def test_lines_packed_with_zstandard(tmp_path: Path) -> None:
    """Results of a tool, too, which are read line by line."""
    lines = (FIXTURES / "euroeval" / "v16.11.jsonl").read_bytes()
    path = tmp_path / "results.jsonl.zst"
    path.write_bytes(zstd(lines))
    assert load(path).content_hash == load(FIXTURES / "euroeval" / "v16.11.jsonl").content_hash
    path.write_bytes(zstd(lines)[:-20])
    with pytest.raises(InputError, match=r"results\.jsonl\.zst: damaged zstandard file: "):
        load(path)
