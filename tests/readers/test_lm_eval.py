"""Results and samples of lm-evaluation-harness."""

from __future__ import annotations

import csv
import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from bayeseval.errors import InputError
from bayeseval.readers.task_names import NamedTask, parse_task
from bayeseval.records import Records, load

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers" / "lm_eval"
NEW, MIDDLE, OLD = (FIXTURES / version for version in ("v0.4.13", "v0.4.0", "v0.3.0"))


def cells(records: Records, *columns: str) -> dict[tuple[str, str, str], Any]:
    """Values by model, language and task."""
    table = records.table
    keys = zip(table["model"], table["language"], table["task"], strict=True)
    values = zip(*(table[column] for column in columns), strict=True)
    return dict(zip(keys, (v[0] if len(v) == 1 else v for v in values), strict=True))


def notes(records: Records) -> str:
    return "\n".join(records.report.notes)


def results(tmp_path: Path, **models: dict[str, Any]) -> Path:
    """A folder with one results file for each model."""
    for name, tasks in models.items():
        document = {
            "results": {task: {"alias": task, **values} for task, values in tasks.items()},
            "model_name": name,
        }
        path = tmp_path / "runs" / name / "results_2026-01-01T00-00-00.000000.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document), encoding="utf-8")
    return tmp_path / "runs"


def test_results_that_the_harness_wrote() -> None:
    records = load(NEW)
    assert len(records) == 12
    assert records.name == "v0.4.13"
    scores = cells(records, "score", "n", "k")
    # As results_2026-03-01T10-00-00.000000.json has them.
    assert scores["org-a/small", "en", "xnli:acc"] == (0.625, 8.0, 5.0)
    assert scores["org-a/small", "sw", "belebele:acc"] == (0.0, 8.0, 0.0)
    assert {task for _, _, task in scores} == {
        "xnli:acc",
        "belebele:acc",
        "mgsm_direct:exact_match,strict-match",
    }
    # xnli_tiny is a group: the mean of xnli_en, xnli_sw and xnli_th.
    assert not any("tiny" in task for _, _, task in scores)
    assert "2 group or parent tasks left out" in notes(records)
    assert "swh_Latn as sw" in notes(records)
    assert "12 files of lm-evaluation-harness samples not read" in notes(records)


def test_standard_errors_are_none_where_the_harness_wrote_that_there_are_none() -> None:
    se = cells(load(NEW), "se")
    # sqrt(5/8 * 3/8 / 7): the sample sd of five ones and three zeros over sqrt(8).
    assert se["org-a/small", "en", "xnli:acc"] == pytest.approx(math.sqrt(15 / 64 / 7), rel=1e-12)
    assert all(math.isnan(value) for (model, *_), value in se.items() if model == "org-b/larger")
    # All eight items wrong: the harness writes 0, which says nothing.
    assert math.isnan(se["org-a/small", "sw", "belebele:acc"])


def test_samples_give_the_scores_of_the_results() -> None:
    means = cells(load(NEW), "score")
    items = load(NEW, format="lm-eval-samples")
    assert items.replicate_columns == ("item",)
    assert len(items) == 12 * 8
    table = items.table.groupby(["model", "language", "task"])["score"].mean()
    assert {key: float(value) for key, value in table.items()} == pytest.approx(means)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("careful", [False, True])
