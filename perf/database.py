"""Rows of test items in PostgreSQL, reduced by the server, beside the same rows as a Parquet file.

    python perf/database.py [--rows 1000000,10000000]

A temporary PostgreSQL server on this machine gets a table of models, 20 languages, 5 tasks and
1,000 items, with 0 or 1 as scores, and no index. Every way reads it in a fresh process:

- ``load("postgres://...")``: the server reduces the rows, cells come back;
- ``load("duckdb://...")``: the same through Ibis, with a DuckDB file;
- ``load("FILE.parquet", memory="2GB")``: DuckDB within the process.

The CPU seconds of the server are those of the processes that served the connection. Peak memory is
that of the process that reads. The cells of all ways are compared: counts and means are equal, and
sums of squares to 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from measure import ROOT, child, machine, print_table, reply, write_csv

LANGUAGES: Final = 20
TASKS: Final = 5
ITEMS: Final = 1000

# Right more often under some models, and harder items are so for all.
_SCORES: Final = """SELECT 'model-' || m AS model, 'l' || l AS language, 'task' || t AS task,
    'q' || i AS item, CASE WHEN ({hash}) % 1000 < 200 + 3 * m + 10 * l + (i * 7919) % 200
    THEN 1 ELSE 0 END AS score FROM {ranges}"""
_HASH: Final = "m * 7368787 + l * 104729 + t * 1299709 + i * 15485863 + (m * i + l) * 4997"


def write_postgres(server: Any, models: int) -> str:
    """The table in PostgreSQL; its address."""
    ranges = ", ".join(
        f"generate_series(0::bigint, {n - 1}) AS {name}({name})"
        for name, n in (("m", models), ("l", LANGUAGES), ("t", TASKS), ("i", ITEMS))
    )
    query = _SCORES.format(hash=_HASH, ranges=ranges)
    server.run("DROP TABLE IF EXISTS items", f"CREATE TABLE items AS {query}", "ANALYZE items")
    address: str = server.address("items")
    return address


def write_files(folder: Path, models: int) -> tuple[str, str]:
    """The table as a DuckDB file and as a Parquet file; their addresses."""
    import duckdb

    ranges = ", ".join(
        f"range({n}) AS {name}({name})"
        for name, n in (("m", models), ("l", LANGUAGES), ("t", TASKS), ("i", ITEMS))
    )
    database, parquet = folder / "rows.duckdb", folder / "items.parquet"
    database.unlink(missing_ok=True)
    with duckdb.connect(str(database), config={"threads": 2}) as connection:
        query = _SCORES.format(hash=_HASH, ranges=ranges)
        connection.execute(f"CREATE TABLE items AS {query}")
        connection.execute(f"COPY items TO '{parquet}' (FORMAT parquet)")
    return f"duckdb://{database}?table=items", str(parquet)


def read(source: str, cells: str) -> dict[str, Any]:
    """Read a table; what it has is written to a file, to be compared."""
    import numpy as np

    import bayeseval as be
    from bayeseval.records import reduce_replicates

    begun, cpu = time.perf_counter(), time.process_time()
    records = be.load(source, memory="2GB")
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    reduced = reduce_replicates(records)
    found = records._reduced
    if found is None:
        raise RuntimeError(f"the rows of {source} were not reduced")
    np.savez(cells, n=reduced.n_items, mean=reduced.mean, square=found.square)
    return {"cells": len(records), "seconds": seconds, "CPU s": used}


def differences(one: Path, other: Path) -> dict[str, float]:
    """Largest relative differences of two readings; their counts are equal."""
    import numpy as np

    a, b = np.load(one), np.load(other)
    if not np.array_equal(a["n"], b["n"]):
        raise RuntimeError("the counts of items differ")
    return {
        f"difference of {name}s": float(np.max(np.abs(a[name] - b[name]) / np.abs(b[name])))
        for name in ("mean", "square")
    }


def cpu_of(pid: int) -> float:
    """Seconds of CPU of the ended children of a process."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")


def measure(n_rows: int, server: Any, folder: Path) -> list[dict[str, Any]]:
    """All ways of one table."""
    models = n_rows // (LANGUAGES * TASKS * ITEMS)
    database, parquet = write_files(folder, models)
    ways = {"Parquet": parquet, "DuckDB through Ibis": database}
    ways["PostgreSQL"] = write_postgres(server, models)
    pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    rows, files = [], []
    for way, source in ways.items():
        files.append(folder / f"{way.replace(' ', '-')}.npz")
        with tempfile.TemporaryDirectory() as cache:
            os.environ["BAYESEVAL_CACHE"] = cache
            before = cpu_of(pid)
            found = child(__file__, source=source, cells=str(files[-1]))
            time.sleep(1.0)
            after = cpu_of(pid)
        served = after - before if way == "PostgreSQL" else None
        rows.append(
            {"way": way, "rows": n_rows, **found["row"], "server CPU s": served}
            | {"peak MiB": found["memory_mib"]}
            | differences(files[-1], files[0])
        )
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="1000000,10000000")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        given = json.loads(arguments.child)
        reply({"row": read(given["source"], given["cells"])})
        return
    sys.path.insert(0, str(ROOT))
    from tests.postgres import running_server

    said, rows = machine(), []
    settings = ["shared_buffers=256MB", "work_mem=64MB", "max_wal_size=4GB", "wal_level=minimal"]
    settings += ["max_wal_senders=0"]
    with tempfile.TemporaryDirectory() as name, running_server(settings=settings) as server:
        for n_rows in map(int, arguments.rows.split(",")):
            rows += measure(n_rows, server, Path(name))
    print_table(rows)
    write_csv("database", rows, said, digits=4)


if __name__ == "__main__":
    main()
