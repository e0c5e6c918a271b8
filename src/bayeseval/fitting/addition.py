"""`Addition`: what forecasts, plans and cells to measure share, which a fit's folder takes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bayeseval._arguments import as_path
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.report import run_title
from bayeseval.fitting.report.model_tables import shown_exponent
from bayeseval.output._style import figure_files, figure_formats, figure_names
from bayeseval.output.result import Result
from bayeseval.output.store import Writer, add_files, write_csv

if TYPE_CHECKING:
    from bayeseval._typing import Figures

__all__ = ["Addition"]


class Addition(Result):
    """An answer that one fit gives, and that its result folder takes.

    Attributes
    ----------
    fit : Fit
    """

    fit: Fit
    # Tables and figures that it may have: what it lacks is deleted from the folder.
    _table_names: ClassVar[tuple[str, ...]]
    _figure_names: ClassVar[tuple[str, ...]]

    def save(self, folder: str | Path, *, figures: Figures = True) -> Path:
        """Add the tables and figures to the result folder of the fit.

        The folder's page, ``report.html``, is not written again: run ``bayeseval report DIR``
        afterwards. The commands ``bayeseval forecast``, ``plan`` and ``next`` do both.

        Parameters
        ----------
        folder : str or Path
            The result folder; its other files stay as they are.
        figures : bool, str or sequence of str
            Whether to draw the figures, or in which formats ("pdf", "png,svg").

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            If it is not a result folder or cannot be written.

        Examples
        --------
        >>> folder = plan.save(fit.save("results/planned", figures=False), figures=False)
        >>> (folder / "tables" / "plan.csv").is_file()
        True
        """
        place, formats = as_path("folder", folder), figure_formats(figures)
        writers: dict[str, Writer] = {
            _path(name): partial(write_csv, table) for name, table in self.tables.items()
        }
        for name, figure in (self.figures() if formats else {}).items():
            writers |= figure_files(name, figure, formats)
        without = (*figure_names(*self._figure_names), *map(_path, self._table_names))
        return add_files(place, writers, run=self.fit.run, without=without)

    @property
    def _exponent(self) -> int:
        """Power of ten that scores are shown in, that of the fit."""
        return shown_exponent(self.fit.data)

    def _title(self) -> str:
        return run_title(self.fit.run)

    def _failed(self) -> bool:
        return self.fit.gate.status == "fail"


def _path(table: str) -> str:
    return f"tables/{table}.csv"
