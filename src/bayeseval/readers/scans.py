"""Tables that DuckDB scans row by row: Parquet, CSV, JSON lines and database files."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from bayeseval._text import brief, grouped, plain, shorten
from bayeseval.errors import InputError, argument
from bayeseval.readers.compressed import PACKED_SUFFIXES, check_unpacked_size, suffix_of
from bayeseval.readers.raw import without_line_feeds
from bayeseval.readers.tabular import delimiter_of, header_of

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "DATABASE_SUFFIXES",
    "NUMBER",
    "SCANNED_SUFFIXES",
    "SCRATCH",
    "Engine",
    "Scan",
    "clean_names",
    "literal",
    "open_engine",
    "typed_scan",
]

DATABASE_SUFFIXES: Final = (".duckdb", ".ddb")

Kind = Literal["text", "whole", "float", "truth", "json", "other"]

_PARQUET: Final = (".parquet", ".pq")
_JSON_LINES: Final = (".jsonl", ".ndjson")
_TEXT: Final = (".csv", ".tsv")
#: Endings of the files that are scanned.
SCANNED_SUFFIXES: Final = (*_PARQUET, *_JSON_LINES, *_TEXT, *DATABASE_SUFFIXES)
#: How names of folders begin that an engine works in, below the folder it is given.
SCRATCH: Final = "run-"
# A header is searched for its separator in so many bytes.
_HEAD: Final = 1 << 20
_TAIL: Final = 1 << 16
# The engine refuses longer lines, but leaves out a last one that its buffer of 32 MB does not hold.
_MAX_LINE: Final = 1 << 21
# Every column is part of every query. Rows of items have a few, and settings of a tool some dozens.
_MAX_COLUMNS: Final = 256
# Of Parquet that is no repetition of a few rows: 1 % of a byte for all cells of a row.
_FEW_ROWS: Final = 1_000_000
_ROWS_PER_BYTE: Final = 100
# What the engine's limit leaves for buffers that it does not count.
_SHARE: Final = 0.5
_LEAST: Final = 64 << 20
#: The spelling of numbers in cells.py.
NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_BLANKS: Final = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(160)"
_WHOLE: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?")
_FLOAT: Final = re.compile(r"FLOAT|DOUBLE|DECIMAL\(.*\)")


@dataclass(frozen=True)
class Scan:
    """One table as the engine reads it.

    Parameters
    ----------
    source : str
        The file as the user named it; starts every message.
    relation : str
        SQL of the table.
    cells : mapping of str to str
        SQL of the cell by column, in the file's order.
    kinds : mapping of str to str
        What the cells of a column are: ``text``, ``whole``, ``float``, ``truth``, ``json``
        (any of these, and lists) or ``other``.
    """

    source: str
    relation: str
    cells: Mapping[str, str]
    kinds: Mapping[str, Kind]

    def label(self, column: str) -> str:
        """SQL of the cell as a text; null where it is empty."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind == "json":
            cell = f"json_extract_string({cell}, '$')"
        elif kind == "float":
            cell = (
                f"CASE WHEN isfinite({cell}) AND {cell} = trunc({cell}) AND abs({cell}) < 1e18 "
                f"THEN CAST(CAST({cell} AS HUGEINT) AS VARCHAR) ELSE CAST({cell} AS VARCHAR) END"
            )
        elif kind != "text":
            cell = f"CAST({cell} AS VARCHAR)"
        return f"CASE WHEN trim({cell}, {_BLANKS}) <> '' THEN {cell} END"

    def bad_label(self, column: str) -> str:
        """SQL of whether the cell is filled and no label."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind in ("text", "whole"):
            return "false"
        if kind == "float":
            return f"coalesce(NOT (isfinite({cell}) AND {cell} = trunc({cell})), false)"
        if kind == "json":
            number = f"TRY_CAST(json_extract_string({cell}, '$') AS DOUBLE)"
            return (
                f"coalesce(json_type({cell}) IN ('ARRAY', 'OBJECT', 'BOOLEAN') OR "
                f"(json_type({cell}) = 'DOUBLE' AND {number} <> trunc({number})), false)"
            )
        return f"{cell} IS NOT NULL"

    def number(self, column: str) -> str:
        """SQL of the cell as a finite number; null where it is empty or none."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind in ("whole", "float"):
            value = f"CAST({cell} AS DOUBLE)"
        elif kind == "other" or kind == "truth":
            return "CAST(NULL AS DOUBLE)"
        else:
            text = self._trimmed(column)
            value = (
                f"CASE WHEN regexp_full_match({text}, '{NUMBER}') "
                f"THEN TRY_CAST({text} AS DOUBLE) END"
            )
        return f"CASE WHEN isfinite({value}) THEN {value} END"

    def empty(self, column: str) -> str:
        """SQL of whether the cell holds nothing."""
        if self.kinds[column] in ("text", "json"):
            return f"coalesce({self._trimmed(column)} = '', true)"
        return f"{self.cells[column]} IS NULL"

    def bad_number(self, column: str) -> str:
        """SQL of whether the cell is filled and no finite number."""
        bad = f"NOT ({self.empty(column)}) AND {self.number(column)} IS NULL"
        if self.kinds[column] == "json":
            cell = self.cells[column]
            bad = f"({bad}) OR coalesce(json_type({cell}) IN ('ARRAY', 'OBJECT', 'BOOLEAN'), false)"
        return bad

    def _trimmed(self, column: str) -> str:
        cell = self.cells[column]
        text = f"json_extract_string({cell}, '$')" if self.kinds[column] == "json" else cell
        return f"trim({text}, {_BLANKS})"


