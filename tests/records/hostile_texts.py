"""Hostile texts: YAML of cards, mappings and models, JSON, delimited text, printed tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

Write = Callable[[Path], Path]
Cases = Iterator[tuple[str, Write]]

TIDY: Final = "model,language,task,score\na,en,t,1.5\na,sw,t,2.5\nb,en,t,3.5\nb,sw,t,4.75\n"
HOSTILE_NAME: Final = "x\x1b[2J\x1b]0;title\x07\u202ecba\u2066\u200b"
_QUOTED: Final = json.dumps(HOSTILE_NAME)


def text(name: str, content: str | bytes) -> Write:
    """One file."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        )
        return path

    return write


def _beside_table(name: str, content: str) -> Write:
    """One file, with a table in a folder beside it."""

    def write(folder: Path) -> Path:
        (folder / "table").mkdir()
        (folder / "table" / "t.csv").write_text(TIDY)
        return text(name, content)(folder)

    return write


def _yaml_texts(scale: float) -> Iterator[tuple[str, str]]:
    number = max(10, int(20_000 * scale))
    laughs = "a0: &a0 [lol, lol]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    yield "laughs", laughs
    yield "laughs of maps", laughs.replace("[lol, lol]", "{x: lol, y: lol}")
    yield "quadratic", f"a: &a {'x' * number}\nb: [{', '.join(['*a'] * number)}]\n"
    yield "itself", "a: &a [*a]\n"
    yield "merges", "a: &a {x: 1}\n" + "".join(f"b{i}: {{<<: *a, y: 1}}\n" for i in range(100))
    yield "unknown anchor", "a: *nowhere\n"
    for tag in (
        *("!!python/object/apply:os.system ['touch ../hostile']", "!!python/name:os.system"),
        *("!!python/module:os", "!!binary x", "!!omap [a]", "!!pairs [[1]]", "!own {}", "!!int x"),
        *("!!timestamp 9999-99-99", "!!float 1_0:59.9", "!!set {a}", "!!str [a]", "!<> x", "! x"),
    ):
        yield f"tag {tag[:20]}", f"name: {tag}\n"
        yield f"key {tag[:20]}", f"? {tag}\n: 1\n"
    for mark in "[{":
        yield f"deep {mark}", "a: " + mark * number + "\n"
    yield "deep blocks", "".join(" " * i + "a:\n" for i in range(min(number, 1000)))
    yield "deep lists", "a:\n" + "- " * min(number, 5000) + "1\n"
    yield "long key", f"{'x' * number}: 1\n"
    yield "many keys", "".join(f"k{i}: {i}\n" for i in range(number))
    yield "many documents", "---\na: 1\n" * 1000
    yield "directive", "%YAML 9.9\n%TAG ! tag:x,2000:\n---\na: 1\n"
    yield "names", f"name: {_QUOTED}\n{_QUOTED}: {_QUOTED}\n"
    yield "sexagesimal", "a: 9" + ":59" * number + "\n"
    yield "huge number", f"seed: {'9' * number}\n"
    yield "a list", "- a\n- b\n"
    yield "a word", "word\n"
    yield "nothing", ""
    yield "a comment", "# nothing\n"
    yield "NUL", "a: \0\n"
    yield "tabs", "a:\n\t- b\n"
    yield "quotes", 'a: "' + "\\x41" * number
    yield "surrogates", 'a: "\\ud800"\n'
    yield "comments", "#" * number + "\n" + "# x\n" * number
    yield "flow keys", "{" + ", ".join(f"? [{i}]" for i in range(100)) + "}\n"
    yield "numbers as keys", "1: a\n1.0: b\ntrue: c\nnull: d\n"
    yield "dates", "name: 2001-01-01\ntitle: 2001-01-01T00:00:00Z\n"


