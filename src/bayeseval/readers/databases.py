"""Tables in databases: their addresses, connections through Ibis, and what a query returns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from bayeseval._optional import require
from bayeseval._text import plain, shorten
from bayeseval.errors import BayesevalError, InputError, MissingDependencyError, did_you_mean
from bayeseval.readers.engine_errors import waited
from bayeseval.readers.sql_texts import literal

__all__ = ["EXTRA", "Address", "Database", "is_address", "open_database", "shown"]

#: The extra that installs Ibis.
EXTRA: Final = "ibis"

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
# These name files, or pages that nobody can query.
_NO_DATABASES: Final = ("http", "https", "file", "ftp")
_ALIASES: Final = {"postgresql": "postgres"}
# Their addresses are paths, which Ibis takes as they are.
_FILES: Final = ("duckdb", "sqlite")
_SECRET: Final = re.compile(r"pass|pwd|token|secret|key|credential", re.IGNORECASE)
_LEAST_SECRET: Final = 3
# Seconds that a server may take to answer, and after which a silent connection counts as lost.
_POSTGRES: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "bayeseval",
}
# The planner takes groups by several columns for one row, and joins them in a nested loop.
_SETTINGS: Final = (
    "enable_nestloop = off",
    "enable_mergejoin = off",
    "enable_sort = off",
    "cursor_tuple_fraction = 1",
    # The costs of what is switched off make it compile every query.
    "jit = off",
    # The transaction waits while this process works with what has come back.
    "idle_in_transaction_session_timeout = 0",
)
# Rows that are fetched at once.
_CHUNK: Final = 20_000


@dataclass(frozen=True)
class Address:
    """The address of a table, ``postgres://user@host/database?table=NAME``.

    Parameters
    ----------
    scheme : str
        Ibis's name of the engine.
    shown : str
        The address without a password and without options, for messages and results.
    table : str or None
        The table that the address names, as ``NAME`` or ``SCHEMA.NAME``.
    text : str
        The whole address without the table; never shown.
    secrets : tuple of str
        What no message may contain.
    """

    scheme: str
    shown: str
    table: str | None
    text: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Address:
        """Read an address.

        Raises
        ------
        InputError
            If it cannot be read; the message has nothing of it but the scheme.
        """
        match = _ADDRESS.match(text)
        scheme = "" if match is None else match[1].casefold()
        scheme = _ALIASES.get(scheme, scheme)
        try:
            parts = urlsplit(text)
            _ = parts.port
            options = parse_qsl(
                parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)
            )
        except ValueError as problem:
            raise _unreadable(scheme) from problem
        inside = parts.query if scheme in _FILES else parts.path + parts.query
        # A password with one of / ? # @ ends in the wrong part of the address.
        if parts.fragment or "@" in inside:
            raise _unreadable(scheme)
        tables = [value for key, value in options if key == "table"]
        if len(tables) > 1 or "" in tables:
            raise InputError(f"{scheme}://...: the address names one table, as in ?table=NAME")
        others = [(key, value) for key, value in options if key != "table"]
        host = parts.netloc.rpartition("@")[2]
        user = f"{parts.username}@" if parts.username else ""
        secrets = [value for key, value in others if _SECRET.search(key)]
        secrets += [parts.password, unquote(parts.password)] if parts.password else []
        bare = plain(f"{scheme}://{user}{host}{parts.path}")
        return cls(
            scheme,
            _with_table(bare, tables[0] if tables else None),
            tables[0] if tables else None,
            urlunsplit((scheme, parts.netloc, parts.path, urlencode(others), "")),
            tuple(sorted({one for one in secrets if len(one) >= _LEAST_SECRET}, key=len)[::-1]),
        )

    def named(self, table: str) -> str:
        """The address as shown, with a table."""
        return _with_table(self.shown.partition("?table=")[0], table)

    def without_secrets(self, text: str) -> str:
        """A text without what the address keeps to itself."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _unreadable(scheme: str) -> InputError:
    if scheme in _FILES:
        return InputError(f"{scheme}://...: the address cannot be read: {_with_file(scheme)}")
    return InputError(
        f"{scheme}://...: the address cannot be read: expected "
        f"{scheme}://user:password@host:port/database?table=NAME, in which the characters / ? # @ %"
        " of a user or a password are percent-encoded (%2F %3F %23 %40 %25)"
    )


