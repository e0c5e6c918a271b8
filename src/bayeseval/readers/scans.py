"""Tables that DuckDB scans row by row: Parquet, CSV, JSON lines and database files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayeseval._text import brief, grouped, shorten
from bayeseval._typing import Progress
from bayeseval.errors import InputError, argument
from bayeseval.readers.base import decode
from bayeseval.readers.compressed import (
    packing_of,
    sound_pieces,
    suffix_of,
    unpacked_start,
)
from bayeseval.readers.delimited_scans import delimited_relation
from bayeseval.readers.engine_errors import explained, waited, writing
from bayeseval.readers.json_scans import json_relation
from bayeseval.readers.raw import without_line_feeds
from bayeseval.readers.sql_texts import NUMBER, Kind, Scan, kind_of, literal, quoted
from bayeseval.readers.tabular import EXPECTED, holds_json
from bayeseval.readers.text_files import TextFile

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

_PARQUET: Final = (".parquet", ".pq")
_TEXT: Final = (".csv", ".tsv", ".jsonl", ".ndjson")
#: Endings of the files that are scanned.
SCANNED_SUFFIXES: Final = (*_PARQUET, *_TEXT, *DATABASE_SUFFIXES)
#: How names of folders begin that an engine works in, below the folder it is given.
SCRATCH: Final = "run-"
# The separator is searched for, and formats are told apart, in so many bytes.
_HEAD: Final = 1 << 20
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
_MARK: Final = b"\xef\xbb\xbf"
# Seconds between two interrupts.
_AGAIN: Final = 0.1


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
        return self._work(lambda: self.connection.sql(sql).to_arrow_table(), source)

    def execute(self, sql: str, *, source: str) -> None:
        """Run a statement; raises as :meth:`run`."""
        self._work(lambda: self.connection.execute(sql), source)

    def _work(self, work: Callable[[], Any], source: str) -> Any:
        # Scratch folders that nobody has used for a day are removed.
        os.utime(self.folder)
        # The engine works in another thread, because it may take long to hear of Ctrl-C in this.
        with explained(source, self.memory, self.folder.parent), ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                return waited(future)
            except BaseException:
                # One that comes before the engine has begun is lost.
                while not future.done():
                    self.connection.interrupt()
                    wait([future], timeout=_AGAIN)
                raise

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
def open_engine(
    files: list[Path], *, memory: int, folder: Path, progress: Progress | None = None
) -> Iterator[Engine]:
    """An engine that reads some files and nothing else.

    Parameters
    ----------
    files : list of Path
        Parquet, CSV, JSON lines, or one database.
    memory : int
        Bytes for the whole process; the engine takes a part of it.
    folder : Path
        Where what does not fit into memory is put, and removed in the end.
    progress : callable, optional
        Is told how far Python is with text that the engine would read otherwise.

    Raises
    ------
    InputError
        If a file cannot be read, or a database does not hold one table.
    """
    import duckdb

    with writing(folder):
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
                with explained(str(file), memory, folder):
                    connection.execute(
                        f"ATTACH {literal(str(link))} AS database_{place} (TYPE duckdb, READ_ONLY)"
                    )
        paths = [str(one) for link in links for one in (link, link.resolve())]
        # Where Python runs no file, a bar may be on, which would stand between the results. A
        # notebook that cannot show one takes no such setting.
        has_bar = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
        if has_bar[0][0]:
            connection.execute("SET enable_progress_bar = false")
        for setting in (
            f"allowed_directories = [{literal(str(folder.resolve()))}]",
            f"allowed_paths = [{', '.join(map(literal, paths))}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        bare = Engine(connection, scratch, memory)
        scans = tuple(
            _scan(bare, file, link, place, progress)
            for place, (file, link) in enumerate(zip(files, links, strict=True))
        )
        yield Engine(connection, scratch, memory, scans)
    finally:
        connection.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _link(file: Path, scratch: Path, place: int) -> Path:
    """A plain name for a file: quotes, stars and folders such as ``lang=en`` mean something."""
    # What a file is packed with stands in its first bytes; its name may say something else.
    packing = packing_of(file)
    if packing == "zstandard":
        raise InputError(
            f"{file}: {argument('memory')} reads text packed with gzip; unpack the file first"
        )
    link = scratch / f"table-{place}{suffix_of(file)}{'.gz' if packing else ''}"
    with writing(scratch.parent):
        try:
            link.symlink_to(file.resolve())
        except OSError:
            # Windows makes symbolic links for administrators only.
            os.link(file.resolve(), link)
    return link


def _scan(engine: Engine, file: Path, link: Path, place: int, progress: Progress | None) -> Scan:
    """The table of one file."""
    suffix, source = suffix_of(file), str(file)
    if suffix in DATABASE_SUFFIXES:
        return typed_scan(engine, source, _only_table(engine, source, f"database_{place}"))
    if file.stat().st_size == 0:
        raise InputError(f"{source}: the file is empty (0 bytes)")
    if suffix not in (*_PARQUET, *_TEXT):
        raise InputError(
            f"{source}: {argument('memory')} reads Parquet, CSV, TSV, JSON lines and DuckDB files; "
            "leave it out for other formats, or convert the file to Parquet"
        )
    head = _head(file)
    if suffix in _PARQUET or head.startswith(b"PAR1"):
        if packing_of(file):
            raise InputError(f"{source}: a packed Parquet file; unpack it first")
        if not head.startswith(b"PAR1"):
            raise InputError(f"{source}: not a Parquet file (it does not start with PAR1)")
        _refuse_repetition(engine, file, link)
        relation = f"read_parquet({literal(str(link))}, hive_partitioning = false)"
        return typed_scan(engine, source, relation)
    if not packing_of(file):
        _refuse_holes(file)
    text = decode(head, source, expected=EXPECTED)
    whole = TextFile(engine, file, link, text, progress)
    if holds_json(text, source, suffix):
        found = json_relation(whole, has_mark=head.startswith(_MARK), most=_MAX_COLUMNS + 1)
        names = clean_names(found.names, source)
        pointers = ("/" + key.replace("~", "~0").replace("/", "~1") for key in found.names)
        cells = (f"nullif(json_extract(json, {literal(one)}), 'null'::JSON)" for one in pointers)
        kinds: dict[str, Kind] = dict.fromkeys(names, "json")
        by_name = dict(zip(names, cells, strict=True))
        return Scan(source, found.sql, by_name, kinds, found.place, found.numbers_in_file)
    found = delimited_relation(whole, suffix)
    names = clean_names(found.names, source)
    by_name = {name: f"c{place}" for place, name in enumerate(names)}
    texts: dict[str, Kind] = dict.fromkeys(names, "text")
    return Scan(source, found.sql, by_name, texts, found.place, found.numbers_in_file)


def _head(file: Path) -> bytes:
    """The beginning of a file, unpacked, without a character or a line that is cut in two."""
    with file.open("rb") as stream:
        data = stream.read(_HEAD)
    if packing_of(file):
        data = unpacked_start(data, _HEAD)
        if not data:
            # A damaged file; this says how.
            data = b"".join(islice(sound_pieces(file), 1))
    if len(data) < _HEAD:
        return data
    cut = data.rfind(b"\n") + 1
    return data[:cut] if cut else data.decode(errors="ignore").encode()


def _refuse_holes(file: Path) -> None:
    """Refuse text whose end the engine may pass over without a word.

    An end that was never written holds zero bytes, and a last line may be too long.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(size - _MAX_LINE, 0))
        end = stream.read(_MAX_LINE)
    # One zero byte alone ends a text in UTF-16.
    if end.endswith(b"\0\0"):
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
    return ".".join(quoted(part) for part in parts)


def typed_scan(engine: Engine, source: str, relation: str) -> Scan:
    """A table whose columns have types."""
    described = engine.run(f"DESCRIBE SELECT * FROM {relation}", source=source).to_pylist()
    names = [one["column_name"] for one in described]
    cells = dict(zip(clean_names(names, source), map(quoted, names), strict=True))
    kinds = (kind_of(one["column_type"]) for one in described)
    return Scan(source, relation, cells, dict(zip(cells, kinds, strict=True)))


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
