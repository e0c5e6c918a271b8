"""Intervals of languages say where a table does not show what cells share of test sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.fitting.report.terminal import format_results
from bayeseval.reporting import read_saved
from bayeseval.reporting.page import render_page

SENTENCE = "The intervals are for these test sets: other items would move the scores of all models."


def table(column: str) -> pd.DataFrame:
    """Four models and languages on 60 items each, by item or with standard errors of shares."""
    rng = np.random.default_rng(4)
    rows = [
        {"model": m, "language": one, "task": "t", "item": i, "score": float(rng.random() < 0.6)}
        for one in ("de", "en", "fr", "sw")
        for i in range(60)
        for m in "abcd"
    ]
    frame = pd.DataFrame(rows)
    if column == "se":
        means = frame.groupby(["model", "language", "task"], as_index=False)["score"].mean()
        frame = means.assign(se=np.sqrt(means["score"] * (1 - means["score"]) / 60))
    return frame


@pytest.mark.parametrize(("column", "says"), [("se", True), ("item", False)])
def test_intervals_name_their_test_sets(column: str, says: bool, tmp_path: Path) -> None:
    fit = be.fit(table(column), "additive", engine="marginal", draws=200, chains=2)
    assert (SENTENCE in " ".join(format_results(fit.data, fit.run).split())) == says
    page = render_page(read_saved(fit.save(tmp_path / "fit", figures=False)))
    assert (SENTENCE in page) == says
