"""What the terminal and the page say of evenness that the scores or the model make doubtful."""

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
from tests.reporting.pages import read_page


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


def test_residual_sds_by_task_are_said_to_make_gaps_too_small_beside_a_task_near_zero(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(4)
    cells = list(product("abcd", ("de", "en", "fi", "hi", "sw"), ("mt", "nli", "qa", "hard")))
    frame = pd.DataFrame(cells, columns=["model", "language", "task"])
    off = rng.normal(0.0, 10.0, len(cells))
    near_zero = frame["task"] == "hard"
    warning = (
        "Warning: the scores of task 'hard' vary less than half as much as those of other tasks, "
        "as they do near a bound or near chance level, and have the largest weight because "
        "residual sds differ by task: sds of gaps, and all differences between models and between "
        "languages, come out too small, and their intervals do not show it; the notes of the fit "
        "say what to do."
    )
    for share, terms, (in_terminal, on_page) in (
        (0.2, ["model:language"], (1, 2)),
        # Evenness is not estimated, and differences between models are too small all the same.
        (0.2, [], (1, 2)),
        (0.8, ["model:language"], (0, 0)),
    ):
        frame["score"] = np.where(near_zero, 10.0 + share * off, 50.0 + off).round(1)
        spec = {"name": "mine", "interactions": terms, "residual_by": "task"}
        found = be.fit(frame, spec, engine="marginal", draws=200, chains=2)
        assert " ".join(format_results(found.data, found.run).split()).count(warning) == in_terminal
        saved = found.save(tmp_path / f"{share} {len(terms)}", figures=False)
        page = " ".join(read_page(render_page(read_saved(saved))).text.split())
        assert page.count(warning) == on_page