def _with_file(scheme: str) -> str:
    return f"expected {scheme}://FILE?table=NAME, for example {scheme}:///data/rows.{scheme}?table=items"


def _with_table(bare: str, table: str | None) -> str:
    return bare if table is None else f"{bare}?table={quote(table, safe='.')}"


def is_address(source: object) -> bool:
    """Whether a source is the address of a database rather than a name or a path."""
    match = _ADDRESS.match(source) if isinstance(source, str) else None
    return match is not None and match[1].casefold() not in _NO_DATABASES


def shown(source: str) -> str:
    """A source as it may be printed and stored: an address without its password and options.

    Examples
    --------
    >>> shown("postgres://me:geheim@db.example.org/evals?table=items&sslmode=require")
    'postgres://me@db.example.org/evals?table=items'
    >>> shown("mega")
    'mega'
    """
    return Address.of(source).shown if is_address(source) else source


@dataclass(frozen=True)
class Database:
    """An open connection, and the table that is read.

    Parameters
    ----------
    backend : ibis.backends.BaseBackend
    table : ibis.expr.types.Table
    name : str
        Of the table, as the address has it.
    source : str
        The address as shown, with the table; starts every message.
    address : Address
    is_view : bool
        Whether the table is a query, which may have other rows whenever it is read.
    """

    backend: Any = field(repr=False)
    table: Any = field(repr=False)
    name: str
    source: str
    address: Address
    is_view: bool = False

    def batches(self, query: Any, *, waiting: Callable[[], None] | None = None) -> Iterator[Any]:
        """The rows of an Ibis expression in batches of Arrow.

        Parameters
        ----------
        query : ibis.expr.types.Table
        waiting : callable, optional
            Called again and again while the engine works; what it raises ends the query.

        Raises
        ------
        InputError
            One line, if the engine refuses the query or the connection is lost.
        """
        batches = self._batches(query)
        with _explained(self.address, self.source):
            try:
                # The engine works in another thread, so that Ctrl-C is heard in this one.
                with ThreadPoolExecutor(1) as pool:
                    yield from self._listened(pool, batches, waiting)
            finally:
                batches.close()

    def _listened(
        self, pool: Executor, batches: Iterator[Any], waiting: Callable[[], None] | None
    ) -> Iterator[Any]:
        try:
            while (batch := waited(pool.submit(next, batches, None), waiting)) is not None:
                yield batch
        except BaseException:
            self._cancel()
            raise

    def _batches(self, query: Any) -> Generator[Any, None, None]:
        schema = query.schema().to_pyarrow()
        if self.address.scheme == "duckdb":
            # Ibis 12 calls methods that DuckDB 2 no longer has.
            relation = self.backend.con.sql(self.backend.compile(query))
            batches = relation.to_arrow_reader(_CHUNK)
        elif self.address.scheme == "postgres":
            batches = self._fetched(query, schema)
        else:
            batches = self.backend.to_pyarrow_batches(query, chunk_size=_CHUNK)
        for batch in batches:
            # Engines have their own widths of whole numbers.
            yield batch.cast(schema)

    def _fetched(self, query: Any, schema: Any) -> Iterator[Any]:
        """The rows that PostgreSQL sends.

        Ibis would open a transaction within ours, and so lose its own cursor if the query ends
        early: the error would be that of the cursor.
        """
        import pyarrow as pa

        with self.backend.con.cursor(name="bayeseval") as cursor:
            cursor.execute(self.backend.compile(query))
            while rows := cursor.fetchmany(_CHUNK):
                rows = pa.array(rows, type=pa.struct(schema))
                yield pa.RecordBatch.from_struct_array(rows)

    def _cancel(self) -> None:
        """End what the engine is doing, if it can be told."""
        connection = getattr(self.backend, "con", None)
        stop = getattr(connection, "cancel_safe", getattr(connection, "interrupt", None))
        # The reason why the query ends is known, and a lost connection cannot be told.
        with suppress(Exception):
            if stop is not None:
                stop()

    def rows(
        self, query: Any, *, waiting: Callable[[], None] | None = None
    ) -> list[dict[str, Any]]:
        """The few rows of an Ibis expression; as :meth:`batches`."""
        return [row for batch in self.batches(query, waiting=waiting) for row in batch.to_pylist()]


