"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, on loopback."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pandas as pd

# Where Debian puts the programs of each version, which are not on PATH.
_DEBIAN = Path("/usr/lib/postgresql")
_TRIALS = 5
_TYPES = {"i": "bigint", "f": "double precision", "b": "boolean", "O": "text", "T": "text"}


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = [Path(path).resolve() for path in [shutil.which("initdb")] if path]
    found += sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: -int(path.parts[-3]))
    return found[0].parent if found else None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@dataclass(frozen=True)
class Server:
    """A running server, its superuser and password."""

    folder: Path
    port: int
    user: str
    password: str

    def address(
        self, table: str | None = None, *, database: str = "postgres", **changed: Any
    ) -> str:
        """The address of a table, with another user, password, host or port if they are given."""
        user, password = changed.get("user", self.user), changed.get("password", self.password)
        host, port = changed.get("host", "127.0.0.1"), changed.get("port", self.port)
        named = "" if table is None else f"?table={quote(table, safe='.')}"
        return (
            f"postgres://{quote(user)}:{quote(password, safe='')}@{host}:{port}/{database}{named}"
        )

    def connect(self, database: str = "postgres") -> Any:
        """A connection of the superuser."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=database,
            autocommit=True,
        )

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as superuser."""
        with self.connect(database) as connection:
            for one in statements:
                connection.execute(one)

    def write(self, frame: pd.DataFrame, table: str, *, database: str = "postgres") -> str:
        """Write a frame into a new table; its address."""
        from psycopg import sql

        name = sql.Identifier(table)
        columns = sql.SQL(", ").join(
            sql.SQL("{} " + _TYPES.get(frame[one].dtype.kind, "text")).format(
                sql.Identifier(str(one))
            )
            for one in frame
        )
        rows = frame.astype(object).where(frame.notna(), None)
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(name, columns))
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(name)) as copy:
                for row in rows.itertuples(index=False):
                    copy.write_row(row)
        return self.address(table, database=database)


@contextmanager
def running_server(*, settings: Sequence[str] = ()) -> Iterator[Server]:
    """A server in a temporary folder, as a user that is not root; stopped in the end."""
    binaries = programs()
    assert binaries is not None
    folder = Path(tempfile.mkdtemp(prefix="bayeseval-postgres-", dir="/tmp"))
    options: dict[str, Any] = {}
    if os.getuid() == 0:
        # PostgreSQL refuses to run as root.
        names = {one.pw_name: one for one in pwd.getpwall()}
        user = names.get("postgres") or names["nobody"]
        os.chown(folder, user.pw_uid, user.pw_gid)
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    password = secrets.token_hex(8) + "/?#@% "
    word = folder / "password"
    word.write_text(password + "\n", encoding="utf-8")
    word.chmod(0o644)
    data = folder / "data"
    # Linux ends the server when the tests are killed. Not from Python between fork and exec: where
    # JAX is loaded, it warns of forks.
    setpriv = shutil.which("setpriv")
    with_parent = [setpriv, "--pdeathsig", "QUIT"] if setpriv is not None else []
    lines = ["fsync=off", "listen_addresses=127.0.0.1", "max_connections=20"]
    lines += [f"unix_socket_directories={folder}", "autovacuum=off", *settings]
    settings_of = [f"-c{one}" for one in lines]
    how = ["--auth=scram-sha-256", f"--pwfile={word}", "--no-sync", "--encoding=UTF8"]
    how += ["-D", str(data), "-U", "tester", "--locale=C.UTF-8"]
    try:
        made = subprocess.run(
            [str(binaries / "initdb"), *how],
            cwd=folder,
            capture_output=True,
            timeout=600,
            check=False,
            **options,
        )
        assert made.returncode == 0, made.stderr.decode()
        word.unlink()
        # Whoever else asks for a port may get the same one before the server listens.
        for _ in range(_TRIALS):
            running = Server(folder, _free_port(), "tester", password)
            words = [str(binaries / "postgres"), "-D", str(data), *settings_of]
            with (folder / "log").open("wb") as log:
                server = subprocess.Popen(
                    [*with_parent, *words, f"-cport={running.port}"],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    **options,
                )
            try:
                if _listens(running, server):
                    yield running
                    return
            finally:
                # Immediate shutdown: nothing of it is needed again.
                server.send_signal(signal.SIGQUIT)
                server.wait(300)
        raise AssertionError("the ports that were free were taken at once")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listens(running: Server, server: subprocess.Popen[bytes]) -> bool:
    """True as soon as the server takes connections; False if another has its port."""
    import psycopg

    limit = time.monotonic() + 300.0
    while time.monotonic() < limit:
        ended = server.poll() is not None
        said = (running.folder / "log").read_text(encoding="utf-8")
        if ended and "Address already in use" in said:
            return False
        assert not ended, said
        try:
            running.connect().close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return True
    raise AssertionError(f"the server does not start: {said}")


def writer(there: Server | Path) -> Callable[[pd.DataFrame, str], str]:
    """Writes a frame into a table of a server, or of a DuckDB file in a folder; its address."""

    def to_server(frame: pd.DataFrame, name: str) -> str:
        assert isinstance(there, Server)
        there.run(f'DROP TABLE IF EXISTS "{name}"')
        return there.write(frame, name)

    def to_file(frame: pd.DataFrame, name: str) -> str:
        assert isinstance(there, Path)
        with duckdb.connect(str(there / "rows.duckdb")) as connection:
            connection.register("frame", frame)
            connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM frame')
        return f"duckdb://{there / 'rows.duckdb'}?table={name}"

    return to_server if isinstance(there, Server) else to_file
