"""Small results that the tests of reports share."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import bayeseval as be

#: Names that a format may take for its own marks.
HARD_NAMES = (
    "<script>alert(1)</script>",
    "a_b & 50 % #1 $x$",
    "{brace}~tilde^hat\\slash",
    "[bracket]|pipe--dash",
    "模型 नमूना",
    '"quoted" *star* `tick`',
    "NA",
)
HARD_LANGUAGES = {"l0": "हिन्दी", "l1": "中文", "l2": "R&D_lang"}


def hard_table() -> pd.DataFrame:
    """A complete table whose models have the names above."""
    simulated = be.simulate(
        "additive", n_languages=5, n_tasks=2, n_models=len(HARD_NAMES), seed=5, observed_share=1.0
    )
    table = simulated.records.table
    called = {f"m{number}": name for number, name in enumerate(HARD_NAMES)}
    # Inside of the bounds 0 and 100.
    score = (0.6 * table["score"] + 20.0).clip(0.0, 100.0)
    return table.assign(model=table["model"].astype(str).map(called), score=score)


def saved_fit(folder: Path, table: pd.DataFrame | None = None, *, seed: int = 0) -> Path:
    """A small fit in its folder, without figures."""
    records = be.load(
        hard_table() if table is None else table, language_names=HARD_LANGUAGES, units=(0, 100)
    )
    fit = be.fit(records, "additive", engine="marginal", draws=1000, chains=2, seed=seed)
    return fit.save(folder, figures=False)
