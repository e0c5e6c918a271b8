"""Cells where some seeds lack some boots: sums that keep their likelihood exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats

__all__ = ["Quadratics", "Unbalanced", "collect_unbalanced", "sums", "unbalanced_quadratics"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Unbalanced:
    """Sums over the rows of each incomplete cell, with the score centred by its mean.

    S is the largest number of seeds of a cell and G the largest number of different
    n, where n is how many seeds a boot has; cells with fewer are padded with zeros.

    Parameters
    ----------
    cell : array of int, shape (n_unbalanced,)
        Position in the :class:`~bayeseval.records.replicates.CellTable`.
    centre : array of float, shape (n_unbalanced,)
        What was taken off the scores: the cell's ``mean``.
    n_pairs : array of float, shape (n_unbalanced,)
        Rows (seed and boot pairs) of the cell.
    total, square : array of float, shape (n_unbalanced,)
        Sum and sum of squares of the centred scores.
    seed_pairs, seed_total : array of float, shape (n_unbalanced, S)
        Boots of each seed, and the sum of its centred scores.
    size, boots : array of float, shape (n_unbalanced, G)
        n, and how many boots have n seeds.
    boot_total, boot_square : array of float, shape (n_unbalanced, G)
        Sum, and sum of squares, of the totals t_b of those boots.
    joint : array of float, shape (n_unbalanced, G, S, S)
        M_n = sum_b z_b z_b', with z_b the seeds that boot b has.
    cross : array of float, shape (n_unbalanced, G, S)
        sum_b z_b t_b.
    """

    cell: Ints
    centre: Floats
    n_pairs: Floats
    total: Floats
    square: Floats
    seed_pairs: Floats
    seed_total: Floats
    size: Floats
    boots: Floats
    boot_total: Floats
    boot_square: Floats
    joint: Floats
    cross: Floats

    def __len__(self) -> int:
        return len(self.cell)


class Quadratics(NamedTuple):
    """What the normal likelihood of a cell's rows needs; see :func:`unbalanced_quadratics`."""

    log_det: Any
    weight: Any
    score: Any
    square: Any


