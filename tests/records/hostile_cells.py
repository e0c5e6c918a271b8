"""Cells of strangers for `predict`: tables beside a good result, wrong in one place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

from tests.records.hostile_results import VALUES, copy
from tests.records.hostile_texts import HOSTILE_NAME, Cases, Write

_HEADER: Final = "model,language,task,n,se,seeds"
_CELL: Final = "a,en,qa"
_NUMBERS: Final = (
    *("1e308", "1e155", "-1e308", "1e-320", "1e400", "-0.0", "0", "1.5", "9" * 400, "1" * 100_000),
    *("inf", "nan", "1,5", "12%", "\u0661", "0x10", "1_0", "=1+1", HOSTILE_NAME),
)


def cells(scale: float) -> Cases:
    """Labels, numbers, columns, sizes and formats of cells that are asked for."""
    for place, name in enumerate(("n", "se", "seeds")):
        for number in _NUMBERS:
            given = ["", "", ""]
            given[place] = '"' + number.replace('"', '""') + '"'
            yield (
                f"{name} {number[:10]}",
                beside_result("cells.csv", f"{_HEADER}\n{_CELL},{','.join(given)}\n"),
            )
    for place, name in enumerate(("model", "language", "task")):
        for label in ("", " ", "x" * 100_000, HOSTILE_NAME, "\x1b[2J", "\u202ex", "=1+1", "a\0b"):
            asked = _CELL.split(",")
            asked[place] = '"' + label.replace('"', '""') + '"'
            yield (
                f"{name} {label[:10]!a}",
                beside_result("cells.csv", f"{_HEADER}\n{','.join(asked)},,,\n"),
            )
    for size in (100, int(3000 * scale)):
        same = f"{_CELL},,,\n" * (30 * size)
        new = "".join(f"m{i},l{i},t{i},,,\n" for i in range(size))
        packed = gzip.compress(f"{_HEADER}\n{same}".encode())
        yield f"the same {size}", beside_result("cells.csv", f"{_HEADER}\n{same}")
        yield f"packed {size}", beside_result("cells.csv.gz", packed)
        yield f"all new {size}", beside_result("cells.csv", f"{_HEADER}\n{new}")
        columns = ",".join(f"x{i}" for i in range(size))
        yield f"columns {size}", beside_result("cells.csv", f"{_HEADER},{columns}\n{_CELL}\n")
        yield f"deep {size}", beside_result("cells.json", "[" * size)
    for i, value in enumerate(VALUES):
        record = {"model": "a", "language": "en", "task": "qa"}
        for name in (*record, "se"):
            yield (
                f"JSON {name} {i}",
                beside_result("cells.json", json.dumps([record | {name: value}])),
            )
    for name, data in {
        "empty": b"",
        "header alone": f"{_HEADER}\n".encode(),
        "no UTF-8": f"{_HEADER}\n".encode() + b"\xff,en,qa,,,\n",
        "twice": b"model,model,language,task\na,a,en,qa\n",
        "score too": b"model,language,task,score\na,en,qa,99\n",
        "wide": b"model,en,de\na,1,2\n",
        "two parts": b"model,language,task\na,en\n",
        "NUL": b"\0" * 1000,
    }.items():
        yield name, beside_result("cells.csv", data)
    yield "no workbook", beside_result("cells.xlsx", b"PK\x03\x04xx")
    yield "a device", _link("/dev/zero")
    yield "a link to itself", _link("cells.csv")


def beside_result(name: str, content: str | bytes) -> Write:
    """A file of cells beside a copy of the good result."""

    def write(folder: Path) -> Path:
        copy(folder)
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        return folder / name

    return write


def _link(target: str) -> Write:
    def write(folder: Path) -> Path:
        copy(folder)
        (folder / "cells.csv").symlink_to(target)
        return folder / "cells.csv"

    return write
