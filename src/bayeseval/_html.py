"""Short HTML for notebooks: a warning, a heading and one table, all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from bayeseval._text import for_html

__all__ = ["html_table"]

_WARNING = "#B2182B"


def html_table(
    heading: str, columns: Mapping[str, Sequence[str]], *, warning: str = "", most: int = 25
) -> str:
    """One table as HTML.

    Parameters
    ----------
    heading : str
        Text above the table.
    columns : mapping of str to sequence of str
        Column name to its cells.
    warning : str
        Printed first and in colour; none if empty.
    most : int
        Rows to show; the last line gives the number of the others.

    Examples
    --------
    >>> html_table("<two>", {"model": ["a & b"]})
    '<div><p>&lt;two&gt;</p><table><tr><th>model</th></tr><tr><td>a &amp; b</td></tr></table></div>'
    """
    rows = list(zip(*columns.values(), strict=True))
    cells = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows[:most]]
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{line}</tr>" for line in (head, *cells))
    banner = f'<p style="color:{_WARNING}"><strong>{_text(warning)}</strong></p>'
    return "".join(
        [
            "<div>",
            banner if warning else "",
            f"<p>{_text(heading)}</p>",
            f"<table>{body}</table>" if columns else "",
            f"<p>and {len(rows) - most} more rows</p>" if len(rows) > most else "",
            "</div>",
        ]
    )


def _text(value: object) -> str:
    return escape(for_html(str(value)))
