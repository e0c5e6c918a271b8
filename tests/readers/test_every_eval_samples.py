"""Items of Every Eval Ever, and the results beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bayeseval.errors import InputError
from bayeseval.records import load
from tests.records.item_tables import KEY, cells, dropped, notes

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers"
FOLDER = FIXTURES / "every_eval_samples"
SAMPLES = "every-eval-samples"

Line = dict[str, Any]


def line(item: int, score: float | None, **changes: Any) -> Line:
    """A line as ``instance_level_eval.schema.json`` 0.3.0 has it."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "quiz/org_m/1",
        "model_id": "org/m",
        "evaluation_name": "xnli_sw",
        "evaluation_result_id": "acc",
        "sample_id": f"q{item}",
        "interaction_type": "single_turn",
        "input": {"raw": "?", "reference": ["yes"]},
        "output": {"raw": ["no"]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score == 1.0},
        **changes,
    }


def result(name: str, metric: str, result_id: str | None, **config: Any) -> Line:
    found: Line = {
        "evaluation_name": name,
        "source_data": {"dataset_name": "quiz", "source_type": "other"},
        "metric_config": {"metric_id": metric, "lower_is_better": False, **config},
        "score_details": {"score": 0.5},
    }
    return found if result_id is None else {"evaluation_result_id": result_id, **found}


