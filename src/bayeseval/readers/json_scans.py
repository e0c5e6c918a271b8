"""JSON lines as the engine scans them, where it reads them as Python does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayeseval.errors import InputError
from bayeseval.readers.engine_errors import is_of_file
from bayeseval.readers.rewritten import lines_of_objects, rewrite_json
from bayeseval.readers.sql_texts import literal
from bayeseval.readers.text_facts import text_facts
from bayeseval.readers.text_files import Relation, TextFile

if TYPE_CHECKING:
    from bayeseval.readers.scans import Engine

__all__ = ["json_relation"]

# What the engine takes for JSON and Python does not: `inf` and a comma at the end. And what is a
# value for Python only: a number of thousands of digits, or a zero character.
_OTHERWISE: Final = r"[:,\[]\s*-?(?i:inf(?:inity)?|nan)\s*[,}\]]|,\s*[}\]]|[0-9]{1000}|\\u0000"


def json_relation(text: TextFile, *, has_mark: bool, most: int) -> Relation:
    """SQL of the objects of a file, and at most so many of their keys, in the file's order.

    A file that the engine may read otherwise than Python does is read by Python, which refuses
    it, or writes it as plain lines for the engine.

    Parameters
    ----------
    text : TextFile
    has_mark : bool
        Whether it begins with a byte order mark.
    most : int

    Raises
    ------
    InputError
        As reading the file into memory.
    """
    engine, source, relation = text.engine, str(text.file), _objects(text.link)
    facts = text_facts(text.file, ",", kept=engine.folder.parent)
    plain = not has_mark and not facts.odd and facts.lines > 1
    if not (plain and _is_plain(engine, source, relation)):
        target = engine.folder / f"{text.link.name}-plain.jsonl"
        report = text.rewriting(facts.lines)
        rewrite_json(text.file, target, n_bytes=facts.n_bytes, report=report)
        relation = _objects(target)
        engine.execute(_shapes(relation), source=source)
    keys = engine.run(
        "SELECT key FROM (SELECT unnest(keys) AS key, generate_subscripts(keys, 1) AS place, first "
        f"FROM shapes) GROUP BY key ORDER BY min((first, place)) LIMIT {most}",
        source=source,
    ).to_pylist()
    names = [one["key"] for one in keys]
    if text.head.lstrip().startswith("["):
        return Relation(relation, names, "record", list)
    held = engine.run("SELECT CAST(sum(objects) AS BIGINT) AS n FROM shapes", source=source)
    if not facts.lone_returns and held["n"][0].as_py() == facts.lines:
        # Without blank lines the lines need not be read to tell which one a row is.
        return Relation(relation, names, "line", list)
    return Relation(relation, names, "line", partial(lines_of_objects, text.file))


def _objects(path: Path) -> str:
    return f"read_json_objects({literal(str(path))}, format = 'newline_delimited')"


def _shapes(relation: str) -> str:
    """SQL that keeps the different lists of keys, of which lines have few."""
    return (
        "CREATE OR REPLACE TEMP TABLE shapes AS SELECT json_type(json) AS kind, json_keys(json) "
        f"AS keys, regexp_matches(CAST(json AS VARCHAR), {literal(_OTHERWISE)}) AS otherwise, "
        "min(n) AS first, count(*) AS objects FROM "
        f"(SELECT row_number() OVER () AS n, json FROM {relation}) GROUP BY ALL"
    )


def _is_plain(engine: Engine, source: str, relation: str) -> bool:
    """Whether each line is an object that the engine and Python read alike."""
    try:
        engine.execute(_shapes(relation), source=source)
    except InputError as problem:
        if is_of_file(problem):
            return False
        raise
    found = engine.run(
        "SELECT bool_or(kind <> 'OBJECT' OR otherwise OR len(keys) <> len(list_distinct(keys))) "
        "AS doubtful FROM shapes",
        source=source,
    )
    return found.to_pylist()[0]["doubtful"] is False
