"""Draw replicates of simulated cells: seeds, bootstrapped test sets and prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_mapping, as_number
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean
from bayeseval.families import FAMILIES
from bayeseval.spec import ModelSpec, separated

__all__ = [
    "draw_replicates",
    "draw_shared",
    "draw_source_sds",
    "draw_test_sets",
    "shares_of",
    "sources_of",
]

# What cells may have in common that share a test set.
_SHARED_BY: Final = {
    "task": [names.TASK],
    "language:task": [names.LANGUAGE, names.TASK],
    "model:task": [names.MODEL, names.TASK],
}


def sources_of(
    model: ModelSpec, *, n_seeds: int, n_boot: int, n_prompts: int, drop_share: float
) -> tuple[names.Source, ...]:
    """Sources of noise that the replicates have."""
    given = {"n_seeds": n_seeds, "n_boot": n_boot, "n_prompts": n_prompts}
    for argument, number in given.items():
        if number < 0:
            raise InputError(f"{argument} must be zero or more, got {number}")
    if not 0.0 <= drop_share < 1.0:
        raise InputError(f"drop_share must lie in [0, 1), got {drop_share:g}")
    present: dict[names.Source, bool] = {
        "seed": n_seeds > 0,
        "boot": n_boot > 0,
        "seed_boot": n_seeds > 0 and n_boot > 0,
        "prompt": n_prompts > 0,
    }
    sources = tuple(source for source, is_present in present.items() if is_present)
    left_out = [source for source in sources if source not in separated(model.sources)]
    if left_out:
        raise InputError(
            f"n_{left_out[0]}{'s' * (left_out[0] == 'seed')}: the sources of {model.name} leave "
            f"out {left_out[0]}; add it to them"
        )
    if drop_share > 0.0 and not sources:
        raise InputError("drop_share needs replicates; set n_seeds, n_boot or n_prompts")
    family = FAMILIES[model.families[0]]
    if sources and not (family.quantity == "score" and family.kernel == "normal"):
        raise InputError(
            f"replicates (n_seeds, n_boot, n_prompts) need the likelihood normal; {model.name} has "
            f"{family.name}"
        )
    return sources


def shares_of(given: Mapping[str, float] | None, n_boot: int) -> dict[str, float]:
    """Shares of the variance of test sets by what cells have in common, checked."""
    if given is None:
        return {}
    name = "test_set_shares"
    shares = {}
    for key, value in as_mapping(name, given, of="what cells share to numbers").items():
        if key not in _SHARED_BY:
            raise InputError(
                f"{name}: {key!r} is not known{did_you_mean(str(key), _SHARED_BY)} (known: "
                f"{', '.join(_SHARED_BY)})"
            )
        shares[key] = as_number(f"{name}[{key!r}]", value)
        if not 0.0 <= shares[key] <= 1.0:
            raise InputError(f"{name}[{key!r}] must lie in [0, 1], got {shares[key]:g}")
    # Shares such as 0.7, 0.2 and 0.1 add up to 1 up to rounding.
    if sum(shares.values()) > 1.0 + 1e-9:
        raise InputError(f"{name} must add up to at most 1, got {sum(shares.values()):g}")
    if n_boot == 0:
        raise InputError(f"{name} needs bootstrapped test sets; set n_boot")
    return shares


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


def draw_shared(
    source: names.Source,
    scale: Mapping[str, float],
    sizes: Mapping[str, int],
    n_prompts: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Floats | float], Floats]:
    """What prompts do to several cells: its sds and effects, and the sums of the effects.

    The sums have the shape (n_languages, n_tasks, n_models, n_prompts), the effects of
    ``prompt:model:task`` (n_prompts, n_tasks, n_models), and so on.
    """
    truth: dict[str, Floats | float] = {}
    total = np.zeros((*(sizes[f] for f in names.FACTORS), n_prompts))
    for name in names.shared_by(source):
        sd = truth[names.sd_name(name)] = scale[names.sd_name(name)]
        own = [f for f in names.FACTORS if f in name.split(":")]
        shape = [sizes[f] if f in own else 1 for f in names.FACTORS]
        effects = rng.normal(0.0, sd, size=(n_prompts, *shape))
        truth[names.effect_name(name)] = effects.reshape(n_prompts, *(sizes[f] for f in own))
        total = total + np.moveaxis(effects, 0, -1)
    return truth, total


def draw_test_sets(
    cells: pd.DataFrame, shares: Mapping[str, float], n_boot: int, rng: np.random.Generator
) -> Floats:
    """What a cell shares of its test set, then of each bootstrap, in sds of the cell's test sets.

    The shape is (n_cells, 1 + n_boot).
    """
    total = np.zeros((len(cells), 1 + n_boot))
    for key, share in shares.items():
        group = cells.groupby(_SHARED_BY[key]).ngroup().to_numpy()
        total += np.sqrt(share) * rng.standard_normal((group.max() + 1, 1 + n_boot))[group]
    return total


def draw_replicates(
    cells: pd.DataFrame,
    sds: Mapping[names.Source, Floats],
    n_seeds: int,
    n_boot: int,
    drop_share: float,
    rng: np.random.Generator,
    *,
    prompts: Floats | None = None,
    own_share: float,
    shared: Floats,
) -> pd.DataFrame:
    """One row per cell, seed, test set and prompt, in the place of one row per cell.

    `prompts`, of shape (n_cells, n_prompts), is what every prompt does to several cells, `shared`
    that of :func:`draw_test_sets`, and `own_share` the rest of the variance of test sets.
    """
    n = len(cells)

    def draw(source: names.Source, *shape: int) -> Floats:
        sd = sds.get(source, np.zeros(n)).reshape(-1, *(1 for _ in shape))
        return np.asarray(sd * rng.standard_normal((n, *shape)))

    # The test set is one draw; its bootstraps scatter around it with the same variance.
    x = cells[names.SCORE].to_numpy()[:, None, None] + draw("seed", n_seeds, 1)
    own = np.sqrt(max(own_share, 0.0))
    x = x + own * draw("boot", 1, 1) + own * draw("boot", 1, n_boot)
    x = x + (sds.get("boot", np.zeros(n))[:, None] * (shared[:, :1] + shared[:, 1:]))[:, None]
    x = x + draw("seed_boot", n_seeds, 1) + draw("seed_boot", n_seeds, n_boot)
    if prompts is not None:
        x = x[..., None] + prompts[:, None, None] + draw("prompt", 1, 1, prompts.shape[1])
        # A prompt that is missing in a cell is so for all of its runs.
        kept = np.broadcast_to(
            rng.random((n, 1, 1, prompts.shape[1])) >= drop_share, x.shape
        ).copy()
        kept[..., :2] = True
        cell, seed, boot, prompt = np.nonzero(kept)
        frame = cells.iloc[cell].reset_index(drop=True)
        labels = [f"p{i}" for i in prompt]
        return frame.assign(seed=seed, boot=boot, prompt=labels, **{names.SCORE: x[kept]})
    kept = rng.random(x.shape) >= drop_share
    kept[:, :2, :2] = True
    cell, seed, boot = np.nonzero(kept)
    frame = cells.iloc[cell].reset_index(drop=True)
    return frame.assign(**{"seed": seed, "boot": boot, names.SCORE: x[kept]})
