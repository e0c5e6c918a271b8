"""Prompts (or judges) of the table, as new measurements use them.

A new measurement of a model on a task uses the prompts with which the model has records there,
or all prompts of the task if it has none. What such a prompt does to several cells is known in
part from the table, and is the same in all measurements: between models it cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import sparse

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.read import shared_errors

__all__ = ["PromptEffects", "TablePrompts", "read_table_prompts"]


@dataclass(frozen=True, eq=False)
class PromptEffects:
    """What prompts do to the cells of a task, or to those of a language or a model in it.

    Attributes
    ----------
    name : str
        ``prompt:task``, ``prompt:language:task`` or ``prompt:model:task``.
    factor : {"language", "model"} or None
    draws : ndarray, shape (n_samples, n_levels)
    key : ndarray of int, shape (n_levels,)
        Prompt times the number of levels of the factor, plus the level.
    n_keys : int
        Number of prompts times that of levels.
    variance : float
        Mean over the draws, of a prompt that the table does not have in this language or model.
    """

    name: str
    factor: names.Factor | None
    draws: Floats
    key: Index
    n_keys: int
    variance: float


@dataclass(frozen=True, eq=False)
class TablePrompts:
    """Prompts of measurements, and what they do to several cells.

    Attributes
    ----------
    source : {"prompt", "judge"}
    n : int
        Prompts of all tasks.
    uses : dict of (int, int) to ndarray of int
        Prompts by model and task; model -1 for models without records on the task.
    effects : tuple of PromptEffects
    """

    source: names.Source
    n: int
    uses: dict[tuple[int, int], Index]
    effects: tuple[PromptEffects, ...]

    def of(self, model: Index, task: Index) -> list[Index]:
        """Prompts of a measurement of every cell; none where the task has no such noise."""
        none = np.empty(0, dtype=np.int64)
        return [
            self.uses.get((m, t), self.uses.get((-1, t), none))
            for m, t in zip(model.tolist(), task.tolist(), strict=True)
        ]

    def weights(
        self,
        effects: PromptEffects,
        column: Index,
        n_columns: int,
        *,
        model: Index,
        language: Index,
        task: Index,
    ) -> sparse.csr_array:
        """Weights of the columns in what the prompts add to measurements of cells."""
        prompts = self.of(model, task)
        count = np.array([len(one) for one in prompts])
        cell = np.repeat(np.arange(len(count)), count)
        level = {names.MODEL: model, names.LANGUAGE: language}.get(effects.factor or "")
        key = np.concatenate([np.empty(0, dtype=np.int64), *prompts]) * (effects.n_keys // self.n)
        key = key if level is None else key + level[cell]
        share = 1.0 / count[cell]
        return sparse.csr_array((share, (cell, column[key])), shape=(len(count), n_columns))


def read_table_prompts(tree: xr.DataTree, arrays: PosteriorArrays) -> TablePrompts | None:
    """Read the prompts of a fit's table and their effects.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    arrays : PosteriorArrays
        The same fit, also with languages without records.

    Returns
    -------
    TablePrompts or None
        None where cells have no prompts in common, or their noise is not pooled.
    """
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    for source in names.SHARED_SOURCES:
        found = list(shared_errors(posterior, constant, source))
        if not found:
            continue
        cell = constant[f"{source}_row_cell"].to_numpy()
        record = constant[f"{names.source_cell_dim(source)}_record"].to_numpy()[cell]
        # A level of the first effect is a prompt of a task.
        prompt = constant[f"{names.term_dim(found[0].name)}_{source}_row"].to_numpy()
        model, task = (arrays.index[factor][record] for factor in (names.MODEL, names.TASK))
        uses = {
            (-1, int(t)): np.unique(prompt[task == t]) for t in np.unique(task)
        } | {
            (int(m), int(t)): np.unique(prompt[(model == m) & (task == t)])
            for m, t in np.unique(np.stack([model, task]), axis=1).T
        }  # fmt: skip
        return TablePrompts(
            source,
            int(prompt.max()) + 1,
            uses,
            tuple(_effects(posterior, constant, arrays, source, prompt, record)),
        )
    return None


def _effects(
    posterior: xr.Dataset,
    constant: xr.Dataset,
    arrays: PosteriorArrays,
    source: names.Source,
    prompt: Index,
    record: Index,
) -> Iterator[PromptEffects]:
    for one in shared_errors(posterior, constant, source):
        dim = names.term_dim(one.name)
        level = constant[f"{dim}_{source}_row"].to_numpy()
        parts = one.name.split(":")
        factor: names.Factor | None = next(
            (f for f in (names.LANGUAGE, names.MODEL) if f in parts), None
        )
        n_levels = 1 if factor is None else len(arrays.levels[factor])
        own = 0 if factor is None else arrays.index[factor][record]
        draws = posterior[names.effect_name(one.name)].transpose("chain", "draw", dim).to_numpy()
        draws = draws.reshape(-1, draws.shape[-1])
        key = np.empty(draws.shape[1], dtype=np.int64)
        key[level] = prompt * n_levels + own
        n_keys = (int(prompt.max()) + 1) * n_levels
        yield PromptEffects(one.name, factor, draws, key, n_keys, float(np.mean(one.sd**2)))