def test_samples_read_the_same_packed_or_line_by_line(
    tmp_path: Path, packed: bool, careful: bool
) -> None:
    want = load(NEW, format="lm-eval-samples")
    for source in NEW.glob("*/samples_*"):
        text = source.read_text(encoding="utf-8")
        if careful:
            # A blank line is nothing to complain of, but not for the quick way.
            text = text.replace("\n", "\n\n", 1)
        target = tmp_path / source.parent.name / source.name
        target.parent.mkdir(exist_ok=True)
        if packed:
            target.with_name(f"{target.name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            target.write_text(text, encoding="utf-8")
    assert load(tmp_path).content_hash == want.content_hash


SAMPLE = {
    **{"doc_id": 0, "doc": {}, "target": "a", "filtered_resps": []},
    **{"filter": "none", "metrics": ["acc"], "acc": 1.0},
}


def samples(tmp_path: Path, *lines: str) -> Path:
    """Samples of one task and model, two good lines first."""
    path = tmp_path / "org__a" / "samples_xnli_sw_2026-01-01T00-00-00.000000.jsonl"
    path.parent.mkdir(exist_ok=True)
    good = [json.dumps(SAMPLE), json.dumps(SAMPLE | {"doc_id": 1, "acc": 0.0})]
    path.write_text("\n".join([*good, *lines, ""]), encoding="utf-8")
    return path


def test_metrics_of_later_items_only_are_read(tmp_path: Path) -> None:
    more = SAMPLE | {"doc_id": 2, "metrics": ["acc", "f1"], "f1": 0.25}
    path = samples(tmp_path, json.dumps(more))
    assert "(also there: f1);" in notes(load(path))
    assert load(path, metric="f1").table["score"].tolist() == [0.25]
    assert load(path).table["score"].tolist() == [1.0, 0.0, 1.0]
    other = SAMPLE | {"doc_id": 2, "metrics": None}
    with pytest.raises(InputError, match="line 3: metrics: expected a list, got None"):
        load(samples(tmp_path, json.dumps(other)))


@pytest.mark.parametrize(
    ("key", "again"),
    [
        *(("acc", '"acc": 1.0'), ("acc", '"\\u0061cc": 0.0'), ("acc", '"acc": null')),
        *(("doc_id", '"doc_id": 7'), ("filter", '"filter": "x"'), ("metrics", '"metrics": []')),
    ],
)
def test_no_key_that_is_read_may_be_there_twice(tmp_path: Path, key: str, again: str) -> None:
    line = json.dumps(SAMPLE | {"doc_id": 2})
    with pytest.raises(InputError, match=f"line 3: .*key '{key}' is given twice"):
        load(samples(tmp_path, f"{line[:-1]}, {again}}}"))


def test_samples_without_results_are_named_after_their_folder(tmp_path: Path) -> None:
    """`results` is no model: such a folder is what --output_path x.json leaves."""
    for folder, model in (("results", "org-a__small"), ("org-b__larger", "org-b__larger")):
        (tmp_path / folder).mkdir()
        for source in (NEW / model).glob("samples_xnli_*"):
            shutil.copy(source, tmp_path / folder)
    records = load(tmp_path)
    assert records.coords["model"] == ("org-b/larger", "results")
    said = notes(records)
    assert (
        f"3 files without the name of a model, and the folder {tmp_path / 'results'} is not" in said
    )
    assert "the model is called 'results'; put the files of each model into a folder" in said
    assert "model taken from the folder's name in 3 files (org-b/larger); correct it" in said


def test_samples_of_several_models_in_one_folder_have_the_models_of_their_results(
    tmp_path: Path,
) -> None:
    """With --output_path out/x.json, the harness writes x_<time>.json and the samples to out."""
    for folder in NEW.iterdir():
        for source in folder.iterdir():
            shutil.copy(source, tmp_path / source.name.replace("results_", f"{folder.name}_"))
    records = load(tmp_path, format="lm-eval-samples")
    assert records.content_hash == load(NEW, format="lm-eval-samples").content_hash
    assert "folder" not in notes(records).replace("in the folder not read", "")


def test_samples_of_two_checkpoints_are_two_models(tmp_path: Path) -> None:
    shutil.copytree(NEW / "org-a__small", tmp_path / "org-a__small")
    for path in sorted(tmp_path.rglob("*2026-03-01T10*")):
        later = path.with_name(path.name.replace("T10-", "T12-"))
        shutil.copy(path, later)
        for step, file in enumerate([path, later] if path.name.startswith("results") else []):
            document = json.loads(file.read_text(encoding="utf-8"))
            document["config"]["model_args"] = {"revision": f"step{step}"}
            file.write_text(json.dumps(document), encoding="utf-8")
    names = tuple(f"org-a/small (revision=step{step})" for step in (0, 1))
    assert load(tmp_path).coords["model"] == names
    assert load(tmp_path, format="lm-eval-samples").coords["model"] == names


def test_a_result_that_says_no_model_is_named_after_its_folder(tmp_path: Path) -> None:
    for name in ("org__a", "Output"):
        document = {"results": {"xnli_sw": {"acc": 0.5, "acc_stderr": 0.1}}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "old.json").write_text(json.dumps(document), encoding="utf-8")
    records = load(tmp_path)
    assert records.coords["model"] == ("Output", "org/a")
    assert "model taken from the folder's name in 1 file (org/a);" in notes(records)
    assert "warning: 1 file without the name of a model" in notes(records)


@pytest.mark.parametrize("version", [MIDDLE, OLD])
def test_older_generations(version: Path) -> None:
    records = load(version)
    assert cells(records, "score", "n", "k") == {
        ("EleutherAI/pythia-160m", "en", "xnli:acc"): (0.4, 2490.0, 996.0),
        ("EleutherAI/pythia-160m", "sw", "xnli:acc"): (0.3, 2490.0, 747.0),
        ("EleutherAI/pythia-410m", "en", "xnli:acc"): (0.5, 2490.0, 1245.0),
        ("EleutherAI/pythia-410m", "sw", "xnli:acc"): (872 / 2490, 2490.0, 872.0),
    }


def test_the_metric_can_be_chosen() -> None:
    records = load(NEW, metric={"*": "acc_norm", "mgsm_direct": "exact_match,flexible-extract"})
    assert set(records.coords["task"]) == {
        "xnli:acc_norm",
        "belebele:acc_norm",
        "mgsm_direct:exact_match,flexible-extract",
    }
    assert cells(records, "score")["org-a/small", "th", "xnli:acc_norm"] == 0.125


@pytest.mark.parametrize(
    ("metric", "phrases"),
    [
        ("acc_nrom", ["'xnli' has no metric 'acc_nrom'", "did you mean 'acc_norm'?"]),
        ({"xnly": "acc"}, ["dataset 'xnly'", "did you mean 'xnli'?"]),
    ],
)
def test_a_metric_that_is_not_there(metric: Any, phrases: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(NEW, metric=metric)
    assert [phrase for phrase in phrases if phrase not in str(caught.value)] == []


def test_lower_is_better_is_refused_with_its_reason(tmp_path: Path) -> None:
    folder = results(
        tmp_path,
        a={"flores_eng_Latn-swh_Latn": {"ter,none": 80.0, "chrf,none": 30.0}},
        b={"flores_eng_Latn-swh_Latn": {"ter,none": 70.0, "chrf,none": 35.0}},
    )
    assert "flores:chrf" in load(folder).coords["task"]
    with pytest.raises(InputError, match=r"lower is better for flores \(ter\)"):
        load(folder, metric="ter")


def test_tables_beside_the_scores_are_counted(tmp_path: Path) -> None:
    values: dict[str, Any] = {"acc,none": 0.5, "confusion,none": [[1, 2]], "acc_by_topic": {"a": 1}}
    folder = results(tmp_path, a={"xnli_sw": values}, b={"xnli_sw": values})
    want = "4 lists and tables beside the scores left out: acc_by_topic, confusion"
    assert want in notes(load(folder))


def test_unknown_names_are_listed_and_can_be_told(tmp_path: Path) -> None:
    values = {"acc,none": 0.5}
    tasks = {"xnli_sw": values, "mybench-Swahili": values, "hellaswag": values, "arc_easy": values}
    folder = results(tmp_path, a=tasks, b=tasks)
    with pytest.raises(InputError) as caught:
        load(folder)
    assert "no language is known for 3 tasks: arc_easy, hellaswag, mybench-{language}" in str(
        caught.value
    )
    assert "given as task_names" in str(caught.value)
    names = tmp_path / "names.csv"
    names.write_text(
        "task,dataset,language\nmybench-{language},,\nhellaswag,hella,en\narc_*,,\n",
        encoding="utf-8",
    )
    records = load(folder, task_names=names)
    assert records.coords["task"] == ("hella:acc", "mybench:acc", "xnli:acc")
    # Swahili and sw are one language; the dataset that comes first by name keeps its label.
    assert records.coords["language"] == ("Swahili", "en")
    assert "left out by the table of task names: arc_easy" in notes(records)


def test_a_pair_of_languages_is_neither_of_them(tmp_path: Path) -> None:
    """The code ca-fr would be Catalan in France, and matched to ca."""
    tasks = (
        "xnli_ca",
        "xnli_fr",
        "xnli_es",
        "catalan_bench_flores_ca-fr",
        "mlqa_ar_de",
        "mlqa_ar_ar",
    )
    one: dict[str, Any] = dict.fromkeys(tasks, {"acc,none": 0.5})
    records = load(results(tmp_path, a=one, b=one))
    table = records.table
    assert set(zip(table["language"], table["task"], strict=True)) == {
        *((code, "xnli:acc") for code in ("ca", "fr", "es")),
        ("ca+fr", "catalan_bench_flores:acc"),
        ("ar+de", "mlqa:acc"),
        ("ar", "mlqa:acc"),
    }


def test_a_card_beside_the_results_of_a_tool(tmp_path: Path) -> None:
    values = {"acc,none": 0.5, "f1,none": 0.25}
    tasks = {"xnli_sw": values, "mybench-Swahili": values, "xnli_en": values}
    folder = results(tmp_path, a=tasks, b=tasks)
    (folder / "names.csv").write_text("task,dataset,language\nmybench-*,mine,sw\n")
    card = "name: mine\ntitle: mine\nformat: lm-eval\nmetric: {xnli: f1}\ntask_names: names.csv\n"
    (folder / "benchmark.yaml").write_text(card, encoding="utf-8")
    records = load(folder)
    assert records.name == "mine"
    assert set(cells(records, "score").items()) >= {
        (("a", "sw", "mine:acc"), 0.5),
        (("b", "en", "xnli:f1"), 0.25),
    }
    with pytest.raises(InputError, match="the folder holds no MTEB results"):
        load(folder, format="mteb")


def test_of_two_runs_of_a_cell_the_newer_counts(tmp_path: Path) -> None:
    folder = results(tmp_path, a={"xnli_sw": {"acc,none": 0.5}}, b={"xnli_sw": {"acc,none": 0.4}})
    old = json.loads(next((folder / "a").iterdir()).read_text(encoding="utf-8"))
    old["results"]["xnli_sw"]["acc,none"] = 0.1
    (folder / "a" / "results_2025-01-01T00-00-00.000000.json").write_text(json.dumps(old))
    records = load(folder)
    assert cells(records, "score")["a", "sw", "xnli:acc"] == 0.5
    (group,) = records.report.dropped
    assert (group.reason, group.counts) == (
        "older run of the same cell",
        (("a, sw, xnli", 1),),
    )
    assert records.report.n_rows_read == 3


def test_settings_that_make_two_models_of_one_name(tmp_path: Path) -> None:
    """Checkpoints of one repository are models; the batch size is no setting."""
    folder = results(tmp_path, a={"xnli_sw": {"acc,none": 0.5}}, b={"xnli_sw": {"acc,none": 0.4}})
    for step, path in enumerate(sorted(folder.glob("*/*.json"))):
        document = json.loads(path.read_text(encoding="utf-8"))
        document["model_name"] = "pythia"
        document["config"] = {"model_args": f"revision=step{step},batch_size={step + 1}"}
        path.write_text(json.dumps(document), encoding="utf-8")
    two = ("pythia (revision=step0)", "pythia (revision=step1)")
    assert load(folder).coords["model"] == two
    # Without a cell in common, one name is a way to have one model.
    document["results"] = {"xnli_de": {"acc,none": 0.4, "acc_stderr,none": 0.01}}
    path.write_text(json.dumps(document), encoding="utf-8")
    records = load(folder)
    assert records.coords["model"] == two
    (note,) = [note for note in records.report.notes if note.startswith("runs of pythia")]
    assert note.endswith("others, or give them one name in the table that Records.to_csv writes")


def test_runs_in_another_precision_are_one_model_unless_they_have_the_same_task(
    tmp_path: Path,
) -> None:
    folder = results(tmp_path, a={"xnli_sw": {"acc,none": 0.5}}, b={"xnli_de": {"acc,none": 0.4}})
    arguments = ("dtype=float16", "attn_implementation=flash_attention_2,dtype=bfloat16")
    for own, path in zip(arguments, sorted(folder.glob("*/*.json")), strict=True):
        document = json.loads(path.read_text(encoding="utf-8"))
        document |= {"model_name": "org/m", "config": {"model_args": own}}
        path.write_text(json.dumps(document), encoding="utf-8")
    records = load(folder)
    assert records.coords["model"] == ("org/m",)
    assert (
        "runs of org/m differ in attn_implementation, dtype (attn_implementation=flash_attention_2,"
        " dtype=bfloat16 or dtype=float16) and are read as one model, because no two of them have"
        " the same task"
    ) in records.report.notes
    # The second has the first's task, too.
    document["results"]["xnli_sw"] = {"acc,none": 0.25}
    path.write_text(json.dumps(document), encoding="utf-8")
    records = load(folder)
    models = (
        "org/m (attn_implementation=flash_attention_2, dtype=bfloat16)",
        "org/m (dtype=float16)",
    )
    assert records.coords["model"] == models
    (note,) = [note for note in records.report.notes if note.startswith("runs of org/m")]
    assert note == (
        "runs of org/m differ in attn_implementation, dtype and are read as several models"
        f" ({models[1]}, {models[0]}); to have one, leave out the files of the others"
    )


def test_metrics_are_taken_on_one_scale(tmp_path: Path) -> None:
    """TruthfulQA's generations have bleu_max, from 0 to 100, before bleu_acc."""

    def tasks(shift: float) -> dict[str, dict[str, float]]:
        generated = {"bleu_max": 20 + shift, "bleu_acc": 0.5 - shift, "bleu_diff": shift - 0.5}
        values = {f"{name},none": value for name, value in generated.items()}
        return {
            f"{task}_{language}": own
            for language in ("es", "eu")
            for task, own in (
                ("truthfulqa-multi_gen", {"rouge1_max,none": 40.0, **values}),
                ("truthfulqa-multi_mc1", {"acc,none": 0.25}),
                ("xnli", {"acc,none": 0.75}),
            )
        }

    folder = results(tmp_path, a=tasks(0.125), b=tasks(0.25))
    records = load(folder)
    assert cells(records, "score")["a", "es", "truthfulqa-multi_gen:bleu_acc"] == 0.375
    assert {(own.lower, own.upper) for own in records.units.values()} == {(0.0, 1.0)}
    assert (
        "metric bleu_acc for truthfulqa-multi_gen, not rouge1_max: it is on the scale of the others"
        " (0-1); choose another with metric"
    ) in records.report.notes
    # One note for one metric.
    assert sum(note.startswith("metric bleu_acc") for note in records.report.notes) == 1
    # What is asked for is taken.
    asked = load(folder, metric={"truthfulqa-multi_gen": "bleu_max"})
    assert cells(asked, "score")["a", "es", "truthfulqa-multi_gen:bleu_max"] == 20.125
    # Where most are percentages, those are kept; a metric that lacks cells is none for all.
    lacking = {task: dict(own) for task, own in tasks(0.25).items()}
    del lacking["truthfulqa-multi_gen_eu"]["bleu_acc,none"]
    fewer = load(results(tmp_path / "2", a=tasks(0.125), b=lacking))
    assert "truthfulqa-multi_gen:rouge1_max" in fewer.coords["task"]


def test_a_metric_without_values_is_in_no_cell(tmp_path: Path) -> None:
    """Most accuracies are null: the complete F1 is taken."""
    tasks: dict[str, Any] = {
        model: {
            f"{task}_{language}": values
            for language in ("de", "sw")
            for task, values in (
                ("xnli", {"acc,none": 0.5 if model == "a" else None, "f1,none": 0.25}),
                ("xquad", {"f1,none": 0.75, "chrf,none": None}),
                ("xcopa", {"em,none": 40.0 if model == "a" else None, "f1,none": 0.5}),
            )
        }
        for model in ("a", "b")
    }
    records = load(results(tmp_path, **tasks))
    assert records.coords["task"] == ("xcopa:f1", "xnli:f1", "xquad:f1")
    assert len(records) == 12
    # For the scale of the others, too, a metric has to have all cells: here most have percentages.
    for own in tasks.values():
        for language in ("de", "sw"):
            own[f"xnli_{language}"] = {"f1,none": 0.25, "bleu,none": None}
            own[f"xquad_{language}"] = own[f"xcopa_{language}"] = {"chrf,none": 40.0}
    tasks["a"]["xnli_de"]["bleu,none"] = 30.0
    records = load(results(tmp_path / "2", **tasks))
    assert records.coords["task"] == ("xcopa:chrf", "xnli:f1", "xquad:chrf")


def test_shots_are_a_task_of_their_own_when_there_are_several(tmp_path: Path) -> None:
    folder = results(tmp_path, a={"xnli_sw": {"acc,none": 0.5}}, b={"xnli_sw": {"acc,none": 0.4}})
    for shots, path in zip((0, 5), sorted(folder.glob("*/*.json")), strict=True):
        document = json.loads(path.read_text(encoding="utf-8"))
        document["n-shot"] = {"xnli_sw": shots}
        path.write_text(json.dumps(document), encoding="utf-8")
    assert load(folder).coords["task"] == ("xnli (0-shot):acc", "xnli (5-shot):acc")


def test_n_and_k_only_where_nothing_else_is_possible(tmp_path: Path) -> None:
    """A mean of graded items has another standard error: k would be a fiction."""
    p, n = 0.25, 400
    exact = math.sqrt(p * (1 - p) / (n - 1))
    graded = {"xnli_en": {"acc,none": p, "acc_stderr,none": exact * 0.9}}
    right = {"xnli_en": {"acc,none": p, "acc_stderr,none": exact}}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert "k" not in load(results(tmp_path / "one", a=graded, b=right)).table
    table = load(results(tmp_path / "two", a=right, b=right)).table
    assert table[["n", "k"]].to_numpy().tolist() == [[400.0, 100.0]] * 2


def test_a_mixture_of_kinds_is_refused_with_the_choices(tmp_path: Path) -> None:
    shutil.copytree(NEW, tmp_path / "runs")
    (tmp_path / "runs" / "other.csv").write_text("model,language,score\na,en,1\nb,sw,2\n")
    with pytest.raises(
        InputError, match="holds .* and tables .*format='lm-eval' or format='table'"
    ):
        load(tmp_path / "runs")
    assert len(load(tmp_path / "runs", format="lm-eval")) == 12
    assert len(load(tmp_path / "runs", format="table")) == 2


def test_links_in_circles_are_walked_once(tmp_path: Path) -> None:
    shutil.copytree(NEW, tmp_path / "runs")
    (tmp_path / "runs" / "again").symlink_to(tmp_path / "runs", target_is_directory=True)
    (tmp_path / "runs" / "self").symlink_to(tmp_path / "runs" / "self")
    assert len(load(tmp_path / "runs")) == 12


def test_one_model_can_be_looked_at_but_not_fitted() -> None:
    from bayeseval.design import build_design
    from bayeseval.spec import load_spec

    records = load(next(NEW.glob("org-a*/results*")))
    assert "warning: only one model ('org-a/small')" in notes(records)
    with pytest.raises(ValueError, match="only one model"):
        build_design(records, load_spec("additive"))


def test_real_task_names() -> None:
    """Names of tasks of lm-evaluation-harness 0.4.13, one or more for every rule."""
    path = FIXTURES / "task_names.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 80
    for row in rows:
        if row["language"]:
            assert parse_task(row["task"]) == NamedTask(row["dataset"], row["language"])
        else:
            with pytest.raises(LookupError):
                parse_task(row["task"])
