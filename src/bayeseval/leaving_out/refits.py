"""One refit without a part of the table, held against the fit to all records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.engines import SamplerSettings
from bayeseval.errors import BayesevalError, DesignError
from bayeseval.estimands.moves import Quantity, agreement, level_moves, most_moved, read_quantity
from bayeseval.fitting.gate import Gate
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.fitting.provenance import sampling_path
from bayeseval.leaving_out.selection import Part
from bayeseval.output._kept import frame_from_json, frame_to_json
from bayeseval.records import Covariate, PairSource, Records
from bayeseval.spec import ModelSpec

if TYPE_CHECKING:
    from bayeseval._typing import Progress

__all__ = ["Job", "Refit", "all_moves", "labelled_pairs", "refit", "refit_table"]

# Columns of the tables that stay where no refit was possible.
_MOVES: Final = (
    "level",
    *(
        f"{name}_{when}"
        for when in ("before", "after")
        for name in ("mean", "sd", "lower", "median", "upper")
    ),
    *("drop", "without", "quantity"),
)
_OF_QUANTITIES: Final = (
    *("n_levels", "spearman", "kendall", "n_rank_changes", "common_shift"),
    *("largest_change", "largest_change_sd", "largest_change_level", "moved"),
)


@dataclass(frozen=True, eq=False)
class Job:
    """What all refits share."""

    records: Records
    spec: ModelSpec
    engine: str
    settings: SamplerSettings
    covariates: tuple[Covariate, ...]
    pairs: pd.DataFrame
    before: tuple[Quantity, ...]


@dataclass(frozen=True, eq=False)
class Refit:
    """What one refit found and how it sampled, or why it did not."""

    status: str
    reason: str = ""
    moves: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    gate: Gate | None = None
    sampling: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {
            "status": self.status,
            "reason": self.reason,
            "moves": {name: frame_to_json(table) for name, table in self.moves.items()},
            "gate": None if self.gate is None else self.gate.to_dict(),
            "sampling": dict(self.sampling),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Refit:
        """Inverse of :meth:`to_json`."""
        return cls(
            str(value["status"]),
            str(value["reason"]),
            moves={name: frame_from_json(table) for name, table in value["moves"].items()},
            gate=None if value["gate"] is None else Gate.from_dict(value["gate"]),
            sampling=dict(value["sampling"]),
        )


def refit(job: Job, part: Part, beat: Progress | None) -> Refit:
    """Fit what is left, and hold it against the fit to all records.

    Parameters
    ----------
    job : Job
        What all refits share.
    part : Part
        What this one leaves out.
    beat : callable, optional
        Called now and then.
    """
    try:
        rest = job.records.subset(part.keep, name=f"{job.records.name} without {part.label}")
        pairs = _left(job.pairs, rest)
        fitted = prepare(
            rest,
            job.spec,
            engine=job.engine,
            settings=job.settings,
            covariate=job.covariates or None,
            pairs=pairs,
        ).run(beat)
    except DesignError as error:
        return Refit("not identified", str(error))
    except BayesevalError as error:
        return Refit("not fitted", str(error))
    return Refit(
        "gate failed" if fitted.gate.status == "fail" else "fitted",
        moves={
            before.name: level_moves(before, read_quantity(fitted.data, before.name))
            for before in job.before
        },
        gate=fitted.gate,
        sampling=sampling_path(fitted.run),
    )


def all_moves(done: Iterable[tuple[Part, Refit]]) -> pd.DataFrame:
    """Levels before and after, of all refits and quantities."""
    tables = [
        moved.rename_axis("level")
        .reset_index()
        .assign(drop=part.drop, without=part.label, quantity=name)
        for part, outcome in done
        for name, moved in outcome.moves.items()
    ]
    return pd.concat(tables or [pd.DataFrame(columns=list(_MOVES))], ignore_index=True)


def labelled_pairs(whole: Prepared) -> pd.DataFrame:
    """The common pairs by label."""
    coords, chosen = whole.records.coords, whole.pairs
    index = {names.LANGUAGE: chosen.language, names.TASK: chosen.task}
    return pd.DataFrame(
        {factor: np.array(coords[factor], dtype=object)[i] for factor, i in index.items()}
    )


def _left(pairs: pd.DataFrame, rest: Records) -> PairSource:
    """Those of the pairs whose language and task the rest has; its own if there is none."""
    left = pairs[
        pairs[names.LANGUAGE].isin(rest.coords[names.LANGUAGE])
        & pairs[names.TASK].isin(rest.coords[names.TASK])
    ]
    return left if len(left) else "any"


def refit_table(table: Records, done: Iterable[tuple[Part, Refit]]) -> pd.DataFrame:
    """:attr:`Sensitivity.table`, with all columns even where no refit has a quantity."""
    rows = pd.DataFrame([row for part, one in done for row in _refit_rows(table, part, one)])
    return rows.reindex(columns=[*rows, *(name for name in _OF_QUANTITIES if name not in rows)])


def _refit_rows(table: Records, part: Part, outcome: Refit) -> Iterator[dict[str, Any]]:
    """Rows of :attr:`Sensitivity.table` for one refit: one per quantity, or one without."""
    n_kept = int(part.keep.sum())
    shared = {
        "drop": part.drop,
        "without": part.label,
        "n_dropped": len(table) - n_kept,
        "n_records": n_kept,
        "status": outcome.status,
        "reason": outcome.reason,
    }
    if not outcome.moves:
        yield shared | {"quantity": ""}
    for name, moved in outcome.moves.items():
        spearman, kendall = agreement(moved)
        change = moved["mean_after"] - moved["mean_before"]
        shift = float(change.mean())
        in_sds = (change - shift) / moved["sd_before"]
        # Without sds, of a point estimate, the units decide what changes most.
        sizes = (in_sds if in_sds.notna().any() else change - shift).abs().dropna()
        level = str(sizes.idxmax()) if len(sizes) else ""
        yield shared | {
            "quantity": name,
            "n_levels": len(moved),
            "spearman": spearman,
            "kendall": kendall,
            "n_rank_changes": _changes(moved),
            "common_shift": shift,
            "largest_change": float(change[level] - shift) if level else np.nan,
            "largest_change_sd": float(in_sds[level]) if level else np.nan,
            "largest_change_level": level,
            "moved": most_moved(
                moved,
                language_names=table.language_names if name == names.LANGUAGE_POTENTIAL else None,
            ),
        }


def _changes(moved: pd.DataFrame) -> float:
    """Levels whose median ranks differ; NaN where there are no ranks."""
    shifts = (moved["median_after"] - moved["median_before"]).abs()
    return float((shifts > 0).sum()) if shifts.notna().any() else np.nan
