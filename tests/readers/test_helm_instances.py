"""Items of HELM: from the statistics by item, or from what its web page shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bayeseval.errors import InputError
from bayeseval.records import load
from tests.records.item_tables import KEY, cells, dropped, notes

FOLDER = Path(__file__).parents[1] / "fixtures" / "readers" / "helm_instances"
RUN = FOLDER / "v1" / "mgsm_language=en,model=org-a_small"
ITEMS = "helm-instances"

Entry = dict[str, Any]


def stat(name: str, mean: float | None, **context: Any) -> Entry:
    found: Entry = {"name": {"name": name, "split": "test", **context}, "count": 1}
    return found if mean is None else {**found, "mean": mean}


def entry(item: int, *stats: Entry, trial: int = 0, **more: Any) -> Entry:
    return {"instance_id": f"id{item}", "train_trial_index": trial, "stats": list(stats), **more}


def run(folder: Path, entries: list[Entry], *, language: str = "sw") -> Path:
    """A run's folder with these items."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = json.loads((RUN / "run_spec.json").read_text(encoding="utf-8"))
    spec["name"] = spec["name"].replace("=en", f"={language}")
    spec["scenario_spec"]["args"]["language"] = language
    (folder / "run_spec.json").write_text(json.dumps(spec), encoding="utf-8")
    path = folder / "per_instance_stats.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_items_are_those_that_the_results_average() -> None:
    results = load(FOLDER)
    items = load(FOLDER, format=ITEMS)
    assert items.replicate_columns == ("item",)
    assert cells(items) == pytest.approx(cells(results))
    # Answers of the fixture: 2 of 5 right, by the number in the text, none by the whole text.
    assert cells(items)["org-a/small", "en", "mgsm:final_number_exact_match"] == 0.4
    assert len(items) == 4 * 5
    assert set(items.table["item"]) == {f"id{i}" for i in range(1, 6)}
    assert dropped(items) == {"of the split train": 4, "of a perturbed input": 8}
    said = notes(results)
    assert "8 files of HELM instances not read; format='helm-instances' reads" in said
    assert "4 files of predictions for display not read" in notes(items)
    assert "also there: exact_match" in notes(items)
    whole = load(FOLDER, format=ITEMS, metric="exact_match")
    assert set(whole.table["score"]) == {0.0}
    # Metrics that say nothing of quality are there when they are asked for.
    tokens = load(FOLDER, format=ITEMS, metric="num_output_tokens")
    assert set(tokens.table["score"]) == {7.0}


def test_a_single_run_is_not_taken_for_tables(tmp_path: Path) -> None:
    """Its other files (run_spec.json, instances.json) are no tables; one of the user's is."""
    shutil.copytree(RUN, tmp_path / "run")
    assert cells(load(tmp_path / "run")) == {
        ("org-a/small", "en", "mgsm:final_number_exact_match"): 0.4
    }
    (tmp_path / "run" / "scores.csv").write_text("model,language,score\na,sw,1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds HELM runs .* and tables \(scores\.csv\)"):
        load(tmp_path / "run")


def test_what_the_web_page_shows_is_the_same(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "runs")
    for path in (tmp_path / "runs").rglob("per_instance_stats.json"):
        path.unlink()
    shown, items = load(tmp_path / "runs", format=ITEMS), load(FOLDER, format=ITEMS)
    columns = [*KEY, "item", "score"]
    assert shown.table[columns].equals(items.table[columns])
    assert dropped(shown) == dropped(items)
    one = load(RUN / "display_predictions.json")
    assert cells(one) == {("org-a/small", "en", "mgsm:final_number_exact_match"): 0.4}


def test_trials_are_seeds(tmp_path: Path) -> None:
    """Draws of the examples in the prompt; a language without them has one trial of its own."""
    several = [
        entry(item, stat("exact_match", score), trial=trial)
        for trial, scores in enumerate([(0.0, 1.0), (1.0, 1.0)])
        for item, score in enumerate(scores)
    ]
    run(tmp_path / "sw", several)
    run(tmp_path / "en", several[:2], language="en")
    records = load(tmp_path)
    assert records.replicate_columns == ("seed", "item")
    table = records.table[records.table["language"] == "sw"]
    assert sorted(table[["seed", "item", "score"]].to_numpy().tolist()) == [
        ["0", "id0", 0.0],
        ["0", "id1", 1.0],
        ["1", "id0", 1.0],
        ["1", "id1", 1.0],
    ]
    assert set(records.table[records.table["language"] == "en"]["seed"]) == {"0"}


def test_several_entries_of_one_item(tmp_path: Path) -> None:
    """Every kind of metric has an entry; the same number twice is one, another is refused."""
    twice = stat("exact_match", 1.0)
    entries = [entry(0, twice), entry(0, twice, stat("f1_score", 0.5)), entry(1, twice)]
    records = load(run(tmp_path / "a", entries))
    assert records.table["score"].tolist() == [1.0, 1.0]
    other = run(tmp_path / "b", [*entries, entry(0, stat("exact_match", 0.0))])
    with pytest.raises(InputError, match=r"entry 4.*entry 1.*1 and 0|entry 4.*entry 1.*0 and 1"):
        load(other)


def test_items_without_the_metric_are_missing(tmp_path: Path) -> None:
    """HELM takes NaN out of its files: what is gone then is counted."""
    entries = [
        entry(0, stat("exact_match", 1.0)),
        entry(1, stat("exact_match", None)),
        entry(2, stat("num_output_tokens", 3.0)),
    ]
    records = load(run(tmp_path, entries))
    assert records.table["item"].tolist() == ["id0"]
    assert dropped(records) == {"missing score": 2}


def test_splits_and_sub_splits(tmp_path: Path) -> None:
    entries = [
        entry(0, stat("exact_match", 1.0)),
        entry(1, stat("exact_match", 0.0, split="valid")),
        entry(2, stat("exact_match", 0.0, sub_split="hard")),
    ]
    records = load(run(tmp_path, entries))
    assert cells(records) == {
        ("org-a/small", "sw", "mgsm (test):exact_match"): 1.0,
        ("org-a/small", "sw", "mgsm (valid):exact_match"): 0.0,
    }
    assert dropped(records) == {"of a sub-split": 1}


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"instance_id": None}, "entry 1: instance_id: expected text, got None"),
        ({"train_trial_index": "0"}, "entry 1: train_trial_index: expected a number, got '0'"),
        ({"stats": {}}, "entry 1: stats: expected a list, got {}"),
        ({"stats": [3]}, "entry 1, statistic 1: expected an object"),
        ({"stats": [{"name": "x"}]}, "entry 1, statistic 1: name: expected an object"),
        (
            {"stats": [stat("exact_match", 1.0, split=[])]},
            "entry 1, statistic 1: split: expected text, got []",
        ),
        (
            {"stats": [stat("runtime", 1.0)]},
            "no item of the splits test or valid has a quality metric",
        ),
    ],
)
def test_wrong_types_are_named_with_their_entry(tmp_path: Path, change: Entry, phrase: str) -> None:
    path = run(tmp_path, [{**entry(0), **change}])
    with pytest.raises(InputError) as caught:
        load(path)
    assert phrase in str(caught.value)


def test_a_run_without_its_specification(tmp_path: Path) -> None:
    path = run(tmp_path, [entry(0, stat("exact_match", 1.0))])
    (tmp_path / "run_spec.json").unlink()
    with pytest.raises(InputError, match=r"no run_spec\.json in the same folder"):
        load(path)
