"""One check and its outcome, and the rule by which p-values become outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pandas as pd

from bayeseval.output.language_names import add_language_names
from bayeseval.output.numbers import in_units
from bayeseval.output.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FAIL",
    "FALSE_ALARMS",
    "WARN",
    "Check",
    "Checks",
    "FitLabel",
    "judge",
    "p_text",
    "two_numbers",
]

Status = Literal["pass", "warn", "fail", "not applicable"]
_STATUSES: Final = ("pass", "warn", "fail", "not applicable")

# If the model is true, one check in forty warns. A posterior predictive p-value is a mean over
# draws, for which the rate is at most twice this (Meng 1994, "Posterior predictive p-values",
# Annals of Statistics 22), and usually lower.
WARN: Final = 0.025
FAIL: Final = 0.005
#: Share of checks with a p-value that warn of, or fail, a table of the fitted model: measured by
#: ``perf/checks.py`` under models of normal scores. Under maximum likelihood it is near `WARN`.
FALSE_ALARMS: Final = 0.003

# No number needs more digits; huge ones have an exponent.
_MOST_DIGITS: Final = 12
_HUGE: Final = 1e15


@dataclass(frozen=True)
class Check:
    """Outcome of one check of a fit.

    Attributes
    ----------
    name : str
        For example ``calibration``.
    status : {"pass", "warn", "fail", "not applicable"}
        With ``not applicable`` the sentence is the reason.
    value : float
        Test statistic; the sentence describes it.
    p : float
        Probability of a value as extreme under the model; NaN for checks against a limit.
    p_classical : float
        p-value of the classical test on posterior means of residuals or effects; NaN
        without one.
    sentence : str
        The result in words.
    meaning : str
        Consequence of a warning or failure for the user's conclusions.
    command : str
        Recommended command after a warning or failure; empty where there is none.
    """

    name: str
    status: Status
    value: float = float("nan")
    p: float = float("nan")
    p_classical: float = float("nan")
    sentence: str = ""
    meaning: str = ""
    command: str = ""


@dataclass(frozen=True)
class FitLabel:
    """Labels of the checked fit, for figures.

    Attributes
    ----------
    subtitle : str
        Benchmark, model and engine.
    data : str
        What was fitted, for the caption.
    gate_status : str
        ``fail`` marks everything.
    unit : str
        Unit of the scores; empty where it is not known.
    exponent : int
        Power of ten that the scores are shown in.
    language_names : mapping of str to str
        Code to name.
    """

    subtitle: str = ""
    data: str = ""
    gate_status: str = "not applicable"
    unit: str = ""
    exponent: int = 0
    language_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Checks(Result):
    """All checks of a fit, with the numbers behind them.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per check, in the order in which they are reported: the fields of
        :class:`Check`, the name as ``check``.
    details : dict of str to pandas.DataFrame
        ``influential_records``, ``prior_sensitivity``, ``calibration`` (ECDF of the
        PIT values with its band) and ``sd_by_language`` (observed and replicated).
    fit : FitLabel
        Which fit was checked, for figures.
    """

    table: pd.DataFrame
    details: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    fit: FitLabel = field(default_factory=FitLabel)

    @classmethod
    def of(cls, checks: Sequence[Check], details: Mapping[str, pd.DataFrame]) -> Checks:
        """Put checks into a table."""
        table = pd.DataFrame([asdict(check) for check in checks])
        return cls(table.rename(columns={"name": "check"}), details)

    def status(self, check: str) -> str:
        """Outcome of one check.

        Examples
        --------
        >>> checks.status("calibration") in ("pass", "warn", "fail")
        True
        """
        return str(self.table.set_index("check")["status"][check])

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """``checks``, and what they are drawn from, with names of languages."""
        tables = {"checks": self.table, **self.details}
        return {
            name: add_language_names(table, self.fit.language_names)
            for name, table in tables.items()
        }

    def summary(self) -> str:
        """The checks in text: one line each, those that pass in short.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> checks.summary().splitlines()[0]
        'Model checks: ...'
        """
        from bayeseval.checks.words import format_checks

        # Point estimates have no draws for a gate, nor for a mean over draws.
        is_point = self.fit.gate_status == "not applicable"
        return format_checks(self.table, false_alarms=WARN if is_point else FALSE_ALARMS)

    def plot(self, *, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw calibration, and sds by language.

        Parameters
        ----------
        figsize : tuple of float, optional
            Width and height in inches; by default, what the checks need.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = checks.plot()
        """
        from bayeseval.checks.figure import checks_figure

        fit = self.fit
        return checks_figure(
            {name: in_units(table, fit.exponent) for name, table in self.tables.items()},
            subtitle=fit.subtitle,
            data=fit.data,
            gate_status=fit.gate_status,
            unit=fit.unit,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the checks.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``checks``.

        Examples
        --------
        >>> list(checks.figures())
        ['checks']
        """
        return {"checks": self.plot()}

    def _title(self) -> str:
        return self.fit.subtitle

    def _main_result(self) -> str:
        counts = self.table["status"].value_counts()
        counted = ", ".join(
            f"{counts[status]} {status}" for status in _STATUSES if status in counts
        )
        warned = list(self.table.loc[self.table["status"].isin(("warn", "fail")), "check"])
        return f"{counted}{': ' * bool(warned)}{', '.join(warned)}"

    def _main(self) -> pd.DataFrame:
        return self.table[["check", "status", "sentence"]]

    def _failed(self) -> bool:
        return self.fit.gate_status == "fail"


def judge(p: float) -> Status:
    """Outcome of a p-value."""
    if np.isnan(p):
        return "not applicable"
    return "fail" if p < FAIL else "warn" if p < WARN else "pass"


def p_text(p: float, *, simulated: int | None = None) -> str:
    """A p-value in a sentence; one from simulations cannot fall below 1 / (1 + simulated)."""
    if simulated is not None and p * (1 + simulated) < 1.0 + 1e-9:
        return f"p at most {1.0 / (1 + simulated):.1g}"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def two_numbers(first: float, second: float) -> tuple[str, str]:
    """Two numbers of one kind with three significant digits, or as many as their difference needs.

    Examples
    --------
    >>> two_numbers(443213.0, 745812.0), two_numbers(0.50000044, 0.50000078)
    (('443,000', '746,000'), ('0.5000004', '0.5000008'))
    """
    digits, difference = 3, abs(first - second)
    while digits < _MOST_DIGITS:
        shown = abs(float(f"{first:.{digits}g}") - float(f"{second:.{digits}g}"))
        if abs(shown - difference) <= difference / 3.0:
            break
        digits += 1
    return _significant(first, digits), _significant(second, digits)


def _significant(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < _HUGE else text