_CARD_KEYS: Final = (
    *("name", "title", "description", "files", "remote", "covariates", "source", "licence"),
    *("citation", "columns", "constants", "units", "language_names", "mixed_scales"),
    *("likelihoods", "metrics", "task_names", "drop", "missing"),
)
_SPEC_KEYS: Final = (
    *("name", "summary", "terms", "likelihood", "priors", "covariates", "noise", "population"),
    *("fixed_effects", "scale", "covariate", "replicates", "parameterization"),
)
_TREES: Final = (
    *("null", "3", "-1.5", ".nan", ".inf", "true", "[]", "{}", "[null]", "[[[]]]", _QUOTED),
    *("{a: {b: null}}", "../../x", "/dev/zero", "[/etc/passwd]", "9" * 400, "x" * 100_000),
    *("{default: .nan}", "{lower: 1, upper: 0}", "2001-01-01", "[1, a, {}]", "{1: 2}"),
)


def cards(scale: float) -> Cases:
    """Benchmark cards."""

    def card(content: str) -> Write:
        def write(folder: Path) -> Path:
            (folder / "t.csv").write_text(TIDY)
            (folder / "benchmark.yaml").write_text(content, encoding="utf-8")
            return folder

        return write

    start = "name: n\ntitle: t\nfiles: [t.csv]\n"
    for what, content in _yaml_texts(scale):
        yield what, card(start + content if what != "a list" else content)
    for place, key in enumerate(_CARD_KEYS):
        for step in range(5):
            value = _TREES[(place + 4 * step) % len(_TREES)]
            lines = [line for line in start.splitlines() if not line.startswith(f"{key}:")]
            yield f"{key}: {value[:20]!a}", card("\n".join([*lines, f"{key}: {value}", ""]))


def mappings(scale: float) -> Cases:
    """Mapping files, and the names of tasks that they or an option point to."""
    for what, content in _yaml_texts(scale):
        yield what, _beside_table("m.yaml", content)
        yield f"reuben, {what}", _beside_table("m.yaml", "score_col: score\n" + content)
    for place, key in enumerate((*_CARD_KEYS[9:], "score_col", "model_col", "task_col")):
        for step in range(4):
            value = _TREES[(place + 3 * step) % len(_TREES)]
            yield f"{key}: {value[:20]!a}", _beside_table("m.yaml", f"{key}: {value}\n")


def models(scale: float) -> Cases:
    """Model specifications."""
    for what, content in _yaml_texts(scale):
        yield what, _beside_table("s.yaml", content)
        if what in ("laughs", "quadratic", "names", "many keys"):
            yield f"named, {what}", _beside_table("s.yaml", "name: own\n" + content)
    for place, key in enumerate(_SPEC_KEYS):
        for step in range(5):
            value = _TREES[(place + 4 * step) % len(_TREES)]
            lines = "name: own\n" if key != "name" else ""
            yield f"{key}: {value[:20]!a}", _beside_table("s.yaml", f"{lines}{key}: {value}\n")
    priors = (
        *("{dist: half_normal, scale: -1}", "{dist: half_normal, scale: 1.0e+308}", "{dist: x}"),
        *("{dist: half_normal, scale: .nan}", "{dist: normal, loc: .inf, scale: 1}", "{}", "3"),
        *("{dist: half_normal, scale: 1.0e-320}", "{dist: [normal]}", f"{{dist: {_QUOTED}}}"),
    )
    for prior in priors:
        for name in ("sd_language", "intercept", "sd_residual", "nobody"):
            yield (
                f"{name} {prior[:40]!a}",
                _beside_table("s.yaml", f"name: own\npriors: {{{name}: {prior}}}\n"),
            )


