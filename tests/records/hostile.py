"""Files of strangers that are small and ask for much, by class of defect.

Every generator yields a name and a function that writes the files into an empty folder and
returns what is to be read. `scale` is 1 for the corpus of perf/hostile.py; tests use less.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from bayeseval._optional import require
from tests.readers.good_files import GOOD, Good
from tests.records.hostile_cells import cells
from tests.records.hostile_packed import RESULTS, packed_tables, task_name_files, task_names
from tests.records.hostile_results import (
    UNTESTED,
    posterior_links,
    posterior_sizes,
    posterior_types,
    result_tables,
    run_files,
)
from tests.records.hostile_rows import (
    databases,
    next_cells,
    next_costs,
    relation_files,
    scanned_files,
)
from tests.records.hostile_texts import (
    TIDY,
    Cases,
    Write,
    cards,
    delimited,
    json_values,
    mappings,
    models,
    printed,
    text,
)
from tests.records.hostile_tools import archives, parquet_files, tool_fields
from tests.records.malformed import broken

#: What a terminal acts on, or a reader does not see.
CONTROLS: Final = {
    "escape": "\x1b[2J\x1b]0;title\x07",
    "bell": "\x07\x08\x7f",
    "C1": "\x9b31m",
    "bidi": "\u202eabc\u2066\u2069",
    "zero width": "\u200b\u200d\ufeff",
    "line ends": "\u2028\u2029\x85",
    "tags": "\U000e0041\U000e0042",
}


def latex_spans(scale: float) -> Cases:
    """Columns that a macro of ten bytes makes."""
    for spans in (1, 3, 10, 30, 100, 300):
        for wide in (99, 999, 9999):
            for lines in (1, max(2, int(20 * scale))):
                cells = f"\\multicolumn{{{wide}}}{{c}}{{x}} & " * spans + "y \\\\\n"
                yield f"{spans} x {wide} x {lines}", text("t.tex", _tabular(cells * lines))


def latex_unclosed(scale: float) -> Cases:
    """Environments, braces and macros that are opened again and again."""
    pieces = {
        "tabular": "\\begin{tabular}{l} a & b \\\\ ",
        "mixed": "\\begin{tabular}{l}\\begin{longtable}{l}\\end{array} ",
        "array": "\\begin{array}",
        "ends": "\\end{tabular}",
        "braces": "{",
        "specification": "\\begin{tabular}{" + "{",
        "label": "\\label{",
        "rotate": "\\rotatebox[",
        "rule": "\\cmidrule(",
        "row": "\\\\[",
    }
    for name, piece in pieces.items():
        for number in (100, 1000, int(40_000 * scale)):
            yield f"{name} {number}", text("t.tex", "\\begin{tabular}{l}\n" + piece * number)
    for macro in ("textbf", "emph", "multicolumn{2}{c}", "makecell[", "cellcolor[", "multirow{"):
        for number in (100, int(40_000 * scale)):
            inside = _tabular(f"A & \\{macro}{{" * number + " \\\\\n")
            yield f"{macro} {number}", text("t.tex", inside)


def long_cells(scale: float) -> Cases:
    """Cells that a pattern may look at again from every place."""
    number = int(100_000 * scale)
    cells = {
        "digits": "1" * number,
        "digits and a letter": "1" * number + "x",
        "slashes": "1/" * number,
        "blanks": "1" + " " * number + "x",
        "points": "1." * number,
        "signs": "+-" * number,
        "plus minus": "1 ± " * number,
        "stars": "*" * number + "1" + "*" * number + "x",
        "average": "all " * number,
        "average and blanks": "avg" + " " * number + "(",
        "subscripts": "1_" * number,
        "letters": "ab" * number,
        "quotes": "''" * number,
    }
    for name, cell in cells.items():
        yield f"{name} tidy", text("t.csv", TIDY + f"c,en,t,{cell}\n")
        yield f"{name} label", text("t.csv", TIDY + f"{cell},en,t,1\n")
        yield f"{name} wide", text("t.csv", f"model,en,sw\nA,{cell},2\nB,1,2\n")
        yield f"{name} header", text("t.csv", f"model,en,sw,{cell}\nA,1,2,3\nB,1,2,3\n")
        yield f"{name} language", text("t.csv", TIDY + f"a,{cell},t,1\n")
        yield f"{name} LaTeX", text("t.tex", _tabular(f"A & {cell} & 2 \\\\\n"))
        yield f"{name} Markdown", text("t.md", f"| model | en |\n|---|---|\n| A | {cell} |\n")
        yield f"{name} JSON", text("t.json", json.dumps([{"model": cell, "score": cell}]))


def json_shapes(scale: float) -> Cases:
    """Records that share no key, and depths."""
    for number in (100, 1000, int(20_000 * scale)):
        records = [{"model": "a", "language": "en", "score": 1, f"k{i}": 1} for i in range(number)]
        lines = "\n".join(map(json.dumps, records))
        yield f"new keys {number}", text("t.json", json.dumps(records))
        yield f"new keys, lines {number}", text("t.jsonl", lines)
        yield f"new keys, packed {number}", text("t.jsonl.gz", gzip.compress(lines.encode()))
        yield (
            f"a wide record {number}",
            text("t.json", json.dumps([{f"k{i}": i for i in range(number)}])),
        )
        yield f"deep list {number}", text("t.json", "[" * number + "]" * number)
        yield f"deep object {number}", text("t.json", '{"a":' * number + "1" + "}" * number)
        yield f"deep line {number}", text("t.jsonl", '{"a":' * number + "1" + "}" * number)
        yield f"empty records {number}", text("t.json", json.dumps([{}] * number))
        yield f"escapes {number}", text("t.json", '[{"model": "' + "\\ud800" * number + '"}]')
        results = {
            "results": {f"task_{i}": {"acc,none": 0.5} for i in range(number)},
            "versions": {},
        }
        yield f"harness {number}", text("results_2024.json", json.dumps(results))


def uneven_rows(scale: float) -> Cases:
    """One row that is wider than all others."""
    for wide in (100, 1000, 10_000, 100_000):
        for short in (10, 1000, int(50_000 * scale)):
            size = f"{wide} among {short}"
            for name, mark in (("t.csv", ","), ("t.tsv", "\t"), ("t.txt", ";")):
                header = mark.join(["model", "en", "sw"]) + "\n"
                body = mark.join("A12") + "\n"
                yield (
                    f"{name} {size}",
                    text(name, header + body * short + mark * wide + "x\n" + body),
                )
            rows = "|model|en|sw|\n|--|--|--|\n" + "|A|1|2|\n" * short
            yield f"t.md {size}", text("t.md", rows + "|" * wide + "x\n")
            yield (
                f"t.tex {size}",
                text("t.tex", _tabular("A & 1 & 2 \\\\\n" * short + "& " * wide + "\\\\\n")),
            )


def workbooks(scale: float) -> Cases:
    """Cells far away, and sheets that say what is not so."""
    for far in ("XFD2", "A1048576", "XFD1048576", "ZZ9999", "XFD500"):
        for rows in (1, 10, int(200 * scale) + 1):
            body = [f'<row r="{i}"><c r="A{i}"><v>1</v></c></row>' for i in range(2, rows + 2)]
            number = far.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            last = f'<row r="{number}"><c r="{far}"><v>1</v></c></row>'
            yield f"{far} {rows}", workbook("".join([*body, last]))
    for rows in (10, int(2000 * scale)):
        wide = "".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(2, rows))
        yield f"wide rows {rows}", workbook(wide)
    for place in (10**7, 10**9, 10**18, -1, 0):
        yield f"row {place}", workbook(f'<row r="{place}"><c r="A{place}"><v>1</v></c></row>')
    for cell in ("", "1A", "A", "A0", "AAAAAAAA1", "A99999999999", "\u202e1"):
        yield f"cell {cell!r}", workbook(f'<row r="2"><c r="{cell}"><v>1</v></c></row>')
    for n in (1000, int(4_000_000 * scale)):
        yield f"empty rows {n}", workbook("<row/>" * n)
        yield f"empty cells {n}", workbook(f"<row>{'<c/>' * n}</row>")
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    entities = f'<!DOCTYPE x [<!ENTITY l0 "lol">{laughs}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    for entity in ("l9", "f"):
        row = f'<row r="2"><c r="A2" t="inlineStr"><is><t>&{entity};</t></is></c></row>'
        yield f"entity {entity}", workbook(row, start=entities)


def workbook(rows: str, *, start: str = "") -> Write:
    """The smallest workbook that openpyxl reads, with these rows below its header."""
    spread = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    header = "".join(
        f'<c r="{c}1" t="inlineStr"><is><t>{t}</t></is></c>'
        for c, t in zip("ABC", ("model", "en", "sw"), strict=True)
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/s.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r"'
        f' Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r" Type="{office}/worksheet" Target="s.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{spread}" xmlns:r="{office}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r"/></sheets></workbook>',
        "xl/s.xml": f'{start}<worksheet xmlns="{spread}"><sheetData><row r="1">{header}</row>'
        f"{rows}</sheetData></worksheet>",
    }
    return text("t.xlsx", archive(members))


def archive(members: Mapping[str, str | bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def parquet_rows(scale: float) -> Cases:
    """Rows that take no place, long texts in all of them, and values in values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def table(rows: int, label: str, pieces: int, nested: bool) -> Write:
        def write(folder: Path) -> Path:
            codes = pa.array(np.zeros(rows, dtype=np.int32))
            part = pa.table(
                {
                    "model": pa.DictionaryArray.from_arrays(codes, [label]),
                    "language": pa.DictionaryArray.from_arrays(codes, ["en"]),
                    "score": pa.array([[[1]]] * rows) if nested else np.ones(rows),
                }
            )
            path = folder / "t.parquet"
            with pq.ParquetWriter(path, part.schema, compression="zstd") as file:
                for _ in range(pieces):
                    file.write_table(part)
            return path

        return write

    big = int(10_000_000 * scale)
    for rows, pieces in ((1000, 1), (100_000, 1), (1_000_000, 1), (big, 1), (big, 20)):
        yield f"{rows} x {pieces}", table(rows, "a", pieces, nested=False)
    for length in (1000, 100_000, int(1_000_000 * scale)):
        for rows in (100, 10_000, 100_000):
            yield f"{length} letters, {rows}", table(rows, "x" * length, 1, nested=False)
    for rows in (10, 1000, int(100_000 * scale)):
        yield f"nested {rows}", table(rows, "a", 1, nested=True)


