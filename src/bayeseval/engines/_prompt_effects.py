"""Effects of prompts from standard normal variables, scaled as the scores of the draw demand.

Given the sds, effects of prompts are Gaussian, and where a model's own noise of prompts is
small, its scores determine what prompts do to a language nearly exactly: the effects and the sd
form a funnel, whether they are centred or not. Therefore NUTS draws z ~ N(0, 1), and an effect is

    effect = m + S (z - mean z) + s mean z,

with m and S^2 about the mean and the variance of the effect given the sds, the coarser effects
and the contrasts among prompts, and s^2 about the variance of P times its mean over the prompts,
of which contrasts say nothing. The Jacobian is exact, so an approximate S changes how well NUTS
moves, not what it samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayeseval import names
from bayeseval.design import ByCell

__all__ = ["arrays_of", "with_prompts"]


def arrays_of(by_cell: ByCell) -> dict[str, Any]:
    """Arrays of the density, and what each shared effect has in common with the others.

    Returns
    -------
    dict
        ``there`` and ``deviation``; by shared effect the lists ``level`` and ``shared``. The latter
        has ``group``, the task (language and task, ...) of every level; ``size``, the prompts
        of every group; ``cells``, the cells of every level; and ``others``, the number of
        levels of every other effect on the cells of a level.
    """
    cell, place = np.nonzero(by_cell.there)
    shared = []
    for one in by_cell.shared:
        own = one.level[cell, place]
        # A label is that of the prompt and those of the factors.
        units = ["|".join(label.rsplit("|", one.name.count(":"))[1:]) for label in one.labels]
        group = np.unique(units, return_inverse=True)[1].reshape(-1)
        others = []
        for other in by_cell.shared:
            pairs = np.unique(np.stack([own, other.level[cell, place]]), axis=1)
            others.append(np.bincount(pairs[0], minlength=one.n_levels).astype(np.float64))
        shared.append(
            {
                "group": group,
                "size": np.bincount(group).astype(np.float64),
                "cells": np.bincount(own, minlength=one.n_levels).astype(np.float64),
                "others": np.stack(others),
            }
        )
    return {
        "there": by_cell.there,
        "deviation": by_cell.deviation,
        "level": [one.level for one in by_cell.shared],
        "shared": shared,
    }


def with_prompts(
    source: str,
    shared: Sequence[tuple[str, str]],
    arrays: Mapping[str, Any],
    known: Mapping[str, Any],
    values: Mapping[str, Any],
) -> tuple[dict[str, Any], Any]:
    """Replace the standard normal variables of a source by the effects of its prompts.

    Parameters
    ----------
    source : {"prompt", "judge"}
    shared : sequence of (str, str)
        Variable and sd of each shared effect.
    arrays : mapping
        From :func:`arrays_of`.
    known : mapping
        Values of the sds.
    values : mapping
        Unconstrained variables; those of `shared` are standard normal.

    Returns
    -------
    values : dict
        With the effects.
    log_determinant : float
        Log of the determinant of their derivatives by the standard normal variables.
    """
    effects, log_determinant = _effects(
        [values[effect] for effect, _ in shared],
        [known[sd] for _, sd in shared],
        known[names.source_cell_sd(source)] ** 2,
        known[names.SD_RESIDUAL] ** 2,
        arrays,
    )
    replaced = dict(zip([name for name, _ in shared], effects, strict=True))
    return {**values, **replaced}, log_determinant


def _effects(
    z: Sequence[Any], sds: Sequence[Any], variance: Any, residual: Any, arrays: Mapping[str, Any]
) -> tuple[list[Any], Any]:
    """Effects from standard normal variables, and the log of the determinant of derivatives.

    `variance` is that of the cells' own parts, `residual` that of the records.
    """
    there, rest = arrays["there"], arrays["deviation"]
    effects: list[Any] = [None] * len(z)
    log_determinant: Any = 0.0
    # What prompts do to a language comes last: the cells of a model with little noise of its
    # own determine it.
    order = sorted(range(len(z)), key=lambda j: (j > 0, -j))
    for at, j in enumerate(order):
        level, one = arrays["level"][j], arrays["shared"][j]
        group, size = one["group"], one["size"]
        own, later = sds[j] ** 2, order[at + 1 :]
        weight = there / (variance + sum(sds[i] ** 2 for i in later))[:, None]
        total = _over(weight, level, len(z[j]))
        error = _over(weight**2 * variance[:, None], level, len(z[j])) / total**2
        error = error + sum(sds[i] ** 2 / one["others"][i] for i in later)
        centre = _over(weight * rest, level, len(z[j])) / total * own / (own + error)
        scale = jnp.sqrt(own * error / (own + error))
        # The mean over the prompts of a group is a part of the records' means.
        of_mean = size * _mean(residual / one["cells"] + error / size[group], group, size)
        wide = jnp.sqrt(own * of_mean / (own + of_mean))
        middle = _mean(z[j], group, size)
        effects[j] = centre + scale * (z[j] - middle[group]) + (wide * middle)[group]
        log_determinant += jnp.log(scale).sum()
        log_determinant += jnp.log(wide * _mean(1.0 / scale, group, size)).sum()
        added = effects[j][level] * there
        rest = (rest - added + (added.sum(1) / there.sum(1))[:, None]) * there
    return effects, log_determinant


def _over(values: Any, level: Any, n_levels: int) -> Any:
    return jnp.zeros(n_levels).at[level].add(values)


def _mean(values: Any, group: Any, size: Any) -> Any:
    return jnp.zeros(len(size)).at[group].add(values) / size
