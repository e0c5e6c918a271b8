"""Details of lighteval: items from Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayeseval.errors import InputError
from bayeseval.records import load

FOLDER = Path(__file__).parents[1] / "fixtures" / "readers" / "lighteval"
DETAILS = sorted((FOLDER / "details").rglob("*.parquet"))
ONE = next(path for path in DETAILS if "small" in path.parts and "belebele_eng" in path.name)
STAMP = "2026-03-01T10-00-00.000000"
NAME = f"details_belebele_eng_Latn_mcf|0_{STAMP}.parquet"

Row = dict[str, Any]


def written(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def rows(**first: Any) -> list[Row]:
    """Three rows as lighteval has them, the first with other columns."""
    made = [
        {
            "doc": {"query": "?", "id": str(i), "task_name": "belebele_eng_Latn_mcf|0"},
            "metric": {"acc": float(i == 1)},
            "model_response": {"logprobs": [0.5]},
        }
        for i in range(3)
    ]
    return [{**made[0], **first}, *made[1:]]


def test_details_give_the_scores_of_the_results() -> None:
    results = load(FOLDER)
    items = load(FOLDER, format="lighteval-details")
    assert items.replicate_columns == ("item",)
    assert len(items) == 12 * 20
    assert set(items.table["score"]) == {0.0, 1.0}
    assert items.coords == results.coords
    cell = ["model", "language", "task"]
    means = items.table.groupby(cell)["score"].mean().to_dict()
    assert means == pytest.approx(results.table.set_index(cell)["score"].to_dict())
    assert means["org-a/small", "eng_Latn", "belebele_mcf:acc"] == pytest.approx(0.55)
    assert any(
        "12 files of lighteval details not read; format='lighteval-details'" in note
        for note in results.report.notes
    )


def test_items_are_those_of_the_file() -> None:
    table = load(ONE).table
    raw = pq.read_table(ONE).to_pylist()
    want = {row["doc"]["id"]: float(row["metric"]["acc"]) for row in raw}
    assert dict(zip(table["item"], table["score"], strict=True)) == want
    assert set(table["model"]) == {"org-a/small"}


def test_the_older_form_of_the_details(tmp_path: Path) -> None:
    """No doc: the task is in the file's name, and the metrics may be a text."""
    for model, scores in {"a": [1, 0, 0], "b": [0, 1, 1]}.items():
        for language, packed in (("sw", True), ("en", False)):
            made: list[Row] = [
                {"example": "?", "full_prompt": "?", "gold": ["A"], "metrics": {"acc": score}}
                for score in scores
            ]
            if packed:
                made = [{**row, "metrics": str(row["metrics"])} for row in made]
            name = f"details_lighteval|xnli_{language}|5_{STAMP}.parquet"
            written(tmp_path / f"details_org__{model}" / STAMP / name, made)
    records = load(tmp_path)
    assert records.coords["model"] == ("org/a", "org/b")
    assert records.coords["language"] == ("en", "sw")
    assert records.coords["task"] == ("xnli:acc",)
    of_a = records.table[records.table["model"] == "org/a"]
    assert of_a.groupby("item")["score"].sum().to_dict() == {"0": 2.0, "1": 0.0, "2": 0.0}


def test_shots_and_newer_runs(tmp_path: Path) -> None:
    """Runs of 0 and 5 shots are two tasks; of two runs of a cell the newer counts."""
    new = STAMP.replace("2026", "2027")
    for shots, stamp, score in ((0, STAMP, 0.0), (0, new, 1.0), (5, STAMP, 0.0)):
        made = [
            {
                **row,
                "doc": {**row["doc"], "task_name": f"xnli_sw|{shots}"},
                "metric": {"acc": score},
            }
            for row in rows()
        ]
        written(tmp_path / "details" / "m" / stamp / f"details_x{shots}_{stamp}.parquet", made)
    records = load(tmp_path)
    assert records.table.groupby("task")["score"].mean().to_dict() == {
        "xnli (0-shot):acc": 1.0,
        "xnli (5-shot):acc": 0.0,
    }
    (group,) = records.report.dropped
    assert (group.reason, sum(count for _, count in group.counts)) == (
        "older run of the same cell",
        3,
    )


