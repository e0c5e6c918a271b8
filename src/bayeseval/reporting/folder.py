"""A saved result folder as the reports read it: its provenance and its tables."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._progress import notice
from bayeseval._special import refuse_special
from bayeseval._text import grouped, show
from bayeseval.errors import InputError
from bayeseval.fitting.provenance import sampling_path
from bayeseval.output._files import refuse_unbounded_csv
from bayeseval.output._integrity import again
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
# Columns that reports read of every result; results of early versions lack some. Those that
# are no labels hold numbers.
_ENDS: Final = ("mean", "sd", "lower", "upper")
_RANKS: Final = ("rank_mean", "rank_median", "rank_lower", "rank_upper")
_MEANING: Final = ("ci_kind", "ci_prob", "gate")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "model_ranking": (
        *("model", *(f"{name}_{end}" for name in ("score", "prr") for end in _ENDS)),
        *(*_RANKS, "rank_set_lower", "rank_set_upper", "p_best", "tier", "n_records"),
        *(*(f"gap_sd_languages_{end}" for end in _ENDS), *_MEANING),
        *("worst_language", "cv_prr_constant_gap", "share_predicted"),
    ),
    "language_potential": (
        *("language", *(f"potential_{end}" for end in _ENDS)),
        *(*_RANKS, "n_records", "n_tasks", *_MEANING),
    ),
    "model_language": (
        *("model", "language", "n_records"),
        *(f"{name}_{end}" for name in ("prr_language", "gap") for end in ("mean", *_ENDS[2:])),
    ),
    "model_disparity": (
        *("model", "n_records"),
        *(f"{name}_{end}" for name in ("mean_prr", "std_prr", "cv_prr") for end in _ENDS),
    ),
    "variance_components": (
        *("component", "model", "scale", *(f"sd_{end}" for end in _ENDS)),
        *("share_mean", "share_lower", "share_upper", "finite_sd_mean", *_MEANING),
    ),
    "pairwise_models": (
        *("quantity", "model_a", "model_b", "p_a_better", "p_within_margin"),
        *(f"diff_{end}" for end in _ENDS),
    ),
    "rank_probabilities": ("quantity", "level", "rank", "probability"),
    "checks": ("check", "status", "sentence", "meaning", "command"),
    "calibration": ("pit", "ecdf", "lower", "upper", "kind"),
    "comparison": (
        *("spec", "elpd", "se", "elpd_diff", "diff_se", "p_eff", "n_bad_k", "method", "gate"),
    ),
    "sensitivity": (
        *("drop", "without", "status", "reason", "quantity", "largest_change_level", "moved"),
        *("spearman", "kendall", "n_rank_changes", "largest_change", "largest_change_sd"),
    ),
    "language_parts": (
        *("language", "language_name", "component"),
        *(f"effect_{end}" for end in ("mean", "lower", "upper")),
    ),
    "forecast": (
        *("language", "language_name", "observed", "potential_mean"),
        *("potential_lower", "potential_upper"),
    ),
    "forecast_check": ("language", "with_covariate", "covered_95", "error"),
    "covariates": ("covariate", "by", "slope_lower", "slope_upper", "ci_prob"),
    "aggregates": ("aggregate", "population", "of", "note", "value_mean"),
}
# What a table has one row of each for; it is joined to others by these.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "model_ranking": ("model",),
    "language_potential": ("language",),
    "model_language": ("model", "language"),
    "model_disparity": ("model",),
    "variance_components": ("component", "model"),
    "pairwise_models": ("quantity", "model_a", "model_b"),
    "rank_probabilities": ("quantity", "level", "rank"),
    "checks": ("check",),
    "comparison": ("spec",),
}
# Written together, so that a result has all of them or was edited.
_TOGETHER: Final[Mapping[ResultKind, tuple[str, ...]]] = {
    "fit": (
        *("model_ranking", "language_potential", "model_language", "model_disparity"),
        *("variance_components", "pairwise_models", "rank_probabilities"),
    ),
    "comparison": ("comparison",),
    "sensitivity": ("sensitivity",),
}
# What ranks the levels of these tables.
_RANKED: Final[Mapping[str, str]] = {
    "model_ranking": names.STANDARDISED_SCORE,
    "language_potential": names.LANGUAGE_POTENTIAL,
}
# Every result has these, with rows.
_FILLED: Final = ("model_ranking", "language_potential", "variance_components", "comparison")
_NUMBERS: Final = ("_mean", "_sd", "_lower", "_upper", "_median")
# Of a table; those of 500 models in 200 languages have 300,000 rows, and sentences a few hundred
# characters. A page takes a second for some thousands of rows.
_MAX_BYTES: Final = 1 << 26
_MAX_ROWS: Final = 500_000
_MAX_CELL: Final = 10_000
# Those that grow with models times languages or ranks, which a page can do without.
_GROWING: Final = ("model_language", "rank_probabilities")
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
    if run.get("command") == "calibrate":
        raise InputError(
            f"{path} is a calibration, not a result of fit, compare or sensitivity; its results "
            f"are in {path / _TABLES / 'calibration.csv'}, and "
            "bayeseval.calibration.Calibration.open reads the folder"
        )
    files = run.get("files")
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise InputError(f"{path / RUN_FILE} is damaged: no list of files; {again(run)}")
    listed = [PurePosixPath(name) for name in files]
    wanted = [
        one for one in listed if one.parent == PurePosixPath(_TABLES) and one.suffix == ".csv"
    ]
    check_inside(path, [str(one) for one in wanted])
    for one in wanted:
        refuse_special(path / one, remedy=_REMEDY)
    there = [one for one in wanted if (path / one).is_file()]
    left_out = {one.stem for one in there if one.stem in _GROWING and _is_large(path / one)}
    read = [one for one in there if one.stem not in left_out]
    tables = {one.stem: _read_table(path / one) for one in read}
    # Later, because what a damaged table says itself is more exact.
    check_files(path, run, [str(one) for one in read])
    kinds = [name for name in _MAIN_TABLES if PurePosixPath(_TABLES, f"{name}.csv") in listed]
    if not kinds and "holdout" in run:
        raise InputError(
            f"{path} holds predictions of left-out scores, of which there are no reports; its "
            f"tables are in {path / _TABLES}"
        )
    if not kinds:
        raise InputError(
            f"{path} is not a result of fit, compare or sensitivity: it has no table named "
            f"{', '.join(_MAIN_TABLES)}"
        )
    for name in _TOGETHER[_MAIN_TABLES[kinds[0]]]:
        if name not in tables and name not in left_out:
            raise InputError(
                f"{path / _TABLES / name}.csv is missing, or {RUN_FILE} does not list it; {_REMEDY}"
            )
    _refuse_strangers(path, tables)
    for one in wanted:
        if one not in there:
            notice(
                f"{path / one} is listed in {RUN_FILE}, but not there: it was removed, or the run "
                "was stopped before it was written; to have it in the results, "
                + again(run, one.name)
            )
    for name in sorted(left_out):
        notice(
            f"{path / _TABLES / name}.csv is too large for a page, which is made without it "
            f"(at most {grouped(_MAX_ROWS)} rows and {grouped(_MAX_BYTES >> 20)} MiB)"
        )
    return SavedResults(path, run, tables)


def _is_large(path: Path) -> bool:
    """Whether a table has more than a page reads."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return True
        with path.open("rb") as file:
            return sum(1 for _ in file) > _MAX_ROWS + 1
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error