def crowded_folders(scale: float) -> Cases:
    """Files beside a table that are looked into, and links that lead round."""

    def crowd(number: int, name: str, content: str) -> Write:
        def write(folder: Path) -> Path:
            (folder / "t.csv").write_text(TIDY)
            for i in range(number):
                (folder / name.format(i)).write_text(content)
            return folder

        return write

    lines = "".join(f"k{i}: {i}\n" for i in range(500))
    for number in (10, 100, int(4000 * scale)):
        yield f"YAML {number}", crowd(number, "c{}.yaml", lines)
        yield f"reuben {number}", crowd(number, "c{}.yaml", f"score_col: score\n{lines}")
        yield f"comment {number}", crowd(number, "c{}.yml", f"# score_col\n{lines}")
        yield f"text {number}", crowd(number, "{}.txt", "nothing\n")
        yield f"tables {number}", crowd(number, "{}.csv", TIDY)
        yield f"JSON {number}", crowd(number, "{}.json", '{"a": 1}')

    def linked(folder: Path) -> Path:
        (folder / "t.csv").write_text(TIDY)
        for name, target in (("up", ".."), ("self", "self"), ("gone", "nowhere"), ("in", ".")):
            (folder / name).symlink_to(target)
        return folder

    def pipe(folder: Path) -> Path:
        (folder / "t.csv").write_text(TIDY)
        os.mkfifo(folder / "pipe.csv")
        return folder

    def lone_pipe(folder: Path) -> Path:
        os.mkfifo(folder / "t.csv")
        return folder / "t.csv"

    yield "links", linked
    yield "a pipe beside", pipe
    yield "a pipe", lone_pipe


