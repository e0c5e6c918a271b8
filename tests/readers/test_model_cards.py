"""Results in model cards of the Hugging Face Hub and in the folders `.eval_results`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.readers.base import Options
from bayeseval.readers.detect import detect, read_results
from bayeseval.readers.model_cards import EVAL_RESULTS
from bayeseval.records import load
from tests.readers.good_files import FIXTURES

CARDS = FIXTURES / "model_cards"

CARD = """---
model-index:
- name: {name}
  results:
  - dataset: {dataset}
    metrics:
    - type: accuracy
      value: {value}
---
"""


def cells(path: Path, **options: object) -> dict[tuple[str, str, str], object]:
    """Score by model, data set and language, as the reader returns them."""
    detected = detect(path)
    assert detected is not None
    assert detected.reader.name == "model-card"
    (table,) = read_results(detected, Options(**options)).tables  # type: ignore[arg-type]
    columns = (table.columns[name] for name in ("model", "dataset", "language", "score"))
    return {(m, d, la): s for m, d, la, s in zip(*columns, strict=True)}


def card(folder: Path, *, name: str = "a", dataset: str = "{type: x/y, config: de}", value: str):
    folder.mkdir(parents=True, exist_ok=True)
    text = CARD.format(name=name, dataset=dataset, value=value)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return folder


def test_cards_and_lists_of_results_in_one_folder() -> None:
    # One label for each language: belebele says swh_Latn where Global-MMLU says sw.
    assert cells(CARDS) == {
        ("org-a/small", "belebele", "sw"): 41.5,
        # In quotes, and with a ± of which nobody knows what it is.
        ("org-a/small", "belebele", "en"): 62.25,
        ("org-a/small", "amazon_counterfactual", "de"): 57.03,
        # The newer of two results; the card without results names no model.
        ("org-b/larger", "Global-MMLU", "sw"): 44.5,
        ("org-b/larger", "Global-MMLU", "en"): 70.75,
        # A repository in the cache of the Hub; the language stands in the name of the task.
        ("org-c/cached", "mgsm", "sw"): 0.125,
    }


def test_the_report_says_what_was_left_out() -> None:
    detected = detect(CARDS)
    assert detected is not None
    reading = read_results(detected, Options())
    notes = " ".join(map(str, reading.notes))
    assert "read as results of model cards (3 files)" in notes
    assert "model taken from the folder's name in 2 files (org-b/larger, org-c/cached)" in notes
    assert "README.md" in notes
    dropped = " ".join(str(one) for one in reading.tables[0].dropped)
    assert "older run of the same cell" in dropped


def test_a_card_names_the_model_of_its_results(tmp_path: Path) -> None:
    shutil.copytree(CARDS / "org-b__larger", tmp_path / "x")
    card(tmp_path / "x", name="B", dataset="{type: x/y, config: fr}", value="1.5")
    assert set(cells(tmp_path)) == {
        ("B", "y", "fr"),
        ("B", "Global-MMLU", "sw"),
        ("B", "Global-MMLU", "en"),
    }


@pytest.mark.parametrize(
    ("dataset", "task", "language"),
    [
        ("{type: common_voice, args: hi}", "common_voice", "hi"),
        ("{type: wiki, args: {language: sw, date: 1}}", "wiki", "sw"),
        ("{type: mteb/massive, name: MTEB Massive (af), config: default}", "massive", "af"),
        ("{type: lab/xnli_sw}", "xnli", "sw"),
    ],
)
def test_where_the_language_stands(tmp_path: Path, dataset: str, task: str, language: str) -> None:
    assert cells(card(tmp_path, dataset=dataset, value="0.5")) == {("a", task, language): 0.5}


def test_links_do_not_name_models(tmp_path: Path) -> None:
    """A folder is read once, by its own name, whether that comes before its link's or after."""
    own = tmp_path / "org" / "m" / EVAL_RESULTS
    shutil.copytree(CARDS / "org-b__larger" / EVAL_RESULTS, own)
    links = [tmp_path / EVAL_RESULTS, *(tmp_path / n / EVAL_RESULTS for n in ("a", "z"))]
    for link in links:
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(own)
    assert {model for model, _, _ in cells(tmp_path)} == {"m"}
    # What lies elsewhere is read through its link; without end if it is a folder above.
    (tmp_path / "z" / "up").symlink_to(tmp_path)
    assert {model for model, _, _ in cells(tmp_path / "a")} == {"a"}
    assert {model for model, _, _ in cells(tmp_path / "z")} == {"z"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- name: a\n", "- name: base\n  results: []\n\n# trained\n- name: a\n"),
        ("model-index", '"model-index"'),
        ("model-index", "'model-index'"),
    ],
)
def test_cards_with_results_are_found(tmp_path: Path, old: str, new: str) -> None:
    path = card(tmp_path, value="0.5") / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert cells(tmp_path) == {("a", "y", "de"): 0.5}