def write(folder: Path, lines: list[Line], *results: Line, model: str = "org/m") -> Path:
    """A samples file, and the record beside it if there are results."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "u_samples.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    if results:
        record = {
            "schema_version": "0.3.0",
            "evaluation_id": "quiz/org_m/1",
            "retrieved_timestamp": "1",
            "source_metadata": {"source_name": "somebody"},
            "eval_library": {"name": "x", "version": "1"},
            "model_info": {"name": "m", "id": model},
            "evaluation_results": list(results),
        }
        (folder / "u.json").write_text(json.dumps(record), encoding="utf-8")
    return path


def test_a_folder_with_both_reads_the_results_and_offers_the_items() -> None:
    records = load(FOLDER)
    assert len(records) == 6
    assert records.replicate_columns == ()
    said = notes(records)
    assert "read as Every Eval Ever records (6 files)" in said
    assert "6 files of Every Eval Ever samples not read; format='every-eval-samples'" in said
    # The harness's own files, which the converter was given, say the same.
    direct = load(FIXTURES / "lm_eval" / "v0.4.13")
    ours = cells(records)
    assert ours == {key: score for key, score in cells(direct).items() if key in ours}
    # As the converter's fixture has it: 2 of 8 under strict-match.
    key = ("org-a/small", "sw", "mgsm_direct:exact_match,strict-match")
    assert ours[key] == 0.25
    n_k = records.table.set_index(KEY)[["n", "k"]].loc[key]
    assert n_k.tolist() == [8.0, 2.0]


def test_items_are_those_of_the_harness() -> None:
    items = load(FOLDER, format=SAMPLES)
    assert items.replicate_columns == ("item",)
    assert len(items) == 6 * 8
    assert cells(items) == pytest.approx(cells(load(FOLDER)))
    direct = load(FIXTURES / "lm_eval" / "v0.4.13", format="lm-eval-samples").table
    columns = [*KEY, "item", "score"]
    want = {tuple(row) for row in direct[columns].itertuples(index=False)}
    assert {tuple(row) for row in items.table[columns].itertuples(index=False)} <= want
    assert items.report.dropped == ()


def test_another_metric_of_the_items() -> None:
    found = load(FOLDER, format=SAMPLES, metric={"xnli": "acc_norm", "mgsm_direct": "exact_match"})
    assert found.coords["task"] == ("mgsm_direct:exact_match,strict-match", "xnli:acc_norm")
    flexible = load(FOLDER, format=SAMPLES, metric={"mgsm_direct": "exact_match,flexible-extract"})
    cell = ("org-a/small", "sw", "mgsm_direct:exact_match,flexible-extract")
    # 4 of 8 are found by the laxer filter.
    assert cells(flexible)[cell] == 0.5


def test_one_file_of_samples_and_a_zipped_one(tmp_path: Path) -> None:
    import gzip

    one = next(FOLDER.rglob("xnli_sw/org-a/**/*_samples.jsonl"))
    want = load(one)
    assert set(want.table["task"]) == {"xnli:acc"}
    packed = tmp_path / f"{one.name}.gz"
    packed.write_bytes(gzip.compress(one.read_bytes()))
    shutil.copy(one.with_name(one.name.replace("_samples.jsonl", ".json")), tmp_path)
    assert load(packed).content_hash == want.content_hash


def test_the_results_beside_say_what_was_measured(tmp_path: Path) -> None:
    """Dataset, metric and direction; the name of the evaluation is a language."""
    results = [
        result("Swahili", "accuracy", "r1"),
        result("Swahili", "loss", "r2", lower_is_better=True),
    ]
    lines = [line(i, i % 2, evaluation_name="Swahili", evaluation_result_id="r1") for i in range(4)]
    lines += [line(i, 7.0, evaluation_name="Swahili", evaluation_result_id="r2") for i in range(4)]
    path = write(tmp_path, lines, *results)
    records = load(path)
    assert records.coords["task"] == ("quiz:accuracy",)
    assert records.coords["language"] == ("Swahili",)
    assert records.table.set_index("item")["score"].to_dict() == {
        "q0": 0.0,
        "q1": 1.0,
        "q2": 0.0,
        "q3": 1.0,
    }
    assert "metric accuracy taken for quiz (also there: loss" in notes(records)
    with pytest.raises(InputError, match=r"lower is better for quiz \(loss\)"):
        load(path, metric="loss")


def test_languages_of_one_evaluation(tmp_path: Path) -> None:
    """The items say their language; a programming language is none."""
    lines = [
        line(i, i, evaluation_name="quiz", metadata={"language": language})
        for language in ("sw", "en")
        for i in range(2)
    ]
    records = load(write(tmp_path, lines, result("quiz", "acc", "acc")))
    assert cells(records) == {
        ("org/m", "en", "quiz:acc"): 0.5,
        ("org/m", "sw", "quiz:acc"): 0.5,
    }
    lines[0]["metadata"] = {"language": "python"}
    path = write(tmp_path / "b", lines, result("quiz", "acc", "acc"))
    with pytest.raises(InputError, match="no language is known for 1 task: quiz"):
        load(path)


def test_items_that_are_no_outcome_are_left_out_and_counted(tmp_path: Path) -> None:
    """Errors, and lines of the converter that belong to no result and have 0 for a score."""
    lines = [line(i, 1.0) for i in range(3)]
    lines += [line(3, 0.0, error="timeout"), line(4, 0.0, evaluation_result_id=None)]
    records = load(write(tmp_path, lines, result("xnli_sw", "acc", "acc")))
    assert dropped(records) == {
        "the item ended in an error": 1,
        "the line names no result that its score belongs to": 1,
    }
    assert records.table["score"].tolist() == [1.0] * 3
    assert records.report.n_rows_read == 5
    first = {group.reason: group.first for group in records.report.dropped}
    assert first["the item ended in an error"].endswith("u_samples.jsonl, line 4")


def test_scores_that_the_converter_made_up(tmp_path: Path) -> None:
    """Items of BLEU are texts: the converter writes 0 for their score, and what they are."""
    packed = {"metadata": {"lm_eval_metrics": json.dumps({"bleu": ["a", "b"]})}}
    made_up = [line(i, 0.0, evaluation_result_id=None, **packed) for i in range(2)]
    with pytest.raises(InputError, match="no scores to read"):
        load(write(tmp_path, made_up))
    real = {"metadata": {"lm_eval_metrics": json.dumps({"acc": 0.0})}}
    lines = [line(i, 0.0, evaluation_result_id=None, **real) for i in range(2)]
    assert set(load(write(tmp_path, lines)).table["score"]) == {0.0}


def test_levels_that_are_not_known_are_missing(tmp_path: Path) -> None:
    lines = [line(0, -1), line(1, 2.0), line(2, None)]
    unknown = result("xnli_sw", "level", "acc", has_unknown_level=True)
    records = load(write(tmp_path, lines, unknown))
    assert records.table["score"].tolist() == [2.0]
    assert dropped(records) == {"missing score": 2}


def test_epochs(tmp_path: Path) -> None:
    """Repetitions with scores of their own are seeds; the converter's averages are one score."""
    lines = [
        line(item, score, metadata={"epoch": str(epoch)})
        for epoch, scores in ((1, (0.0, 1.0)), (2, (1.0, 1.0)))
        for item, score in enumerate(scores)
    ]
    own = load(write(tmp_path / "own", lines, result("xnli_sw", "acc", "acc")))
    assert own.replicate_columns == ("seed", "item")
    assert own.table[["item", "seed", "score"]].to_numpy().tolist() == [
        ["q0", "1", 0.0],
        ["q1", "1", 1.0],
        ["q0", "2", 1.0],
        ["q1", "2", 1.0],
    ]
    for one in lines:
        one["evaluation"]["score"] = 0.5
    same = load(write(tmp_path / "same", lines, result("xnli_sw", "acc", "acc")))
    assert same.replicate_columns == ("item",)
    assert same.table["score"].tolist() == [0.5, 0.5]
    assert list(dropped(same).values()) == [2]
    assert "repeated line of an item" in next(iter(dropped(same)))


def test_other_scores_of_one_item_without_epochs_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [line(0, 0.0), line(0, 1.0)], result("xnli_sw", "acc", "acc"))
    with pytest.raises(InputError, match=r"line 2.*line 1"):
        load(path)


