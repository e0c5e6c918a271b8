"""A model with one score throughout: what the terminal and the page say of its evenness."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import bayeseval as be
from bayeseval.fitting.report.terminal import format_results
from bayeseval.reporting import read_saved
from bayeseval.reporting.observed import read_observed
from bayeseval.reporting.page import render_page


def test_a_model_with_one_score_throughout_is_explained(tmp_path: Path) -> None:
    cells = list(product(("a", "b", "stuck"), ("de", "en", "fi", "hi", "sw"), ("nli", "qa")))
    frame = pd.DataFrame(cells, columns=["model", "language", "task"])
    language = frame["language"].map({"de": 4.0, "en": 20.0, "fi": 0.0, "hi": -9.0, "sw": -15.0})
    rng = np.random.default_rng(3)
    frame["score"] = (55.0 + language + rng.normal(0.0, 1.0, len(cells))).round(1)
    frame.loc[frame["model"] == "stuck", "score"] = 25.0
    fit = be.fit(frame, "crossed", engine="marginal", draws=200, chains=2)
    text = " ".join(format_results(fit.data, fit.run).split())
    note = "stuck has one score throughout: its gaps mirror the potentials of the languages"
    assert text.count(note) == 1
    assert "Apart from stuck, the sd is largest for" in text
    folder = fit.save(tmp_path / "fit", figures=False)
    observed = read_observed(folder)
    assert observed is not None
    assert observed.constant == ("stuck",)
    assert note in render_page(read_saved(folder))
