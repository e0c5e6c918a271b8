"""`Score`: one number that an evaluation tool wrote, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Score"]


@dataclass(frozen=True, slots=True)
class Score:
    """One number that a tool wrote.

    Parameters
    ----------
    model, dataset, language, metric : str
    value : float or None
        None where the tool wrote that there is none.
    where : str
        File and place, for messages.
    selector : str
        What else is in the tool's key: the filter of lm-evaluation-harness.
    se, n, k : float or None
        Standard error, number of items, number of right ones.
    higher : bool or None
        Whether higher is better; None when the tool does not say.
    lower_bound, upper_bound : float or None
        Where the tool gives both.
    variant : str
        A setting such as ``5-shot`` that makes another task of the dataset.
    run : str
        Sorts the runs of one cell from old to new.
    boot : str or None
        Name of the bootstrap test set.
    rank : int
        Place among the task's metrics where the tool has an order of its own.
    rows : int
        Rows of the table that it represents.
    extra : tuple of (str, str)
        Further columns of its row, such as a seed, with their cells.
    """

    model: str
    dataset: str
    language: str
    metric: str
    value: float | None
    where: str
    selector: str = ""
    se: float | None = None
    n: float | None = None
    k: float | None = None
    higher: bool | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    variant: str = ""
    run: str = ""
    boot: str | None = None
    rank: int = 0
    rows: int = 1
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The metric as the user may name it: ``acc``, or ``exact_match,strict-match``."""
        plain = self.selector in ("", "none")
        return self.metric if plain else f"{self.metric},{self.selector}"
