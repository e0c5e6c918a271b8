"""Draw replicates of simulated cells: seeds and bootstrapped test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.families import FAMILIES
from bayeseval.spec import ModelSpec, separated

__all__ = ["draw_replicates", "draw_source_sds", "sources_of"]


def sources_of(
    model: ModelSpec, *, n_seeds: int, n_boot: int, drop_share: float
) -> tuple[names.Source, ...]:
    """Sources of noise that the replicates have."""
    for argument, number in (("n_seeds", n_seeds), ("n_boot", n_boot)):
        if number < 0:
            raise InputError(f"{argument} must be zero or more, got {number}")
    if not 0.0 <= drop_share < 1.0:
        raise InputError(f"drop_share must lie in [0, 1), got {drop_share:g}")
    present: dict[names.Source, bool] = {
        "seed": n_seeds > 0,
        "boot": n_boot > 0,
        "seed_boot": n_seeds > 0 and n_boot > 0,
    }
    sources = tuple(source for source, is_present in present.items() if is_present)
    left_out = [source for source in sources if source not in separated(model.sources)]
    if left_out:
        raise InputError(
            f"n_{left_out[0]}{'s' * (left_out[0] == 'seed')}: the sources of {model.name} leave "
            f"out {left_out[0]}; add it to them"
        )
    if drop_share > 0.0 and not sources:
        raise InputError("drop_share needs replicates; set n_seeds or n_boot")
    family = FAMILIES[model.families[0]]
    if sources and not (family.quantity == "score" and family.kernel == "normal"):
        raise InputError(
            f"replicates (n_seeds, n_boot) need the likelihood normal; {model.name} has "
            f"{family.name}"
        )
    return sources


def draw_source_sds(
    sources: Sequence[names.Source],
    scale: Mapping[str, float],
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> dict[str, Floats | float]:
    """Standard deviations of seeds and test sets in every cell, with their hyperparameters."""
    sds: dict[str, Floats | float] = {}
    for source in sources:
        typical, differ = names.source_model_sd(source), names.source_log_sd(source)
        sds |= {typical: scale[typical], differ: scale[differ]}
        sds[names.source_cell_sd(source)] = scale[typical] * np.exp(
            rng.normal(0.0, scale[differ], size=shape)
        )
    return sds


def draw_replicates(
    cells: pd.DataFrame,
    sds: Mapping[names.Source, Floats],
    n_seeds: int,
    n_boot: int,
    drop_share: float,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """One row per cell, seed and test set, in the place of one row per cell."""
    n = len(cells)

    def draw(source: names.Source, *shape: int) -> Floats:
        sd = sds.get(source, np.zeros(n)).reshape(-1, 1, 1)
        return np.asarray(sd * rng.standard_normal((n, *shape)))

    # The test set is one draw; its bootstraps scatter around it with the same variance.
    x = cells[names.SCORE].to_numpy()[:, None, None] + draw("seed", n_seeds, 1)
    x = x + draw("boot", 1, 1) + draw("boot", 1, n_boot)
    x = x + draw("seed_boot", n_seeds, 1) + draw("seed_boot", n_seeds, n_boot)
    kept = rng.random(x.shape) >= drop_share
    kept[:, :2, :2] = True
    cell, seed, boot = np.nonzero(kept)
    frame = cells.iloc[cell].reset_index(drop=True)
    return frame.assign(**{"seed": seed, "boot": boot, names.SCORE: x[kept]})
