"""Shipped benchmarks against the published files that their tables were written from."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
import yaml

from bayeseval import fit, load
from bayeseval.records import list_benchmarks
from bayeseval.records.registry import read_card
from scripts.shipped_tables import EUROEVAL_MODELS, euroeval, mmmlu

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests" / "reference"
SHAPES = {
    "mmmlu": "140 records, 10 models, 14 languages, 1 task",
    "euroeval": "3356 records, 22 models, 30 languages, 7 tasks",
}


def rows(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "benchmarks" / name / "records.csv")


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_list_and_the_card(name: str) -> None:
    listed = {one.name: one.shape for one in list_benchmarks()}
    assert listed[name] == SHAPES[name]
    card = read_card(ROOT / "benchmarks" / name / "benchmark.yaml")
    assert card.remote is None  # nothing is downloaded
    assert "MIT License, Copyright (c)" in card.licence
    licence = (ROOT / "benchmarks" / name / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("MIT License")
    holder = card.licence.partition("MIT License, ")[2].partition(" (file")[0]
    assert holder in licence
    commit = card.source.partition("commit ")[2].split()[0]
    assert len(commit) == 40
    records = load(name)
    assert sorted(records.language_names) == list(records.coords["language"])


def test_mmmlu_is_the_published_table() -> None:
    shipped = (ROOT / "benchmarks" / "mmmlu" / "records.csv").read_text(encoding="utf-8")
    assert mmmlu(REFERENCE / "simple_evals") == shipped
    score = rows("mmmlu").set_index(["model", "language"])["accuracy"]
    # Read off the page by eye: bold type, the last column, and languages with a territory.
    assert score["o3-high", "ar"] == 0.904
    assert score["gpt-4.1-nano-2025-04-14", "yo"] == 0.455
    assert score["gpt-4o-mini-2024-07-18", "pt"] == 0.768
    assert score["o1", "zh"] == 0.889
    # The row of averages is left out and agrees with what it averages.
    averages = score.groupby("model").mean().round(3)
    assert averages["o3-high"] == 0.888
    assert averages["gpt-4.1-nano-2025-04-14"] == 0.669


def test_mmmlu_has_the_known_errors_of_accuracies() -> None:
    records = load("mmmlu")
    made = fit(records, draws=200, chains=1, seed=0)
    assert made.spec.name == "auto-model_language"
    errors = made.data["constant_data"]["se"].values
    table = records.table
    share = (table["score"].to_numpy() * 14_042 + 0.5) / 14_043
    # Errors follow the fitted shares, from which single scores differ by a few points.
    assert errors == pytest.approx((share * (1 - share) / 14_042) ** 0.5, rel=0.05)
    ranking = made.ranking()
    assert list(ranking["model"][:2]) == ["o3-high", "o1"]
    # A complete table: expected scores are the plain means, up to a fraction of their errors.
    means = table.groupby("model", observed=True)["score"].mean()
    found = ranking.set_index("model")["score_mean"]
    assert float((found - means).abs().max()) < 0.001


def test_euroeval_is_what_the_leaderboards_print() -> None:
    shipped = rows("euroeval")
    some = shipped[shipped["language"].isin(["bs", "no"])]
    header, *lines = euroeval(REFERENCE / "euroeval").splitlines()
    assert header == ",".join(shipped.columns)
    text = (ROOT / "benchmarks" / "euroeval" / "records.csv").read_text(encoding="utf-8")
    assert lines == [line for line in text.splitlines() if line.split(",")[1] in ("bs", "no")]
    assert len(lines) == len(some)
    # `google/gemma-3-1b-it` is on these leaderboards, and is not one of ours.
    assert set(shipped["model"]) == set(EUROEVAL_MODELS)


def test_cells_of_euroeval() -> None:
    cell = rows("euroeval").set_index(["model", "language", "dataset"])
    # Printed: "65.55 ± 1.27" in leaderboards/bosnian_all.csv.
    bosnian = cell.loc[("google/gemma-3-27b-it", "bs", "reading-comprehension")]
    assert bosnian["score"] == 65.55
    assert bosnian["se"] == round(1.27 / 1.96 * math.sqrt(11), 2)
    # Bokmål comes first in the configuration of Norwegian.
    norwegian = cell.loc[("microsoft/phi-4", "no", "named-entity-recognition")]
    assert norwegian["source_dataset"] == "norne-nb"
    assert norwegian["metric"] == "micro_f1_no_misc"
    # A model that always gives the same answer: 0.00 ± 0.00 is no error of exactly zero.
    constant = cell.loc[("swiss-ai/Apertus-70B-Instruct-2509", "ca", "linguistic-acceptability")]
    assert constant["score"] == 0.0
    assert math.isnan(constant["se"])
    assert cell.index.is_unique


def test_euroeval_is_incomplete_and_has_the_bounds_of_its_metrics() -> None:
    records = load("euroeval")
    assert len(records) < 0.8 * 22 * 198
    bounds = {task: (own.lower, own.upper) for task, own in records.units.items()}
    assert bounds["summarization:chr_f3pp"] == (0, 100)
    assert {task for task, (lower, _) in bounds.items() if lower == -100} == {
        task for task in records.coords["task"] if task.endswith(":mcc")
    }
    configured = yaml.safe_load((REFERENCE / "euroeval" / "task_config.yaml").read_text("utf-8"))
    assert {f"{task}:{own['primary_metric']}" for task, own in configured.items()} >= set(
        records.coords["task"]
    )
