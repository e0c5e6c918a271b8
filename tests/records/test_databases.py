"""Tables in PostgreSQL and DuckDB files, read through Ibis, have the cells of the same file."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.cli import main
from bayeseval.errors import InputError, MissingDependencyError
from bayeseval.readers.databases import Address, shown
from bayeseval.records import reduce_replicates
from tests.postgres import Server, programs, running_server, writer
from tests.records.test_out_of_core import assert_same, table

if programs() is None:
    pytest.skip(
        "needs PostgreSQL: it is not installed (apt-get install postgresql)",
        allow_module_level=True,
    )

LENIENT: dict[str, Any] = {"diverged_runs": "allow", "mixed_scales": "allow"}
SMALL = pd.DataFrame(
    {
        "model": ["a", "a", "b", "b"],
        "language": ["de", "en"] * 2,
        "task": "t",
        "score": [0.1, 0.2, 0.3, 0.45],
    }
)
HOSTILE = 'we"ird; DROP TABLE small; --'

Write = Callable[[pd.DataFrame, str], str]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as server:
        server.write(SMALL, "small")
        server.write(table(7, unit="item", seeds=1, share=0.9), "items")
        yield server


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["PostgreSQL", "DuckDB"])
def write(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Write:
    """Writes a frame into a table of a new name; its address."""
    return writer(server if request.param == "PostgreSQL" else tmp_path)


def whole(frame: pd.DataFrame, tmp_path: Path, **options: Any) -> be.Records:
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    return be.load(tmp_path / "rows.parquet", **options)


@pytest.mark.parametrize(
    ("unit", "seeds", "share", "right"),
    [
        ("item", 1, 0.9, True),
        ("item", 3, 0.9, False),
        ("item", 3, 2.0, True),
        ("boot", 1, 1.0, False),
        ("boot", 3, 2.0, False),
    ],
)
def test_the_engine_reduces_rows_to_the_cells_of_a_file(
    write: Write, tmp_path: Path, unit: str, seeds: int, share: float, right: bool
) -> None:
    frame = table(7, unit=unit, seeds=seeds, share=share, right=right)
    reduced = be.load(write(frame, "rows"), **LENIENT)
    assert_same(reduced, whole(frame, tmp_path, **LENIENT))
    # Nothing but the cells came back.
    assert reduced._reduced is not None and reduced._reduced.n_rows == len(frame)
    assert len(reduced) == len(frame.groupby(["model", "language", "task"])) * seeds


def test_more_items_than_bits_of_a_piece_are_told_apart(write: Write, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    cells = [(m, lang) for m in "ab" for lang in ("de", "en", "sw")]
    frame = pd.DataFrame(
        [
            {"model": m, "language": lang, "task": "t", "item": int(i), "score": rng.normal(50, 9)}
            for m, lang in cells
            for i in rng.permutation(200)[:150]
        ]
    )
    assert_same(be.load(write(frame, "rows")), whole(frame, tmp_path))


def test_labels_merge_and_marks_of_missing_scores_are_left_out_as_of_files(
    write: Write, tmp_path: Path
) -> None:
    frame = table(5, unit="item", seeds=1, share=2.0, right=False)
    few = (frame["language"] == "en") & (frame["model"] == "m0")
    frame.loc[few, "language"] = "English"
    frame.loc[frame["item"] == "u3", "item"] = " u3"
    swahili = (frame["language"] == "sw") & (frame["model"] == "m1")
    frame.loc[swahili, "item"] = frame.loc[swahili, "item"].str.strip()
    frame.loc[[4, 11], "score"] = -1.0
    frame.loc[7, "score"] = np.nan
    options = {"missing": [-1], "drop": {"model": ["m2"]}}
    reduced = be.load(write(frame, "rows"), **options)
    assert_same(reduced, whole(frame, tmp_path, **options))
    assert reduced.coords["language"] == ("de", "en", "sw")


def test_a_small_table_is_read_as_a_file_is(write: Write, tmp_path: Path) -> None:
    frame = SMALL.assign(n=100, Seed_SD=[0.01, 0.02, 0.03, None], n_seeds=3)
    read, file = be.load(write(frame, "scores")), whole(frame, tmp_path)
    pd.testing.assert_frame_equal(read.table, file.table)
    assert read.content_hash == file.content_hash
    assert read.name == "scores"


def test_both_engines_give_one_identity_which_depends_on_every_score(
    server: Server, tmp_path: Path
) -> None:
    frame = table(9, unit="item", seeds=1, share=0.9, right=False)
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE one AS SELECT * FROM frame")
    here = be.load(f"duckdb://{path}")
    there = be.load(server.write(frame.sample(frac=1, random_state=2), "one"))
    assert here.content_hash == there.content_hash
    # Two items of one cell swap their scores, so that mean and sum of squares stay.
    cell = frame[(frame["model"] == "m0") & (frame["language"] == "de") & (frame["task"] == "t0")]
    first, second = cell.index[:2]
    frame.loc[[first, second], "score"] = frame.loc[[second, first], "score"].to_numpy()
    assert be.load(server.write(frame, "swapped")).content_hash != here.content_hash


def test_names_of_tables_and_columns_are_quoted(server: Server) -> None:
    frame = table(7, unit="item", seeds=1, share=0.9)
    frame = frame.rename(columns={"item": 'it"em; --', "model": "mo'del %s {x}"})
    server.write(frame, HOSTILE)
    chosen = {"model": "mo'del %s {x}", "item": 'it"em; --'}
    read = be.load(server.address(HOSTILE), columns=chosen)
    assert read.content_hash != be.load(server.address("small")).content_hash
    assert_same(read, be.load(server.address("items")))


def test_a_table_of_another_schema_has_its_schema_in_its_name(server: Server) -> None:
    server.run("CREATE SCHEMA other", "CREATE TABLE other.scores AS SELECT * FROM small")
    assert len(be.load(server.address("other.scores"))) == 4
    assert len(be.load(server.address("scores", database="postgres/other"))) == 4


def _refused(message: str, address: str, **options: Any) -> None:
    with pytest.raises(InputError) as refused:
        be.load(address, **options)
    said = str(refused.value)
    assert message in said
    assert "\n" not in said
    assert refused.value.__cause__ is None or isinstance(refused.value.__cause__, InputError)


def test_an_address_without_a_table_lists_the_tables(server: Server) -> None:
    _refused("tables (", server.address())
    _refused("name one with ?table=NAME", server.address())
    _refused("holds no table 'smal' that the user may read; did you mean", server.address("smal"))


def test_what_a_server_refuses_is_one_line_without_the_password(server: Server) -> None:
    for message, changed in {
        "password authentication failed": {"password": "a wrong one"},
        "Connection refused": {"port": 1},
        "failed to resolve host 'nohost.invalid'": {"host": "nohost.invalid"},
        'database "nothing" does not exist': {"database": "nothing"},
    }.items():
        _refused(message, server.address("small", **changed))
    server.run("CREATE ROLE reader LOGIN PASSWORD 'reading'")
    reader = server.address("small", user="reader", password="reading")
    _refused("holds no table 'small' that the user may read", reader)
    server.run("GRANT SELECT (model) ON small TO reader")
    _refused("permission denied for table small", reader)
    server.run("GRANT SELECT ON small TO reader")
    assert len(be.load(reader)) == 4


def test_nothing_can_be_written(server: Server) -> None:
    from bayeseval.readers.databases import open_database

    address = Address.of(server.address("small"))
    with (
        open_database(address, memory=10**9, scratch=Path("/tmp")) as database,
        pytest.raises(Exception, match="read-only transaction"),
    ):
        database.backend.con.execute("DELETE FROM small")


def test_all_queries_see_the_table_as_it_was_at_the_first(server: Server, tmp_path: Path) -> None:
    """Another connection changes scores, removes rows and adds some after every query."""
    frame = table(7, unit="item", seeds=3, share=0.9, right=False)
    address = server.write(frame, "moving")
    stages = []

    def change(stage: str, done: int, total: int, remark: str) -> None:
        stages.append(remark)
        server.run(
            "UPDATE moving SET score = score + 1",
            "DELETE FROM moving WHERE item = 'u3'",
            f"INSERT INTO moving SELECT model, language, task, item || '{len(stages)}', seed, "
            "score FROM moving WHERE item = 'u5'",
        )

    read = be.load(address, progress=change, **LENIENT)
    assert len(dict.fromkeys(stages)) > 3
    assert_same(read, whole(frame, tmp_path, **LENIENT))
    assert not np.allclose(be.load(address, **LENIENT).scores, read.scores)


def test_an_error_while_rows_are_sent_is_that_of_the_server(server: Server) -> None:
    server.run(
        "CREATE VIEW broken AS SELECT model, language, task, item, "
        "1 / (CASE WHEN item = 'u3' THEN 0.0 ELSE 1.0 END) AS score FROM items"
    )
    _refused("division by zero", server.address("broken"))


def test_a_lost_connection_is_one_line(server: Server) -> None:
    server.run(
        "CREATE VIEW slow AS SELECT model, language, task, score, "
        "CASE WHEN pg_sleep(0.5) IS NULL THEN 'x' ELSE 'y' END AS item FROM items"
    )

    def end() -> None:
        for _ in range(3000):
            time.sleep(0.1)
            with server.connect() as connection:
                ended = connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'bayeseval' AND query LIKE 'FETCH%' "
                    "AND state = 'active'"
                ).fetchall()
            if ended:
                return

    ending = threading.Thread(target=end)
    ending.start()
    try:
        _refused("terminating connection due to administrator command", server.address("slow"))
    finally:
        ending.join()


def test_scores_and_labels_that_are_none_are_refused_with_the_labels_of_their_row(
    server: Server,
) -> None:
    frame = table(7, unit="item", seeds=1, share=0.9)
    place = "row with model 'm1', language 'en', task 't0', item 'u8', column 'score'"
    assert tuple(frame.loc[5, ["model", "language", "task", "item"]]) == ("m1", "en", "t0", "u8")
    text = frame.assign(score=frame["score"].astype(str))
    text.loc[5, "score"] = "abc"
    _refused(f"{place}: score 'abc' is not a number", server.write(text, "text"))
    infinite = frame.copy()
    infinite.loc[5, "score"] = np.inf
    _refused(f"{place}: score inf is not finite", server.write(infinite, "infinite"))
    unnamed = frame.copy()
    unnamed.loc[5, "language"] = None
    _refused(
        "rows with model 'm1', task 't0', column 'language': language is missing",
        server.write(unnamed, "unnamed"),
    )
    twice = pd.concat([frame, frame.iloc[[3]]])
    _refused("item 'u5' has 2 scores; keep one of them", server.write(twice, "twice"))
    high = frame.copy()
    high.loc[5, "score"] = 7.5
    _refused(
        "score 7.5 is above the declared bound 1 of task 't0'",
        server.write(high, "high"),
        units=(0, 1),
    )
    _refused(
        "row with model 'b', language 'en', task 't', column 'score': score 8 is above",
        server.write(SMALL.assign(score=[0.1, 0.2, 0.3, 8]), "higher"),
        units=(0, 1),
    )


def test_cells_of_rows_that_are_left_out_are_not_read(write: Write, tmp_path: Path) -> None:
    frame = table(7, unit="item", seeds=1, share=0.9)
    frame = frame.assign(score=frame["score"].astype(str), se="0.1")
    averages = frame.iloc[:2].assign(language=["average", " Avg."], score="n/a", se="x")
    averaged = pd.concat([frame, averages])
    assert_same(be.load(write(averaged, "averages")), whole(averaged, tmp_path))
    frame.loc[5, "score"] = "abc"
    address = write(pd.concat([averages, frame]), "averages")
    _refused("column 'score': score 'abc' is not a number; correct it, or leave the cell", address)
    with pytest.raises(InputError) as refused:
        be.load(address)
    assert "such cell" not in str(refused.value)


def test_more_than_fits_into_memory_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayeseval.records import database_rows, databases

    monkeypatch.setattr(database_rows, "_BYTES", 10**9 // 17)
    _refused("more than 17 different cells and seeds", server.address("items"), memory="1GB")
    monkeypatch.setattr(databases, "_WHOLE", 10**8)
    _refused("the table has more than 4 rows", server.address("small"), memory="1GB")


@pytest.mark.parametrize(
    "address",
    [
        "postgres://me:pass/word@host/db?table=x",
        "postgres://me:12/word@host/db?table=x",
        "postgres://me:pass#word@host/db?table=x",
        "postgres://me:pass?word@host/db",
        "postgres://me:pass@word@host:word/db",
    ],
)
def test_a_password_that_is_not_encoded_is_not_shown(address: str) -> None:
    with pytest.raises(InputError, match="percent-encoded") as refused:
        be.load(address)
    assert "word@" not in str(refused.value).replace("password@host", "")
    assert "pass/" not in str(refused.value) and "12/" not in str(refused.value)


def test_an_address_is_shown_without_password_and_options() -> None:
    secret = "postgresql://me:ge%23heim@db:5433/evals?sslpassword=other&table=a%20b&sslmode=require"
    assert shown(secret) == "postgres://me@db:5433/evals?table=a%20b"
    address = Address.of(secret)
    assert address.without_secrets("ge#heim ge%23heim other require") == "*** *** *** require"
    assert "heim" not in repr(address)


def test_an_unknown_engine_lists_those_of_ibis() -> None:
    _refused("no engine is called 'postgrs' (engines: athena,", "postgrs://me:word@host/db")
    with pytest.raises(MissingDependencyError, match=r"pip install 'ibis-framework\[mysql\]'"):
        be.load("mysql://me:word@host/db")
    _refused("no such file", "duckdb://nothing.duckdb?table=x")
    for address in ("duckdb://", "duckdb:///", "duckdb://?table=x"):
        _refused("the address names no file: expected duckdb://FILE", address)
    _refused("cannot be read: expected duckdb://FILE?table=NAME", "duckdb://rows.duckdb#x")


def test_without_ibis_the_message_names_the_extra(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bayeseval\[ibis\]'"):
        be.load(server.address("small"))


def test_the_command_prints_and_stores_no_password(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ["--model", "additive", "--engine", "marginal", "--draws", "50", "--chains", "2"]
    options += ["--out", str(out), "--no-figures", "--no-checks"]
    assert main(["fit", "--benchmark", server.address("items"), *options]) in (0, 3)
    # The part without characters that are percent-encoded.
    password = server.password[:16]
    said = capsys.readouterr()
    assert password not in said.out + said.err
    for file in filter(Path.is_file, out.rglob("*")):
        assert password.encode() not in file.read_bytes(), file
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert run["source"] == f"postgres://tester@127.0.0.1:{server.port}/postgres?table=items"
    assert main(["validate", server.address("items", password="a wrong one")]) == 2
    said = capsys.readouterr()
    assert len(said.err.strip().splitlines()) == 1
    assert "Traceback" not in said.err and "wrong" not in said.err


def wait_until(true: Callable[[], bool]) -> None:
    """Until something is true, for five minutes at most."""
    limit = time.monotonic() + 300.0
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.1)


def test_an_interrupt_ends_the_command_and_its_query(server: Server) -> None:
    import signal

    server.run(
        "CREATE VIEW endless AS SELECT model, language, task, score, "
        "CASE WHEN pg_sleep(60) IS NULL THEN 'x' ELSE 'y' END AS item FROM items"
    )
    words = [sys.executable, "-m", "bayeseval", "validate", server.address("endless")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    active = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bayeseval' "
        "AND query LIKE 'FETCH%' AND state = 'active'"
    )

    def asked() -> bool:
        with server.connect() as connection:
            return bool(connection.execute(active).fetchone()[0])

    try:
        wait_until(asked)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in said
    # Otherwise it would go on for hours; the server takes a moment to notice.
    wait_until(lambda: not asked())


def test_reading_is_not_exact_where_the_sums_are_wrong(server: Server, tmp_path: Path) -> None:
    """The comparison of the cells detects one changed score."""
    frame = table(7, unit="item", seeds=1, share=0.9)
    changed = frame.copy()
    changed.loc[5, "score"] = 1 - changed.loc[5, "score"]
    with pytest.raises(AssertionError):
        assert_same(be.load(server.write(changed, "changed")), whole(frame, tmp_path))
    assert reduce_replicates(be.load(server.address("items"))).n_items.sum() == len(frame)


@pytest.mark.parametrize(
    ("option", "meant"),
    [("schma=s", "schema"), ("sslmod=require", "sslmode"), ("tabel=x", "table")],
)
def test_options_that_postgres_does_not_have_are_refused(
    server: Server, option: str, meant: str
) -> None:
    address = f"{server.address('small')}&{option}"
    name = option.partition("=")[0]
    with pytest.raises(InputError, match=f"has no option '{name}'; did you mean '{meant}'"):
        be.load(address)


def test_options_that_files_do_not_have_are_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.register("small", SMALL)
        connection.execute("CREATE TABLE scores AS SELECT * FROM small")
    address = f"duckdb://{tmp_path / 'rows.duckdb'}"
    assert len(be.load(f"{address}?table=scores")) == len(SMALL)
    for option in ("tabel=scores", "read_only=false"):
        name = option.partition("=")[0]
        with pytest.raises(InputError, match=f"duckdb has no option '{name}'.*options: table"):
            be.load(f"{address}?{option}")
    with pytest.raises(InputError, match="sqlite has no option 'tabel'; did you mean 'table'"):
        be.load(f"sqlite://{tmp_path / 'rows.db'}?tabel=scores")


@pytest.mark.parametrize("changing", ["score", "row", None])
def test_a_view_that_changes_is_refused_and_another_is_read(
    write: Write, server: Server, tmp_path: Path, changing: str | None
) -> None:
    frame = table(7, unit="item", seeds=1, share=0.9)
    address = write(frame, "rows")
    score = "random() AS score" if changing == "score" else "score"
    sql = f"CREATE VIEW changing AS SELECT model, language, task, item, {score} FROM rows"
    if changing == "row":
        sql += " WHERE random() < 0.9"
    if address.startswith("duckdb"):
        with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
            connection.execute(sql)
    else:
        server.run("DROP VIEW IF EXISTS changing")
        server.run(sql)
    viewed = address.replace("table=rows", "table=changing")
    try:
        if changing is None:
            assert_same(be.load(viewed), whole(frame, tmp_path))
        else:
            with pytest.raises(InputError, match="the view has other rows whenever it is read"):
                be.load(viewed)
    finally:
        if not address.startswith("duckdb"):
            server.run("DROP VIEW changing")