def json_values(scale: float) -> Cases:
    """JSON that parsers disagree about, in records and lines."""
    number = max(10, int(100_000 * scale))
    row = '{"model": "a", "language": "en", "score": %s}'
    other = ',{"model": "b", "language": "sw", "score": 2}]'
    values = {
        **{"NaN": "NaN", "infinite": "-Infinity", "huge": "1e400", "tiny": "1e-400"},
        **{"long": "9" * number, "long decimals": "0." + "3" * number, "hex": "0x10"},
        **{"octal": "010", "point": "1.", "plus": "+1", "text": '"1"', "list": "[1]"},
        **{"deep": "[" * number + "]" * number, "deep and open": "[" * number},
        **{"objects": '{"a":' * number + "1" + "}" * number, "object": '{"value": 1}'},
        **{"null": "null", "true": "true", "exponent": "1e" + "9" * number, "minus": "-"},
        **{"surrogate": '"\\ud800"', "surrogates": '"\\udc00\\ud800"', "zero": "-0"},
        **{"escapes": '"\\u001b[2J\\u0007\\u202e"', "raw control": '"\x1b[2J"'},
        **{"long text": '"' + "x" * number + '"', "backslashes": '"' + "\\\\" * number + '"'},
    }
    for what, value in values.items():
        yield f"score {what}", text("t.json", "[" + row % value + other)
        yield f"score {what}, lines", text("t.jsonl", row % value + "\n" + row % 2 + "\n")
        yield f"label {what}", text("t.json", "[" + (row % 1).replace('"a"', value) + other)
        yield f"alone {what}", text("t.json", value)
    keys = {
        **{"twice": '"score": 1, "score": 2', "NaN": "NaN: 1", "number": "1: 1", "bare": "a: 1"},
        **{"empty": '"": 1', "surrogate": '"\\ud800": 1', "control": '"\\u001b[2J": 1'},
        **{"proto": '"__proto__": {"x": 1}', "long": f'"{"k" * number}": 1', "single": "'a': 1"},
        **{"twins": '"Score": 1, "SCORE": 2', "case": '"LANGUAGE": "de"', "NUL": '"\\u0000": 1'},
    }
    for what, key in keys.items():
        yield f"key {what}", text("t.json", "[" + (row % 1)[:-1] + f", {key}}}" + other)
        yield f"key {what}, lines", text("t.jsonl", (row % 1)[:-1] + f", {key}}}\n")
    for what, content in {
        "comments": "[// no\n" + row % 1 + other,
        "two documents": "[]" * 2,
        "many documents": "[]" * number,
        "commas": "[" + "," * number + "]",
        "strings": "[" + ",".join(['"a"'] * number) + "]",
        "colons": '{"a"' + ":" * number,
        "quotes": '"' * number,
        "mark": "\ufeff\ufeff[" + row % 1 + other,
        "blanks": " " * number + "[" + row % 1 + other,
    }.items():
        yield what, text("t.json", content)
        yield f"{what}, lines", text("t.jsonl", content)