def _refuse_strangers(path: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Refuse tables about other models or languages than the table of all of them."""
    for main, label in (("model_ranking", "model"), ("language_potential", "language")):
        if main not in tables:
            continue
        known = {"", *tables[main][label]}
        for name in _KEYS.keys() & tables.keys():
            table = tables[name]
            cells = [table[one] for one in (label, f"{label}_a", f"{label}_b") if one in table]
            if name == "rank_probabilities":
                cells = [table.loc[table["quantity"] == _RANKED[main], "level"]]
            for column in cells:
                others = set(column) - known
                if others:
                    raise InputError(
                        f"{path / _TABLES / name}.csv is damaged: {label} {show(min(others))} is "
                        f"not in {main}.csv; {_REMEDY}"
                    )


# Columns that sentences take for numbers of something.
_SHARES: Final = ("share_predicted", "p_best")

# What to do about a damaged table.
_REMEDY: Final = f"restore the file, or {again()}"


def _read_table(path: Path) -> pd.DataFrame:
    """A CSV table of ours: numbers to the last digit, labels as text."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    lacking: list[str] = []
    try:
        refuse_unbounded_csv(data, most_bytes=_MAX_BYTES, most_rows=_MAX_ROWS)
        # Text first: pandas' own conversion of numbers may miss the last digit.
        table = pd.read_csv(io.BytesIO(data), encoding="utf-8", dtype=str, keep_default_na=False)
        _refuse_odd(table, path.stem)
        lacking = [name for name in _COLUMNS.get(path.stem, ()) if name not in table]
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is damaged: not a table ({reason}); {_REMEDY}") from error
    if lacking:
        raise InputError(
            f"{path} has no column {lacking[0]}: it was edited or is of an earlier version; "
            f"{again()}"
        )
    return pd.DataFrame(
        {
            str(column): table[column] if column in _LABELS else _typed(table[column], path)
            for column in table
        }
    )


def _refuse_odd(table: pd.DataFrame, kind: str) -> None:
    """Refuse rows with too many cells, long cells, no rows, and rows for the same thing.

    Raises
    ------
    ValueError
    """
    if len(table) and not isinstance(table.index, pd.RangeIndex):
        # pandas takes the first cells of such a row for its label.
        raise ValueError("a row has more cells than the header")
    for name in table:
        longest = max(map(len, table[name].tolist()), default=0)
        if max(len(str(name)), longest) > _MAX_CELL:
            raise ValueError(f"column {show(name)}: more than {grouped(_MAX_CELL)} characters")
    if not len(table) and kind in _FILLED:
        raise ValueError("no rows")
    key = [name for name in _KEYS.get(kind, ()) if name in table]
    again = table.duplicated(key) if key else pd.Series(dtype=bool)
    if again.any():
        first = table.loc[again, key].iloc[0]
        raise ValueError(f"two rows for {' and '.join(map(show, first))}")


def _typed(texts: pd.Series[str], path: Path) -> pd.Series[Any]:
    """A column of truth values, whole numbers or numbers; one of other texts stays as it is."""
    name, required = str(texts.name), _COLUMNS.get(path.stem, ())
    # As a list: pandas takes longer for each of these steps, and tables are short.
    cells: list[str] = texts.tolist()
    full = bool(cells) and "" not in cells
    if full and set(cells) <= set(_TRUTH):
        return pd.Series([_TRUTH[cell] for cell in cells], name=texts.name)
    try:
        if full and name not in _SHARES and all(_WHOLE.fullmatch(cell) for cell in cells):
            return pd.Series([int(cell) for cell in cells], name=texts.name)
        numbers = pd.Series(
            [float(cell) if cell else np.nan for cell in cells], name=texts.name, dtype=np.float64
        )
        if name in required and np.isinf(numbers).any():
            raise ValueError("an infinite number")
        if name in _SHARES and ((numbers < 0.0) | (numbers > 1.0)).any():
            raise ValueError("not between 0 and 1")
        return numbers
    except ValueError as error:
        if name.endswith(_NUMBERS) or name in required or name in _SHARES:
            reason = str(error).replace("could not convert string to float", "not a number")
            raise InputError(f"{path} is damaged: column {name}: {reason}; {_REMEDY}") from error
        return texts
