"""Hostile text is read out of core as in memory: the same cells, or refused in both."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers import compressed, engine_errors, rewritten
from bayeseval.readers.scans import open_engine
from bayeseval.readers.sql_texts import Scan, stripped
from bayeseval.readers.text_facts import text_facts
from bayeseval.records import reduce_replicates
from bayeseval.records.partials import Partials

MEMORY = "1GB"
BLANKS = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
HEADER = "model,language,item,score"
ROWS = [
    f"{model},{language},i{item},{(item + len(model)) % 3 / 2}"
    for model in ("m1", "m22")
    for language in ("de", "en")
    for item in range(4)
]
OBJECTS = [
    json.dumps(
        {
            "model": model,
            "language": language,
            "item": f"i{item}",
            "score": (item + len(model)) % 3 / 2,
        }
    )
    for model in ("m1", "m22")
    for language in ("de", "en")
    for item in range(4)
]
# The same model, called by a number in two spellings.
NUMBERED = [row.replace('"m1"', ("7", "7.0")[n % 2]) for n, row in enumerate(OBJECTS)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def outcome(file: Path, memory: str | None, **options: Any) -> Any:
    """Labels, counts and means of a table; the message where it is refused."""
    try:
        records = be.load(file, memory=memory, **options)
    except InputError as problem:
        assert "\n" not in str(problem)
        return str(problem)
    cells = reduce_replicates(records)
    factors = {name: records.coords[name] for name in ("model", "language", "task")}
    return factors, cells.n_items.tolist(), np.round(cells.mean, 12).tolist()


def assert_same(file: Path, **options: Any) -> Any:
    """Both ways give the same table, or both refuse the file; what they give."""
    whole, reduced = outcome(file, None, **options), outcome(file, MEMORY, **options)
    if isinstance(whole, str):
        assert isinstance(reduced, str), (whole, reduced)
    else:
        assert reduced == whole
    return reduced


def csv_of(*changed: str, header: str = HEADER, end: str = "\n") -> bytes:
    """A table whose first rows are changed."""
    return end.join([header, *changed, *ROWS[len(changed) :], ""]).encode()


def json_of(*changed: str, end: str = "\n") -> bytes:
    return end.join([*changed, *OBJECTS[len(changed) :], ""]).encode()


def row_of(model: str = '"m1"', score: str = "0.5", extra: str = "") -> str:
    return f'{{"model": {model}, "language": "de", "item": "i0", "score": {score}{extra}}}'


NUMBERS = ["7", "7.0", "70e-1", "-0", "-0.0", "1e2", "1e20", "12345678901234567890123", "true"]
JSON_LINES = {
    **{f"label {one}": json_of(row_of(one)) for one in (*NUMBERS, "1.5", "null", "[1]", '{"a":1}')},
    **{f"score {one}": json_of(row_of(score=one)) for one in (*NUMBERS, '"0.5"', '" 1 "', "[1]")},
    "score null": json_of(row_of(score="null")),
    "7 and 7.0": json_of(*NUMBERED),
    "twice": json_of(row_of(extra=', "score": 1')),
    "twice within": json_of(row_of(extra=', "note": {"a": 1, "a": 2}')),
    "comma": json_of(row_of()[:-1] + ",}"),
    "NaN": json_of(row_of(score="NaN")),
    "unused NaN": json_of(row_of(extra=', "x": NaN')),
    "unused inf": json_of(row_of(extra=', "x": inf')),
    "Infinity": json_of(row_of(score="-Infinity")),
    "mark": b"\xef\xbb\xbf" + json_of(),
    "mixed": "\r\n".join(OBJECTS[:5]).encode() + b"\n" + "\n".join(OBJECTS[5:]).encode(),
    "returns": json_of(end="\r"),
    "blank lines": json_of(row_of(), "", " \t", "\u00a0\u3000"),
    "vertical tab": json_of(row_of() + "\x0b"),
    "array": ("[" + ",\n".join(OBJECTS)).encode() + b"]",
    "cut array": ("[" + ",\n".join(OBJECTS)).encode(),
    "pretty": b"{\n" + json_of(),
    "cut": json_of()[:-10],
    "two in a line": json_of(row_of() + row_of()),
    "no object": json_of(row_of(), "[1]"),
    "no object but a number": json_of(row_of(), "1"),
    "one object": row_of().encode(),
    "one nested": row_of(extra=', "x": [1]').encode(),
    "csv": csv_of(),
    "html": b"<html></html>",
    "UTF-16": json_of().decode().encode("utf-16"),
    "not UTF-8": json_of().replace(b"m1", b"m\xff"),
    "surrogate": json_of(row_of('"\\ud800"')),
    "zero": json_of(row_of('"a\\u0000b"')),
    "zero byte": json_of(row_of('"a\0b"')),
    "digits": json_of(row_of(score="1" * 5000)),
    "many keys": json_of(row_of(extra=', "z": 1'), row_of(extra=', "a": "x"')),
    "blank label": json_of(row_of('" \u00a0"')),
}


@pytest.mark.parametrize("name", JSON_LINES)
def test_json_lines_are_read_as_in_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes(JSON_LINES[name])
    assert_same(tmp_path / "rows.jsonl")


def test_a_number_is_one_label_however_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(JSON_LINES["7 and 7.0"])
    assert assert_same(file)[0]["model"] == ("7", "m22")


def test_a_key_given_twice_is_refused_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(json_of(row_of(), row_of(extra=', "score": 1')))
    assert assert_same(file) == f"{file}, line 2: key 'score' is given twice"


def test_large_json_that_python_must_read_is_read_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewritten, "_WHOLE", 10)
    monkeypatch.setattr(rewritten, "_BATCH", 3)
    for name in ("mark", "blank lines", "unused NaN", "twice", "twice within", "no object"):
        (tmp_path / "rows.jsonl").write_bytes(JSON_LINES[name])
        assert_same(tmp_path / "rows.jsonl")


CSV = {
    "plain": csv_of(),
    "blank before a quote": csv_of(' "m1" ,de,i0,0.5'),
    "blank behind a quote": csv_of('"m1" ,de,i0,0.5'),
    "quoted": csv_of('"m1","de","i0","0.5"'),
    "doubled": csv_of('"m""1",de,i0,0.5'),
    "within": csv_of('m"1,de,i0,0.5', 'm"1"x,de,i0,0.5'),
    "behind": csv_of('"m1"x,de,i0,0.5'),
    "backslash": csv_of('"m\\"1",de,i0,0.5'),
    "line feed": csv_of('"m\n1",de,i0,0.5'),
    "line feed in a note": csv_of(*(f'{row},"a\nb"' for row in ROWS), header=HEADER + ",note"),
    "quoted separator": csv_of(*(f'{row},"a,b"' for row in ROWS), header=HEADER + ",note"),
    "quoted header": csv_of(header='"model","language",item,"score"'),
    "blank in header": csv_of(header='model, "language",item,score'),
    "never closed": csv_of('"m1,de,i0,0.5'),
    "short": csv_of("m1,de,i0"),
    "long": csv_of("m1,de,i0,0.5,1"),
    "separator at the end": csv_of("m1,de,i0,0.5,"),
    "separators at all ends": csv_of(*(f"{row}," for row in ROWS), header=HEADER + ","),
    "separators at the ends of rows": csv_of(*(f"{row}," for row in ROWS)),
    "balanced": csv_of("", "m1,de,i0,0.5,,,"),
    "empty last": csv_of("m1,de,i0,"),
    "empty quoted": csv_of('m1,de,i0,""'),
    "returns": csv_of(end="\r"),
    "both": csv_of(end="\r\n"),
    "mixed": csv_of().replace(b"\n", b"\r\n", 3),
    "a return": csv_of("m1,de,i0,0.5\rm1,de,i9,0.5"),
    "empty lines": csv_of("m1,de,i0,0.5", "", ""),
    "empty lines of two": csv_of("m1,de,i0,0.5", "", "", end="\r\n"),
    "blank lines": csv_of("m1,de,i0,0.5", "  ", "\t"),
    "before the header": b"\n\n" + csv_of(),
    "not ended": csv_of()[:-1],
    "comment": csv_of("#m1,de,i0,0.5"),
    "comment above": b"# scores\n" + csv_of(),
    "mark": b"\xef\xbb\xbf" + csv_of(),
    "zero byte": csv_of("m\x001,de,i0,0.5"),
    "control": csv_of("m\x011,de,i0,0.5"),
    "control at the end": csv_of("m1,de,i0,0.5\x01", '"m1",de,i1,0.5'),
    "form feed": csv_of("m1,de,i0,0.5\x0c"),
    "not UTF-8": csv_of().replace(b"m1", b"m\xff"),
    "UTF-16": csv_of().decode().encode("utf-16"),
    "semicolons": csv_of().replace(b",", b";"),
    "json lines": json_of(),
    "html": b"<table>\n" + csv_of(),
    "header only": HEADER.encode(),
    "blanks only": b" \n\n",
    "null": csv_of("NULL,de,i0,0.5", "NA,de,i0,0.5"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", CSV)
def test_csv_is_read_as_in_memory(tmp_path: Path, name: str, packed: bool) -> None:
    file = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    file.write_bytes(gzip.compress(CSV[name]) if packed else CSV[name])
    assert_same(file)


def test_the_engine_reads_quoted_cells_itself(tmp_path: Path) -> None:
    relations = {}
    for name in ("plain", "quoted", "doubled", "blank before a quote", "line feed in a note"):
        file = tmp_path / f"{name}.csv"
        file.write_bytes(CSV[name])
        with open_engine([file], memory=10**9, folder=tmp_path / "cache") as engine:
            relations[name] = engine.scans[0].relation.partition("(")[0]
    assert relations == {
        "plain": "read_csv",
        "quoted": "read_csv",
        "doubled": "read_csv",
        "blank before a quote": "read_parquet",
        "line feed in a note": "read_parquet",
    }


def test_the_engine_strips_the_blanks_of_python() -> None:
    connection = duckdb.connect()
    texts = [*(f"{one}a{one}b{one}{one}" for one in BLANKS), *BLANKS, "", "a", "\u200bb", "\x00"]
    for text in texts:
        found = connection.execute(f"SELECT {stripped('z')} FROM (SELECT ? AS z)", [text])
        assert found.fetchall() == [(text.strip(),)], ascii(text)


def test_a_text_is_empty_where_python_strips_all_of_it() -> None:
    scan = Scan("rows", "cells", {"z": "z"}, {"z": "text"})
    texts = ["", "  ", "\n \n", " a", "\na", "a ", "~", "~~", *map(chr, range(0x3100))]
    found = duckdb.execute(
        f"SELECT z, {scan.empty('z')}, {scan.label('z')} FROM (SELECT unnest($t) AS z)",
        {"t": [*texts, None]},
    ).fetchall()
    expected = [(text, not text.strip(), text if text.strip() else None) for text in texts]
    assert found == [*expected, (None, True, None)]


@pytest.mark.parametrize("column", ["model", "language", "item", "score"])
def test_every_blank_of_python_is_one_out_of_core(tmp_path: Path, column: str) -> None:
    """Around labels, around scores, and alone in a cell."""
    place = HEADER.split(",").index(column)
    rows = [row.split(",") for _ in range(4) for row in ROWS]
    for number, row in enumerate(rows):
        row[2] += f"-{number // len(ROWS)}"
    # Line ends are those of rows.
    for row, blank in zip(rows, (one for one in BLANKS if one not in "\r\n"), strict=False):
        row[place] = f"{blank}{row[place]}{blank}"
    (tmp_path / "rows.csv").write_text("\n".join([HEADER, *map(",".join, rows)]), newline="")
    whole = assert_same(tmp_path / "rows.csv")
    assert not isinstance(whole, str), whole
    assert whole[0]["model"] == ("m1", "m22")
    if column == "score":
        for one in BLANKS:
            if one not in "\r\n":
                (tmp_path / "rows.csv").write_bytes(csv_of(f"m1,de,i0,{one}"))
                assert_same(tmp_path / "rows.csv")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.csv.gz", "rows.tsv"])
def test_packed_files_are_known_by_their_content(tmp_path: Path, name: str) -> None:
    content = json_of() if "json" in name else csv_of()
    file = tmp_path / name
    # Packed without the ending, and plain text with it.
    file.write_bytes(content if name.endswith(".gz") else gzip.compress(content))
    assert not isinstance(assert_same(file), str)


def test_a_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(csv_of("m1,de,i0,0.5"))
    os.utime(file, ns=(10**18, 10**18))
    first = outcome(file, MEMORY)
    file.write_bytes(csv_of("m1,de,i0,0.7"))
    os.utime(file, ns=(10**18, 10**18))
    assert outcome(file, MEMORY) == outcome(file, None) != first


def test_each_file_is_hashed_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, hashed, digest = tmp_path / "rows.parquet", [], hashlib.file_digest
    duckdb.sql(
        "SELECT 'm' AS model, 'de' AS language, range AS item, 0.5 AS score FROM range(9)"
        " UNION ALL SELECT 'n', 'en', range, 1 FROM range(9)"
    ).write_parquet(str(file))

    def counted(stream: Any, name: str) -> Any:
        hashed.append(Path(stream.name).name)
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    be.load(file, memory=MEMORY)
    assert hashed.count("rows.parquet") == 1


def test_a_damaged_result_in_the_cache_is_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(csv_of())
    first = outcome(file, MEMORY)
    kept = sorted((tmp_path / "cache/rows").glob("*.parquet"))
    assert kept
    whole = {path: path.read_bytes() for path in kept}
    for path in kept:
        path.write_bytes(whole[path][:-20] + b"x" * 20)
    assert outcome(file, MEMORY) == first
    for path in kept:
        # Of another result, and whole in itself.
        path.write_bytes(whole[kept[0]])
        path.with_suffix(".sha256").unlink()
    assert outcome(file, MEMORY) == first


def test_a_full_disk_names_the_cache_and_not_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(csv_of())
    expected = f"{tmp_path / 'cache/rows'}: cannot be written: No space left on device; make room"

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=f"^{expected}"):
        be.load(file, memory=MEMORY)


@pytest.mark.parametrize(
    "text",
    [
        'IO Error: Could not write file "/cache/rows/run-1/spilled/duckdb_temp": No space left on'
        " device",
        'IO Error: Cannot open file "/cache/rows/a.tmp": Read-only file system',
        "Out of Memory Error: failed to offload data block of size 256.0 KiB (1.0 GiB/1.0 GiB"
        " used).\nThis limit was set by the 'max_temp_directory_size' setting.",
    ],
)
def test_what_the_engine_says_of_a_full_disk_names_the_cache(text: str) -> None:
    kind = duckdb.OutOfMemoryException if text.startswith("Out") else duckdb.IOException
    with (
        pytest.raises(
            InputError, match=r"^/cache/rows: cannot be written: .*; (make room|name another)"
        ) as caught,
        engine_errors.explained("rows.csv", 10**9, Path("/cache/rows")),
    ):
        raise kind(text)
    assert "\n" not in str(caught.value) and "rows.csv" not in str(caught.value)
    # A disk that may not be written has room.
    assert ("make room" in str(caught.value)) == ("Read-only" not in text)


def test_a_file_that_may_not_be_read_is_named_itself() -> None:
    with (
        pytest.raises(InputError, match=r"^/data/rows.parquet: cannot be read"),
        engine_errors.explained("/data/rows.parquet", 10**9, Path("/cache/rows")),
    ):
        raise duckdb.IOException('IO Error: Cannot open file "/data/x": Permission denied')


def test_an_unwritable_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no folder").write_text("x")
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "no folder"))
    with pytest.raises(InputError, match="no folder/rows: cannot be written: Not a directory"):
        Partials.open(tmp_path / "no folder")


def test_an_interrupt_of_the_engine_ends_the_command(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from bayeseval.readers.scans import open_engine\n"
        # Commands that a shell starts in the background ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with open_engine([], memory=10**9, folder=Path(sys.argv[1])) as engine:\n"
        "    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    sql = 'SELECT count(*) FROM range(10000000) a, range(10000000) b'\n"
        "    try:\n"
        "        engine.run(sql + ' WHERE a.range % 7 = b.range % 5', source='x')\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopped')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "stopped\n", done.stderr
    assert not list((tmp_path / "cache").glob("run-*"))


def test_facts_of_text_do_not_depend_on_how_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b'a,b\r\n\r\n"1",2\r3,4\n\n5,6\x0b')
    expected = text_facts(file, ",", kept=tmp_path)
    assert (expected.lines, expected.separators, expected.quotes) == (5, 4, 2)
    assert (expected.lone_returns, expected.line_feeds, expected.pairs) == (1, 4, 2)
    assert expected.empty_lines and expected.odd == 1
    for size in (1, 2, 3, 5):
        monkeypatch.setattr(compressed, "_CHUNK", size)
        assert text_facts(file, ",", kept=tmp_path) == expected


def test_floats_of_parquet_are_the_labels_of_whole_numbers() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x DOUBLE)")
    values = [7.0, -0.0, 1e17, 1e18, 12345678901234567890.0, 1e37, -3.0]
    scan = Scan("t", "t", {"x": "x"}, {"x": "float"})
    for value in values:
        connection.execute("DELETE FROM t")
        connection.execute("INSERT INTO t VALUES (?)", [value])
        assert connection.sql(f"SELECT {scan.label('x')} FROM t").fetchall() == [(str(int(value)),)]
