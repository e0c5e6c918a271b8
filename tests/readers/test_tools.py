"""Results of lighteval, EuroEval, Every Eval Ever, MTEB and HELM."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.records import Records, load, reduce_replicates

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers"
ISSUES = FIXTURES / "euroeval" / "issues_615_617.jsonl"


def rows(records: Records, *columns: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    table = records.table
    keys = zip(table["model"], table["language"], table["task"], strict=True)
    values = zip(*(table[column] for column in columns), strict=True)
    return dict(zip(keys, values, strict=True))


def notes(records: Records) -> str:
    return "\n".join(records.report.notes)


def test_lighteval() -> None:
    records = load(FIXTURES / "lighteval")
    found = rows(records, "score", "n", "k")
    # results/org-a/small: belebele_eng_Latn_mcf|0 has acc 0.55 on 20 items.
    assert found["org-a/small", "eng_Latn", "belebele_mcf:acc"] == (0.55, 20.0, 11.0)
    # global_mmlu says swa where belebele says swh_Latn.
    assert records.coords["language"] == ("eng_Latn", "swh_Latn")
    assert ("org-b/larger", "swh_Latn", "global_mmlu_all_mcf:virology:acc") in found
    assert len(records) == 12
    assert "6 averages left out" in notes(records)


def test_lighteval_saves_keys_with_colons_too(tmp_path: Path) -> None:
    """`EvaluationTracker.generate_final_dict` writes ":" for "|"."""
    for path in (FIXTURES / "lighteval").rglob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        document["results"] = {k.replace("|", ":"): v for k, v in document["results"].items()}
        target = tmp_path / path.parent.parent.name / path.name
        target.parent.mkdir()
        target.write_text(json.dumps(document), encoding="utf-8")
    assert load(tmp_path).content_hash == load(FIXTURES / "lighteval").content_hash


def test_lighteval_texts_are_refused_and_tables_counted(tmp_path: Path) -> None:
    """As results of lm-evaluation-harness: a score in quotes is not silently no score."""
    shutil.copytree(FIXTURES / "lighteval" / "results", tmp_path / "results")
    path = min((tmp_path / "results").rglob("results_*.json"))
    document = json.loads(path.read_text(encoding="utf-8"))
    tasks = [task for task in document["results"].values() if "acc" in task]
    for task in tasks[:2]:
        task.update(confusion=[[1, 2], [3, 4]], note="N/A")
    path.write_text(json.dumps(document), encoding="utf-8")
    assert "2 lists and tables beside the scores left out: confusion" in notes(load(tmp_path))
    tasks[0]["acc_norm"] = "0.5"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=r"task '.*': acc_norm: expected a number, got '0\.5'"):
        load(path)


def test_the_se_of_euroeval_is_196_standard_errors() -> None:
    """The claim that the reader divides by, on the numbers that were posted."""
    lines = [line for line in ISSUES.read_text(encoding="utf-8").splitlines() if line]
    for line in lines:
        results = json.loads(line)["results"]
        for metric in ("mcc", "macro_f1"):
            raw = np.array([entry[metric] for entry in results["raw"]["test"]])
            total = results["total"]
            assert total[f"test_{metric}"] == pytest.approx(100 * raw.mean(), rel=1e-12)
            sem = 100 * raw.std(ddof=1) / math.sqrt(len(raw))
            # 16 digits in one of the lines, 6 in the other.
            assert total[f"test_{metric}_se"] == pytest.approx(1.96 * sem, rel=1e-6)


def test_euroeval_iterations_are_bootstrap_test_sets() -> None:
    records = load(ISSUES)
    cells = reduce_replicates(records)
    # The totals that were posted; nb of ["nb", "no"], and nn.
    assert records.coords["language"] == ("nb", "nn")
    assert cells.mean == pytest.approx([0.9806705580041772, 11.978091392158248])
    assert cells.n_boot.tolist() == [10.0, 10.0]
    assert records.coords["task"] == ("linguistic-acceptability:mcc",)


def test_euroeval_without_raw_scores(tmp_path: Path) -> None:
    lines = []
    for line in filter(None, ISSUES.read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        record["results"]["raw"] = []
        lines.append(json.dumps(record))
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    records = load(path)
    # Of the ten scores that the lines had: what one test set adds to their mean.
    raw = [
        [100 * entry["mcc"] for entry in json.loads(line)["results"]["raw"]["test"]]
        for line in filter(None, ISSUES.read_text(encoding="utf-8").splitlines())
    ]
    assert sorted(records.table["se"]) == pytest.approx(
        sorted(np.std(values, ddof=1) * math.sqrt(1 + 1 / 10) for values in raw), rel=1e-6
    )
    assert "1.96 standard errors" in notes(records)


def test_of_two_lines_of_euroeval_the_later_counts_and_two_files_have_no_order(
    tmp_path: Path,
) -> None:
    """One of the results has no raw scores: means are read, because a task has one form."""
    first, second = filter(None, ISSUES.read_text(encoding="utf-8").splitlines())
    again = json.loads(first)
    again["results"] = {"raw": [], "total": {"test_mcc": 50.0, "test_mcc_se": 1.96}}
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([first, second, json.dumps(again)]), encoding="utf-8")
    records = load(path)
    other = json.loads(second)["results"]["total"]
    se = other["test_mcc_se"] * math.sqrt(11) / 1.96
    want = sorted([(50.0, math.sqrt(11)), (other["test_mcc"], se)])
    found = sorted(zip(records.table["score"], records.table["se"], strict=True))
    np.testing.assert_allclose(found, want)
    (group,) = records.report.dropped
    assert (group.reason, group.n_rows) == ("older run of the same cell", 1)
    assert "the mean was read for 3 results" in notes(records)
    (tmp_path / "b.jsonl").write_text(json.dumps(again).replace("50.0", "40.0"), encoding="utf-8")
    with pytest.raises(InputError, match="duplicate of"):
        load(tmp_path)


def test_euroeval_as_every_eval_ever_records() -> None:
    records = load(FIXTURES / "euroeval" / "every_eval_form.jsonl")
    cells = reduce_replicates(records)
    # 0.1 (or 0.2) + 0.01 j for j from 0 to 9, 0.05 more in Danish, in percent.
    assert cells.mean == pytest.approx([19.5, 14.5, 29.5, 24.5])
    assert records.coords["model"] == ("org-a/small", "org-b/larger")


def test_what_euroeval_itself_writes() -> None:
    """Its own aggregation of the ten scores, which the reader reads one by one."""
    path = FIXTURES / "euroeval" / "v16.11.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    cells = reduce_replicates(load(path))
    totals = {(one["model"], one["languages"][0]): one["results"]["total"] for one in lines}
    records = load(path)
    assert records.coords["language"] == ("da", "nb", "sv")
    assert cells.n_boot.tolist() == [10.0] * 6
    means = dict(zip(sorted(totals), cells.mean, strict=True))
    for cell, total in totals.items():
        assert means[cell] == pytest.approx(total["test_mcc"], rel=1e-12)
        values = [100 * raw["mcc"] for one in lines for raw in one["results"]["raw"]
                  if (one["model"], one["languages"][0]) == cell]  # fmt: skip
        half = 1.96 * np.std(values, ddof=1) / math.sqrt(10)
        assert total["test_mcc_se"] == pytest.approx(half, rel=1e-12)


def test_euroeval_records_without_raw_scores_have_their_interval(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    text = (FIXTURES / "euroeval" / "every_eval_form.jsonl").read_text(encoding="utf-8")
    first = [json.loads(line) for line in text.splitlines() if line][:2]
    for record in first:
        record["eval_library"]["additional_details"]["raw_results"] = "[]"
    other = json.loads(json.dumps(first))
    for record in other:
        record["eval_library"]["additional_details"]["few_shot"] = "false"
    path.write_text("\n".join(map(json.dumps, [*first, *other])), encoding="utf-8")
    records = load(path)
    # 0.01 j for j from 0 to 9 has the variance 0.01^2 * 110 / 12, over test sets 1 + 1/10 of it.
    assert records.numbers("se") == pytest.approx([math.sqrt(110 / 12 * 1.1)] * 4)
    assert records.coords["model"] == ("org-a/small",)
    assert records.coords["task"] == (
        "linguistic-acceptability (few-shot):mcc",
        "linguistic-acceptability (zero-shot):mcc",
    )


def test_two_datasets_of_a_language_are_kept_apart(tmp_path: Path) -> None:
    lines = (FIXTURES / "euroeval" / "every_eval_form.jsonl").read_text(encoding="utf-8")
    path = tmp_path / "results.jsonl"
    path.write_text(lines + lines.replace("scala-", "other-"), encoding="utf-8")
    assert load(path).coords["task"] == (
        "linguistic-acceptability/other:mcc",
        "linguistic-acceptability/scala:mcc",
    )


def test_every_eval_ever() -> None:
    records = load(FIXTURES / "every_eval")
    found = rows(records, "score", "n", "k")
    assert found["org-a/small", "Swahili", "global-mmlu-lite:accuracy"] == (0.5, 400.0, 200.0)
    # An error of 0.5 and one of 0.375, on a scale from 0 to 1.
    assert found["org-b/larger", "Swahili", "belebele:error (turned round)"][0] == 0.625
    assert records.units["global-mmlu-lite:accuracy"].upper == 1.0
    assert "swh_Latn as Swahili" in notes(records)


def test_right_items_are_counted_within_the_stated_bounds(tmp_path: Path) -> None:
    """On a scale to 100, a score of 1 is one right item in a hundred, not all of them."""
    want = load(FIXTURES / "every_eval").table
    for path in (FIXTURES / "every_eval").rglob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        for result in document["evaluation_results"]:
            result["metric_config"]["max_score"] *= 100
            result["score_details"]["score"] *= 100
            error = result["score_details"].get("uncertainty", {}).get("standard_error")
            if error:
                error["value"] *= 100
        target = tmp_path / path.relative_to(FIXTURES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document), encoding="utf-8")
    percent = load(tmp_path).table
    assert percent["k"].notna().any()
    assert percent["k"].tolist() == pytest.approx(want["k"].tolist(), nan_ok=True)
    assert percent["score"].tolist() == pytest.approx((100 * want["score"]).tolist())


def test_totals_of_every_eval_ever_have_to_be_named(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "every_eval", tmp_path / "data")
    for path in (tmp_path / "data").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"Burmese"', '"Culturally Sensitive"'), encoding="utf-8")
    with pytest.raises(InputError, match="no language is known for 1 task: Culturally Sensitive"):
        load(tmp_path / "data")
    names = tmp_path / "names.csv"
    names.write_text("task,dataset,language\nCulturally*,,\n", encoding="utf-8")
    assert load(tmp_path / "data", task_names=names).coords["language"] == ("English", "Swahili")


@pytest.mark.parametrize(
    ("where", "details"),
    [
        ("source_data", {"languages": '["ar", "de"]'}),
        ("metric_config", {"scenario_args": '{"language_pair": "ar-de"}'}),
        (
            "metric_config",
            {"scenario_args": '{"source_language": "ar", "target_language": "de"}'},
        ),
    ],
)
def test_a_pair_of_languages_in_every_eval_ever_is_neither_of_them(
    tmp_path: Path, where: str, details: dict[str, str]
) -> None:
    """The code ar-de would be Arabic in Germany, and matched to ar of another data set."""
    shutil.copytree(FIXTURES / "every_eval", tmp_path / "data")
    for path in (tmp_path / "data").rglob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8").replace('"Swahili"', '"ar"'))
        for result in document["evaluation_results"]:
            if result["evaluation_name"] == "Burmese":
                result[where]["additional_details"] = details
                result["source_data"]["dataset_name"] = "translation"
        path.write_text(json.dumps(document), encoding="utf-8")
    table = load(tmp_path / "data").table
    tasks = table.groupby("task")["language"].unique().map(set).to_dict()
    assert tasks["translation:accuracy"] == {"ar+de"}
    assert "ar" in tasks["global-mmlu-lite:accuracy"]


def test_mteb() -> None:
    records = load(FIXTURES / "mteb")
    found = rows(records, "score")
    task = "MassiveIntentClassification (test):main_score"
    assert found["org-a/small", "eng_Latn", task] == (0.5,)
    assert ("org-a/small", "eng_Latn+swh_Latn", "FloresBitextMining:main_score") in found
    (group,) = records.report.dropped
    assert group.reason == "mixes more than two languages"
    assert group.n_rows == 2
    other = rows(load(FIXTURES / "mteb", metric="f1"), "score")
    assert "FloresBitextMining:f1" in {key[2] for key in other}


def test_mteb_subsets_of_one_language(tmp_path: Path) -> None:
    """As AmazonCounterfactualClassification has them; which is the main one no model decides."""
    for model, scores in {"a": {"en": 0.1, "en-ext": 0.2, "de": 0.3}, "b": {"en-ext": 0.4}}.items():
        document = {
            "dataset_revision": "0",
            "task_name": "Counterfactual",
            "mteb_version": "2",
            "scores": {
                "test": [
                    {"main_score": score, "hf_subset": subset, "languages": [code]}
                    for subset, score in reversed(scores.items())
                    for code in ["deu-Latn" if subset == "de" else "eng-Latn"]
                ]
            },
        }
        path = tmp_path / model / "0" / "Counterfactual.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document), encoding="utf-8")
    assert rows(load(tmp_path), "score") == {
        ("a", "eng_Latn", "Counterfactual (test):main_score"): (0.1,),
        ("a", "eng_Latn", "Counterfactual (test, en-ext):main_score"): (0.2,),
        ("a", "deu_Latn", "Counterfactual (test):main_score"): (0.3,),
        ("b", "eng_Latn", "Counterfactual (test, en-ext):main_score"): (0.4,),
    }


def test_mteb_revisions_are_models(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "mteb", tmp_path / "results")
    model = tmp_path / "results" / "org-a__small"
    shutil.copytree(model / "abcdef0123456789", model / "0123456789abcdef")
    assert load(tmp_path / "results").coords["model"] == (
        "org-a/small (01234567)",
        "org-a/small (abcdef01)",
        "org-b/larger",
    )


def write_mteb(path: Path, document: object, **options: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, **options), encoding="utf-8")


def test_mteb_with_sorted_keys(tmp_path: Path) -> None:
    """The name of the task stands behind long scores; such files were no results of a tool."""
    entry = {"main_score": 0.5, "hf_subset": "default", "languages": ["deu-Latn"]}
    details = {f"ndcg_at_{k}": 0.25 for k in range(2000)}
    document = {
        "dataset_revision": "0",
        "mteb_version": "2",
        "task_name": "GermanQuAD",
        "scores": {"test": [entry | details]},
    }
    write_mteb(tmp_path / "a" / "0" / "GermanQuAD.json", document)
    write_mteb(tmp_path / "b" / "0" / "GermanQuAD.json", document, sort_keys=True)
    text = (tmp_path / "b" / "0" / "GermanQuAD.json").read_text(encoding="utf-8")
    assert text.index("task_name") > 1 << 14
    assert len(rows(load(tmp_path), "score")) == 2

    (tmp_path / "b" / "0" / "Cut.json").write_text(text[:-40], encoding="utf-8")
    (tmp_path / "b" / "0" / "run.json").write_text('{"seed": 1}', encoding="utf-8")
    records = load(tmp_path)
    assert len(records) == 2
    assert records.report.warnings[0].startswith(
        "warning: 1 file of 4 cannot be read, and scores that only they hold are missing: b/0/Cut"
    )
    assert "1 other file in the folder not read: b/0/run.json" in records.report.notes


def test_mteb_before_1_11(tmp_path: Path) -> None:
    older = {"mteb_version": "1.1.1", "dataset_revision": None}
    massive = {"de": {"accuracy": 0.6, "main_score": 0.61}, "zh-CN": {"accuracy": 0.7}}
    massive |= {"evaluation_time": 3.5}
    write_mteb(
        tmp_path / "small" / "MassiveIntent.json",
        older | {"mteb_dataset_name": "MassiveIntent", "test": massive},
    )
    write_mteb(
        tmp_path / "small" / "STS22.json",
        older | {"mteb_dataset_name": "STS22", "test": {"de-en": {"cos_sim": {"spearman": 0.4}}}},
    )
    # Neither file says which language this is; a newer one of the same task does.
    write_mteb(
        tmp_path / "small" / "T2Retrieval.json",
        older | {"mteb_dataset_name": "T2Retrieval", "dev": {"ndcg_at_10": 0.5, "map": 0.1}},
    )
    write_mteb(
        tmp_path / "small" / "Waimai.json",
        older | {"mteb_dataset_name": "Waimai", "test": {"accuracy": 0.8, "max": {"ap": 0.3}}},
    )
    newer = {"main_score": 0.9, "hf_subset": "default", "languages": ["zho-Hans"]}
    write_mteb(
        tmp_path / "large" / "0123456789abcdef" / "T2Retrieval.json",
        {
            "task_name": "T2Retrieval",
            "mteb_version": "1.12",
            "dataset_revision": "1",
            "scores": {"dev": [newer]},
        },
    )
    expected = {
        ("small", "de", "MassiveIntent:main_score"): (0.61,),
        ("small", "zh_CN", "MassiveIntent:main_score"): (0.7,),
        ("small", "de+en", "STS22:main_score"): (0.4,),
        ("small", "zh_CN", "T2Retrieval:main_score"): (0.5,),
        ("large", "zh_CN", "T2Retrieval:main_score"): (0.9,),
    }
    records = load(tmp_path)
    assert rows(records, "score") == expected
    (group,) = records.report.dropped
    assert group.counts == (("small, Waimai", 1),)
    assert "no language in files of MTEB before 1.11" in group.reason

    names = tmp_path.parent / f"{tmp_path.name}.csv"
    names.write_text("task,dataset,language\nWaimai,Waimai,zh\n", encoding="utf-8")
    named = load(tmp_path, task_names=names)
    assert not named.report.dropped
    assert rows(named, "score")["small", "zh_CN", "Waimai:main_score"] == (0.3,)


def test_mteb_before_1_11_without_any_language(tmp_path: Path) -> None:
    write_mteb(
        tmp_path / "small" / "Waimai.json",
        {"mteb_version": "1.1.1", "mteb_dataset_name": "Waimai", "test": {"accuracy": 0.8}},
    )
    with pytest.raises(InputError, match="no language in files of MTEB .* as task_names: Waimai"):
        load(tmp_path)


def test_mteb_before_1_11_without_a_score(tmp_path: Path) -> None:
    write_mteb(
        tmp_path / "small" / "Odd.json",
        {"mteb_version": "1.1.1", "mteb_dataset_name": "Odd", "test": {"evaluation_time": 1.0}},
    )
    with pytest.raises(InputError, match=r"Odd\.json, test, default: expected a main score"):
        load(tmp_path)


def test_helm() -> None:
    records = load(FIXTURES / "helm")
    found = rows(records, "score", "n")
    # As stats.json has them for the split test without perturbation and sub-split.
    assert found["org-a/small", "en", "mgsm:quasi_exact_match"] == (0.6, 20.0)
    assert found["org-a/small", "et", "xcopa:quasi_exact_match"] == (0.35, 20.0)
    assert len(records) == 8
    runtime = load(FIXTURES / "helm", metric="inference_runtime")
    assert set(runtime.table["score"]) == {0.25}


def helm_runs(folder: Path, specs: dict[str, dict[str, str]]) -> Path:
    """Copies of one run's statistics under other names, with the scenario's arguments."""
    source = next((FIXTURES / "helm").rglob("*mgsm*en*a_small"))
    for number, (name, arguments) in enumerate(specs.items()):
        run = folder / f"run{number}"
        shutil.copytree(source, run)
        spec = json.loads((run / "run_spec.json").read_text(encoding="utf-8"))
        spec["name"] = f"{name},model=org-a_small"
        spec["scenario_spec"]["args"] = arguments
        (run / "run_spec.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder


def test_pairs_of_languages_share_a_dataset_of_helm(tmp_path: Path) -> None:
    """Whether one argument says the pair, or two do, or two in the scenario's specification."""
    runs = helm_runs(
        tmp_path,
        {
            "wmt_14:language_pair=cs-en": {"source_language": "cs", "target_language": "en"},
            "wmt_14:language_pair=de-en": {"source_language": "de", "target_language": "en"},
            "wmt_14:language_pair=fr-en": {},
            "wmt_14:source_language=hi,target_language=en": {},
            "mgsm:language=de": {"language": "de"},
        },
    )
    table = load(runs).table
    assert set(zip(table["language"], table["task"], strict=True)) == {
        *((f"{code}+en", "wmt_14:quasi_exact_match") for code in ("cs", "de", "fr", "hi")),
        ("de", "mgsm:quasi_exact_match"),
    }