@dataclass(frozen=True)
class Engine:
    """DuckDB within bounds: its memory, its threads, and no files but those given.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    folder : Path
        Scratch folder of this process.
    memory : int
        Bytes that the user allows.
    scans : tuple of Scan
    """

    connection: duckdb.DuckDBPyConnection
    folder: Path
    memory: int
    scans: tuple[Scan, ...] = ()

    def run(self, sql: str, *, source: str) -> Any:
        """The rows of a query as an Arrow table.

        Raises
        ------
        InputError
            One line, if a file is damaged or the memory does not suffice.
        """
        self._stay()
        with explained(source, self.memory):
            return self.connection.sql(sql).to_arrow_table()

    def execute(self, sql: str, *, source: str) -> None:
        """Run a statement; raises as :meth:`run`."""
        self._stay()
        with explained(source, self.memory):
            self.connection.execute(sql)

    def _stay(self) -> None:
        # Scratch folders that nobody has used for a day are removed.
        os.utime(self.folder)

    def first(self, scan: Scan, where: str, cell: str) -> tuple[int, Any] | None:
        """Number of the first row where a condition holds, counted from 1, and a cell of it."""
        table = self.run(
            f"SELECT n, cell FROM (SELECT row_number() OVER () AS n, ({where}) AS found, "
            f"{cell} AS cell FROM {scan.relation}) WHERE found LIMIT 1",
            source=scan.source,
        )
        if not table.num_rows:
            return None
        try:
            value = table["cell"][0].as_py()
        except (OverflowError, ValueError):
            # A date of a year that Python does not have.
            value = table["cell"].cast("string")[0].as_py()
        return table["n"][0].as_py(), value


@contextmanager
def explained(source: str, memory: int) -> Iterator[None]:
    """Errors of the engine as one line."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as problem:
        raise InputError(
            f"{source}: the rows cannot be reduced within {argument('memory')} {_size(memory)}; "
            "allow more"
        ) from problem
    except duckdb.Error as problem:
        raise InputError(f"{source}: cannot be read: {_reason(problem)}") from problem


def _reason(problem: Exception) -> str:
    """The first sentence of what the engine says, without the names of its own files."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = lines[0] if lines else type(problem).__name__
    text = re.sub(r"^[A-Z][\w ]* Error: ", "", text)
    line = re.search(r"CSV Error on Line: (\d+)", str(problem))
    if line is not None:
        causes = ("Expected", "Value", "Error", "Maximum")
        cause = next((one for one in lines if one.startswith(causes)), "")
        text = f"line {line[1]} is not valid CSV" + (f" ({cause})" if cause else "")
    return plain(re.sub(r'"?/\S*/table-\d+\S*', "the file", text))[:300]


def _size(memory: int) -> str:
    return f"{memory / 1e9:.3g}GB"


