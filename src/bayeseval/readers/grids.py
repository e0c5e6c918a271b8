"""Grids of text cells in CSV, TSV, Markdown, LaTeX and Excel files."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from bayeseval._optional import require
from bayeseval._text import grouped, plain
from bayeseval.errors import InputError
from bayeseval.readers.archives import is_workbook, refuse_zip_bomb
from bayeseval.readers.base import Head, decode, file_bytes
from bayeseval.readers.compressed import stem_of, suffix_of
from bayeseval.readers.tabular import MAX_COLUMNS, header_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GRID_SUFFIXES", "Grid", "first_rows", "grid_of_frame", "grids_of"]

GRID_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".md", ".tex", ".xlsx")

_EXPECTED: Final = "expected a table"
_MAX_CELLS: Final = 5_000_000
# openpyxl takes some seconds for 10 MB, and ten times their memory.
_MAX_WORKBOOK: Final = 1 << 26
# Cells with different addresses and numbers are packed to a tenth or a thirtieth.
_MOST_TIMES: Final = 100
_RULE: Final = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")
_ENVIRONMENT: Final = re.compile(r"\\(begin|end)\{(tabular\*?|tabularx|longtable|array)\}")
# Cells of a small file: what is not filled may be as much, or a number of times what is.
_FEW_CELLS: Final = 500_000
_MAX_SPARSE: Final = 50
# A file of at most so many bytes whose beginning has fewer lines is looked at as a whole.
_FEW_LINES: Final = 4
_LONG_LINES: Final = 1 << 23
# A link in Markdown: its text is what is seen.
_LINK: Final = re.compile(r"(?<!!)\[([^\[\]]{1,300})\]\([^()\s]{1,2000}\)")
# Columns that one macro may span.
_MAX_SPAN: Final = 1000
# No number that is printed with its error is longer; some patterns look at a text twice.
_MAX_NUMBER: Final = 200
# Macros of which only the last argument is seen on paper.
_WRAPPERS: Final = re.compile(
    r"\\(?:textbf|textit|textsc|texttt|textrm|textsf|textcolor\{[^{}]*\}|underline|uline|emph|mathbf"
    r"|mathrm|mathit|bm|bfseries|makecell(?:\[[^\]]*\])?|rotatebox(?:\[[^\]]*\])?\{[^{}]*\}|mbox|text"
    r"|multirow(?:\[[^\]]*\])?\{[^{}]*\}(?:\[[^\]]*\])?\{[^{}]*\}|cellcolor(?:\[[^\]]*\])?\{[^{}]*\}"
    r"|small|footnotesize|scriptsize)\s*\{([^{}]*)\}"
)
_MULTICOLUMN: Final = re.compile(r"\\multicolumn\{(\d{1,4})\}\{[^{}]*\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_MARKS: Final = {
    r"\dagger": "†",
    r"\ddagger": "‡",
    r"\dag": "†",
    r"\ddag": "‡",
    r"\star": "*",
    r"\ast": "*",
    r"\pm": "±",
    r"\%": "%",
    r"\&": "&",
    r"\_": "_",
    r"\#": "#",
    r"\textendash": "–",
    r"\cellcolor": "",
}
# The longest first, and macros of letters only where they end.
_MACROS: Final = re.compile(
    "|".join(
        re.escape(macro) + ("(?![A-Za-z])" if macro[-1].isalpha() else "")
        for macro in sorted(_MARKS, key=len, reverse=True)
    )
)
_FONTS: Final = re.compile(r"\\(?:bf|it|rm|small|tiny|scriptsize|footnotesize|bfseries|itshape)\b")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands in a file.

    Parameters
    ----------
    name : str
        What the file calls it: a sheet's or file's name, or its caption.
    place : str
        What a row is called in messages, file included: ``"t.xlsx, sheet 'A', row"``.
    rows : list of list of str
        Texts of the cells, the header first; all rows have the same length.
    numbers : list of int
        Where each row stands, 1-based.
    """

    name: str
    place: str
    rows: list[list[str]]
    numbers: list[int]

    @property
    def header(self) -> str:
        """Where the header stands, in messages."""
        number = self.numbers[0]
        return f"{self.place} {number}" if number else f"{self.name}, columns"


