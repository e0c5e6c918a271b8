"""What the loader understood, as data: bounds of the scores and the load report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final

from bayeseval._text import Caution, Note
from bayeseval.errors import InputError
from bayeseval.readers.raw import Dropped

__all__ = [
    "LARGEST",
    "LoadReport",
    "TableError",
    "Units",
]

# Beyond this, squares of scores and sums of squares are no numbers.
LARGEST: Final = 1e100


@dataclass(frozen=True, slots=True)
class Units:
    """Bounds of a task's scores, in the task's own units.

    Parameters
    ----------
    lower, upper : float or None
        Smallest and largest possible score; None when unbounded or unknown.

    Raises
    ------
    InputError
        If a bound is not finite, is beyond 1e100, or `lower` is not below `upper`.
    """

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            value = getattr(self, bound)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"units: {bound} bound {value!r} is not a number")
            try:
                number = float(value)
            except OverflowError:  # a whole number of hundreds of digits
                number = math.inf
            if not abs(number) <= LARGEST:
                problem = f"beyond {LARGEST:g}" if math.isfinite(number) else "not finite"
                raise InputError(
                    f"units: {bound} bound {value!r} is {problem}; leave it out when unbounded"
                )
            # 0 and 0.0 (and -0.0) must be the same bound in every hash and file.
            object.__setattr__(self, bound, number + 0.0)
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise InputError(
                f"units: lower bound {self.lower:g} is not below upper bound {self.upper:g}"
            )

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return "unknown"
        if self.lower is None:
            return f"up to {self.upper:g}"
        if self.upper is None:
            return f"{self.lower:g} and above"
        return f"{self.lower:g} to {self.upper:g}"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How a table became records: nothing is left out or assumed without a line here.

    Parameters
    ----------
    sources : tuple of str
        The files read, as the user named them.
    n_rows_read : int
        Data rows in those files.
    n_records : int
        Records kept; ``n_rows_read`` minus the rows of `dropped`.
    columns : tuple of (str, str)
        Our column and the column of the files it was read from; empty for wide tables and
        for results of evaluation tools, whose columns are no columns of ours.
    ignored_columns : tuple of str
        Columns of the files that were not used.
    dropped : tuple of Dropped
        Rows left out, by reason.
    remarks : tuple of Note
        Everything else worth knowing: guessed bounds, stripped labels, look-alikes.
    """

    sources: tuple[str, ...]
    n_rows_read: int
    n_records: int
    columns: tuple[tuple[str, str], ...]
    ignored_columns: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    remarks: tuple[Note, ...]

    @property
    def mapping(self) -> Mapping[str, str]:
        """Our columns and theirs, as a mapping."""
        return dict(self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks as text; warnings start with ``warning:``."""
        return tuple(map(str, self.remarks))

    def remarks_for(self, *, with_bounds: bool) -> tuple[Note, ...]:
        """The remarks that concern a model.

        Parameters
        ----------
        with_bounds : bool
            Whether its likelihood knows the bounds of the scores.
        """
        return tuple(
            note
            for note in self.remarks
            if not (with_bounds and isinstance(note, Caution) and note.without_bounds)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the notes that warn of something."""
        return tuple(str(note) for note in self.remarks if isinstance(note, Caution))

    @property
    def n_dropped(self) -> int:
        """Rows read and not kept."""
        return sum(group.n_rows for group in self.dropped)


class TableError(InputError):
    """Rows that were read but do not make a valid table, with a report of what was read.

    Parameters
    ----------
    message : str
        What is wrong, in one line.
    report : LoadReport or None
        Of all rows, before the check that refused them.
    levels : mapping of str to tuple of (str, int)
        Levels of each factor and their numbers of rows; empty where columns were not read.
    tasks : sequence of str
        Names of the tasks of a table that lacks their languages only.
    """

    def __init__(
        self,
        message: str,
        report: LoadReport | None = None,
        levels: Mapping[str, tuple[tuple[str, int], ...]] | None = None,
        tasks: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.tasks = tuple(tasks)
        self.report = report
        self.levels = dict(levels or {})
