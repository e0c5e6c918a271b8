"""Scores at a bound, which some models move before they predict them.

A likelihood of a share (beta), or of its logit, has no density at a bound: `edge` of the spec
moves such scores away from it. The density of a moved score depends on this distance, and
is that of another value than the density under a model that takes the score as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import any_of, shorten
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design import Design
from bayeseval.errors import wording

__all__ = ["Moved", "limits_of", "moved_scores"]


@dataclass(frozen=True, eq=False)
class Moved:
    """Scores that models of a comparison move.

    Attributes
    ----------
    by_model : dict of str to ndarray of bool, shape (n_records,)
        Which scores each model moves, in the order in which models were named.
    edges : dict of str to float
        Least distance from a bound, as a share of the range, of the models that move any.
    """

    by_model: Mapping[str, Bools]
    edges: Mapping[str, float]

    @property
    def any(self) -> Bools:
        """Scores that at least one model moves."""
        return np.asarray(np.any(list(self.by_model.values()), axis=0))

    @property
    def is_alike(self) -> bool:
        """Whether all models predict the same values: each moves the same scores, and as far."""
        first, *others = self.by_model.values()
        same = all(np.array_equal(first, own) for own in others)
        return same and len({*self.edges.values()}) == 1

    def counted(self, rows: Index | None = None) -> str:
        """How many of some scores, by default of all, are moved, and by which models."""
        scores = self.any if rows is None else self.any[rows]
        what = "scores" if rows is None else "left-out scores"
        move = "move" if len(self.edges) > 1 else "moves"
        return (
            f"{int(scores.sum())} of {len(scores)} {what} are at a bound of their scale, or closer "
            f"to it than {100 * max(self.edges.values()):g} % of the range, and "
            f"{any_of(self.edges, 'and')} {move} them to this distance (edge)"
        )

    def sentence(self, known: pd.DataFrame, by: names.LeftOut) -> str:
        """How many scores are moved, by which models, and how these compare without them.

        Parameters
        ----------
        known : pandas.DataFrame
            Rows of :func:`bayeseval.comparison.sentences.comparison_table`, the best first.
        by : str
            What was left out at a time.
        """
        rest = int((~self.any).sum())
        text = f"{self.counted()}, on which their densities depend."
        if len(known) < 2:
            return text
        if by != names.RECORD:
            way = wording("by='record'", "--by record")
            return f"{text} With {way}, differences without these scores are reported."
        best, *others = known.to_dict("records")
        listed = shorten(
            f"{row['spec']} {row['unmoved_diff']:+.1f} (SE {row['unmoved_diff_se']:.1f})"
            for row in others
        )
        return f"{text} Over the other {rest} scores, elpd less that of {best['spec']}: {listed}."

    def sentence_on_predictions(self, rows: Index) -> str:
        """What that means for predictions of left-out scores.

        Parameters
        ----------
        rows : ndarray of int
            Which records were left out, of all repeats one after the other.
        """
        return (
            f"{self.counted(rows)}: log scores are those of moved scores, which other models do "
            "not predict, and in 90 % takes such a score as equal to all predictions that are as "
            "close to the bound. RMSE, MAE and CRPS are of the scores as they are."
        )


def limits_of(design: Design) -> tuple[Floats, Floats]:
    """Scores beyond which the model takes all for equal, by record; infinite where it moves none.

    Parameters
    ----------
    design : Design
        The model and its table.
    """
    outcome, task = design.outcome, design.factor_index[names.TASK]
    low, high = np.full(design.n_records, -np.inf), np.full(design.n_records, np.inf)
    own = outcome.rows_of("logit", "share")
    lower, upper = outcome.lower[task[own]], outcome.upper[task[own]]
    distance = design.spec.edge * (upper - lower)
    low[own], high[own] = lower + distance, upper - distance
    return low, high


def moved_scores(designs: Mapping[str, Design]) -> Moved | None:
    """Scores that are moved by models of one table; None where no model moves any.

    Parameters
    ----------
    designs : dict of str to Design
        By name of the model.
    """
    own = {}
    for name, design in designs.items():
        low, high = limits_of(design)
        own[name] = (design.score < low) | (design.score > high)
    edges = {name: float(designs[name].spec.edge) for name, which in own.items() if which.any()}
    return Moved(own, edges) if edges else None