def control_characters(scale: float) -> Cases:
    """Names that a terminal acts on, in every place that is printed."""
    for name, mark in CONTROLS.items():
        for place in ("a", "en", "t", "model", "score"):
            quoted = (
                TIDY.replace(place, f'"{place}{mark}"')
                if place != "t"
                else TIDY.replace(",t,", f',"t{mark}",')
            )
            yield f"{name} in {place}", text("t.csv", quoted)
        rows = [
            dict(zip(("model", "language", "task", "score"), r.split(","), strict=True))
            for r in TIDY.splitlines()[1:]
        ]
        yield (
            f"{name} JSON value",
            text("t.json", json.dumps([r | {"model": f"m{mark}"} for r in rows])),
        )
        yield f"{name} JSON key", text("t.json", json.dumps([r | {f"x{mark}": 1} for r in rows]))
        yield f"{name} file", text(f"t{mark.replace('/', '')}.csv", TIDY)
        yield f"{name} broken file", text(f"t{mark}.csv", "a,b\n1\n")
        yield f"{name} score", text("t.csv", TIDY.replace("1.5", f'"1.5{mark}"'))
        yield f"{name} wide", text("t.csv", f'model,en,"sw{mark}"\n"A{mark}",1,2\nB,2,4\n')
        yield f"{name} LaTeX", text("t.tex", _tabular(f"A{mark} & 1 & x{mark} \\\\\n"))
        escaped = json.dumps(mark)[1:-1]
        card = f'name: "n{escaped}"\ntitle: "x{escaped}"\nfiles: [t.csv]\n'

        def folder_with_card(folder: Path, card: str = card) -> Path:
            (folder / "t.csv").write_text(TIDY)
            (folder / "benchmark.yaml").write_text(card, encoding="utf-8", errors="replace")
            return folder

        yield f"{name} card", folder_with_card