def listed(folder: Path, dataset: str, language: str) -> None:
    """A repository with one result in its `.eval_results`."""
    (folder / EVAL_RESULTS).mkdir(parents=True)
    text = f"- dataset: {{id: {dataset}, task_id: {language}}}\n  value: 0.5\n"
    (folder / EVAL_RESULTS / "r.yaml").write_text(text, encoding="utf-8")


def test_only_iso_dates_are_compared(tmp_path: Path) -> None:
    listed(tmp_path / "m", "x/xnli", "de")
    path = tmp_path / "m" / EVAL_RESULTS / "r.yaml"
    old = path.read_text(encoding="utf-8")
    new = old.replace("0.5", "0.25") + "  date: 2025-12-01\n"
    path.write_text(f"{old}  date: Jan 2020\n{new}", encoding="utf-8")
    assert cells(tmp_path) == {("m", "xnli", "de"): 0.25}


def test_folders_of_one_name_are_two_models(tmp_path: Path) -> None:
    listed(tmp_path / "o1" / "m", "x/xnli", "de")
    listed(tmp_path / "o2" / "m", "x/xnli", "sw")
    listed(tmp_path / "o2" / "n", "x/xnli", "sw")
    assert {(m, la) for m, _, la in cells(tmp_path)} == {
        ("o1/m", "de"),
        ("o2/m", "sw"),
        ("n", "sw"),
    }


def test_data_sets_of_one_name_keep_their_owners(tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    listed(cards / "a", "orgA/xnli", "de")
    listed(cards / "b", "orgB/xnli", "fr")
    listed(cards / "c", "orgB/xcopa", "fr")
    found = {(dataset, language) for _, dataset, language in cells(cards)}
    assert found == {("orgA/xnli", "de"), ("orgB/xnli", "fr"), ("xcopa", "fr")}
    names = tmp_path / "names.csv"
    names.write_text("task,dataset,language\nxnli_{language},xnli,\n", encoding="utf-8")
    joined = {(dataset, language) for _, dataset, language in cells(cards, task_names=names)}
    assert joined == {("xnli", "de"), ("xnli", "fr"), ("xcopa", "fr")}


def test_values_without_a_metric_are_not_mixed_with_accuracies(tmp_path: Path) -> None:
    """Files of `.eval_results` do not say what their value measures."""
    shutil.copytree(CARDS / "org-b__larger", tmp_path / "b")
    card(tmp_path / "a", dataset="{type: CohereLabs/Global-MMLU, config: fr}", value="0.5")
    assert set(cells(tmp_path)) == {("b", "Global-MMLU", "sw"), ("b", "Global-MMLU", "en")}
    chosen = cells(tmp_path, metrics={"*": "accuracy"})
    assert chosen == {("a", "Global-MMLU", "fr"): 0.5}


def test_three_letters_are_a_code_only_among_codes(tmp_path: Path) -> None:
    """`all` is Allar in ISO 639-3, and a configuration of many data sets."""
    card(tmp_path / "a", dataset="{type: x/y, config: all}", value="0.5")
    with pytest.raises(InputError, match="no language is known for 1 task: y_all"):
        cells(tmp_path)
    card(tmp_path / "a", dataset="{type: x/y, config: hau}", value="0.5")
    card(tmp_path / "b", name="b", dataset="{type: x/y, config: swa}", value="0.25")
    assert cells(tmp_path) == {("a", "y", "hau"): 0.5, ("b", "y", "swa"): 0.25}


def test_lines_of_the_user_come_first(tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    card(cards / "a", value="0.5")
    card(cards / "b", name="b", dataset="{type: x/z, config: v1}", value="0.25")
    names = tmp_path / "names.csv"
    names.write_text("task,dataset,language\ny_de,,\nz_v1,zed,fi\n", encoding="utf-8")
    assert cells(cards, task_names=names) == {("b", "zed", "fi"): 0.25}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("good", "README.md, result 1 of a: accuracy: value: expected a number, got 'good'"),
        ("[1]", r"accuracy: value: expected a number, got \[1\]"),
        ("true", "accuracy: value: expected a number, got True"),
        ("1_000", "accuracy: value: expected a number, got '1_000'"),
        ("12:30", "accuracy: value: expected a number, got '12:30'"),
    ],
)
def test_values_that_are_no_numbers_are_refused(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(card(tmp_path, value=value) / "README.md")


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("{type: x/y, split: [dev]}", r"dataset split: expected text or a number, got \['dev'\]"),
        ("{type: x/y, config: [de]}", r"dataset config: expected text or a number, got \['de'\]"),
        (
            "{type: x/y, args: {language: {a: 1}}}",
            "dataset args language: expected text or a number, got {'a': 1}",
        ),
        ("{type: x/y, name: {a: 1}}", r"dataset name: expected text or a number, got {'a': 1}"),
    ],
)
def test_fields_that_are_no_text_are_refused(tmp_path: Path, dataset: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"README.md, result 1 of a: {message}"):
        load(card(tmp_path, dataset=dataset, value="1") / "README.md")


