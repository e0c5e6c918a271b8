"""A small table of counts, for likelihoods on a logit link."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bayeseval.design import Design, build_design
from bayeseval.records import Records
from bayeseval.spec import load_spec

LEVELS = list(product(("m0", "m1", "m2"), ("l0", "l1", "l2"), ("t0", "t1", "t2")))


def frame() -> pd.DataFrame:
    """Scores between 0 and 100, one of them 0, with items and chance levels of two tasks."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(LEVELS, columns=["model", "language", "task"])
    n = rng.integers(20, 60, size=len(table))
    k = rng.binomial(n, 0.4)
    k[0] = 0
    return table.assign(
        n=n, k=k, score=100.0 * k / n, chance=table["task"].map({"t0": 25.0, "t1": 10.0})
    )


def records(table: pd.DataFrame | None = None, **more: Any) -> Records:
    table = frame() if table is None else table
    return Records.from_frame(
        table, **{"name": "small", "units": (0, 100), "mixed_scales": "allow", **more}
    )


def design(table: pd.DataFrame | None = None, **spec: Any) -> Design:
    return build_design(records(table), load_spec({"name": "x", **spec}))