def other_places(scale: float) -> Cases:
    """Cards and archives that name files elsewhere."""
    for path in ("../../x.csv", "/etc/passwd", "/dev/zero", "..", "a/../../../b", "~/x", "C:\\x"):
        quoted = json.dumps(path)
        for line in (
            f"files: [{quoted}]\n",
            f"files: [t.csv]\ncovariates: {{mexa: {quoted}}}\n",
            f"files: [t.csv]\ntask_names: {quoted}\n",
            f"remote: {{address: {quoted}}}\n",
            f"files: [t.csv]\nconstants: {{dataset: {quoted}}}\n",
        ):

            def card(folder: Path, line: str = line) -> Path:
                (folder / "t.csv").write_text(TIDY)
                (folder / "benchmark.yaml").write_text(f"name: n\ntitle: t\n{line}")
                return folder

            yield f"{path} {line[:12].strip()}", card
        yield f"{path} member", text("t.xlsx", archive({path: "x", "xl/workbook.xml": "<a/>"}))
        yield f"{path} log", text("t.eval", archive({path: "x", "header.json": "{}"}))
    for size in (10**5, int(10**8 * scale)):
        zeros = b"0" * size
        yield f"gzip {size}", text("t.jsonl.gz", gzip.compress(zeros))
        yield f"workbook {size}", text("t.xlsx", archive({"xl/workbook.xml": zeros}))
        yield f"log {size}", text("t.eval", archive({"header.json": zeros}))