def test_without_results_beside_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [line(i, i % 2) for i in range(4)])
    records = load(path)
    assert records.coords["task"] == ("xnli:acc",)
    assert "1 file without their results (<uuid>.json)" in notes(records)
    # Of another run: not what the lines refer to.
    path = write(tmp_path / "b", [line(0, 1.0, evaluation_id="else")], result("x_sw", "f1", "acc"))
    assert load(path).coords["task"] == ("xnli:acc",)
    # A loss, as far as its name says.
    path = write(tmp_path / "c", [line(0, 1.0, evaluation_result_id="loss")])
    with pytest.raises(InputError, match=r"lower is better for xnli \(loss\)"):
        load(path)


def test_an_identifier_with_the_language_is_no_metric(tmp_path: Path) -> None:
    lines = [
        line(i, 1.0, evaluation_name=f"xnli_{code}", evaluation_result_id=f"{code}-result")
        for code in ("sw", "en")
        for i in range(2)
    ]
    assert load(write(tmp_path, lines)).coords["task"] == ("xnli:score",)


def test_older_lines_without_identifiers(tmp_path: Path) -> None:
    """0.2.1: the name alone links a line to its result; several metrics cannot be told apart."""
    lines = [line(i, 1.0) for i in range(2)]
    for one in lines:
        del one["evaluation_result_id"]
    one_metric = load(write(tmp_path / "a", lines, result("xnli_sw", "acc", None)))
    assert one_metric.coords["task"] == ("xnli:acc",)
    two = [result("xnli_sw", name, None) for name in ("acc", "f1")]
    assert load(write(tmp_path / "b", lines, *two)).coords["task"] == ("xnli:score",)


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"model_id": 3}, "line 2: model_id: expected text, got 3"),
        ({"evaluation_name": " "}, "line 2: evaluation_name: expected text, got ' '"),
        ({"sample_id": None}, "line 2: sample_id: expected text, got None"),
        ({"evaluation_result_id": []}, "line 2: evaluation_result_id: expected text, got []"),
        ({"evaluation": 1.0}, "line 2: evaluation: expected an object"),
        ({"evaluation": {"score": "x"}}, "line 2: evaluation: score: expected a number, got 'x'"),
    ],
)
def test_wrong_types_are_named_with_their_line(tmp_path: Path, change: Line, phrase: str) -> None:
    path = write(tmp_path, [line(0, 1.0), {**line(1, 1.0), **change}])
    with pytest.raises(InputError) as caught:
        load(path)
    assert phrase in str(caught.value)


# The results alone, as the converters of 0.3.0 write them.


def test_bounds_without_end_and_names_of_metrics(tmp_path: Path) -> None:
    """The schema writes "Infinity" where a metric has no bound, and two names of it."""
    config = {"metric_name": "exact_match", "min_score": 0.0, "max_score": "Infinity"}
    write(tmp_path, [], result("xnli_sw", "exact-match", "exact_match:x", **config))
    records = load(tmp_path / "u.json")
    assert records.coords["task"] == ("xnli:exact_match",)
    assert (records.units["xnli:exact_match"].lower, records.units["xnli:exact_match"].upper) == (
        0.0,
        None,
    )


def helm(name: str, split: str, perturbation: str, score: float, language: str) -> Line:
    """A result as ``converters/helm/adapter.py`` writes it."""
    identifier = ":".join(filter(None, (name, split, perturbation)))
    found = result("mgsm", "exact-match", identifier, metric_name=name)
    found["source_data"]["additional_details"] = {
        "scenario_args": json.dumps({"language": language})
    }
    found["score_details"] = {
        "score": score,
        "details": {"split": split, "perturbation": perturbation},
    }
    return found


def test_results_of_helm(tmp_path: Path) -> None:
    """The language is an argument of the scenario; perturbed inputs are no second score."""
    results = [
        helm("exact_match", "test", "", 0.6, "sw"),
        helm("exact_match", "test", "typos", 0.2, "sw"),
        helm("exact_match", "train", "", 1.0, "sw"),
        helm("quasi_exact_match", "test", "", 0.7, "sw"),
    ]
    lines = [
        line(i, score, evaluation_name="mgsm", evaluation_result_id=f"exact_match:test{end}")
        for end, scores in (("", (1.0, 0.0)), (":typos", (0.0, 0.0)))
        for i, score in enumerate(scores)
    ]
    path = write(tmp_path, lines, *results)
    records = load(tmp_path / "u.json")
    assert cells(records) == {("org/m", "sw", "quiz:exact_match"): 0.6}
    assert dropped(records) == {"of perturbed inputs or training examples": 2}
    items = load(path)
    assert cells(items) == {("org/m", "sw", "quiz:exact_match"): 0.5}
    assert dropped(items) == {"of perturbed inputs or training examples": 2}


def test_results_of_two_scorers_are_told_apart(tmp_path: Path) -> None:
    results = [
        result("xnli_sw", "accuracy", f"{scorer}:accuracy", metric_name="accuracy")
        for scorer in ("match", "judge")
    ]
    write(tmp_path, [], *results)
    records = load(tmp_path / "u.json")
    assert records.coords["task"] == ("xnli:accuracy,match",)
    assert "also there: accuracy,judge" in notes(records)
