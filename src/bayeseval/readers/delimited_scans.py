"""CSV and other text with separators as the engine scans it, where it reads it as Python does."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bayeseval.errors import InputError
from bayeseval.readers.compressed import packing_of
from bayeseval.readers.engine_errors import is_of_file
from bayeseval.readers.rewritten import lines_of_rows, rewrite_delimited
from bayeseval.readers.sql_texts import literal
from bayeseval.readers.tabular import delimited_rows, delimiter_of, header_of
from bayeseval.readers.text_facts import TextFacts, text_facts
from bayeseval.readers.text_files import Relation, TextFile

if TYPE_CHECKING:
    from bayeseval.readers.scans import Engine

__all__ = ["delimited_relation"]


def delimited_relation(text: TextFile, suffix: str) -> Relation:
    """SQL of a table of texts with the columns ``c0``, ``c1``, ...; and its header.

    A file that the engine may read otherwise than Python does is read by Python, which refuses
    it, or writes it as Parquet for the engine.

    Parameters
    ----------
    text : TextFile
    suffix : str

    Raises
    ------
    InputError
        As reading the file into memory.
    """
    engine, file, link, source = text.engine, text.file, text.link, str(text.file)
    separator = delimiter_of(header_of(text.head), suffix)
    rows = delimited_rows(io.StringIO(text.head, newline=""), source, separator)
    _, header = next(rows, (1, []))
    facts = text_facts(file, separator, kept=engine.folder.parent)
    quote = _quote(engine, source, link, facts, separator, len(header))
    if quote is None:
        target = engine.folder / f"{link.name}-plain.parquet"
        rewrite_delimited(
            file,
            target,
            separator=separator,
            n_columns=len(header),
            report=text.rewriting(facts.lines),
        )
        plain = f"read_parquet({literal(str(target))}, hive_partitioning = false)"
        return Relation(plain, header, "line", partial(lines_of_rows, file, separator))
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(header)))
    relation = (
        f"read_csv({literal(str(link))}, auto_detect = false, header = true, strict_mode = true, "
        f"delim = {literal(separator)}, quote = '{quote}', escape = '{quote}', "
        f"columns = {{{columns}}}"
        # In several threads a last line that is too long is left out; packed text is one stream.
        f"{', parallel = false' if packing_of(file) else ''})"
    )
    return Relation(relation, header, "line", _below_header)


def _below_header(rows: Sequence[int]) -> list[int]:
    """The lines of rows where each has one."""
    return [row + 1 for row in rows]


def _quote(
    engine: Engine, source: str, link: Path, facts: TextFacts, separator: str, n_columns: int
) -> str | None:
    """What the engine takes for a quote; None if it may read the text otherwise than Python."""
    even = facts.one_line_end and not facts.empty_lines and not facts.odd and n_columns > 1
    if not even:
        return None
    if not facts.quotes:
        # The engine refuses a row that is short, and leaves out an empty cell that is too many.
        return "" if facts.separators == (n_columns - 1) * facts.lines else None
    return '"' if _all_lines_are_rows(engine, source, link, separator, n_columns) else None


def _all_lines_are_rows(
    engine: Engine, source: str, link: Path, separator: str, n_columns: int
) -> bool:
    """Whether each line has as many cells as the header, and each quote surrounds a whole cell."""
    cell = f'(?:"(?:[^"]|"")*"|[^"{re.escape(separator)}]*)'
    row = f"{cell}(?:{re.escape(separator)}{cell}){{{n_columns - 1}}}"
    # The separator is a character that the text does not hold.
    lines = (
        f"read_csv({literal(str(link))}, auto_detect = false, header = false, delim = chr(1), "
        "quote = '', escape = '', columns = {'line': 'VARCHAR'})"
    )
    sql = (
        "SELECT coalesce(bool_and(regexp_full_match(line, "
        f"{literal(row)})), false) AS plain FROM {lines}"
    )
    try:
        return bool(engine.run(sql, source=source).to_pylist()[0]["plain"])
    except InputError as problem:
        if is_of_file(problem):
            return False
        raise