def grid_of_frame(frame: pd.DataFrame, name: str) -> Grid:
    """A data frame as a grid; labels in its index stand in front of its columns.

    The rows have the numbers of messages on frames: the first one below the header is row 1.
    """
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(frame.index):
        index = frame.index.to_frame(index=False)
        frame = pd.concat([index, frame.reset_index(drop=True)], axis=1)
    cells, empty = frame.to_numpy(dtype=object), frame.isna().to_numpy()
    rows = [[str(column).strip() for column in frame.columns]]
    rows += [
        ["" if none else _cell_text(cell) for cell, none in zip(row, nones, strict=True)]
        for row, nones in zip(cells, empty, strict=True)
    ]
    return Grid(name, f"{name}, row", rows, list(range(len(rows))))


def grids_of(path: Path) -> list[Grid]:
    """All tables of a file.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or too large.
    """
    if is_workbook(path):
        return _workbook(path)
    text = decode(file_bytes(path, limit=1 << 28), str(path), expected=_EXPECTED)
    return _grids_of_text(text, path)


def first_rows(path: Path, head: Head) -> list[list[str]]:
    """The first rows of a text file, of which the last may be cut.

    Raises
    ------
    InputError
        If the file is damaged or too large.
    """
    text, whole = head.text, head.is_whole
    is_short = text.count("\n") < _FEW_LINES and head.size <= _LONG_LINES
    if not whole and is_short and suffix_of(path) in (".csv", ".tsv"):
        # The header of a table with a thousand columns may be longer than a beginning.
        text, whole = decode(file_bytes(path, limit=1 << 28), str(path), expected=_EXPECTED), True
    grids = _grids_of_text(text, path, whole=whole)
    return grids[0].rows if grids else []


def _grids_of_text(text: str, path: Path, *, whole: bool = True) -> list[Grid]:
    if r"\begin{tab" in text or r"\begin{longtable" in text:
        if not whole:
            text += r"\end{tabular}\end{tabularx}\end{tabular*}\end{longtable}"
        return list(_latex(text, path))
    if any(_RULE.fullmatch(line.strip()) and "|" in line for line in text.split("\n")[:400]):
        return list(_markdown(text, path))
    return _delimited(text, path, whole=whole)


def _delimited(text: str, path: Path, *, whole: bool) -> list[Grid]:
    header = header_of(text)
    delimiter = max("\t,;", key=header.count)
    if not header.count(delimiter):
        return []
    # The last line of a beginning may be cut.
    text = text if whole else text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows, numbers, start = [], [], 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                numbers.append(start)
            start = reader.line_num + 1
    except csv.Error as problem:
        raise InputError(f"{path}, line {start}: not valid CSV: {plain(str(problem))}") from problem
    return _grid(stem_of(path), f"{path}, line", rows, numbers)


def _grid(name: str, place: str, rows: list[list[str]], numbers: list[int]) -> list[Grid]:
    # Rows above the header of which only the first cell is filled are titles.
    start = next((i for i, row in enumerate(rows) if any(row[1:])), 0)
    rows, numbers = rows[start:], numbers[start:]
    if len(rows) < 2:
        return []
    width = max(map(len, rows))
    cells, filled = width * len(rows), sum(sum(map(bool, row)) for row in rows)
    if cells > _MAX_CELLS or cells > max(_FEW_CELLS, _MAX_SPARSE * filled):
        widest = numbers[[len(row) for row in rows].index(width)]
        raise InputError(
            f"{place} {widest}: {grouped(width)} cells; with as many in each of"
            f" {grouped(len(rows))} rows the table has {grouped(cells)}, {grouped(filled)} filled;"
            f" at most {grouped(_MAX_CELLS)} are read, and no table that is nearly empty"
        )
    return [Grid(name, place, [row + [""] * (width - len(row)) for row in rows], numbers)]


