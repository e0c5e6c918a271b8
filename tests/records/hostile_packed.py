"""Hostile packed tables, names of tasks, and tables of such names."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.records.hostile_texts import HOSTILE_NAME, TIDY, Cases, Write, text

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: The file of results beside a table of names of tasks.
RESULTS: Final = "results_2024.json"


def packed_tables(scale: float) -> Cases:
    """Tables packed with gzip and zstandard: bombs, nests, many parts, damage, wrong names."""
    million = max(100, int(1_000_000 * scale))
    tidy = TIDY.encode()
    contents = {
        "zeros": bytes(100 * million),
        "commas": tidy + b"," * (10 * million),
        "rows": tidy + b"a,en,t,1\n" * million,
        "models": tidy + b"".join(b"m%d,en,t,1\n" % i for i in range(million // 20)),
        "quotes": tidy + b'"' * million,
        "no line ends": b"a" * (10 * million),
        "UTF-16": TIDY.encode("utf-16"),
        "no UTF-8": tidy + b"\xff\xfe,en,t,1\n",
        "controls": tidy + HOSTILE_NAME.encode() + b",en,t,1\n",
        "nothing": b"",
        "twice": None,
        "HTML": b"<!DOCTYPE html><table>" * (million // 100),
        "NUL": tidy.replace(b"1.5", b"\0"),
    }
    suffixes = ("csv", "tsv", "jsonl", "json", "txt", "md", "tex", "xlsx", "parquet", "eval")
    for kind, pack in (("gz", gzip.compress), ("zst", _zstd)):
        for what, content in contents.items():
            data = pack(pack(tidy) if content is None else content)
            for suffix in ("csv", "jsonl"):
                yield f"{what} as {suffix}.{kind}", text(f"t.{suffix}.{kind}", data)
        for suffix in suffixes:
            yield f"a table as {suffix}.{kind}", text(f"t.{suffix}.{kind}", pack(tidy))
            yield f"a table as {suffix}, {kind}", text(f"t.{suffix}", pack(tidy))
            yield f"not packed, {suffix}.{kind}", text(f"t.{suffix}.{kind}", tidy)
        for what, data in _parts(pack(tidy), million // 50):
            yield f"{kind} {what}", text(f"t.csv.{kind}", data)
    for what, data in _headers():
        yield what, text("t.csv.zst", data)
    for what, name in (("escapes", f"{HOSTILE_NAME}.csv.gz"), ("only an ending", ".csv.gz")):
        yield what, text(name, gzip.compress(tidy))


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def _parts(packed: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    """A packed table, repeated, cut, and with one byte changed."""
    yield "members", packed * number
    yield "and more", packed + b"more"
    yield "and zeros", packed + bytes(1000)
    yield "magic only", packed[:4]
    for part in range(1, 12):
        at = len(packed) * part // 12
        yield f"cut {part}", packed[:at]
        yield f"changed {part}", packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]


def _headers() -> Iterator[tuple[str, bytes]]:
    """Frames of zstandard that say what they do not hold: sizes, windows, skipped parts."""
    good = _zstd(TIDY.encode())
    for window in (0x00, 0x58, 0xA0, 0xFF):
        # A window from 1 KiB to 3.75 TiB, and one block of a repeated byte.
        block = struct.pack("<I", (1 << 17) << 3 | 0b011)[:3] + b"0"
        yield f"window {window}", _ZSTD + bytes([0x00, window]) + block * 50
    for size in (0, 2**32, 2**63, 2**64 - 1):
        yield f"content of {size}", _ZSTD + bytes([0xE0]) + struct.pack("<Q", size) + good[6:]
    for size in (0, 10, 2**31, 2**32 - 1):
        yield f"skipped {size}", b"\x50\x2a\x4d\x18" + struct.pack("<I", size) + bytes(10) + good
    yield "skipped only", (b"\x5f\x2a\x4d\x18" + struct.pack("<I", 0)) * 10_000
    yield "dictionary", _ZSTD + bytes([0x23]) + b"\xff" * 4 + good[6:]


def _results(names: Sequence[str]) -> str:
    """Results of lm-evaluation-harness for tasks of these names."""
    return json.dumps(
        {
            "results": {
                name: {"acc,none": 0.25 + i % 7 / 10, "acc_stderr,none": 0.01}
                for i, name in enumerate(names)
            },
            "versions": {},
            "configs": {name: {} for name in names},
            "config": {"model": "hf", "model_args": "pretrained=a"},
            "model_name": "a",
        }
    )


def task_names(scale: float) -> Cases:
    """Names of tasks for which patterns are proposed: long, alike, many, with wildcards."""
    number = max(10, int(20_000 * scale))
    texts = {
        **{"stars": "*" * 1000, "a star": "my*bench_de", "slot": "bench_{language}"},
        **{"slots": "{language}" * 200, "braces": "{" * 1000 + "}" * 1000, "empty": ""},
        **{"blank": " ", "underscores": "_" * number, "codes": "_".join(["de"] * number)},
        **{"letters": "a" * number, "controls": HOSTILE_NAME, "line feed": "bench\n_de"},
        **{"quote": 'bench_"de,"', "formula": "=cmd|' /C calc'!A0_de", "surrogate": "x\ud800_de"},
        **{"regular": "(a+)+$_de", "path": "../../../etc/de", "pairs": "mlqa" + "_ar" * number},
        **{"flores": "flores_" + "eng_Latn-" * number, "colons": ":" * number + "de"},
        **{"crows": "crows_pairs_english_" + "_" * number, "dots": "bench.de." * number},
    }
    for what, name in texts.items():
        yield what, text(RESULTS, _results([name]))
        yield f"{what}, three", text(RESULTS, _results([f"{name}_{x}" for x in ("de", "sw", "x")]))
    languages = ("de", "sw", "yo", "eng_Latn", "German")
    many = {
        "no language": [f"quiz{i}" for i in range(number)],
        "one word each": [f"quiz_{i}" for i in range(number)],
        "words each": [f"w{i}_x{i}_y{i}" for i in range(number)],
        "a language each": [f"quiz{i}_{languages[i % 5]}" for i in range(number)],
        "a language within": [f"quiz_{languages[i % 5]}_{i}" for i in range(number)],
        "languages": [f"{languages[i % 5]}_{languages[i % 3]}_{i}" for i in range(number)],
        "eight slots": ["_".join([languages[i % 3]] * 8) + f"_{i}" for i in range(number // 4)],
        "beginnings": ["quiz_" + "x" * i + "_de" for i in range(number // 20)],
        "stars each": [f"quiz*{i}*_de" for i in range(number // 4)],
    }
    for what, names in many.items():
        for part in (100, len(names)):
            yield f"{what}, {part}", text(RESULTS, _results(names[:part]))


def task_name_files(scale: float) -> Cases:
    """Tables of names of tasks that match slowly, twice, or not at all."""
    number = max(10, int(20_000 * scale))
    head = "task,dataset,language\n"
    names = ["quiz_de", "quiz_sw", "a" * 290 + "_de", "x_{language}", "*", "exam_eu_law"]

    def beside(content: str | bytes) -> Write:
        def write(folder: Path) -> Path:
            text(RESULTS, _results(names))(folder)
            return text("names.csv", content)(folder)

        return write

    rows = {
        **{"all": "*,,\n", "all in one language": "*,quiz,de\n", "nothing": ""},
        **{"stars": "*" * number + ",,\n", "stars and letters": "*a" * number + "b,,\n"},
        **{"stars and slot": "*a" * 100 + "{language}" + "*a" * 100 + "b,,\n"},
        **{"two slots": "{language}{language},,\n", "other slot": "{task}_{language},,\n"},
        **{"open slot": "{language,,\n", "only slot": "{language},,\n", "regular": "(a+)+$,,de\n"},
        **{"long": "a" * number + ",,de\n", "controls": f"{HOSTILE_NAME},{HOSTILE_NAME},de\n"},
        **{"no language": "quiz_*,,no such language\n", "many cells": "," * number + "\n"},
        **{"same line": "quiz_{language},,\n" * number, "an open quote": '"quiz_de,,\n' * 50},
        **{"lines": "".join(f"quiz{i}_{{language}},d{i},\n" for i in range(number))},
        **{"wild lines": "".join(f"*{i}*_{{language}},d{i},\n" for i in range(number))},
        **{
            "formula": "quiz_*,=1+1,de\n",
            "surrogate": "quiz_\ud800,,de\n",
            "NUL": "quiz\0_*,,de\n",
        },
        **{
            "dataset with slot": "quiz_{language},{language},\n",
            "long language": "*,," + "d" * number,
        },
    }
    for what, content in rows.items():
        yield what, beside(head + content)
    for what, content in {
        **{
            "no header": "quiz_de,quiz,de\n",
            "header twice": head + head,
            "blank lines": head + "\n" * number,
        },
        **{
            "semicolons": head.replace(",", ";") + "quiz_de;quiz;de\n",
            "JSON": "[]",
            "YAML": "a: &a [*a]",
        },
        **{
            "columns": "task,dataset,language,more\n",
            "controls": f"{HOSTILE_NAME},dataset,language\n",
        },
    }.items():
        yield what, beside(content)
    yield "bytes", beside(bytes(range(256)) * 10)
    yield "UTF-16", beside((head + "quiz_de,quiz,de\n").encode("utf-16"))
    yield "gzip", beside(gzip.compress(head.encode()))
