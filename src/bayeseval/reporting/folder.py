"""A saved result folder as the reports read it: its provenance and its tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import pandas as pd

from bayeseval.errors import InputError
from bayeseval.fitting.provenance import sampling_path
from bayeseval.output.store import RUN_FILE, check_files, check_inside, read_run

__all__ = ["ResultKind", "SavedResults", "read_saved"]

ResultKind = Literal["fit", "comparison", "sensitivity"]

_TABLES: Final = "tables"
# The table that makes a folder a result of this kind.
_MAIN_TABLES: Final[Mapping[str, ResultKind]] = {
    "model_ranking": "fit",
    "comparison": "comparison",
    "sensitivity": "sensitivity",
}
# Columns of labels: a model named 7, 007, NA or True keeps its name.
_LABELS: Final = frozenset(
    {
        *("model", "model_a", "model_b", "language", "language_name", "task", "dataset"),
        *("worst_language", "worst_language_name", "level", "level_name"),
        *("without", "without_name", "spec", "component", "quantity", "source_label"),
        *("ci_kind", "gate", "scale", "kind", "drop", "status", "reason", "method", "against"),
        *("check", "sentence", "meaning", "command", "prr", "support"),
        *(
            "largest_change_level",
            "moved",
            "note",
            "covariate",
            "by",
            "aggregate",
            "population",
            "of",
        ),
    }
)
# Columns that reports read of every result; results of early versions lack some.
_ENDS: Final = ("mean", "sd", "lower", "upper")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "model_ranking": (
        *("model", *(f"{name}_{end}" for name in ("score", "prr") for end in _ENDS)),
        *("rank_mean", "rank_median", "rank_lower", "rank_upper"),
        *("rank_set_lower", "rank_set_upper", "p_best", "tier", "n_records"),
        *("ci_kind", "ci_prob", "gate"),
    ),
    "language_potential": (
        *("language", *(f"potential_{end}" for end in _ENDS)),
        *("rank_mean", "rank_median", "rank_lower", "rank_upper", "n_records", "n_tasks"),
        *("ci_kind", "ci_prob", "gate"),
    ),
    "model_language": (
        *("model", "language", "n_records"),
        *(f"{name}_{end}" for name in ("prr_language", "gap") for end in ("mean", *_ENDS[2:])),
    ),
    "variance_components": (
        *("component", "model", "scale", *(f"sd_{end}" for end in _ENDS)),
        *("share_mean", "share_lower", "share_upper", "finite_sd_mean"),
        *("ci_kind", "ci_prob", "gate"),
    ),
    "comparison": (
        *("spec", "elpd", "se", "elpd_diff", "diff_se", "p_eff", "n_bad_k", "method", "gate"),
    ),
}
_NUMBERS: Final = ("_mean", "_sd", "_lower", "_upper", "_median")
_TRUTH: Final = {"True": True, "False": False}
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class SavedResults:
    """A result folder, read once.

    Attributes
    ----------
    path : Path
        The folder, as it was given.
    run : dict
        Contents of ``run.json``.
    tables : dict of str to pandas.DataFrame
        All tables of the folder by file name without ``.csv``. Labels are text and empty where
        a row has none; missing numbers are NaN.
    """

    path: Path
    run: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]

    @property
    def kind(self) -> ResultKind:
        """What wrote the folder: ``fit``, ``comparison`` or ``sensitivity``.

        Forecasts and plans are tables in the folder of a fit.
        """
        return next(kind for name, kind in _MAIN_TABLES.items() if name in self.tables)

    @property
    def gates(self) -> dict[str, str]:
        """Status of the convergence gate by fit.

        A comparison has several fits; the one fit of another result has an empty name.
        """
        gates = self.run.get("gates")
        if gates is not None:
            return {str(name): str(status) for name, status in gates.items()}
        gate = self.run.get("gate")
        return {"": str(gate["status"])} if gate else {}

    @property
    def samplers(self) -> dict[str, Mapping[str, str]]:
        """How the marginal engine drew, by fit as in :attr:`gates`: ``path``, ``path_reason``.

        Fits of other engines are left out.
        """
        samplers = self.run.get("samplers")
        if samplers is not None:
            return {str(name): one for name, one in samplers.items()}
        path = sampling_path(self.run)
        return {"": path} if path else {}

    @property
    def gate_failed(self) -> bool:
        """Whether a fit of the result failed the convergence gate."""
        return "fail" in self.gates.values()

    def table(self, name: str) -> pd.DataFrame:
        """A table that the report needs.

        Parameters
        ----------
        name : str
            File name without ``.csv``.

        Raises
        ------
        InputError
            If the folder has no such table.
        """
        if name not in self.tables:
            raise InputError(
                f"{self.path} has no {_TABLES}/{name}.csv: it is the result of a {self.kind}; "
                f"its tables are {', '.join(sorted(self.tables))}"
            )
        return self.tables[name]


def read_saved(folder: str | Path) -> SavedResults:
    """Read a result folder of a fit, a comparison or a sensitivity analysis.

    Parameters
    ----------
    folder : str or Path
        What ``fit``, ``compare`` or ``sensitivity`` wrote. Tables that ``forecast`` and
        ``plan`` added to the folder of a fit are read too. The posterior is not.

    Returns
    -------
    SavedResults

    Raises
    ------
    InputError
        If it is not such a folder, or a file of it is damaged.
    """
    path = Path(folder)
    run = read_run(path)
    files = run.get("files")
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise InputError(f"{path / RUN_FILE} is damaged: no list of files; run the command again")
    listed = [PurePosixPath(name) for name in files]
    wanted = [
        one for one in listed if one.parent == PurePosixPath(_TABLES) and one.suffix == ".csv"
    ]
    # A file that was being added when the process was killed is listed, but not there.
    there = [one for one in wanted if (path / one).is_file()]
    check_inside(path, [str(one) for one in there])
    tables = {one.stem: _read_table(path / one) for one in there}
    # Later, because what a damaged table says itself is more exact.
    check_files(path, run, [str(one) for one in there])
    kinds = [name for name in _MAIN_TABLES if PurePosixPath(_TABLES, f"{name}.csv") in listed]
    if not kinds:
        raise InputError(
            f"{path} is not a result of fit, compare or sensitivity: it has no table named "
            f"{', '.join(_MAIN_TABLES)}"
        )
    if kinds[0] not in tables:
        raise InputError(
            f"{path / _TABLES / kinds[0]}.csv is missing, but {RUN_FILE} lists it; "
            "run the command again"
        )
    return SavedResults(path, run, tables)


# What to do about a damaged table.
_REMEDY: Final = "restore the file, or run the command again"


def _read_table(path: Path) -> pd.DataFrame:
    """A CSV table of ours: numbers to the last digit, labels as text."""
    try:
        # Text first: pandas' own conversion of numbers may miss the last digit.
        table = pd.read_csv(path, encoding="utf-8", dtype=str, keep_default_na=False)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is damaged: not a table ({reason}); {_REMEDY}") from error
    columns = {
        str(column): table[column] if column in _LABELS else _typed(table[column], path)
        for column in table
    }
    lacking = [column for column in _COLUMNS.get(path.stem, ()) if column not in columns]
    if lacking:
        raise InputError(
            f"{path} has no column {lacking[0]}: it was edited or is of an earlier version; run "
            "the command again"
        )
    return pd.DataFrame(columns)


def _typed(texts: pd.Series[str], path: Path) -> pd.Series[Any]:
    """A column of truth values, whole numbers or numbers; one of other texts stays as it is."""
    there = texts[texts != ""]
    if len(there) and set(there) <= set(_TRUTH) and len(there) == len(texts):
        return texts.map(_TRUTH).astype(bool)
    try:
        if len(there) == len(texts) and all(_WHOLE.fullmatch(text) for text in there):
            return texts.map(int)
        return texts.map(lambda text: float(text) if text else float("nan")).astype(float)
    except ValueError as error:
        if str(texts.name).endswith(_NUMBERS):
            reason = str(error).replace("could not convert string to float", "not a number")
            raise InputError(
                f"{path} is damaged: column {texts.name}: {reason}; {_REMEDY}"
            ) from error
        return texts