def unbalanced_quadratics(
    cells: Unbalanced, sigma2: Any, tau2: Any, omega2: Any, *, xp: Any = np
) -> Quadratics:
    """Log determinant and quadratic forms of V for incomplete cells, exactly.

    The rows x of a cell (centred) are N(m 1, V) with
    V = sigma^2 Zs Zs' + tau^2 Zb Zb' + omega^2 I, Zs and Zb the indicators of seed and
    boot, where sigma^2 is all that a seed's rows share. With W = tau^2 Zb Zb' + omega^2 I,
    which is block-diagonal by boot,

        W_b^-1 = (I - g_n 1 1') / omega^2,   g_n = tau^2 / (omega^2 + n tau^2),
        log|V| = log|W| + log|I + sigma^2 A|,   A = Zs' W^-1 Zs,
        u' V^-1 v = u' W^-1 v - sigma^2 (Zs' W^-1 u)' (I + sigma^2 A)^-1 (Zs' W^-1 v),

    and A = (diag(seed_pairs) - sum_n g_n M_n) / omega^2, and so on from the stored sums:
    boots that have the same number n of seeds share g_n.

    Parameters
    ----------
    cells : Unbalanced
    sigma2, tau2, omega2 : array, shape (n_unbalanced,)
        Variances of what a seed's rows share, of what a boot's rows share, and of each
        row alone; `omega2` above zero, the others zero or above.
    xp : module
        The array library: ``numpy``, or one that follows it (``jax.numpy``,
        ``pytensor.tensor``).

    Returns
    -------
    Quadratics
        ``log_det`` = log|V|, ``weight`` = 1'V^-1 1, ``score`` = 1'V^-1 x and
        ``square`` = x'V^-1 x, each of shape (n_unbalanced,). The log likelihood at m is
        -(n log 2 pi + log_det + square - 2 m score + m^2 weight) / 2; the generalised
        least-squares mean is score / weight (add ``cells.centre``) with variance
        1 / weight.
    """
    shrink = tau2[:, None] / (omega2[:, None] + cells.size * tau2[:, None])
    scaled = shrink / omega2[:, None]

    def within(plain: Any, by_boot: Any) -> Any:
        """Form u' W^-1 v from u'v and, for each n, sum_b (1'u_b)(1'v_b)."""
        return plain / omega2 - xp.sum(scaled * by_boot, axis=1)

    ones = within(cells.n_pairs, cells.size**2 * cells.boots)
    one_score = within(cells.total, cells.size * cells.boot_total)
    squares = within(cells.square, cells.boot_square)
    # Boots of each seed among those with n seeds: the diagonal of M_n.
    diagonal = xp.diagonal(cells.joint, axis1=2, axis2=3)
    seed_ones = cells.seed_pairs / omega2[:, None] - xp.sum(
        (scaled * cells.size)[:, :, None] * diagonal, axis=1
    )
    seed_score = cells.seed_total / omega2[:, None] - xp.sum(
        scaled[:, :, None] * cells.cross, axis=1
    )
    identity = xp.eye(cells.seed_pairs.shape[1])
    among = (cells.seed_pairs / omega2[:, None])[:, :, None] * identity - xp.sum(
        scaled[:, :, None, None] * cells.joint, axis=1
    )
    # As many rows as there are seeds, and no eigenvalue below one: safe to invert.
    core = identity + sigma2[:, None, None] * among
    right = xp.stack([seed_ones, seed_score], axis=-1)
    solved = xp.sum(xp.linalg.inv(core)[:, :, :, None] * right[:, None, :, :], axis=2)
    log_core = xp.linalg.slogdet(core)[1]
    log_within = xp.sum(
        cells.boots
        * (
            (cells.size - 1.0) * xp.log(omega2)[:, None]
            + xp.log(omega2[:, None] + cells.size * tau2[:, None])
        ),
        axis=1,
    )
    return Quadratics(
        log_det=log_within + log_core,
        weight=ones - sigma2 * xp.sum(seed_ones * solved[..., 0], axis=1),
        score=one_score - sigma2 * xp.sum(seed_ones * solved[..., 1], axis=1),
        square=squares - sigma2 * xp.sum(seed_score * solved[..., 1], axis=1),
    )


def sums(index: Ints, values: Floats, size: int) -> Floats:
    """Sum of the `values` with each index, shape (size,)."""
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)