def _markdown(text: str, path: Path) -> Iterator[Grid]:
    lines = text.splitlines()
    tables: list[tuple[list[list[str]], list[int], str]] = []
    heading = ""
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, raw in enumerate([*lines, ""], start=1):
        line = raw.strip()
        if "|" in line:
            if not _RULE.fullmatch(line):
                inner = line.removeprefix("|").removesuffix("|")
                rows.append([_plain_cell(cell) for cell in re.split(r"(?<!\\)\|", inner)])
                numbers.append(number)
            continue
        if rows:
            tables.append((rows, numbers, heading))
            rows, numbers = [], []
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
    for rows, numbers, name in tables:
        yield from _grid(
            name if len(tables) > 1 and name else stem_of(path), f"{path}, line", rows, numbers
        )


def _plain_cell(cell: str) -> str:
    return _LINK.sub(r"\1", cell.replace(r"\|", "|").replace("<br>", " ")).strip()


def _latex(text: str, path: Path) -> Iterator[Grid]:
    uncommented = re.sub(r"(?<!\\)%[^\n]*", "", text)
    tables = list(_tabulars(uncommented))
    before, line_before = 0, 1
    for environment, start, end in tables:
        line_before += uncommented.count("\n", before, start)
        before, line = start, line_before
        body = _without_column_spec(uncommented[start:end], environment)
        line += uncommented.count("\n", start, end - len(body))
        rows: list[list[str]] = []
        numbers: list[int] = []
        for piece in re.split(r"\\\\(?:\[[^\]]*\])?|\\tabularnewline", body):
            lead = len(piece) - len(piece.lstrip())
            cells = _latex_row(piece)
            if len(cells) > MAX_COLUMNS:
                raise InputError(
                    f"{path}, line {line + piece[:lead].count(chr(10))}: a row has"
                    f" {grouped(len(cells))} columns;"
                    f" at most {grouped(MAX_COLUMNS)} are read"
                )
            if any(cells):
                rows.append(cells)
                numbers.append(line + piece[:lead].count("\n"))
            line += piece.count("\n")
        caption = re.search(r"\\label\{(?:tab(?:le)?:)?([^{}]+)\}", uncommented[end : end + 400])
        name = caption[1] if caption and len(tables) > 1 else stem_of(path)
        yield from _grid(name, f"{path}, line", rows, numbers)


def _tabulars(text: str) -> Iterator[tuple[str, int, int]]:
    """Environments that hold a table: their names, and where their bodies begin and end.

    One pass over all beginnings and ends, because a search from every beginning for its
    end takes time that grows with the square of the file.
    """
    marks = list(_ENVIRONMENT.finditer(text))
    ends: dict[str, list[int]] = {}
    for mark in reversed(marks):
        if mark[1] == "end":
            ends.setdefault(mark[2], []).append(mark.start())
    behind = 0
    for mark in marks:
        if mark[1] == "begin" and mark.start() >= behind:
            later = ends.get(mark[2], [])
            while later and later[-1] < mark.end():
                later.pop()
            if later:
                behind = later[-1]
                yield mark[2], mark.end(), behind


def _without_column_spec(body: str, environment: str) -> str:
    """The body behind the column specification ``{l|rr}``, which may have braces in it."""
    rest = re.sub(r"^\s*\[[^\]]*\]", "", body)
    for _ in range(2 if environment in ("tabularx", "tabular*") else 1):
        rest = rest.lstrip()
        depth = 0
        for place, character in enumerate(rest):
            depth += (character == "{") - (character == "}")
            if not depth:
                rest = rest[place + 1 :] if rest.startswith("{") else rest
                break
    return rest