@contextmanager
def open_database(address: Address, *, memory: int, scratch: Path) -> Iterator[Database]:
    """A connection that reads one table and writes nothing.

    Parameters
    ----------
    address : Address
    memory : int
        Bytes that an engine within this process may take.
    scratch : Path
        Where such an engine may put what does not fit.

    Raises
    ------
    InputError
        One line, if the server cannot be reached, or the table is not there.
    MissingDependencyError
        If Ibis, or its driver of the engine, is not installed.
    """
    require("ibis", EXTRA)
    known = {entry.name for entry in entry_points(group="ibis.backends")}
    if address.scheme not in known:
        raise InputError(
            f"{address.shown}: no engine is called {address.scheme!r} (engines: "
            f"{', '.join(sorted(known))}){did_you_mean(address.scheme, known)}"
        )
    with _explained(address, address.shown):
        backend = _connect(address, memory, scratch)
    try:
        with _explained(address, address.shown):
            table, name = _find(backend, address)
            view = _is_view(backend, address.scheme, name)
        yield Database(backend, table, name, address.named(name), address, view)
    finally:
        with _explained(address, address.shown):
            backend.disconnect()


def _connect(address: Address, memory: int, scratch: Path) -> Any:
    import ibis

    if address.scheme == "postgres":
        return _connect_postgres(address)
    if address.scheme == "duckdb":
        return _connect_duckdb(address, memory, scratch)
    if address.scheme == "sqlite":
        _refuse_options(address, [])
    return ibis.connect(address.text)


def _refuse_options(address: Address, known: Iterable[str]) -> None:
    """Refuse options that nothing reads: one that is mistyped would change nothing."""
    known = sorted({*known, "table"})
    for option, _ in parse_qsl(urlsplit(address.text).query, keep_blank_values=True):
        if option not in known:
            raise InputError(
                f"{address.shown}: the address of {address.scheme} has no option {plain(option)!r}"
                f"{did_you_mean(option, known)} (options: {shorten(known)})"
            )


def _connect_postgres(address: Address) -> Any:
    """All queries see one state of the database, and none may write."""
    import ibis
    import psycopg

    parts = urlsplit(address.text)
    known = [one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()]
    _refuse_options(address, [*known, "schema"])
    database, _, schema = unquote(parts.path[1:]).partition("/")
    given = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "database": database or None,
        "schema": schema or None,
    }
    options = {**_POSTGRES, **given, **dict(parse_qsl(parts.query))}
    backend = ibis.postgres.connect(**options)
    connection = backend.con
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    # From here on, everything is one transaction; Ibis would commit one that it opened itself.
    connection.autocommit = False
    connection.execute("SELECT 1")
    return backend