def collect_unbalanced(
    chosen: Ints, cells: Ints, seed: Ints, boot: Ints, score: Floats, mean: Floats
) -> Unbalanced | None:
    """The sums of the cells `chosen`.

    Parameters
    ----------
    chosen : array of int, shape (n_unbalanced,)
        Cells, ascending.
    cells, seed, boot : array of int, shape (n_rows,)
        Cell of each row, its seed's position within the cell, and its boot (numbered
        through all cells, no two cells share one).
    score : array of float, shape (n_rows,)
    mean : array of float, shape (n_cells,)
    """
    if not len(chosen):
        return None
    place = np.full(len(mean), -1)
    place[chosen] = np.arange(len(chosen))
    picked = np.flatnonzero(place[cells] >= 0)
    cell, seed = place[cells[picked]], seed[picked]
    centred = score[picked] - mean[cells[picked]]
    n, n_seeds = len(chosen), int(seed.max()) + 1

    _, boot_number = np.unique(boot[picked], return_inverse=True)
    n_boots = int(boot_number.max()) + 1
    cell_of_boot = np.zeros(n_boots, dtype=np.int64)
    cell_of_boot[boot_number] = cell
    size = np.bincount(boot_number, minlength=n_boots)
    total = sums(boot_number, centred, n_boots)
    # Number the sizes that occur in each cell: groups of boots.
    pairs, group_of_boot = np.unique(cell_of_boot * (n_seeds + 1) + size, return_inverse=True)
    cell_of_group = pairs // (n_seeds + 1)
    per_cell = np.bincount(cell_of_group, minlength=n)
    slot = np.arange(len(pairs)) - (np.cumsum(per_cell) - per_cell)[cell_of_group]
    n_groups = int(per_cell.max())
    at = cell_of_group * n_groups + slot

    def spread(values: Any, *, weights: Floats | None = None) -> Floats:
        flat = np.bincount(at[values], weights, minlength=n * n_groups).astype(np.float64)
        return flat.reshape(n, n_groups)

    sizes = np.zeros(n * n_groups)
    sizes[at] = pairs % (n_seeds + 1)
    seed_key = cell * n_seeds + seed
    row_key = at[group_of_boot[boot_number]] * n_seeds + seed
    joint = np.zeros((n * n_groups, n_seeds, n_seeds))
    # One pass per pair of seeds; has[s] marks the boots that seed s has.
    has = np.zeros((n_seeds, n_boots), dtype=np.bool_)
    has[seed, boot_number] = True
    where = at[group_of_boot]
    for first in range(n_seeds):
        for second in range(first, n_seeds):
            counts = np.bincount(where[has[first] & has[second]], minlength=n * n_groups)
            joint[:, first, second] = joint[:, second, first] = counts
    unbalanced = Unbalanced(
        cell=chosen.astype(np.int64),
        centre=mean[chosen],
        n_pairs=np.bincount(cell, minlength=n).astype(np.float64),
        total=sums(cell, centred, n),
        square=sums(cell, centred**2, n),
        seed_pairs=np.bincount(seed_key, minlength=n * n_seeds)
        .reshape(n, n_seeds)
        .astype(np.float64),
        seed_total=sums(seed_key, centred, n * n_seeds).reshape(n, n_seeds),
        size=sizes.reshape(n, n_groups),
        boots=spread(group_of_boot),
        boot_total=spread(group_of_boot, weights=total),
        boot_square=spread(group_of_boot, weights=total**2),
        joint=joint.reshape(n, n_groups, n_seeds, n_seeds),
        cross=sums(row_key, total[boot_number], n * n_groups * n_seeds).reshape(
            n, n_groups, n_seeds
        ),
    )
    for name in Unbalanced.__dataclass_fields__:
        getattr(unbalanced, name).flags.writeable = False
    return unbalanced


def restricted_log_density(
    cells: Unbalanced, sigma2: Any, tau2: Any, omega2: Any, *, xp: Any = np
) -> Any:
    """Log density of the contrasts among the rows of incomplete cells.

    The likelihood of a cell's rows with its mean integrated out under a flat prior
    (restricted likelihood, REML): what the replicates say about the variances. All
    bootstraps resample the test set at hand, so what one seed's rows share is the seed's
    own effect and its interaction with that test set: V is that of
    :func:`unbalanced_quadratics` with sigma^2 + omega^2 between seeds. What the test set
    at hand does to all seeds is in every row, so no contrast has it.

    Parameters
    ----------
    cells : Unbalanced
    sigma2, tau2, omega2 : array, shape (n_unbalanced,)
        Variances of seeds, of test sets and of their interaction.
    xp : module
        The array library.

    Returns
    -------
    array, shape (n_unbalanced,)
        -((n - 1) log 2 pi + log|V| + log 1'V^-1 1 + x'V^-1 x - (1'V^-1 x)^2 / 1'V^-1 1) / 2.
    """
    q = unbalanced_quadratics(cells, sigma2 + omega2, tau2, omega2, xp=xp)
    constant = (cells.n_pairs - 1.0) * np.log(2.0 * np.pi)
    return -0.5 * (constant + q.log_det + xp.log(q.weight) + q.square - q.score**2 / q.weight)