def broken_files(scale: float) -> Cases:
    """Good files of every format, broken in one place; see malformed.py."""
    for good in GOOD:
        variants = list(broken(good))
        for what, data in variants[:: max(3, int(1 / scale))]:

            def write(folder: Path, good: Good = good, data: bytes = data) -> Path:
                return good.write(folder / "rev", data)

            yield f"{good.name}, {what}", write


def _tabular(rows: str) -> str:
    return (
        "\\begin{tabular}{lrr}\nmodel & en & sw \\\\\n" + rows + "B & 1 & 2 \\\\\n\\end{tabular}\n"
    )


CLASSES: Final[Mapping[str, Callable[[float], Cases]]] = {
    one.__name__: one
    for one in (
        latex_spans,
        latex_unclosed,
        long_cells,
        json_shapes,
        uneven_rows,
        workbooks,
        parquet_rows,
        crowded_folders,
        control_characters,
        other_places,
        broken_files,
        cards,
        mappings,
        models,
        json_values,
        delimited,
        printed,
        tool_fields,
        archives,
        parquet_files,
        packed_tables,
        task_names,
        task_name_files,
        posterior_types,
        posterior_links,
        posterior_sizes,
        run_files,
        result_tables,
        cells,
        scanned_files,
        databases,
        next_cells,
        next_costs,
        relation_files,
    )
}

_TABLE: Final = "{folder}/table/t.csv"
_PLAN: Final = ("plan", "{path}", "--no-figures")
_FORECAST: Final = (
    *("forecast", "{path}", "--covariate", "{folder}/c.csv", "--languages", UNTESTED),
    *("--no-check", "--no-figures", "--quiet"),
)
_NEXT: Final = ("next", "{folder}/result", "--no-figures")
_FIT: Final = (
    *("fit", "--benchmark", _TABLE, "--model", "{path}", "--engine", "marginal", "--draws", "50"),
    *("--no-figures", "--quiet", "--out", "{folder}/out"),
)
# What is not written to a terminal keeps the names as they are.
_OUT: Final = ("--out", "{folder}/out.txt")
_NEW: Final = tuple(word for factor in ("model", "language", "task") for word in ("--new", factor))
#: The commands that read the files of a class; `validate` reads those of all others.
COMMANDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "mappings": (("validate", _TABLE, "--mapping", "{path}"),),
    "models": (_FIT,),
    "task_names": (
        ("validate", "{path}", "--propose-task-names", "{folder}/names.csv"),
        ("validate", "{path}", "--task-names", "{folder}/names.csv"),
    ),
    "task_name_files": (("validate", f"{{folder}}/{RESULTS}", "--task-names", "{path}"),),
    **dict.fromkeys(
        ("posterior_types", "posterior_links", "posterior_sizes"),
        (("report", "{path}"), _PLAN, _FORECAST),
    ),
    "run_files": (("report", "{path}"), ("cite", "{path}", *_OUT), _PLAN, _FORECAST),
    "result_tables": (
        ("report", "{path}"),
        *(("report", "{path}", "--to", form, *_OUT) for form in ("csv", "latex")),
        ("report", "{path}", "--against", "{path}", *_OUT),
    ),
    "cells": (
        ("predict", "{folder}/result", "{path}", "--quiet"),
        ("predict", "{folder}/result", "{path}", *_NEW, *_OUT, "--quiet"),
    ),
    **dict.fromkeys(("scanned_files", "databases"), (("validate", "{path}", "--memory", "1GB"),)),
    "next_cells": ((*_NEXT, "--cells", "{path}"),),
    "next_costs": ((*_NEXT, "--languages", UNTESTED, "--cost", "{path}"),),
    "relation_files": (_FIT,),
}

# The readers need it for workbooks.
require("openpyxl", "excel")
