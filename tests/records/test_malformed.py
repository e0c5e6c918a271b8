"""Files that are not as they should be: a table or one line, never a traceback."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.records import load
from tests.readers.good_files import BY_NAME, GOOD, Good, as_archive, identity, members_of
from tests.records.malformed import broken, mutated

VARIANTS = {good.name: list(broken(good)) for good in GOOD}
# What no text survives; what no JSON document, no archive and no Parquet file survives.
NEVER = {"latin-1", "NUL", "NUL first", "UTF-16"}
CUT = {"cut by a byte", *(f"cut at {tenth}/10" for tenth in range(1, 10))}
NO_DOCUMENT = {"a key twice", "deep and open", "trailing comma", "twice", *CUT}
NO_YAML = {"a key twice", "deep", "deep and open", "aliases", "an alias for a value", "twice"}


def outcome(path: Path, reader: Callable[[Path], object] = load) -> str:
    """The one line of a refusal; empty when the file was read."""
    try:
        reader(path)
    except InputError as problem:
        message = str(problem)
        assert len(message.splitlines()) == 1, message
        assert message.isprintable(), message
        assert len(message) < 2000, message
        return message
    return ""


def test_there_are_enough_variants() -> None:
    assert sum(map(len, VARIANTS.values())) >= 1000
    assert all(len(variants) >= 19 for variants in VARIANTS.values())


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
def test_the_good_files_are_read(tmp_path: Path, good: Good) -> None:
    """The control: what is broken below is whole here, with CRLF and a byte order mark too."""
    same = [good.data]
    if good.is_text:
        lines = good.data.replace(b"\r\n", b"\n")
        same += [lines.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + good.data]
    found = {
        identity(good.reader(good.write(tmp_path / str(i) / "rev", data)))
        for i, data in enumerate(same)
    }
    assert len(found) == 1


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
def test_every_broken_variant_is_a_table_or_one_line(tmp_path: Path, good: Good) -> None:
    found = {}
    for number, (what, data) in enumerate(VARIANTS[good.name]):
        path = good.write(tmp_path / str(number), data)
        try:
            found[what] = outcome(path, good.reader)
        except Exception as problem:
            raise AssertionError(f"{good.name}, {what}: {problem!r}") from problem
    refused = {what for what, message in found.items() if message}
    if good.is_text:
        assert refused >= NEVER
        assert all("UTF-" in found[what] for what in ("latin-1", "UTF-16"))
    # YAML that is a list at its top is broken as lines are.
    if good.file.endswith((".json", ".yaml")) and (good.is_json or good.document is not None):
        assert refused >= (NO_DOCUMENT if good.is_json else NO_YAML)
    if not good.is_text:
        assert refused >= CUT
    if "a key twice" in found:
        assert "twice" in found["a key twice"]
    # Inspect's frames name the log without its folder.
    named = path.name if good.name == "inspect frames" else str(tmp_path)
    assert all(named.removeprefix("log") in found[what] for what in refused)


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_mutations_are_a_table_or_one_line(good: Good, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome(good.write(Path(folder), data.draw(mutated(good))), good.reader)


def test_names_in_the_samples_of_inspect_are_escaped_in_messages(tmp_path: Path) -> None:
    good = BY_NAME["inspect frames"]
    frames = json.loads(members_of(good.data)["header.json"])
    for row in frames["samples"]:
        row["metadata_language"] = "\x1b[2J"
    data = as_archive({"header.json": frames})
    message = outcome(good.write(tmp_path, data), good.reader)
    assert "log0.eval, xnli_sw, \\x1b[2J, sample 1, column 'language'" in message


@pytest.mark.parametrize("name", ["lm-eval", "lighteval details", "excel", "wide", "card"])
def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    good = BY_NAME[name]
    path = good.write(tmp_path, good.data[: len(good.data) // 2])
    assert main(["validate", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "Ready to fit: no, because the table cannot be read\n"
    assert len(said.err.splitlines()) == 1
    assert path.name in said.err


def _peak(path: Path, reader: Callable[[Path], object]) -> tuple[str, int]:
    tracemalloc.start()
    message = outcome(path, reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return message, peak


@pytest.mark.parametrize(
    "name",
    ["t.csv", "t.json", "t.jsonl", "t.parquet", "t.xlsx", "t.eval", "t.md", "t.jsonl.gz"],
)
@pytest.mark.parametrize("start", ["", "head"])
def test_two_sparse_gigabytes_are_not_read(tmp_path: Path, name: str, start: str) -> None:
    path = tmp_path / f"samples_xnli_sw_{name}"
    heads = {".csv": b"model,language,score\n", ".parquet": b"PAR1", ".gz": b"\x1f\x8b\x08"}
    head = heads.get(path.suffix, b'{"doc_id": 0, "doc": 1, "target": 1, "filtered_resps": 1}\n')
    path.write_bytes(head if start else b"")
    os.truncate(path, 2 << 30)
    message, peak = _peak(path, load)
    assert message
    # A few chunks of one MiB, and what pytest and the readers' tables take.
    assert peak < 50 << 20


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
def test_a_good_file_that_grew_to_two_gigabytes(tmp_path: Path, good: Good) -> None:
    path = good.write(tmp_path, good.data)
    os.truncate(path, 2 << 30)
    message, peak = _peak(path, good.reader)
    assert message
    assert peak < 50 << 20


def test_bombs_are_not_unpacked(tmp_path: Path) -> None:
    line = b'{"doc_id": 0, "doc": {}, "target": "", "filtered_resps": [], "metrics": ["acc"]'
    packed = tmp_path / "samples_xnli_sw_2026-01-01T00-00-00.jsonl.gz"
    # One line without end.
    packed.write_bytes(gzip.compress(line + b" " * (20 << 20), compresslevel=1))
    assert "longer than 16 MiB" in outcome(packed)
    book = tmp_path / "t.xlsx"
    with zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "x")
        archive.writestr("xl/worksheets/sheet1.xml", "x")
    data = bytearray(book.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (3_000_000_000).to_bytes(4, "little")
    book.write_bytes(bytes(data))
    assert "the unpacked file has 3.0 GB" in outcome(book)


@pytest.mark.parametrize("content", [b"", b"x", b"not a workbook"])
def test_broken_archives(tmp_path: Path, content: bytes) -> None:
    for suffix, member in itertools.product((".xlsx", ".eval"), ("xl/workbook.xml", "header.json")):
        path = tmp_path / f"{member.replace('/', '_')}{suffix}"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        if member == "header.json":
            # Needs Inspect, which the tests do without; the extra is named.
            with pytest.raises(ValueError, match="inspect|Inspect"):
                load(path)
        else:
            assert "damaged Excel workbook" in outcome(path)
        path.write_bytes(path.read_bytes()[:-10])
        assert outcome(path)


def test_folders_with_nothing_or_with_circles(tmp_path: Path) -> None:
    assert "holds no table" in outcome(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert "holds no table" in outcome(tmp_path)
    assert "no such file" in outcome(tmp_path / "self")


@pytest.mark.parametrize("name", ["alignment", "covariate"])
def test_alignment_of_empty_folders_and_circles(tmp_path: Path, name: str) -> None:
    reader = BY_NAME[name].reader
    assert "neither alignment.csv nor files LANGUAGE.json" in outcome(tmp_path, reader)
    (tmp_path / "swh_Latn.json").symlink_to(tmp_path / "swh_Latn.json")
    assert "cannot be read" in outcome(tmp_path, reader)
    assert "no such file" in outcome(tmp_path / "swh_Latn.json", reader)


@pytest.mark.parametrize("name", ["reuben", "mapping", "task names"])
def test_configurations_that_are_folders_or_circles(tmp_path: Path, name: str) -> None:
    good = BY_NAME[name]
    path = good.write(tmp_path, b"")
    path.unlink()
    path.mkdir()
    assert f"{path}: cannot be read" in outcome(path, good.reader)
    path.rmdir()
    path.symlink_to(path)
    assert f"{path}: cannot be read" in outcome(path, good.reader)


def test_what_cannot_be_a_path(tmp_path: Path) -> None:
    assert "no such file" in outcome(tmp_path / ("x" * 300))
    assert "no such file" in outcome(Path("x" * 300 + ".csv"))