def _connect_duckdb(address: Address, memory: int, scratch: Path) -> Any:
    """A DuckDB file, with the bounds of files that are read without Ibis."""
    import duckdb
    import ibis

    _refuse_options(address, [])
    parts = urlsplit(address.text)
    name = parts.netloc + parts.path
    if not name.strip("/"):
        raise InputError(f"{address.shown}: the address names no file: {_with_file('duckdb')}")
    file = Path(name)
    if not file.is_file():
        raise InputError(f"{address.shown}: no such file ({file})")
    connection = duckdb.connect(
        str(file),
        read_only=True,
        config={
            "memory_limit": f"{memory // 1000}KB",
            "temp_directory": str(scratch / "database"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    backend = ibis.duckdb.from_connection(connection)
    for setting in ("enable_external_access = false", "lock_configuration = true"):
        connection.execute(f"SET {setting}")
    return backend


def _find(backend: Any, address: Address) -> tuple[Any, str]:
    """The table of an address, and its name."""
    names = _table_names(backend, address)
    wanted = address.table
    if wanted is None:
        if len(names) == 1:
            return _table(backend, names[0]), names[0]
        held = f"{len(names)} tables ({shorten(map(plain, names))})" if names else "no table"
        way = "name one with ?table=NAME" if names else "name another database, or a schema: "
        way += "" if names else "?table=SCHEMA.NAME"
        raise InputError(f"{address.shown}: the database holds {held}; {way}")
    if wanted in names:
        return _table(backend, wanted), wanted
    schema, dot, name = wanted.partition(".")
    if dot and schema and name in _table_names(backend, address, schema):
        return _table(backend, name, schema), wanted
    raise InputError(
        f"{address.shown}: the database holds no table {wanted!r} that the user may read"
        f"{did_you_mean(wanted, names)} (tables: {shorten(map(plain, names)) or 'none'})"
    )


def _table(backend: Any, name: str, schema: str | None = None) -> Any:
    with warnings.catch_warnings():
        # Ibis 12 calls methods that DuckDB 2 deprecates.
        warnings.filterwarnings("ignore", "fetch_arrow_table", DeprecationWarning)
        return backend.table(name, database=schema)


def _table_names(backend: Any, address: Address, schema: str | None = None) -> list[str]:
    """Tables and views that the user may read: of a schema, or of the one that is in use."""
    if address.scheme != "duckdb":
        return sorted(backend.list_tables(database=schema))
    found = backend.con.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database() "
        "AND table_schema = coalesce($schema, current_schema()) ORDER BY table_name",
        params={"schema": schema},
    )
    return [name for (name,) in found.fetchall()]


def _is_view(backend: Any, scheme: str, name: str) -> bool:
    """Whether a table is a view; engines that cannot be asked are taken to hold views."""
    if scheme not in ("postgres", "duckdb"):
        return True
    schema, dot, table = name.partition(".")
    texts = [table if dot else name, schema if dot else ""]
    condition = " OR ".join(
        f"(table_name = {literal(one)} AND table_schema = {where})"
        for one, where in (
            (name, "current_schema()"),
            (texts[0], literal(texts[1])),
        )
    )
    sql = f"SELECT table_type FROM information_schema.tables WHERE {condition}"
    kinds = backend.con.execute(sql).fetchall()
    # Views of PostgreSQL that keep their rows are not listed, and keep them.
    return any("VIEW" in str(kind) for (kind,) in kinds)


@contextmanager
def _explained(address: Address, source: str) -> Iterator[None]:
    """Errors of Ibis, of drivers and of servers as one line without secrets."""
    try:
        yield
    except BayesevalError:
        raise
    except ImportError as problem:
        raise MissingDependencyError(
            f"{source}: {_reason(problem)}; install what Ibis needs for this engine: "
            f"pip install 'ibis-framework[{address.scheme}]'"
        ) from problem
    except Exception as problem:
        # Every driver has errors of its own. Their texts, and what raised them, may hold secrets.
        raise InputError(f"{source}: {address.without_secrets(_reason(problem))}") from None


def _reason(problem: Exception) -> str:
    """What an engine says, on one line and without the query."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = " ".join(lines[:2]) if lines and lines[0].endswith(":") else (lines or [""])[0]
    text = re.sub(r"^[A-Z][\w ]* Error: ", "", text) or type(problem).__name__
    return plain(" ".join(text.split()))[:300]