@pytest.mark.parametrize("field", ["notes", "date"])
def test_fields_of_a_list_of_results_that_are_no_text_are_refused(
    tmp_path: Path, field: str
) -> None:
    path = tmp_path / "r.yaml"
    text = f"- dataset: {{id: x/y, task_id: de}}\n  value: 1\n  {field}: [a]\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"result 1: {field}: expected text or a number, got \['"):
        load(path)


def test_one_model_in_the_cards_of_two_folders_is_refused_in_one_line(tmp_path: Path) -> None:
    for folder, value in (("one", "41"), ("two", "42")):
        card(tmp_path / folder, value=value)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/two/README.md and {tmp_path}/one/README.md both have results of the model 'a'"
        " (the first on both: y_de, accuracy); take one of the files out of the folder, or give the"
        " two models different names"
    )
    # Of another configuration, they are results of one model.
    card(tmp_path / "two", dataset="{type: x/y, config: sw}", value="42")
    assert cells(tmp_path) == {("a", "y", "de"): 41.0, ("a", "y", "sw"): 42.0}


def test_line_ends_of_old_macs(tmp_path: Path) -> None:
    path = card(tmp_path, value="41") / "README.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    assert cells(tmp_path) == {("a", "y", "de"): 41.0}


def test_a_card_without_results_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("---\nmodel-index:\n- name: a\n  results: []\n---\n# A\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"README\.md: a model card without results: its model-in"):
        load(path)


def test_a_null_is_no_score_of_another_metric(tmp_path: Path) -> None:
    """Of cells without the metric that was chosen, only those with a value have another one."""
    metrics = "    - type: accuracy\n      value: {}\n"
    for name, accuracy, other in (
        ("a", "41", "1"),
        ("b", "42", "2"),
        ("c", "", "3"),
        ("d", "", "null"),
    ):
        text = CARD.format(name=name, dataset="{type: x/y, config: de}", value=accuracy)
        if not accuracy:
            text = text.replace(metrics.format(""), "")
        text = text.replace(
            "    metrics:\n", f"    metrics:\n    - type: f1\n      value: {other}\n"
        )
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(text, encoding="utf-8")
    detected = detect(tmp_path)
    assert detected is not None
    options = Options(metrics={"*": "accuracy"})
    (table,) = read_results(detected, options).tables
    assert [(one.reason, one.counts) for one in table.dropped] == [
        ("no accuracy, but another metric", (("c, de, y", 1),)),
        ("missing score", (("d, de, y", 1),)),
    ]


def test_a_card_without_an_end_of_its_front_matter(tmp_path: Path) -> None:
    text = CARD.format(name="a", dataset="{type: y, config: de}", value="1").rstrip("-\n")
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="README.md: the front matter has no end"):
        load(tmp_path / "README.md")