def delimited(scale: float) -> Cases:
    """CSV and TSV in several encodings, with quotes, marks and names that are not seen."""
    number = max(10, int(200_000 * scale))
    rows = TIDY.split("\n", 1)[1]
    encodings = ("utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1", "shift_jis", "gb18030")
    for encoding in (*encodings, "cp037"):
        named = TIDY.replace("sw", "中é" if encoding not in ("latin-1", "cp037") else "é")
        data = named.encode(encoding, errors="ignore")
        yield f"encoding {encoding}", text("t.csv", data)
        yield f"half {encoding}", text("t.csv", TIDY.encode() + data)
    contents: dict[str, str | bytes] = {
        "marks": "\ufeff" * 3 + TIDY,
        "mark within": TIDY.replace("b,en", "\ufeffb,en"),
        "NUL": TIDY.replace(",t,", ",t\0,"),
        "NUL only": "\0" * number,
        "NUL header": TIDY.replace("model", "mo\0del"),
        "open quote": TIDY + '"' + "x\n" * number,
        "quotes": '"' * (number + 1),
        "quotes in a cell": TIDY + 'c,"e"n",t,1\n',
        "many open quotes": TIDY + 'c,en,t,"\n' * 1000,
        "returns": TIDY.replace("\n", "\r"),
        "mixed ends": TIDY.replace("\n", "\r\n", 2).replace("b,", "\rb,"),
        "line separators": TIDY.replace("\n", "\u2028"),
        "form feeds": TIDY.replace("\n", "\n\x0c"),
        "blank lines": "\n" * number + TIDY,
        "blanks": " " * number,
        "commas": "," * number,
        "comma lines": TIDY + ",,,\n" * number,
        "one column": "score\n" + "1\n" * 1000,
        "header only": "model,language,task,score",
        "headers": "model,language,task,score\n" * 1000,
        "long header": ",".join(f"c{i}" for i in range(number // 10)) + "\n",
        "same headers": ",".join(["score"] * (number // 10)) + "\n1\n",
        "bidi": TIDY.replace("b,", "b\u202egnp.exe\u202c,"),
        "isolates": TIDY.replace("sw", "\u2067sw\u2069"),
        "zero width": TIDY + "a\u200b,en,t,9\na\u200c,en,t,9\n\u2060a,en,t,9\na\ufeff,sw,t,1\n",
        "twins": TIDY + "\u0430,en,t,9\n\uff41,en,t,9\n\U0001d41a,en,t,9\n",
        "forms": TIDY + "e\u0301,en,t,9\n\u00e9,sw,t,9\n",
        "marks on marks": TIDY + "a" + "\u0301" * number + ",en,t,1\n",
        "some marks": TIDY + "a" + "\u0301" * 400 + ",en,t,1\n",
        "private": TIDY + "\ue000\U000f0000,en,t,1\n",
        "no characters": TIDY + "\ufffe\uffff,en,t,1\n",
        "surrogates": (TIDY + "\ud800,en,t,1\n").encode("utf-8", "surrogatepass"),
        "overlong": TIDY.encode() + b"\xc0\xaf,en,t,1\n",
        "other digits": TIDY.replace("1.5", "\u0661.\u0665"),
        "full width": TIDY.replace("1.5", "\uff11.\uff15"),
        "hexadecimal": TIDY.replace("1.5", "0x1p3"),
        "formulas": TIDY.replace("a,", "=cmd|' /C calc'!A0,"),
        "paths": TIDY.replace("b,", "../../../../etc/passwd,"),
        "markup": TIDY.replace("b,", "<script>alert(1)</script>,"),
        "separators": TIDY.replace(",", ";").replace("1.5", "1,5"),
        "a separator line": "sep=;\n" + TIDY.replace(",", ";"),
        "escapes": TIDY.replace("b,", "b\\,"),
        "pipes": TIDY.replace("b,", "b|c,").replace("sw", "s|w"),
        "numbers as names": TIDY.replace("a,", "1,").replace("b,", "1.0,"),
        "labels": "model,language,task,score\n"
        + "".join(f"m{i},l{i},t{i},1\n" for i in range(number // 100)),
        "bytes": bytes(range(256)) * 100,
        "random": bytes((i * 7919 + i * i) % 256 for i in range(10_000)),
        "zip": b"PK\x03\x04" + TIDY.encode(),
        "parquet": b"PAR1" + TIDY.encode() + b"PAR1",
        "gzip": b"\x1f\x8b\x08" + TIDY.encode(),
        "shebang": b"#!/bin/sh\n" + TIDY.encode(),
        "same scores": rows * 1000,
    }
    for what, content in contents.items():
        yield what, text("t.csv", content)
        if isinstance(content, str):
            yield f"{what}, tabs", text("t.tsv", content.replace(",", "\t"))
            yield f"{what}, no suffix", text("table.txt", content)


def printed(scale: float) -> Cases:
    """Tables in LaTeX, Markdown and HTML."""
    number = max(10, int(50_000 * scale))
    latex = "\\begin{tabular}{lrr}\nmodel & en & sw \\\\\n%s\nB & 1 & 2 \\\\\n\\end{tabular}\n"
    pieces = {
        "input": "\\input{/etc/passwd} & 1 & 2 \\\\",
        "write": "\\immediate\\write18{touch x} & 1 & 2 \\\\",
        "csname": "\\csname end\\endcsname & 1 & 2 \\\\",
        "def": "\\def\\a{\\a\\a}\\a & 1 & 2 \\\\",
        "multirow": "\\multirow{999999999}{*}{A} & 1 & 2 \\\\",
        "multicolumn 0": "\\multicolumn{0}{c}{A} & 1 & 2 \\\\",
        "negative": "\\multicolumn{-5}{c}{A} & 1 & 2 \\\\",
        "nested": "\\textbf{" * 400 + "A" + "}" * 400 + " & 1 & 2 \\\\",
        "cells": "A & " * number + "\\\\",
        "rows": "\\\\" * number,
        "comments": "%" * number,
        "a comment at the end": "A & 1 & 2 % \\\\",
        "dollars": "$" * number + " & 1 & 2 \\\\",
        "control": "A\x1b[2J & 1 & 2 \\\\",
        "bidi": "A\u202e & 1 & 2 \\\\",
        "verbatim": "\\begin{verbatim} & \\end{tabular} & 1 \\end{verbatim} \\\\",
        "backslashes": "\\" * number,
        "carets": "A^^5c & ^{^{^{1}}} & 2 \\\\",
        "tables": "\\begin{tabular}{l}x\\end{tabular} & 1 & 2 \\\\",
        "wide specification": "\\end{tabular}\\begin{tabular}{*{99999}{c}} A & 1 \\\\",
        "number": "A & 1" + "0" * number + " & 2 \\\\",
        "plus minus": "A & 1" + "$\\pm$ 1" * number + " & 2 \\\\",
        "subscripts": "A & 1_{1}_{2} & " + "_{" * number + " \\\\",
        "rules": "\\hline" * number + " A & 1 & 2 \\\\",
        "spans": ("\\multicolumn{999}{c}{x} & " * 16 + "\\\\") * 40,
    }
    for what, piece in pieces.items():
        yield f"LaTeX {what}", text("t.tex", latex % piece)
        yield f"LaTeX {what}, open", text("t.tex", (latex % piece).partition("\\end{tab")[0])
    yield "LaTeX tables", text("t.tex", latex % "A & 1 & 2 \\\\" * (number // 50))
    markdown = "| model | en | sw |\n|---|---|---|\n%s\n| B | 1 | 2 |\n"
    cells = {
        "escaped": "| A\\|C | 1 | 2 |",
        "pipes": "|" * number,
        "dashes": "|" + "-" * number + "|",
        "rules": "|---|---|---|\n" * (number // 10),
        "tables": markdown * 50 % tuple(["| A | 1 | 2 |"] * 50),
        "script": "| <script>alert(1)</script> | 1 | 2 |",
        "link": "| [A](javascript:alert(1)) | ![x](/etc/passwd) | 2 |",
        "control": "| A\x1b[2J\x07 | 1 | 2 |",
        "bidi": "| A\u202e | 1 | 2 |",
        "stars": "| " + "*" * number + " | 1 | 2 |",
        "code": "| `" * number,
        "blank": "|  |  |  |\n" * (number // 10),
        "uneven": "| A | 1 |\n| C | 1 | 2 | 3 | 4 |",
        "percent": "| A | 50 % | 1e5 % |",
        "fence": "```\n| A | 1 | 2 |",
        "rows": "| A | 1 | 2 |\n" * (number // 10),
        "long": "| " + "x" * number + " | 1 | 2 |",
    }
    for what, cell in cells.items():
        yield f"Markdown {what}", text("t.md", markdown.replace("%s", cell))
    html = "<table><tr><th>model</th><th>en</th></tr>%s</table>"
    parts = ("<tr>" * number, "<td>" * number, "<!--", "<script>x</script>", "&#x202e;" * 100)
    for i, part in enumerate((*parts, '<td colspan="99999999">', "<!DOCTYPE x [<!ENTITY a 'b'>]>")):
        for suffix in ("html", "csv", "md", "txt"):
            yield f"HTML {i} {suffix}", text(f"t.{suffix}", html % part)