def _latex_row(piece: str) -> list[str]:
    piece = re.sub(
        r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot"
        r"|(?:cmidrule|cline)(?:\([^)]*\))?(?:\[[^\]]*\])?\{[^{}]*\}|addlinespace(?:\[[^\]]*\])?"
        r"|rowcolor(?:\[[^\]]*\])?\{[^{}]*\})",
        " ",
        piece,
    )
    cells: list[str] = []
    for cell in re.split(r"(?<!\\)&", piece):
        span = _MULTICOLUMN.search(cell) if "\\" in cell else None
        if span is not None:
            cell = cell[: span.start()] + span[2] + cell[span.end() :]
        text = _latex_text(cell)
        # The cells that a wide one covers carry its text, as a header of groups needs it.
        cells += [text] * (min(int(span[1]), _MAX_SPAN) if span is not None else 1)
        if len(cells) > MAX_COLUMNS:
            break
    return cells


def _latex_text(cell: str) -> str:
    cell = cell.strip()
    if cell.isalnum():
        return cell
    if "\\" in cell:
        for _ in range(6):
            shorter = _WRAPPERS.sub(r"\1", cell)
            if shorter == cell:
                break
            cell = shorter
        cell = _MACROS.sub(lambda found: _MARKS[found[0]], cell)
        cell = _FONTS.sub("", cell)
    # An error set as a subscript of a number; in a name, as in Qwen_2.5, it is none.
    if len(cell) <= _MAX_NUMBER:
        cell = re.sub(
            r"^([^A-Za-z]*\d[^A-Za-z]*)_\{?\s*±?\s*([\d.]+)\s*\}?(?=\s*\$?$)", r"\1 ± \2", cell
        )
    cell = re.sub(r"\^\{([^{}]*)\}", r"\1", cell).replace("$", "").replace("~", " ")
    cell = cell.replace("^", "").replace("---", "—").replace("--", "–")
    return " ".join(cell.replace("{", "").replace("}", "").split())


def _workbook(path: Path) -> list[Grid]:
    refuse_zip_bomb(path, limit=_MAX_WORKBOOK, most_times=_MOST_TIMES)
    openpyxl = require("openpyxl", "excel")
    try:
        # openpyxl leaves a file open that it opened itself and cannot read.
        with path.open("rb") as file, warnings.catch_warnings():
            # Styles and extensions that openpyxl does not know are no matter of ours.
            warnings.simplefilter("ignore")
            return _sheets(openpyxl, file, path)
    except InputError:
        raise
    # openpyxl lets whatever its XML parser and its own checks raise through.
    except Exception as problem:
        raise InputError(
            f"{path}: damaged Excel workbook: {plain(str(problem).partition(chr(10))[0])[:200]}"
        ) from problem


def _sheets(openpyxl: Any, file: BinaryIO, path: Path) -> list[Grid]:
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        return [grid for sheet in sheets for grid in _sheet(sheet, path, many=len(sheets) > 1)]
    finally:
        book.close()


def _sheet(sheet: Any, path: Path, *, many: bool) -> list[Grid]:
    sheet.reset_dimensions()
    rows: list[list[str]] = []
    numbers: list[int] = []
    cells = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells += len(row) + 1
        if cells > _MAX_CELLS:
            raise InputError(
                f"{path}: sheet {sheet.title!r} has more than {grouped(_MAX_CELLS)} cells"
            )
        texts = [_cell_text(value) for value in row]
        while texts and not texts[-1]:
            texts.pop()
        if texts:
            rows.append(texts)
            numbers.append(number)
    name = sheet.title if many else stem_of(path)
    return _grid(name, f"{path}, sheet {sheet.title!r}, row", rows, numbers)


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, float):
        # Without an exponent, which no printed table has; all digits are kept.
        return np.format_float_positional(value, trim="-")
    return str(value).strip()
