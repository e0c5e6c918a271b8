"""Noise of prompts and of judges: what all cells of a task share of it, and what is a cell's own.

The score of cell c (model m, language l, task t) with prompt p, averaged over its seeds, is

    y_cp = theta_c + e_tp + g_ltp + d_mtp + f_cp,

where theta is the expected score over the population of prompts, e is shared by all cells
of the task, g by the models of a language, d by the languages of a model, and f is the cell's
own. A record is the mean over the P prompts of a cell, theta + the means of e, g, d and f.
The deviations of the prompts from it are P - 1 contrasts, which are independent of the mean
given e, g and d, because f has one variance within a cell:

    sum_p (dev_cp - (s_cp - mean_p s_cp))^2 / f_c^2  is chi-square with P - 1 degrees of freedom,

with s = e + g + d. So nothing has to be balanced: a model that was tested with some of the
prompts only has the mean of their effects, which the other models inform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index

__all__ = ["ByCell", "SharedEffect", "prompts_by_cell"]


@dataclass(frozen=True, eq=False)
class SharedEffect:
    """Effects of prompts that several cells have in common.

    Attributes
    ----------
    name : str
        ``prompt:task``, ``prompt:language:task`` or ``prompt:model:task``.
    labels : tuple of str
        ``prompt|task`` and so on, the coordinate of :attr:`dim`.
    level : ndarray of int, shape (n_cells, most_prompts)
        Level of each prompt of each cell; 0 where the cell has no further prompt.
    centred : bool
        Whether samplers draw the effects themselves or unit-scale offsets.
    """

    name: str
    labels: tuple[str, ...]
    level: Index
    centred: bool

    @property
    def dim(self) -> str:
        """Dimension name, for example ``prompt_task``."""
        return names.term_dim(self.name)

    @property
    def effect(self) -> str:
        """Variable name of the effects."""
        return names.effect_name(self.name)

    @property
    def drawn(self) -> str:
        """Name of the variable that samplers draw."""
        return self.effect if self.centred else names.offset_name(self.name)

    @property
    def sd(self) -> str:
        """Name of the standard-deviation parameter."""
        return names.sd_name(self.name)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class ByCell:
    """Scores of cells by prompt, as deviations from the cells' means.

    Attributes
    ----------
    shared : tuple of SharedEffect
        From the effects that most cells share to those that fewest do.
    there : ndarray of float, shape (n_cells, most_prompts)
        1 for a prompt of the cell, else 0.
    deviation : ndarray of float, shape (n_cells, most_prompts)
        Score with the prompt less the mean over the cell's prompts; 0 where there is none.
    """

    shared: tuple[SharedEffect, ...]
    there: Floats
    deviation: Floats

    @property
    def count(self) -> Floats:
        """Prompts of each cell, shape (n_cells,)."""
        count: Floats = self.there.sum(1)
        return count

    def sums(self, effects: list[Any]) -> Any:
        """Sum of the shared effects on each prompt of each cell, shape (..., n_cells, most).

        Parameters
        ----------
        effects : list of array, shape (..., n_levels)
            Values of :attr:`shared`, of any array library.
        """
        total: Any = np.zeros(self.there.shape)
        for one, values in zip(self.shared, effects, strict=True):
            total = total + values[..., one.level]
        return total * self.there

    def means(self, sums: Any) -> Any:
        """Mean of the shared effects over the prompts of each cell, shape (..., n_cells)."""
        return sums.sum(-1) / self.count

    def log_density(self, sums: Any, variance: Any, *, xp: Any = np) -> Any:
        """Log density of the contrasts among the prompts of each cell, shape (..., n_cells).

        Parameters
        ----------
        sums : array, shape (..., n_cells, most_prompts)
            From :meth:`sums`.
        variance : array, shape (..., n_cells)
            Of what a prompt does to this cell only.
        xp : module
            The array library.
        """
        rest = (self.deviation - sums + self.means(sums)[..., None]) * self.there
        log_variance = np.log(2.0 * np.pi) + xp.log(variance)
        return -0.5 * ((rest**2).sum(-1) / variance + (self.count - 1.0) * log_variance)


def prompts_by_cell(
    source: names.Source,
    codes: Mapping[names.Factor, Index],
    labels: Mapping[str, tuple[str, ...]],
    row: Index,
    prompt: Index,
    prompts: tuple[str, ...],
    score: Floats,
) -> tuple[ByCell, Floats]:
    """Arrange scores by prompt, and find the effects that cells share.

    Parameters
    ----------
    source : {"prompt", "judge"}
    codes : dict of str to ndarray of int, shape (n_cells,)
        Level of each cell under each factor.
    labels : dict of str to tuple of str
        Labels of the factors.
    row : ndarray of int, shape (n_rows,)
        Cell of each score, in ascending order.
    prompt : ndarray of int, shape (n_rows,)
        Prompt of each score.
    prompts : tuple of str
        Labels of the prompts.
    score : ndarray of float, shape (n_rows,)

    Returns
    -------
    by_cell : ByCell
    own : ndarray, shape (n_cells,)
        Estimates of the variance of the cells' own part; NaN for a cell of one prompt.

    Notes
    -----
    Effects of a language (of a model) are left out if each of their levels has one cell, as
    they cannot be told from the cell's own part, or all cells of the task, as with a task for
    each language.
    """
    n_cells = len(codes[names.TASK])
    count = np.bincount(row, minlength=n_cells)
    place = np.arange(len(row)) - (np.cumsum(count) - count)[row]
    shape = (n_cells, int(count.max()))
    mean = np.bincount(row, score, n_cells) / count
    there, deviation = np.zeros(shape), np.zeros(shape)
    there[row, place] = 1.0
    deviation[row, place] = score - mean[row]
    several = (count > 1)[row]
    rest, levels_used, shared, n_coarse = deviation[row, place].copy(), 0, [], 0
    for name in names.shared_by(source):
        factors = [factor for factor in names.FACTORS if factor in name.split(":")]
        keys = np.stack([prompt, *(codes[factor][row] for factor in factors)])
        members, level = np.unique(keys, axis=1, return_inverse=True)
        level = level.reshape(-1)
        n_levels = members.shape[1]
        if n_levels in (n_coarse, len(row)) or not several.any():
            continue
        n_coarse = n_coarse or n_levels
        means, ratio = _effects(rest[several], level[several], n_levels)
        rest -= means[level]
        levels_used += n_levels
        of_cell = np.zeros(shape, dtype=np.int64)
        of_cell[row, place] = level
        shared.append(
            SharedEffect(
                name=name,
                labels=tuple(
                    names.cell_label(
                        prompts[one[0]],
                        *(labels[f][code] for f, code in zip(factors, one[1:], strict=True)),
                    )
                    for one in members.T.tolist()
                ),
                level=of_cell,
                centred=ratio >= names.CENTRED_F,
            )
        )
    # Each effect takes degrees of freedom from the contrasts.
    left = max(float((count - 1).clip(0).sum()) - levels_used, 1.0)
    scale = float((count - 1).clip(0).sum()) / left
    square = np.bincount(row, rest**2, n_cells)
    own = np.where(count > 1, scale * square / np.maximum(count - 1, 1), np.nan)
    return ByCell(tuple(shared), there, deviation), own


def _effects(values: Floats, level: Index, n_levels: int) -> tuple[Floats, float]:
    """Mean of each level, 0 for one without values; variance between levels over its error."""
    count = np.bincount(level, minlength=n_levels)
    means = np.bincount(level, values, n_levels) / np.maximum(count, 1)
    within = float(((values - means[level]) ** 2).sum()) / max(len(values) - n_levels, 1)
    has: Bools = count > 0
    between = float((count[has] * means[has] ** 2).sum()) / max(int(has.sum()), 1)
    return means, between / within if within > 0.0 else np.inf