def test_another_metric_and_what_has_no_score_of_an_item(tmp_path: Path) -> None:
    path = written(
        tmp_path / NAME, [{**row, "metric": {"f1": 0.25, "bleu": ["a", "b"]}} for row in rows()]
    )
    assert load(path).table["task"].unique().tolist() == ["belebele_mcf:f1"]
    assert set(load(ONE, metric="acc_norm").table["task"]) == {"belebele_mcf:acc_norm"}
    with pytest.raises(InputError, match=r"no metric 'acc_nrom'; did you mean 'acc_norm'\?"):
        load(ONE, metric="acc_nrom")


@pytest.mark.parametrize(
    ("made", "phrase"),
    [
        (lambda: rows(metric={"acc": float("inf")}), "row 1: acc: inf is not finite"),
        (
            lambda: [{**row, "metric": {"acc": "right"}} for row in rows()],
            "no item has a score of its own",
        ),
        (
            lambda: [{**row, "metric": {"acc": None}} for row in rows()],
            "no item has a score of its own",
        ),
        (lambda: [{**row, "metric": 1.0} for row in rows()], "row 1: metric: expected an object"),
        (lambda: [{**row, "metric": "acc = 1"} for row in rows()], "row 1: metric: expected names"),
        (
            lambda: [{**row, "metric": "(" * 5000} for row in rows()],
            "row 1: metric: expected names",
        ),
        (lambda: [{**row, "metric": "{1: 1}"} for row in rows()], "row 1: metric: expected names"),
        (lambda: rows(metric=None), "row 1: metric: expected an object"),
        (lambda: rows(doc={"id": "0", "task_name": "xnli_sw|0"}), "items of several tasks"),
        (lambda: rows(doc={"id": "1", "task_name": "belebele_eng_Latn_mcf|0"}), "item '1'"),
        (
            lambda: [{**row, "doc": {"task_name": "mystery|0"}} for row in rows()],
            "no language is known for 1 task: mystery",
        ),
    ],
)
def test_what_is_not_as_it_should_be(
    tmp_path: Path, made: Callable[[], list[Row]], phrase: str
) -> None:
    path = written(tmp_path / NAME, made())
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert phrase in message
    assert message.startswith(str(path))
    assert len(message.splitlines()) == 1


def test_no_rows_no_task_and_no_metric(tmp_path: Path) -> None:
    empty = tmp_path / NAME
    pq.write_table(pq.read_table(ONE).slice(0, 0), empty)
    with pytest.raises(InputError, match="0 rows"):
        load(empty)
    unnamed = written(tmp_path / "a.parquet", [{**row, "doc": {"id": "1"}} for row in rows()])
    with pytest.raises(InputError, match=r"the task is neither in doc\.task_name nor"):
        load(unnamed)
    table = written(tmp_path / "b.parquet", [{"model": "a", "language": "en", "score": 1.0}])
    with pytest.raises(InputError, match="a column 'metric' or 'metrics', this file has neither"):
        load(table, format="lighteval-details")
    with pytest.raises(InputError, match="damaged Parquet file"):
        load(shutil.copy(__file__, tmp_path / "c.parquet"), format="lighteval-details")


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    whole = ONE.read_bytes()
    refused = 0
    for step, start in enumerate(range(4, len(whole), 251)):
        data = whole[:start] + bytes([whole[start] ^ 0xFF]) + whole[start + 1 :]
        for kind, broken in (("byte", data), ("cut", whole[:start])):
            path = tmp_path / f"{kind}{step}.parquet"
            path.write_bytes(broken)
            try:
                load(path)
            except InputError as problem:
                refused += 1
                assert len(str(problem).splitlines()) == 1
                assert str(problem).isprintable()
                assert str(path) in str(problem)
    # Every file that was cut, and some with a wrong byte.
    assert refused > len(range(4, len(whole), 251))
