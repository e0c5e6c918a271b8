"""Tables of scores by prompt, for the tests of what prompts do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.design import Design, Source, build_design
from bayeseval.records import Records
from bayeseval.spec import load_spec

PROMPTS = ("p0", "p1", "p2")


def frame(*, column: str = "prompt", seed: int = 1, complete: bool = False) -> pd.DataFrame:
    """Scores of 4 models in 3 languages and 2 tasks; m3 lacks p2, and one cell has p1 alone."""
    rng = np.random.default_rng(seed)
    cells = list(itertools.product("mnop", ("de", "en", "sw"), ("qa", "nli")))
    model = dict(zip("mnop", rng.normal(0.0, 4.0, 4), strict=True))
    shared = {key: rng.normal(0.0, 3.0) for key in itertools.product(("qa", "nli"), PROMPTS)}
    rows = []
    for (m, language, task), prompt in itertools.product(cells, PROMPTS):
        lost = (m == "p" and prompt == "p2") or ((m, language, task) == ("n", "de", "qa"))
        if complete or not lost or (m == "n" and prompt == "p1"):
            score = 50.0 + model[m] + shared[task, prompt] + rng.normal(0.0, 1.5)
            rows.append((m, language, task, prompt, score))
    return pd.DataFrame(rows, columns=["model", "language", "task", column, "score"])


def records(**more: Any) -> Records:
    """Read :func:`frame`."""
    return Records.from_frame(frame(**more), name="prompts")


def design(table: Records | None = None, **more: Any) -> Design:
    """Build the design of a table of prompts under `additive` with other settings."""
    given = load_spec("additive").model_dump() | {"name": "x"} | more
    return build_design(records() if table is None else table, load_spec(given))


def source(of: Design) -> Source:
    """Return the noise of prompts of a design."""
    (found,) = (one for one in of.sources if one.name in names.SHARED_SOURCES)
    return found
