"""A text file that the engine scans, and the table that it is for the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayeseval._typing import Progress

if TYPE_CHECKING:
    from bayeseval.readers.scans import Engine

__all__ = ["Relation", "TextFile"]


@dataclass(frozen=True, eq=False)
class TextFile:
    """A file of text, and its beginning.

    Parameters
    ----------
    engine : Engine
    file : Path
    link : Path
        The engine's name of it.
    head : str
        Its first lines.
    progress : callable or None
        Is told how many lines Python has rewritten, where it has to.
    """

    engine: Engine
    file: Path
    link: Path
    head: str
    progress: Progress | None = None

    def rewriting(self, n_lines: int) -> Callable[[int], None]:
        """Called with the number of rows that Python has rewritten, of so many lines."""

        def report(done: int) -> None:
            if self.progress is not None:
                self.progress(f"rewriting {self.file.name}", min(done, n_lines), n_lines, "")

        return report


@dataclass(frozen=True, eq=False)
class Relation:
    """SQL of the rows of a file.

    Parameters
    ----------
    sql : str
    names : list of str
        Columns or keys, as the file has them.
    place : str
        What a row is called in this format: ``line`` or ``record``.
    numbers_in_file : callable
        The numbers of rows in the file from their numbers among the rows, from 1 and ascending.
    """

    sql: str
    names: list[str]
    place: str
    numbers_in_file: Callable[[Sequence[int]], Sequence[int]]
