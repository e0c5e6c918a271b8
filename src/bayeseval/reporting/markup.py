"""One table as LaTeX, Typst and Markdown: cells are text, and every name is escaped."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bayeseval._text import for_terminal
from bayeseval.output.text import shorten_names

__all__ = ["PaperTable", "escape_latex", "escape_markdown", "to_latex", "to_markdown", "to_typst"]

# Longer names leave no room for the numbers.
_MOST_NAME: Final = 60
# Rows that fit on a page; longer tables break across pages.
_PAGE: Final = 40
_LATEX: Final[Mapping[str, str]] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
}
_LATEX_SPECIAL: Final = re.compile("[" + re.escape("".join(_LATEX)) + "]")
# The hyphen of 1-3 is a dash, that of -3 and 1e-07 a minus sign.
_RANGE: Final = re.compile(r"(?<=[0-9])-(?=[0-9])")
_MARKDOWN_SPECIAL: Final = re.compile(r"[\\`*_{}\[\]<>#|~$&@]")


@dataclass(frozen=True)
class PaperTable:
    """A table that stands alone: texts, not numbers.

    Attributes
    ----------
    name : str
        What the label ends in, as in ``tab:mega-model-ranking``.
    label : str
        Of letters, digits and hyphens.
    caption : str
        One line.
    columns : mapping of str to sequence of str
        Heading to cells.
    n_names : int
        The first columns, aligned to the left; numbers are aligned to the right.
    """

    name: str
    label: str
    caption: str
    columns: Mapping[str, Sequence[str]]
    n_names: int = 1

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells by row, on one line each; names of more than 60 characters cut in the middle."""
        columns = [[_one_line(cell) for cell in cells] for cells in self.columns.values()]
        names = [shorten_names(cells, _MOST_NAME) for cells in columns[: self.n_names]]
        return list(zip(*names, *columns[self.n_names :], strict=True))

    @property
    def cut_names(self) -> dict[str, str]:
        """Names as the rows have them to the whole names, where these are longer."""
        whole = [cell for cells in list(self.columns.values())[: self.n_names] for cell in cells]
        short = [row[i] for i in range(self.n_names) for row in self.rows]
        return {
            cut: _one_line(name)
            for cut, name in zip(short, whole, strict=True)
            if len(_one_line(name)) > _MOST_NAME
        }

    @property
    def headings(self) -> list[str]:
        """Headings of the columns."""
        return [_one_line(name) for name in self.columns]


def _one_line(text: str) -> str:
    """A text without line breaks and control characters; what is not seen is escaped.

    A right-to-left override in a name would turn round the rest of its row.
    """
    plain = "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
    return for_terminal(" ".join(plain.split()))


def escape_latex(text: str) -> str:
    r"""Write a text so that LaTeX prints it as it is.

    Examples
    --------
    >>> escape_latex("gpt_4 & 50 %")
    'gpt\\_4 \\& 50 \\%'
    """
    escaped = _LATEX_SPECIAL.sub(lambda match: _LATEX[match.group()], text)
    # Two hyphens would become a dash, two apostrophes a quotation mark.
    escaped = re.sub("-(?=-)", "-{}", escaped)
    return re.sub("'(?=')", "'{}", escaped)


def escape_markdown(text: str) -> str:
    r"""Write a text so that GitHub shows it as it is.

    Examples
    --------
    >>> escape_markdown("a|b_c")
    'a\\|b\\_c'
    """
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match.group(), text)


def _cells(
    table: PaperTable, escape: Callable[[str], str], number: Callable[[str], str]
) -> list[list[str]]:
    """Escaped names and numbers of every row."""
    return [
        [escape(cell) if place < table.n_names else number(cell) for place, cell in enumerate(row)]
        for row in table.rows
    ]