def literal(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_engine(files: list[Path], *, memory: int, folder: Path) -> Iterator[Engine]:
    """An engine that reads some files and nothing else.

    Parameters
    ----------
    files : list of Path
        Parquet, CSV, JSON lines, or one database.
    memory : int
        Bytes for the whole process; the engine takes a part of it.
    folder : Path
        Where what does not fit into memory is put, and removed in the end.

    Raises
    ------
    InputError
        If a file cannot be read, or a database does not hold one table.
    """
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    connection = duckdb.connect(
        config={
            "memory_limit": f"{max(int(_SHARE * memory), _LEAST) // 1000}KB",
            "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2,
            "temp_directory": str(scratch / "spilled"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    try:
        links = [_link(file, scratch, i) for i, file in enumerate(files)]
        for place, (file, link) in enumerate(zip(files, links, strict=True)):
            if suffix_of(file) in DATABASE_SUFFIXES:
                with explained(str(file), memory):
                    connection.execute(
                        f"ATTACH {literal(str(link))} AS database_{place} (TYPE duckdb, READ_ONLY)"
                    )
        paths = [str(one) for link in links for one in (link, link.resolve())]
        for setting in (
            f"allowed_directories = [{literal(str(folder.resolve()))}]",
            f"allowed_paths = [{', '.join(map(literal, paths))}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        bare = Engine(connection, scratch, memory)
        scans = tuple(
            _scan(bare, file, link, place)
            for place, (file, link) in enumerate(zip(files, links, strict=True))
        )
        yield Engine(connection, scratch, memory, scans)
    finally:
        connection.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _link(file: Path, scratch: Path, place: int) -> Path:
    """A plain name for a file: quotes, stars and folders such as ``lang=en`` mean something."""
    packed = file.suffix.casefold()
    if packed in PACKED_SUFFIXES and packed != ".gz":
        raise InputError(
            f"{file}: {argument('memory')} reads text packed with gzip; unpack the file first"
        )
    link = scratch / f"table-{place}{suffix_of(file)}{'.gz' if packed == '.gz' else ''}"
    try:
        link.symlink_to(file.resolve())
    except OSError:
        # Windows makes symbolic links for administrators only.
        os.link(file.resolve(), link)
    return link


def _scan(engine: Engine, file: Path, link: Path, place: int) -> Scan:
    """The table of one file."""
    suffix, source = suffix_of(file), str(file)
    if suffix in DATABASE_SUFFIXES:
        return typed_scan(engine, source, _only_table(engine, source, f"database_{place}"))
    if file.stat().st_size == 0:
        raise InputError(f"{source}: the file is empty (0 bytes)")
    if suffix in _PARQUET:
        _refuse_repetition(engine, file, link)
        relation = f"read_parquet({literal(str(link))}, hive_partitioning = false)"
        return typed_scan(engine, source, relation)
    if file.suffix.casefold() == ".gz":
        check_unpacked_size(file, seen=engine.folder.parent)
    else:
        _refuse_holes(file)
    if suffix in _JSON_LINES:
        return _json_lines(engine, source, link)
    if suffix in _TEXT:
        return _delimited(source, file, link, suffix)
    raise InputError(
        f"{source}: {argument('memory')} reads Parquet, CSV, TSV, JSON lines and DuckDB files; "
        "leave it out for other formats, or convert the file to Parquet"
    )


def _refuse_holes(file: Path) -> None:
    """Refuse text whose end the engine may pass over without a word.

    An end that was never written holds zero bytes, and a last line may be too long.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(size - _MAX_LINE, 0))
        end = stream.read(_MAX_LINE)
    if b"\0" in end[-_TAIL:]:
        raise InputError(
            f"{file}: the end of the file holds zero bytes, so it is not text; check that the"
            " copy is complete"
        )
    if size > _MAX_LINE and b"\n" not in end[:-1]:
        raise InputError(f"{file}: the last line has more than {grouped(_MAX_LINE)} bytes")


def _refuse_repetition(engine: Engine, file: Path, link: Path) -> None:
    """Refuse Parquet with many more rows than its bytes can tell apart."""
    sql = f"SELECT num_rows AS n FROM parquet_file_metadata({literal(str(link))})"
    rows, size = engine.run(sql, source=str(file)).to_pylist()[0]["n"], file.stat().st_size
    if rows > max(_FEW_ROWS, _ROWS_PER_BYTE * size):
        raise InputError(
            f"{file}: {grouped(rows)} rows in {grouped(size)} bytes, which can only be the same few"
            " rows again and again; write each score once"
        )


def _only_table(engine: Engine, source: str, catalogue: str) -> str:
    """SQL of the one table of a database."""
    rows = engine.run(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        f"WHERE table_catalog = '{catalogue}' ORDER BY ALL",
        source=source,
    ).to_pylist()
    # A view is a query of whoever made the file, which may never end.
    views = [one["table_name"] for one in rows if one["table_type"] == "VIEW"]
    rows = [one for one in rows if one["table_type"] != "VIEW"]
    if len(rows) != 1:
        names = shorten(brief(f"{one['table_schema']}.{one['table_name']}") for one in rows)
        held = f"{grouped(len(rows))} tables ({names})" if rows else "no table"
        if views and not rows:
            held += f" but views ({shorten(map(brief, views))}), which are not computed"
        raise InputError(
            f"{source}: the database holds {held}, and only one can be read; copy the scores into "
            "a database or a Parquet file of their own"
        )
    parts = catalogue, rows[0]["table_schema"], rows[0]["table_name"]
    return ".".join(_quoted(part) for part in parts)


def typed_scan(engine: Engine, source: str, relation: str) -> Scan:
    """A table whose columns have types."""
    described = engine.run(f"DESCRIBE SELECT * FROM {relation}", source=source).to_pylist()
    names = [one["column_name"] for one in described]
    cells = dict(zip(clean_names(names, source), map(_quoted, names), strict=True))
    kinds = (_kind(one["column_type"]) for one in described)
    return Scan(source, relation, cells, dict(zip(cells, kinds, strict=True)))


def _kind(name: str) -> Kind:
    """What a type of the engine holds."""
    if name == "VARCHAR" or name.startswith("ENUM"):
        return "text"
    if _WHOLE.fullmatch(name):
        return "whole"
    if _FLOAT.fullmatch(name):
        return "float"
    return "truth" if name == "BOOLEAN" else "other"


def clean_names(names: list[str], source: str) -> list[str]:
    """Names of columns as tables have them; two of one name are refused."""
    clean: list[str] = []
    if len(names) > _MAX_COLUMNS:
        raise InputError(
            f"{source}: more than {grouped(_MAX_COLUMNS)} columns; leave out those that are not "
            "scores or labels"
        )
    for position, raw in enumerate(names, start=1):
        name = without_line_feeds(raw.strip()) or f"(unnamed column {position})"
        if name in clean:
            raise InputError(
                f"{source}: two columns are named {name!r} (columns {clean.index(name) + 1} and "
                f"{position}); rename one"
            )
        clean.append(name)
    return clean


def _json_lines(engine: Engine, source: str, link: Path) -> Scan:
    objects = f"read_json_objects({literal(str(link))}, format = 'newline_delimited')"
    wrong = engine.run(
        f"SELECT n, json_type(json) AS kind FROM (SELECT row_number() OVER () AS n, json FROM "
        f"{objects}) WHERE json_type(json) <> 'OBJECT' LIMIT 1",
        source=source,
    ).to_pylist()
    if wrong:
        raise InputError(
            f"{source}, row {wrong[0]['n']}: expected an object with keys and values, got "
            f"{wrong[0]['kind'].casefold()}"
        )
    # Only a scan of all lines knows all keys.
    keys = engine.run(
        f"SELECT key FROM (SELECT unnest(json_keys(json)) AS key FROM {objects}) GROUP BY key "
        f"ORDER BY key LIMIT {_MAX_COLUMNS + 1}",
        source=source,
    ).to_pylist()
    names = [one["key"] for one in keys]
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in names]
    cells = [f"nullif(json_extract(json, {literal(one)}), 'null'::JSON)" for one in pointers]
    clean = clean_names(names, source)
    return Scan(source, objects, dict(zip(clean, cells, strict=True)), dict.fromkeys(clean, "json"))


def _delimited(source: str, file: Path, link: Path, suffix: str) -> Scan:
    """A table of text cells; its header is read here, as for tables in memory."""
    opened = gzip.open if file.suffix.casefold() == ".gz" else open
    try:
        with opened(file, "rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError) as problem:
        raise InputError(f"{source}: cannot be read: {problem}") from problem
    # The last character may be cut in two.
    text = head.decode("utf-8-sig", errors="ignore")
    delimiter = delimiter_of(header_of(text), suffix)
    try:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error as problem:
        raise InputError(f"{source}, line 1: not valid CSV: {plain(str(problem))}") from problem
    if not header:
        raise InputError(f"{source}: the first line is empty; expected the names of the columns")
    names = clean_names(header, source)
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header)))
    relation = (
        f"read_csv({literal(str(link))}, auto_detect = false, header = true, strict_mode = true, "
        f"delim = {literal(delimiter)}, quote = '\"', escape = '\"', columns = {{{columns}}}"
        # In several threads a last line that is too long is left out; packed text is one stream.
        f"{', parallel = false' if file.suffix.casefold() == '.gz' else ''})"
    )
    cells = {name: f"c{i}" for i, name in enumerate(names)}
    return Scan(source, relation, cells, dict.fromkeys(names, "text"))
