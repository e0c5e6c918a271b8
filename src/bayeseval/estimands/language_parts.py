"""What related languages share: the parts of each language's effect, as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval.estimands.arrays import interval_summary
from bayeseval.estimands.frames import finish, summary_columns
from bayeseval.estimands.read import group, read_arrays
from bayeseval.estimands.related import part_draws

__all__ = ["language_parts_table"]


def language_parts_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Split the effect of every language into its own part and those of relations.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with what :func:`bayeseval.estimands.derive` adds.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``language``, ``component`` (``language`` is what it does not share, then the relations),
        ``effect_{mean,sd,lower,upper}`` on the linear predictor's scale, ``ci_kind``,
        ``ci_prob``. Without relations there are no rows.
    """
    arrays = read_arrays(tree)
    related = arrays.related.get(names.LANGUAGE)
    if related is None:
        return pd.DataFrame()
    languages = np.array(arrays.levels[names.LANGUAGE], dtype=object)
    seed = int(group(tree, "estimands").attrs["seed"])
    draws = part_draws(
        related,
        arrays.main_sd[names.LANGUAGE],
        arrays.main[names.LANGUAGE],
        generator(seed, "language parts"),
    )
    rows = [
        pd.DataFrame(
            {names.LANGUAGE: languages, "component": label}
            | summary_columns("effect", interval_summary(values, ci_prob=ci_prob))
        )
        for label, values in draws.items()
    ]
    return finish(pd.concat(rows, ignore_index=True), ci_prob)