def to_latex(table: PaperTable) -> str:
    """Write a LaTeX table with the rules of booktabs; a long one breaks across pages.

    Parameters
    ----------
    table : PaperTable

    Returns
    -------
    str
        With a comment that names the packages.
    """
    n = len(table.columns)
    key = _key(table, lambda text: f"% {text}")
    alignment = "l" * table.n_names + "r" * (n - table.n_names)
    head = " & ".join(escape_latex(name) for name in table.headings) + r" \\"
    body = [" & ".join(cells) + r" \\" for cells in _cells(table, _latex_name, _latex_number)]
    caption = [
        rf"\caption{{{escape_latex(_one_line(table.caption))}}}",
        rf"\label{{{table.label}}}",
    ]
    long = len(body) > _PAGE
    packages = ["booktabs", *(["longtable"] if long else [])]
    needs = [
        "% Needs "
        + " and ".join(rf"\usepackage{{{package}}}" for package in packages)
        + "; names in other scripts need XeLaTeX or LuaLaTeX and a font that has them."
    ]
    if not long:
        return "\n".join(
            [
                *needs,
                r"\begin{table}",
                r"\centering",
                *caption,
                rf"\begin{{tabular}}{{{alignment}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                *key,
            ]
        )
    return "\n".join(
        [
            *needs,
            rf"\begin{{longtable}}{{{alignment}}}",
            caption[0] + caption[1] + r" \\",
            r"\toprule",
            head,
            r"\midrule",
            r"\endfirsthead",
            r"\toprule",
            head,
            r"\midrule",
            r"\endhead",
            r"\bottomrule",
            r"\endfoot",
            *body,
            r"\end{longtable}",
            *key,
        ]
    )


def _key(table: PaperTable, line: Callable[[str], str]) -> list[str]:
    """Lines with the whole names of those that are cut; for comments of the source."""
    known = table.cut_names
    if not known:
        return []
    return [
        line("Whole names, which the leaderboard in CSV has too:"),
        *(line(f"{cut} = {name}") for cut, name in known.items()),
    ]


def _latex_name(text: str) -> str:
    escaped = escape_latex(text)
    # LaTeX takes what follows the end of a row in brackets, or a star, for its option.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped


def _latex_number(text: str) -> str:
    if text == "-":
        return "--"
    escaped = _RANGE.sub("--", escape_latex(text))
    return re.sub(r"(?<!-)-(?=[0-9])", "$-$", escaped)


def to_typst(table: PaperTable) -> str:
    """Write a Typst figure with a table in it; a long one breaks across pages.

    Cells are string literals, in which nothing but the quotation mark and the backslash
    has a meaning.
    """
    n = len(table.columns)
    alignment = ["left"] * table.n_names + ["right"] * (n - table.n_names)
    rows = [
        "      " + ", ".join(cells) + ","
        for cells in _cells(table, _typst_text, lambda text: _typst_text(_typographic(text)))
    ]
    return "\n".join(
        [
            "#[",
            "  #show figure: set block(breakable: true)",
            "  #figure(",
            f"    caption: {_typst_text(_one_line(table.caption))},",
            "    kind: table,",
            "    table(",
            f"      columns: {n},",
            f"      align: ({', '.join(alignment)},),",
            "      stroke: none,",
            "      table.hline(),",
            "      table.header(" + ", ".join(_typst_text(name) for name in table.headings) + "),",
            "      table.hline(stroke: 0.5pt),",
            *rows,
            "      table.hline(),",
            "    ),",
            f"  ) <{table.label}>",
            "]",
            *_key(table, lambda text: f"// {text}"),
        ]
    )


def _typst_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _typographic(text: str) -> str:
    """A number with a minus sign, ranges and missing numbers with a dash."""
    return "\u2013" if text == "-" else _RANGE.sub("\u2013", text).replace("-", "\u2212")


def to_markdown(table: PaperTable) -> str:
    """Write a Markdown table as GitHub reads it, under its caption."""
    alignment = [":--"] * table.n_names + ["--:"] * (len(table.columns) - table.n_names)
    lines = [table.headings, alignment, *_cells(table, escape_markdown, str)]
    rows = ["| " + " | ".join(cells) + " |" for cells in lines]
    key = _key(table, lambda text: f"- {escape_markdown(text)}")
    return "\n".join(
        [
            f"**{escape_markdown(_one_line(table.caption))}**",
            "",
            *rows,
            *(["", *key] if key else []),
        ]
    )
