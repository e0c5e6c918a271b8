"""Files of strangers for what DuckDB scans, for `next`, and for relations of languages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.records.hostile_cells import beside_result, cells
from tests.records.hostile_packed import packed_tables
from tests.records.hostile_texts import HOSTILE_NAME, TIDY, Cases, Write, delimited, json_values
from tests.records.hostile_tools import parquet_files

_ROW: Final = "'a' AS model, 'en' AS language, 't' AS task, 1.5 AS score"
_GOOD: Final = (
    "SELECT 'm' || m AS model, ['en', 'de'][l] AS language, 't' || t AS task, "
    "'i' || i AS item, i % (m + l * t + 1) AS score "
    "FROM range(1, 4) a(m), range(1, 3) b(l), range(2) c(t), range(10) d(i)"
)
#: Model beside a matrix of relations.
RELATED: Final = (
    "name: related-by-file\nlanguages: {files: {likeness: matrix.csv}}\ninteractions: []\n"
)
_LANGUAGES: Final = ("en", "de", "fr")


def scanned_files(scale: float) -> Cases:
    """Tables of other classes, read row by row within a bound of memory."""
    for make in (parquet_files, delimited, json_values, packed_tables):
        for name, write in make(scale):
            # As many rows as are asked for are counted, and so many take their time.
            if name != "20 x 10^7 rows":
                yield name, write


def databases(scale: float) -> Cases:
    """DuckDB files: no table, views, odd types and names, damage."""
    many = max(10, int(1_000_000 * scale))
    tables = {
        "no table": (),
        "two tables": (f"CREATE TABLE a AS SELECT {_ROW}", f"CREATE TABLE b AS SELECT {_ROW}"),
        "an endless view": (
            "CREATE VIEW v AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
            f"SELECT {_ROW} FROM r",
        ),
        "a view of a file": ("CREATE VIEW v AS SELECT * FROM read_text('/etc/passwd')",),
        "a large product": (
            f"CREATE VIEW v AS SELECT {_ROW} FROM range({many}) a, range({many}) b",
        ),
        "a macro": (f"CREATE MACRO m() AS TABLE SELECT {_ROW}", "CREATE VIEW v AS FROM m()"),
        "columns": (
            f"CREATE TABLE t AS SELECT {_ROW}, "
            + ", ".join(f"{i} AS c{i}" for i in range(max(10, int(5000 * scale)))),
        ),
        "levels": (
            "CREATE TABLE t AS SELECT 'm' || range AS model, 'l' || range AS language, "
            f"'t' || range AS task, 1.5 AS score FROM range({max(10, many // 100)})",
        ),
        "a long text": (f"CREATE TABLE t AS SELECT {_ROW}, repeat('x', {10 * many}) AS item",),
        "a long name": (
            f"CREATE TABLE t AS SELECT repeat('x', {many}) AS model, 'en' AS language, "
            "'t' AS task, 1.5 AS score",
        ),
        "nothing wrong": (f"CREATE TABLE t AS {_GOOD}",),
        "no rows": (f"CREATE TABLE t AS SELECT {_ROW} LIMIT 0",),
        "a schema": ("CREATE SCHEMA s", f"CREATE TABLE s.t AS SELECT {_ROW}"),
        "a generated column": (
            "CREATE TABLE t (model TEXT, language TEXT, task TEXT, score AS (1 / 0))",
            "INSERT INTO t VALUES ('a', 'en', 't')",
        ),
    }
    for name, statements in tables.items():
        yield name, _database(*statements)
    values = {
        *("NULL", "'NaN'::DOUBLE", "'inf'::DOUBLE", "[1, 2]", "{'a': 1}", "MAP {'a': 1}"),
        *("'x'::BLOB", "9" * 38, "'2024-01-01'::DATE", "INTERVAL 1 DAY", "true", "'0101'::BIT"),
        *("uuid()", "'1.5'", "''", "1e308", "-0.0", "1.5::DECIMAL(38, 30)", "[]", "row(1, 'a')"),
    }
    for column, value in itertools.product(("model", "language", "score"), sorted(values)):
        shown = _ROW.split(", ")
        place = ("model", "language", "task", "score").index(column)
        shown[place] = f"{value} AS {column}"
        select = f"SELECT {', '.join(shown)}"
        yield f"{column} {value}", _database(f"CREATE TABLE t AS {select} UNION ALL {select}")
    quoted = HOSTILE_NAME.replace('"', '""')
    for name in (quoted, "x" * 10_000, "", "select", "a\nb"):
        yield f"table {name[:9]!a}", _database(f'CREATE TABLE "{name or " "}" AS SELECT {_ROW}')
        yield f"column {name[:9]!a}", _database(f'CREATE TABLE t AS SELECT {_ROW}, 1 AS "{name} "')
    good = (f"CREATE TABLE t AS {_GOOD}",)
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        yield (
            f"cut {share}",
            _database(*good, change=partial(_cut, share)),
        )
    for place in (0, 8, 12, 100, 4096, 4100, 8192, 12_300, 20_000):
        yield f"byte {place}", _database(*good, change=partial(_flipped, place))
    for what, data in {"text": TIDY.encode(), "zeros": bytes(10_000), "SQLite": _SQLITE}.items():
        yield what, _database(change=partial(_instead, data))


def next_cells(scale: float) -> Cases:
    """Cells that `next` may choose, beside a good result."""
    yield from cells(scale)


def next_costs(scale: float) -> Cases:
    """Costs of cells for `next`, beside a good result."""
    for number in ("1e308", "-1", "0", "inf", "nan", "1,5", "12%", "1" * 100_000, HOSTILE_NAME):
        quoted = '"' + number.replace('"', '""') + '"'
        for factor in ("model", "language", "task"):
            yield (
                f"cost {factor} {number[:9]}",
                beside_result("cells.csv", f"{factor},cost\na,{quoted}\nb,1\n"),
            )
    for size in (100, int(30_000 * scale)):
        lines = "".join(f"l{i},{i + 1}\n" for i in range(size))
        yield f"costs {size}", beside_result("cells.csv", f"language,cost\n{lines}")
        yield f"equal costs {size}", beside_result("cells.csv", "language,cost\n" + "en,1\n" * size)


def relation_files(scale: float) -> Cases:
    """Matrices of similarities between languages, named by a model."""
    for value in ("1e308", "-2", "nan", "inf", "", "1,5", "x", "0" * 100_000, HOSTILE_NAME, "2"):
        quoted = '"' + value.replace('"', '""') + '"'
        yield f"value {value[:9]}", _matrix(above=quoted, below=quoted)
        yield f"diagonal {value[:9]}", _matrix(diagonal=quoted)
        yield f"one side {value[:9]}", _matrix(above=quoted)
    for label in ("", " ", "en", "x" * 100_000, HOSTILE_NAME, "\x1b[2J", "\u202ex", "a\0b"):
        yield f"label {label[:9]!a}", _matrix(labels=(*_LANGUAGES[:2], label))
    for size in (50, max(10, int(6000 * scale))):
        labels = ",".join(["", *(f"l{i}" for i in range(size))])
        yield f"row {size}", _text(f"{labels}\nen,1\n")
        column = "".join(f"l{i},1\n" for i in range(size))
        yield f"column {size}", _text(f",en\n{column}")
        yield f"commas {size}", _text(f",en\nen,1{',' * 100 * size}\n")
    for name, content in {
        "empty": "",
        "header alone": ",en,de,fr\n",
        "no matrix": TIDY,
        "two parts": ",en,de,fr\nen,1\n",
        "quotes": ',"en',
        "JSON": '{"en": {"en": 1}}',
        "NUL": "\0" * 1000,
    }.items():
        yield name, _text(content)


def _cut(share: float, data: bytes) -> bytes:
    return data[: int(share * len(data))]


def _instead(other: bytes, data: bytes) -> bytes:
    return other


def _flipped(place: int, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 0xFF
    return bytes(changed)


def _database(*statements: str, change: Callable[[bytes], bytes] | None = None) -> Write:
    def write(folder: Path) -> Path:
        import subprocess
        import sys

        # The process that starts the commands must not have threads.
        code = (
            "import duckdb, sys\nwith duckdb.connect(sys.argv[1]) as connection:\n"
            "    for statement in sys.argv[2:]:\n        connection.execute(statement)"
        )
        path = folder / "rows.duckdb"
        subprocess.run([sys.executable, "-c", code, str(path), *statements], check=True)
        if change is not None:
            path.write_bytes(change(path.read_bytes()))
        return path

    return write


def _matrix(
    diagonal: str = "1",
    above: str = "0.5",
    below: str = "0.5",
    labels: tuple[str, ...] = (*_LANGUAGES,),
) -> Write:
    quoted = ['"' + label.replace('"', '""') + '"' for label in labels]
    n = len(labels)
    lines = [
        ",".join([label, *[below] * i, diagonal, *[above] * (n - i - 1)])
        for i, label in enumerate(quoted)
    ]
    return _text("\n".join([",".join(["", *quoted]), *lines, ""]))


def _text(content: str) -> Write:
    def write(folder: Path) -> Path:
        (folder / "table").mkdir()
        rows = (
            f"{model},{language},{task},{50 + 5 * i + 3 * j + k + i * j * k % 3}"
            for i, model in enumerate("abc")
            for j, language in enumerate(_LANGUAGES)
            for k, task in enumerate(("qa", "nli"))
        )
        table = "\n".join(["model,language,task,score", *rows, ""])
        (folder / "table" / "t.csv").write_text(table)
        (folder / "model.yaml").write_text(RELATED)
        (folder / "matrix.csv").write_text(content, encoding="utf-8", errors="surrogatepass")
        return folder / "model.yaml"

    return write


_SQLITE: Final = b"SQLite format 3\0" + bytes(1000)