def test_the_language_of_helm_may_stand_in_the_specification_only(tmp_path: Path) -> None:
    runs = helm_runs(tmp_path, {"mine:shots=5": {"language": "de"}})
    helm_runs(tmp_path / "more", {"mine:shots=5": {"language": "sw"}})
    table = load(runs).table
    assert set(zip(table["language"], table["task"], strict=True)) == {
        ("de", "mine:shots=5:quasi_exact_match"),
        ("sw", "mine:shots=5:quasi_exact_match"),
    }


def test_helm_needs_the_specification_of_the_run(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "helm", tmp_path / "runs")
    next((tmp_path / "runs").rglob("run_spec.json")).unlink()
    assert "no run_spec.json in the same folder" in load(tmp_path / "runs").report.warnings[0]


@pytest.mark.parametrize(
    ("folder", "change", "phrases"),
    [
        ("lighteval", ("results", 3), ["results: expected an object", "got 3"]),
        ("mteb", ("scores", []), ["scores: expected an object", "got []"]),
        ("every_eval", ("evaluation_results", {}), ["evaluation_results: expected a list"]),
        ("every_eval", ("model_info", {"id": 3}), ["model_info: id: expected text, got 3"]),
    ],
)
def test_wrong_types_are_named_with_their_place(
    tmp_path: Path, folder: str, change: tuple[str, Any], phrases: list[str]
) -> None:
    shutil.copytree(FIXTURES / folder, tmp_path / "data")
    path = sorted(p for p in (tmp_path / "data").rglob("*.json") if p.name != "model_meta.json")[0]
    document = json.loads(path.read_text(encoding="utf-8"))
    document[change[0]] = change[1]
    path.write_text(json.dumps(document), encoding="utf-8")
    said = load(tmp_path / "data").report.warnings[0]
    assert [phrase for phrase in [path.name, *phrases] if phrase not in said] == []
    with pytest.raises(InputError) as caught:
        load(path)
    assert [phrase for phrase in [str(path), *phrases] if phrase not in str(caught.value)] == []


@pytest.mark.parametrize(
    "folder",
    ["lm_eval/v0.4.13", "lighteval", "euroeval/issues_615_617.jsonl", "every_eval", "helm"],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_was_read_is_saved_and_read_back(tmp_path: Path, folder: str, suffix: str) -> None:
    records = load(FIXTURES / folder)
    path = tmp_path / f"table{suffix}"
    records.save_table(path)
    again = load(path)
    assert again.content_hash == records.content_hash
    assert again.report.dropped == ()
    with pytest.raises(InputError, match=r"written to \.csv or \.parquet"):
        records.save_table(tmp_path / "table.xlsx")
