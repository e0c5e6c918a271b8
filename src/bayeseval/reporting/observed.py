"""What the report needs of the scores themselves: averages by language, and the common pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval.errors import InputError
from bayeseval.estimands.read import default_margin
from bayeseval.fitting.report.folder import POSTERIOR_FILE
from bayeseval.output.store import check_files, refuse_unbounded
from bayeseval.records.doubts import constant_models

__all__ = ["Observed", "read_observed"]


@dataclass(frozen=True, eq=False)
class Observed:
    """The scores of a fit, as far as the report shows them.

    Attributes
    ----------
    score : ndarray, shape (n_records,)
        All scores.
    average : pandas.Series
        Mean of the scores by language, the baseline that the potential is compared with.
    n_pairs : int
        Number of language-task pairs that all models are compared on.
    margin : float
        Difference between models without practical meaning, score units; NaN without one.
    prr_note : str
        Why PRR is not reported; empty where it is.
    constant : tuple of str
        Models with one score throughout.
    """

    score: npt.NDArray[np.float64]
    average: pd.Series[float]
    n_pairs: int
    margin: float
    prr_note: str = ""
    constant: tuple[str, ...] = ()


def read_observed(folder: Path, run: Mapping[str, Any] | None = None) -> Observed | None:
    """Read the scores beside the posterior, and nothing of the posterior.

    Parameters
    ----------
    folder : Path
        A result folder.
    run : mapping, optional
        Contents of its run file, whose hash the posterior must have.

    Returns
    -------
    Observed or None
        None where the folder has no posterior, as one that was sent without it.

    Raises
    ------
    InputError
        If the file is damaged, edited, or not the posterior of a fit.
    """
    path = folder / POSTERIOR_FILE
    if not path.is_file():
        return None
    import h5py

    try:
        refuse_unbounded(path)
        with h5py.File(path, "r") as file:
            observed = _observed(file)
    except InputError:
        raise
    # h5py raises TypeError and AttributeError for objects of another kind.
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()).strip("'\"")
        raise InputError(
            f"{path} is damaged ({reason}); run bayeseval fit again, or remove the file: the "
            "report is then made from the tables alone"
        ) from error
    check_files(folder, run or {}, [POSTERIOR_FILE])
    return observed


def _observed(file: Any) -> Observed:
    constant = file["constant_data"]
    score = np.asarray(file["observed_data"][names.SCORE], dtype=float)
    if not np.isfinite(score).all():
        raise ValueError("a score is no finite number")
    known, models = _labels(constant, names.LANGUAGE), _labels(constant, names.MODEL)
    language = _positions(constant, "language_index", len(known), len(score))
    task = _positions(constant, "task_index", len(constant[names.TASK]), len(score))
    model = _positions(constant, "model_index", len(models), len(score))
    total = np.bincount(language, weights=score, minlength=len(known))
    n = np.bincount(language, minlength=len(known))
    with np.errstate(invalid="ignore"):
        average = pd.Series(total / n, index=known)
    pairs = (
        len(constant["common_pair_language"])
        if "common_pair_language" in constant
        else len(np.unique(language * (int(task.max()) + 1) + task))
    )
    margin = constant.attrs.get("margin")
    if margin is None:
        sides = ("declared_lower", "declared_upper")
        known_bounds = all(side in constant for side in sides)
        margin = (
            default_margin(np.stack([np.asarray(constant[side]) for side in sides]), score)
            if known_bounds
            else np.nan
        )
    note = file["posterior"][names.PRR].attrs.get("note", "") if _has_prr(file) else ""
    text = note.decode() if isinstance(note, bytes) else str(note)
    return Observed(
        score,
        average,
        pairs,
        float(np.asarray(margin).item()),
        text,
        constant_models(score, model, models),
    )


def _labels(constant: Any, factor: str) -> list[str]:
    return [
        label.decode() if isinstance(label, bytes) else str(label) for label in constant[factor]
    ]


def _positions(constant: Any, name: str, n_levels: int, n: int) -> npt.NDArray[np.int64]:
    """Positions of the records' levels; one far away would make an array as long."""
    values = np.asarray(constant[name])
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise ValueError(f"{name} does not have one position for each score")
    if n and (values.min() < 0 or values.max() >= n_levels):
        raise ValueError(f"{name} has positions outside the {n_levels} levels of its factor")
    return values.astype(np.int64)


def _has_prr(file: Any) -> bool:
    return "posterior" in file and names.PRR in file["posterior"]
