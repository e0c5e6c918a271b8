"""Results of simple-evals, as its `simple_evals.py` and `run_multilingual_mmlu.py` write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.records import load


def _with_sd(**means: float) -> str:
    """Means of metrics with their standard deviations, sorted as the tool sorts them."""
    metrics = {k: v for key, mean in means.items() for k, v in ((key, mean), (f"{key}:std", 0.5))}
    return json.dumps(dict(sorted(metrics.items())), indent=2)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    mgsm = {"group_latin": 0.75, "group_non_latin": 0.5, "score": 0.6875}
    for model, plus in (("gpt-4_a", 0.0), ("o3", 0.125)):
        scores = {"bn": 0.5 + plus, "de": 0.625 + plus, "sw": 0.25 + plus}
        path = tmp_path / f"mgsm_{model}_20250501_101010.json"
        path.write_text(_with_sd(**scores, **mgsm))
        for name, score in (("mmlu_SW-KE", 0.375), ("mmlu_PT-BR", 0.5), ("mmlu", 0.75)):
            means = {"stem": 0.5, "humanities": 0.25, "score": score + plus}
            (tmp_path / f"{name}_{model}.json").write_text(_with_sd(**means))
    (tmp_path / "gpqa_o3.json").write_text(_with_sd(chars=9.0, score=0.5))
    whole = json.dumps({"score": 0.5, "metrics": {}, "htmls": [], "convos": []})
    (tmp_path / "mgsm_o3_allresults.json").write_text(whole)
    return tmp_path


def test_scores_of_languages_and_names_of_models(results: Path) -> None:
    records = load(results)
    table = records.table.set_index(["model", "task", "language"])["score"]
    first = {
        ("gpt-4_a", "mgsm:accuracy", "bn"): 0.5,
        ("gpt-4_a", "mgsm:accuracy", "de"): 0.625,
        ("gpt-4_a", "mgsm:accuracy", "sw"): 0.25,
        ("gpt-4_a", "mmlu:accuracy", "en"): 0.75,
        ("gpt-4_a", "mmlu:accuracy", "pt"): 0.5,
        ("gpt-4_a", "mmlu:accuracy", "sw"): 0.375,
    }
    second = {("o3", *cell): score + 0.125 for (_, *cell), score in first.items()}
    assert table.to_dict() == {**first, **second}
    assert {(unit.lower, unit.upper) for unit in records.units.values()} == {(0.0, 1.0)}
    assert any(note.startswith("2 other files in the") for note in records.report.notes)


def test_a_file_without_averages_over_scripts_is_recognised(tmp_path: Path) -> None:
    """It was taken for a table without models."""
    path = tmp_path / "mgsm_o3.json"
    path.write_text(_with_sd(de=0.5, sw=0.25, score=0.375))
    table = load(path).table
    assert dict(zip(table["language"], table["score"], strict=True)) == {"de": 0.5, "sw": 0.25}
    # Other tests have no scores of languages.
    path.write_text(_with_sd(de=0.5, chars=9.0, score=0.375))
    with pytest.raises(InputError, match="no column for 'model' and 'language'"):
        load(path)


def test_the_newest_run_of_a_model_counts(results: Path) -> None:
    old = results / "mgsm_o3_20240501_101010.json"
    old.write_text(_with_sd(bn=0.0, de=0.0, sw=0.0, group_latin=0.0, score=0.0))
    assert load(results).table["score"].min() == 0.25


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mgsm.json", None, "the model and the test stand in the name that simple-evals gave"),
        ("mgsm_o1_DEBUG.json", None, "a run for debugging, of ten items per language"),
        (
            "mgsm_o1.json",
            _with_sd(de=0.5, math=0.5, group_latin=0.5, score=0.5),
            "'math' is no code of a language",
        ),
    ],
)
def test_other_files_are_named(results: Path, name: str, text: str | None, message: str) -> None:
    good = (results / "mgsm_o3_20250501_101010.json").read_text()
    (results / name).write_text(text or good)
    assert f"{name} ({message}" in load(results).report.warnings[0]
    with pytest.raises(InputError, match=message):
        load(results / name)
