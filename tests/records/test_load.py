"""Formats, column names, tasks, and what the load report has to say."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from bayeseval.errors import InputError, addressing_command_line
from bayeseval.records import Records, Units, load
from bayeseval.records.settings import TableMapping, UnitsConfig

ROWS = [
    ("gpt", "en", "xnli", "acc", 80.1),
    ("gpt", "nan", "xnli", "acc", 60.5),
    ("bloom", "en", "xnli", "acc", 55.0),
    ("bloom", "no", "xnli", "acc", 48.25),
    ("bloom", "en", "xquad", "f1", 38.5),
]
NAMES = ("model", "language", "dataset", "metric", "score")


def _text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


HEAD = "model,language,task,score"


def _delimited(separator: str, end: str = "\n") -> str:
    rows = [NAMES, *ROWS]
    return "".join(separator.join(map(str, row)) + end for row in rows)


def _dicts() -> list[dict[str, object]]:
    return [dict(zip(NAMES, row, strict=True)) for row in ROWS]


@pytest.fixture
def expected() -> Records:
    return Records.from_frame(pd.DataFrame(ROWS, columns=list(NAMES)), name="rows")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.csv", _delimited(",")),
        ("a.csv", _delimited(",", "\r\n")),
        ("a.csv", _delimited(",", "\r")),
        ("a.csv", "\ufeff" + _delimited(",")),
        ("a.csv", "\n\n" + _delimited(",") + "\n\n"),
        ("a.csv", _delimited(";")),
        ("a.csv", _delimited("\t")),
        ("a.tsv", _delimited("\t")),
        ("a.txt", _delimited("\t")),
        ("a.table", _delimited("|")),
        ("a.json", json.dumps(_dicts())),
        ("a.json", "\ufeff" + json.dumps(_dicts(), indent=2)),
        ("a.json", "\n".join(map(json.dumps, _dicts()))),
        ("a.jsonl", "\r\n".join(map(json.dumps, _dicts())) + "\r\n"),
        ("a.jsonl", json.dumps(_dicts())),
        ("a.txt", "\n\n".join(map(json.dumps, _dicts()))),
    ],
)
def test_every_format_gives_the_same_records(
    tmp_path: Path, expected: Records, file: str, text: str
) -> None:
    records = load(_text(tmp_path / file, text))
    assert records.content_hash == expected.content_hash
    pd.testing.assert_frame_equal(records.table, expected.table)
    # The codes of Min Nan Chinese and Norwegian are labels, not missing values.
    assert records.coords["language"] == ("en", "nan", "no")
    assert records.coords["task"] == ("xnli:acc", "xquad:f1")


def test_parquet_gives_the_same_records(tmp_path: Path, expected: Records) -> None:
    frame = pd.DataFrame(ROWS, columns=list(NAMES))
    frame["model"] = frame["model"].astype("category")
    path = tmp_path / "scores.data"
    frame.to_parquet(path)
    assert load(path).content_hash == expected.content_hash


def test_columns_are_found_by_synonyms_and_reported(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        "LLM,Lang_Code,Benchmark,EXACT MATCH,Num Samples,stderr,comment\n"
        "gpt,en,xquad,80.5,100,1.5,x\nbloom,sw,xquad,30,90,1.25,y\n",
    )
    records = load(path)
    assert records.report.mapping == {
        "model": "LLM",
        "language": "Lang_Code",
        "score": "EXACT MATCH",
        "dataset": "Benchmark",
        "n": "Num Samples",
        "se": "stderr",
    }
    assert records.report.ignored_columns == ("comment",)
    assert records.coords["task"] == ("xquad:EXACT MATCH",)
    assert records.table["metric"].tolist() == ["EXACT MATCH"] * 2
    assert records.table[["n", "se"]].values.tolist() == [[90.0, 1.25], [100.0, 1.5]]
    assert any("metric 'EXACT MATCH'" in note for note in records.report.notes)


def test_our_own_name_wins_over_a_synonym(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        "model,language,lang,task,score,F1\ngpt,en,xx,a,80,1\nbloom,sw,yy,a,30,2\n",
    )
    records = load(path)
    assert records.coords["language"] == ("en", "sw")
    assert records.table["score"].tolist() == [30.0, 80.0]
    assert records.report.ignored_columns == ("lang", "F1")


def test_flags_and_mapping_files_choose_columns(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        "model,language,dataset,F1,acc\ngpt,en,a,80,70\nbloom,sw,a,30,20\n",
    )
    by_flag = load(path, columns={"score": "acc"})
    assert by_flag.table["score"].tolist() == [20.0, 70.0]
    assert by_flag.coords["task"] == ("a:acc",)
    mapping = _text(
        tmp_path / "map.yaml",
        "columns: {score: f1, metric:}\nunits: {lower: 0, upper: 90}\n"
        "language_names: {en: the English, no: Norwegian}\n",
    )
    by_file = load(path, mapping_file=mapping)
    assert by_file.table["score"].tolist() == [30.0, 80.0]
    assert by_file.units == {"a:F1": Units(0, 90)}
    # Only names of languages that are there are kept; the registry has the others.
    assert by_file.language_names == {"en": "the English", "sw": "Swahili"}
    both = load(path, mapping_file=mapping, columns={"score": "acc"}, units=(0, 100))
    assert both.table["score"].tolist() == [20.0, 70.0]
    assert both.units == {"a:acc": Units(0, 100)}


@pytest.mark.parametrize(
    ("columns", "phrase"),
    [
        ({"scor": "F1"}, "unknown name 'scor'; did you mean 'score'?"),
        ({"model": "modl"}, "no column 'modl', which was given for 'model'; did you mean 'model'"),
        ({"score": "F1", "n": "F1"}, "'F1' is mapped to both 'score' and 'n'"),
        ({"score": None}, "the column 'score' is needed and cannot be ignored; name it, or leave"),
        ({"model": None}, "the column 'model' is needed and cannot be ignored; name it, or leave"),
    ],
)
def test_a_wrong_mapping_is_refused(
    tmp_path: Path, columns: dict[str, str | None], phrase: str
) -> None:
    path = _text(tmp_path / "t.csv", "model,language,task,F1\ngpt,en,a,80\nbloom,sw,a,30\n")
    with pytest.raises(InputError) as caught:
        load(path, columns=columns)
    assert phrase in str(caught.value)


def test_leaving_a_column_out(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD},n\ngpt,en,a,80,x\nbloom,sw,a,30,y\n")
    with pytest.raises(InputError, match="n 'x' is not a number"):
        load(path)
    records = load(path, columns={"n": None})
    assert list(records.table.columns) == ["model", "language", "task", "score"]
    assert records.report.ignored_columns == ("n",)


def test_task_wins_over_a_dataset_that_says_the_same(tmp_path: Path) -> None:
    text = "model,language,task,dataset,metric,score\ngpt,en,A,a,f1,80\nbloom,sw,B,a,em,30\n"
    records = load(_text(tmp_path / "t.csv", text))
    assert records.coords["task"] == ("A", "B")
    assert records.table["dataset"].tolist() == ["a", "a"]


def test_the_user_settles_task_against_dataset(tmp_path: Path) -> None:
    text = "model,language,task,dataset,score\ngpt,en,A,a,80\nbloom,sw,A,b,30\n"
    path = _text(tmp_path / "t.csv", text)
    with pytest.raises(InputError, match="name different tasks"):
        load(path)
    assert load(path, columns={"dataset": "dataset"}).coords["task"] == ("a", "b")
    by_task = load(path, columns={"task": "task"})
    assert by_task.coords["task"] == ("A",)
    # It would contradict the task when the table is written and read again.
    assert "dataset" not in by_task.table
    assert any("dataset column" in note for note in by_task.report.notes)


def test_without_task_and_dataset_there_is_one_reported_task(tmp_path: Path) -> None:
    records = load(_text(tmp_path / "t.csv", "model,language,F1\ngpt,en,80\nbloom,sw,30\n"))
    assert records.coords["task"] == ("F1",)
    assert any("one task, 'F1'" in note for note in records.report.notes)
    plain = load(_text(tmp_path / "u.csv", "model,language,value\ngpt,en,80\nbloom,sw,30\n"))
    assert plain.coords["task"] == ("score",)


def test_aggregate_rows_are_dropped_counted_and_named(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        "model,language,task,score\ngpt,en,a,80\ngpt,sw,a,60\ngpt,AVG,a,70\nbloom,en,a,50\n"
        "bloom,Macro Average,a,n/a\nbloom,avg,a,50\ngpt,mean,a,1\ngpt,all,a,2\n"
        "gpt,average,a,3\ngpt,macro,a,4\nbloom,avg,b,\n",
    )
    report = load(path).report
    assert (report.n_rows_read, report.n_records, report.n_dropped) == (11, 3, 8)
    (group,) = report.dropped
    assert group.counts == (
        ("AVG", 1),
        ("Macro Average", 1),
        ("all", 1),
        ("average", 1),
        ("avg", 2),
        ("macro", 1),
        ("mean", 1),
    )
    assert group.first == f"{path}, line 4"


def test_a_language_that_is_an_average_may_be_left_out_on_request(tmp_path: Path) -> None:
    """Its rows are left out already, and are counted once."""
    path = _text(
        tmp_path / "t.csv",
        f"{HEAD}\ngpt,en,a,80\ngpt,sw,a,60\ngpt,avg,a,70\nbloom,en,a,50\nbloom,de,a,5\n"
        "bloom,sw,a,52\nbloom,avg,a,51\nbloom,AVG,a,51\n",
    )
    mapping = _text(tmp_path / "m.yaml", "drop: {language: [avg, de]}\n")
    report = load(path, mapping_file=mapping).report
    assert [(group.reason, group.counts, group.first) for group in report.dropped] == [
        ("aggregate rows, not a language", (("AVG", 1), ("avg", 2)), f"{path}, line 4"),
        ("language left out on request (drop)", (("de", 1),), f"{path}, line 6"),
    ]
    assert (report.n_rows_read, report.n_records, report.n_dropped) == (8, 4, 4)
    assert load(path, drop={"language": ["avg"]}).report.n_dropped == 3
    with pytest.raises(InputError, match=r"drop: no language 'fr'.* \(languages: en, sw, de\)"):
        load(path, drop={"language": ["fr"]})


def test_a_column_of_averages_may_be_left_out_on_request(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", "model,en,de,avg\nA,80,70,75\nB,60,50,55\n")
    asked, plain = load(path, drop={"language": ["avg"]}), load(path)
    assert asked.content_hash == plain.content_hash
    assert asked.coords["language"] == ("de", "en")
    with pytest.raises(InputError, match="drop: no model 'avg'"):
        load(path, drop={"model": ["avg"]})


def test_models_and_tasks_that_are_averages_are_dropped_and_named(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        f"{HEAD}\ngpt,en,a,80\ngpt,sw,b,60\nbloom,sw,a,70\nAverage,en,a,50\n"
        "AVERAGE of all,sw,a,4\ngpt,en,overall,3\nbloom,sw,Mean (2 tasks),5\nAverage,sw,avg,1\n",
    )
    report = load(path).report
    assert [(group.reason, group.counts, group.first) for group in report.dropped] == [
        (
            "aggregate rows, not a model",
            (("AVERAGE of all", 1), ("Average", 2)),
            f"{path}, line 5",
        ),
        ("aggregate rows, not a task", (("Mean (2 tasks)", 1), ("overall", 1)), f"{path}, line 7"),
    ]
    assert (report.n_rows_read, report.n_records, report.warnings) == (8, 3, ())
    # Left out on request, they are there to be named.
    kept = load(path, drop={"model": ["Average"], "task": ["overall"]}).report
    assert [group.reason for group in kept.dropped][:1] == ["model left out on request (drop)"]
    assert kept.n_records == 3


def test_the_dataset_of_a_task_says_that_it_is_an_average(tmp_path: Path) -> None:
    path = _text(
        tmp_path / "t.csv",
        "model,language,dataset,metric,score\ngpt,en,xnli,acc,80\nbloom,sw,xnli,acc,60\n"
        "gpt,en,average,acc,70\nbloom,sw,mean,acc,60\n",
    )
    (group,) = load(path).report.dropped
    assert group.counts == (("average:acc", 1), ("mean:acc", 1))


def test_a_name_that_only_begins_as_an_average_is_kept_with_a_warning(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD}\nMean Teacher,en,a,80\ngpt,en,a,70\ngpt,sw,a,60\n")
    records = load(path)
    assert records.coords["model"] == ("Mean Teacher", "gpt")
    (warning,) = records.report.warnings
    assert warning == (
        "warning: model 'Mean Teacher' is named as an average may be, and counts as a model; if it "
        "is an average over others, leave it out with drop={'model': ['Mean Teacher']}"
    )


def test_a_model_may_be_called_mean(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", "model,language,task,score\nmean,en,all,80\navg,sw,all,30\n")
    records = load(path)
    assert records.coords["model"] == ("avg", "mean")
    assert records.report.dropped == ()


def test_missing_scores_are_dropped_counted_and_named(tmp_path: Path) -> None:
    rows = [
        {"model": "gpt", "language": "en", "task": "a", "score": 80},
        {"model": "gpt", "language": "sw", "task": "a", "score": None},
        {"model": "bloom", "language": "en", "task": "a", "score": "30.5"},
        {"model": "bloom", "language": "sw", "task": "a", "score": 20},
        {"model": "mt5", "language": "sw", "task": "a"},
    ]
    records = load(_text(tmp_path / "t.json", json.dumps(rows)))
    (group,) = records.report.dropped
    assert group.reason == "missing score"
    assert group.counts == (("gpt, sw, a", 1), ("mt5, sw, a", 1))
    assert group.first.endswith("t.json, record 2")
    assert "no score left for model mt5" in records.report.notes
    assert records.table["score"].tolist() == [30.5, 20.0, 80.0]


def test_rows_of_separators_are_dropped_and_counted(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD}\ngpt,en,a,80\n,,,\nb,sw,a,3\n, ,,\n")
    (group,) = load(path).report.dropped
    assert (group.reason, group.n_rows) == ("empty rows", 2)


def test_an_unnamed_row_index_is_ignored(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", ",model,language,task,score\n0,gpt,en,a,80\n1,b,sw,a,3\n")
    assert load(path).report.ignored_columns == ("(unnamed column 1)",)


def test_labels_are_stripped_and_normalised_with_a_note(tmp_path: Path) -> None:
    decomposed = "Franc\u0327ais"
    path = _text(
        tmp_path / "t.csv",
        f"model,language,task,score\n gpt ,{decomposed},a,80\nGPT,sw,a,3\nG PT,en,a,4\n",
    )
    records = load(path)
    assert records.coords["model"] == ("G PT", "GPT", "gpt")
    assert records.coords["language"] == ("Fran\u00e7ais", "en", "sw")
    notes = "\n".join(records.report.notes)
    assert "blanks stripped from 1 model label: ' gpt '" in notes
    assert "NFC in 1 language label" in notes
    assert "model labels that look alike were kept apart: G PT, GPT, gpt" in notes


def test_duplicates_of_a_table_without_tasks_may_be_tasks(tmp_path: Path) -> None:
    # The length of the answers, a fraction, is no label.
    path = _text(
        tmp_path / "t.csv", "model,language,length,score\ngpt,en,1.5,8\ngpt,en,2.5,9\na,sw,1.5,3\n"
    )
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).endswith(
        "has two scores, 8 and 9; the table has no task column: if one of its columns says what "
        "was tested, name it with columns={'task': 'NAME'}; else keep one of them, or "
        "distinguish replicates by a seed, boot or item column"
    )
    path = _text(
        tmp_path / "t.csv", "model,language,exam,score\ngpt,en,x,8\ngpt,en,y,9\na,sw,x,3\n"
    )
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).endswith(
        "8 and 9; column 'exam' tells them apart: columns={'task': 'exam'} reads its values as "
        "tasks, columns={'seed': 'exam'} as repetitions"
    )
    assert len(load(path, columns={"task": "exam"})) == 3


def _settings(path: Path, name: str, tasks: str) -> Path:
    """Two settings of every cell, an id of every row, and a remark that is not always there."""
    cells = [
        (m, lang, task, s) for m in "ab" for lang in ("en", "sw") for task in tasks for s in "01"
    ]
    rows = [
        f"{m},{lang},{task},{setting},{i},{'x' * (i % 3)},{i}"
        for i, (m, lang, task, setting) in enumerate(cells)
    ]
    return _text(path, "\n".join([f"model,language,task,{name},id,remark,score", *rows]) + "\n")


@pytest.mark.parametrize(
    ("name", "tasks", "advice"),
    [
        ("setting", "x", [("dataset", "reads its values as tasks"), ("seed", "as repetitions")]),
        ("run", "x", [("seed", "as repetitions")]),
        # As the dataset it would replace the column task: x and y would be one cell.
        (
            "setting",
            "xy",
            [("split", "makes tasks of its values"), ("seed", "as repetitions")],
        ),
    ],
)
def test_the_column_that_tells_duplicates_apart_is_named(
    tmp_path: Path, name: str, tasks: str, advice: list[tuple[str, str]]
) -> None:
    path = _settings(tmp_path / "t.csv", name, tasks)
    with pytest.raises(InputError) as caught:
        load(path)
    offers = ", ".join(f"columns={{{ours!r}: {name!r}}} {when}" for ours, when in advice)
    assert f"; column {name!r} tells them apart: {offers}; " in str(caught.value)
    for ours, _ in advice:
        assert len(load(path, columns={ours: name})) == 8 * len(tasks)


def test_a_column_that_leaves_duplicates_is_not_offered(tmp_path: Path) -> None:
    text = _settings(tmp_path / "t.csv", "setting", "x").read_text(encoding="utf-8")
    path = _text(tmp_path / "u.csv", text.replace("a,en,x,1", "a,en,x,0"))
    with pytest.raises(InputError, match="keep one of them, or distinguish replicates by a seed"):
        load(path)


def test_identical_rows_and_equal_scores_are_told_apart(tmp_path: Path) -> None:
    row = "gpt,en,a,8,x\n"
    path = _text(tmp_path / "t.csv", f"{HEAD},by\n{row}{row}b,sw,a,3,x\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).endswith(
        "has the score 8 twice; the two rows are identical: remove one of them"
    )
    path = _text(tmp_path / "t.csv", f"{HEAD},by\n{row}gpt,en,a,8,\nb,sw,a,3,x\n")
    with pytest.raises(InputError, match="has the score 8 twice; keep one of them, or"):
        load(path)


@pytest.mark.parametrize(
    "text", ["12. Mai", "5-Dec", "Dec 5", "2025-12-05", "05/12/2025", "2025-12-05 00:00:00"]
)
def test_dates_among_scores_are_called_dates(tmp_path: Path, text: str) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD}\ngpt,en,a,{text}\nb,sw,a,3\n")
    with pytest.raises(InputError, match=f"score '{re.escape(text)}' is not a number; a date: "):
        load(path)


@pytest.mark.parametrize("text", ["oops", "v 12", "1-2", "model-7b", "12.5.6"])
def test_other_texts_among_scores_are_no_dates(tmp_path: Path, text: str) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD}\ngpt,en,a,{text}\nb,sw,a,3\n")
    said = f"score '{re.escape(text)}' is not a number; correct it, or leave the cell empty if it"
    with pytest.raises(InputError, match=f"{said} is missing$"):
        load(path)


def test_a_link_that_leads_nowhere_is_not_proposed(tmp_path: Path) -> None:
    (tmp_path / "self.csv").symlink_to("self.csv")
    with pytest.raises(InputError, match=r"self\.csv: no such file or folder$"):
        load(tmp_path / "self.csv")


def test_a_text_called_a_workbook_is_said_to_be_a_text(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.xlsx", f"{HEAD}\ngpt,en,a,8\n")
    with pytest.raises(InputError, match=r"t\.xlsx: a text file, not an Excel workbook; rename"):
        load(path)


def test_tables_in_folders_below_are_read_where_the_folder_has_none(tmp_path: Path) -> None:
    for model in ("gpt", "b"):
        folder = tmp_path / "runs" / model
        folder.mkdir(parents=True)
        _text(folder / "scores.csv", f"{HEAD}\n{model},en,a,8\n{model},sw,a,3\n")
        _text(folder / "notes.txt", "nothing")
    records = load(tmp_path / "runs")
    assert records.coords["model"] == ("b", "gpt")
    assert "2 other files in the folder not read: notes.txt, notes.txt" in records.report.notes
    # A table of the folder itself is what is meant.
    _text(tmp_path / "runs" / "all.csv", f"{HEAD}\nc,en,a,8\nd,sw,a,3\nd,en,a,3\n")
    assert load(tmp_path / "runs").coords["model"] == ("c", "d")


def test_two_spellings_of_one_label_are_one_cell(tmp_path: Path) -> None:
    path = _text(tmp_path / "t.csv", f"{HEAD}\ngpt,en,a,8\n gpt,en,a,9\nb,sw,a,3\n")
    with pytest.raises(InputError, match="line 3: duplicate of line 2"):
        load(path)


def test_odd_blanks_around_a_number_are_blanks(tmp_path: Path) -> None:
    text = f"{HEAD}\ngpt,en,a,\u00a08.5\x1c\nb,sw,a, 3 \n"
    assert load(_text(tmp_path / "t.csv", text)).table["score"].tolist() == [3.0, 8.5]


def test_lines_are_physical_lines(tmp_path: Path) -> None:
    text = 'note,model,language,task,score\n\n"two\nlines",gpt,en,a,80\nx,b,sw,a,oops\n'
    with pytest.raises(InputError, match="line 5, column 'score': score 'oops'"):
        load(_text(tmp_path / "t.csv", text))


def test_replicates_are_kept_apart_and_sorted_as_numbers(tmp_path: Path) -> None:
    text = "model,language,task,seed_idx,score\n" + "".join(
        f"{model},{language},a,{seed}.0,{seed}\n"
        for model, language in (("gpt", "en"), ("b", "sw"))
        for seed in (10, 2, 1)
    )
    records = load(_text(tmp_path / "t.csv", text))
    assert records.replicate_columns == ("seed",)
    assert records.table["seed"].tolist() == ["1", "2", "10"] * 2
    assert records.table["score"].tolist() == [1.0, 2.0, 10.0] * 2


def test_counts_are_read_and_n_is_needed_beside_k(tmp_path: Path) -> None:
    text = "model,language,task,score,n,k\ngpt,en,a,80,10,8\nb,sw,a,50,,\n"
    table = load(_text(tmp_path / "t.csv", text)).table
    assert table[["n", "k"]].fillna(-1).values.tolist() == [[-1, -1], [10, 8]]
    with pytest.raises(InputError, match="line 3, column 'k': k 5 has no n"):
        load(_text(tmp_path / "u.csv", text.replace("50,,", "50,,5")))


def test_chance_is_one_value_per_task(tmp_path: Path) -> None:
    text = "model,language,task,score,chance\ngpt,en,a,80,25\nb,sw,a,50,{}\n"
    assert load(_text(tmp_path / "t.csv", text.format(25))).table["chance"].tolist() == [25, 25]
    with pytest.raises(InputError, match="chance 50 differs from 25 earlier in task 'a'"):
        load(_text(tmp_path / "t.csv", text.format(50)))


def test_a_folder_is_put_together(tmp_path: Path) -> None:
    _text(
        tmp_path / "a.csv",
        "model,language,task,score\ngpt,en,a,80\nb,sw,a,5\n",
    )
    _text(tmp_path / "b.jsonl", '{"Model": "gpt", "Lang": "sw", "task": "a", "F1": 7}\n')
    _text(tmp_path / "README.md", "words")
    _text(tmp_path / ".hidden.csv", "x")
    records = load(tmp_path)
    assert len(records) == 3
    assert [Path(source).name for source in records.report.sources] == ["a.csv", "b.jsonl"]
    assert records.report.mapping["score"] == "score / F1"
    assert any("1 other file in the folder not read: README.md" in n for n in records.report.notes)


def test_a_folder_with_a_replicate_column_in_one_file_only(tmp_path: Path) -> None:
    _text(tmp_path / "a.csv", "model,language,task,seed,score\ngpt,en,a,0,80\nb,sw,a,1,5\n")
    _text(tmp_path / "b.csv", "model,language,task,score\ngpt,sw,a,80\n")
    with pytest.raises(InputError, match=r"b\.csv: no seed column, but .*a\.csv has one"):
        load(tmp_path)


def _scores(tmp_path: Path, rows: str) -> Path:
    return _text(tmp_path / "t.csv", "model,language,task,score\n" + rows)


def test_low_scores_on_a_hundred_point_scale_are_no_mixture(tmp_path: Path) -> None:
    """One low score, a model that fails with zeros, a hard task: all real, all kept."""
    rows = "gpt,en,a,80\ngpt,sw,a,60\nb,en,a,0.4\nb,sw,a,55\nz,en,a,0\nz,sw,a,0\n"
    hard = "gpt,en,h,12\ngpt,sw,h,1.5\nb,en,h,0.4\nb,sw,h,0.2\n"
    assert len(load(_scores(tmp_path, rows + hard))) == 10
    # The control: the same low model in a task where the others are high.
    with pytest.raises(InputError, match="task 'a' mixes scales: the scores of model z"):
        load(_scores(tmp_path, rows.replace("z,en,a,0\n", "z,en,a,0.5\n")))


def test_a_mixture_can_be_allowed_and_is_then_reported(tmp_path: Path) -> None:
    path = _scores(tmp_path, "gpt,en,a,80\ngpt,sw,a,60\nb,en,a,0.8\nb,sw,a,0.6\n")
    records = load(path, mixed_scales="allow")
    assert len(records) == 4
    assert any("mixes scales" in note for note in records.report.notes)
    mapping = _text(tmp_path / "map.yaml", "mixed_scales: allow\n")
    assert load(path, mapping_file=mapping).content_hash == records.content_hash
    with pytest.raises(InputError, match="mixes scales"):
        load(path, mapping_file=mapping, mixed_scales="refuse")


def test_fractions_in_one_task_and_points_in_another_are_fine(tmp_path: Path) -> None:
    path = _scores(tmp_path, "gpt,en,a,80\ngpt,sw,b,0.6\nb,en,a,70\nb,sw,b,0.5\n")
    records = load(path)
    assert records.units == {"a": Units(0, 100), "b": Units(0, 1)}
    notes = "\n".join(records.report.notes)
    assert ("scale guessed 0-100 for task a; declare it with units={'a': (0, 100)}") in notes
    # One note, not one that says to declare 0-1 and an error that says to declare 0-100.
    assert (
        "scale guessed 0-1 for task b, 0-100 for the others; if it is on their scale, declare that "
        "with units=(0, 100), and if not, rescale its scores" in notes
    )
    assert load(path, units=(0, 100)).units == {"a": Units(0, 100), "b": Units(0, 100)}


@pytest.mark.parametrize("other", ["", "gpt,sw,b,-0.6\nb,sw,b,130\n"])
def test_a_scale_is_declared_as_its_note_says(tmp_path: Path, other: str) -> None:
    path = _scores(tmp_path, "gpt,en,a,80\ngpt,sw,a,60\nb,en,a,70\n" + other)
    guessed = load(path)
    with addressing_command_line():
        commands = load(path).report.notes
    for note, command in zip(guessed.report.notes[:1], commands[:1], strict=True):
        told = re.fullmatch(r"scale guessed .* for task (.); declare it with units=(.*)", note)
        in_file = re.fullmatch(r"scale .* with '(units: .*)' in a --mapping file", command)
        assert told is not None
        assert in_file is not None
        argument = told[2]
        key = in_file[1]
        units = ast.literal_eval(argument)
        mapping = _text(tmp_path / "map.yaml", key)
        for declared in (load(path, units=units), load(path, mapping_file=mapping)):
            assert declared.units == guessed.units
            assert note not in declared.report.notes


@pytest.mark.parametrize("scores", [(-0.5, 0.5), (-40.0, 60.0), (3.5, 9.1), (20.0, 130.0)])
def test_a_scale_that_is_not_clear_stays_unknown(
    tmp_path: Path, scores: tuple[float, float]
) -> None:
    records = load(_scores(tmp_path, f"gpt,en,a,{scores[0]}\nb,sw,a,{scores[1]}\n"))
    assert records.units == {"a": Units(None, None)}
    # No number is proposed: it would be pasted, and count as known.
    told = f"scale unknown for task a, with scores from {scores[0]:g} to {scores[1]:g}"
    told += "; if it has bounds, one or both, declare them with"
    end = ", with numbers for LOWER and UPPER"
    assert f"{told} units=(LOWER, UPPER){end}" in records.report.notes
    path, key = tmp_path / "t.csv", "units: {lower: LOWER, upper: UPPER}"
    with addressing_command_line():
        assert f"{told} '{key}' in a --mapping file{end}" in load(path).report.notes
    mapping = _text(tmp_path / "map.yaml", key)
    with pytest.raises(InputError, match=r"map\.yaml.*units\.lower.*LOWER"):
        load(path, mapping_file=mapping)
    _text(mapping, key.replace("LOWER", "-50").replace("UPPER", "150"))
    declared = load(path, mapping_file=mapping)
    assert declared.units == load(path, units=(-50, 150)).units == {"a": Units(-50, 150)}
    assert declared.report.notes == ()


def test_declared_units(tmp_path: Path) -> None:
    path = _scores(tmp_path, "gpt,en,a,80\ngpt,sw,b,6\nb,en,a,70\nb,sw,b,5\n")
    records = load(path, units={"*": (0, 100), "b": Units(1, 10)})
    assert records.units == {"a": Units(0, 100), "b": Units(1, 10)}
    assert not any("scale" in note for note in records.report.notes)
    with pytest.raises(InputError, match=r"line 3, column 'score': score 6 is above .* 5.5 .*'b'"):
        load(path, units={"b": (0, 5.5)})
    with pytest.raises(InputError, match="line 3, column 'score': score 6 is below .* 50 .*'b'"):
        load(path, units=(50, 100))


@pytest.mark.parametrize(
    ("bounds", "phrase"),
    [
        ((1, 0), "lower bound 1 is not below upper bound 0"),
        ((0, float("inf")), "not finite"),
        ((0, 10**400), "not finite"),
        ((-1e308, 1e308), "lower bound -1e+308 is beyond 1e+100"),
        ((0, "x"), "not a number"),
        ((0, 1, 2), "expected (lower, upper)"),
    ],
)
def test_impossible_units_are_refused(tmp_path: Path, bounds: object, phrase: str) -> None:
    path = _scores(tmp_path, "gpt,en,a,80\nb,sw,a,70\n")
    with pytest.raises(InputError) as caught:
        load(path, units=bounds)  # type: ignore[arg-type]
    assert phrase in str(caught.value)


def test_an_empty_optional_column_is_as_good_as_none(tmp_path: Path) -> None:
    text = "model,language,task,dataset,seed,n,score\ngpt,en,a,,,,8\nb,sw,a,,,,3\n"
    records = load(_text(tmp_path / "t.csv", text))
    assert list(records.table.columns) == ["model", "language", "task", "score"]
    assert records.replicate_columns == ()
    assert records.report.ignored_columns == ("dataset", "seed", "n")


def test_settings_merge_by_key_and_the_later_one_wins(tmp_path: Path) -> None:
    """The card, then the mapping file, then the arguments; what is not said changes nothing."""
    bounds = {"lower": 0.0, "upper": 1.0}
    card = TableMapping(
        columns={"score": "F1", "model": "name"},
        units=bounds,
        missing=-1,
        mixed_scales="allow",
        metric={"*": "acc", "xnli": "f1"},
        task_names="a.csv",
    ).in_folder(tmp_path)
    assert card.merged(TableMapping()) == TableMapping().merged(card) == card
    file = TableMapping(
        columns={"score": None}, missing=-9, metric={"xnli": "em"}, task_names="b.csv"
    ).in_folder(tmp_path)
    both = card.merged(file)
    assert both == TableMapping(
        columns={"score": None, "model": "name"},
        units=bounds,
        missing=[-1, -9],
        mixed_scales="allow",
        metric={"*": "acc", "xnli": "em"},
        task_names=tmp_path / "b.csv",
    )
    # A default that is written out counts, one that is not does not.
    assert both.merged(TableMapping(mixed_scales="refuse")).mixed_scales == "refuse"
    assert both.merged(TableMapping(metric="f1")).metrics == {"*": "f1", "xnli": "em"}
    units = UnitsConfig.of({"xnli": (0.0, 100.0)})
    assert both.merged(TableMapping(units=units)).units == units
    assert card.metrics == {"*": "acc", "xnli": "f1"}


OWN_TABLE = "(in a table of its own, if other tasks have another scale)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fleurs:wer", "enter 100 less the error"),
        ("CER", "enter 100 less the error"),
        ("fleurs_wer", "enter 100 less the error"),
        ("fleurs (Word Error Rate)", "enter 100 less the error"),
        ("lm:perplexity", f"enter its negative, or minus its logarithm {OWN_TABLE}"),
        ("NLL", f"enter its negative {OWN_TABLE}"),
        ("bits-per-byte", f"enter its negative {OWN_TABLE}"),
        ("weird", None),
        ("cer-qa", None),
    ],
)
def test_tasks_named_after_an_error_are_warned_of(
    tmp_path: Path, name: str, said: str | None
) -> None:
    rows = f"gpt,en,{name},80\ngpt,sw,{name},60\nb,en,{name},70\nb,sw,qa,50\ngpt,en,qa,44\n"
    notes = [note for note in load(_scores(tmp_path, rows)).report.notes if "errors" in note]
    if said is None:
        assert notes == []
        return
    assert notes == [
        f"warning: task {name!r} is named after a measure of errors, and higher scores count as "
        f"better here: if lower is better, {said}"
    ]


def test_tasks_that_say_that_lower_is_better_are_warned_of_together(tmp_path: Path) -> None:
    names = ("fleurs (lower is better)", "wmt ↓", "ter (lower is better)")
    rows = "".join(f"{m},{lang},{n},{s}\n" for n in names for m, lang, s in MADE_UP)
    second, first = load(_scores(tmp_path, rows)).report.warnings
    assert first.startswith("warning: task 'ter (lower is better)' is named after a measure of err")
    assert second == (
        "warning: tasks 'fleurs (lower is better)', 'wmt ↓' say in their names that lower is better"
        ", and higher scores count as better here: if lower is better, enter the upper bound of the"
        " scale less the error, or its negative if it has none"
    )


MADE_UP = (("gpt", "en", 104.0), ("gpt", "sw", 60.0), ("b", "en", 70.0), ("b", "sw", 30.0))


def test_a_perplexity_has_no_guessed_scale_and_no_warning_as_its_negative(tmp_path: Path) -> None:
    rows = "".join(f"{m},{lang},ppl,{s / 2}\n" for m, lang, s in MADE_UP)
    records = load(_scores(tmp_path, rows))
    assert records.units["ppl"] == Units()
    assert len(records.report.warnings) == 1
    rows = "".join(f"{m},{lang},ppl,{-s / 2}\n" for m, lang, s in MADE_UP)
    assert load(_scores(tmp_path, rows)).report.warnings == ()
    assert load(_scores(tmp_path, rows.replace("ppl", "acc"))).units["acc"] == Units()


@pytest.mark.parametrize("name", ["../t.csv", "/etc/passwd", "below/../../t.csv"])
@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ("files: [{}]", "files"),
        ("files: [own.csv]\ncovariates: {{size: {}}}", "covariates: size"),
        ("files: [own.csv]\ntask_names: {}", "task_names"),
    ],
)
def test_a_card_names_files_of_its_folder_only(
    tmp_path: Path, name: str, keys: str, key: str
) -> None:
    (tmp_path / "t.csv").write_text("model,language,task,score\na,en,x,1\nb,en,x,2\n")
    card = tmp_path / "card" / "benchmark.yaml"
    card.parent.mkdir()
    (card.parent / "own.csv").write_text("model,language,task,score\na,en,x,1\nb,sw,x,2\n")
    card.write_text("name: n\ntitle: t\n" + keys.format(repr(name)) + "\n")
    with pytest.raises(InputError) as caught:
        load(card.parent)
    assert str(caught.value) == (
        f"{card}: {key}: {name!r} is not in the folder of the card; put the file there, and give"
        " its name"
    )


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (f"name: {'n' * 501}\ntitle: t\n", "at most 500 characters"),
        (f"name: n\ntitle: t\nfiles: [{'f' * 5000}]\n", "is not a file in the folder of the card"),
    ],
)
def test_long_texts_of_a_card_are_refused_and_shown_in_part(
    tmp_path: Path, card: str, said: str
) -> None:
    (tmp_path / "t.csv").write_text("model,language,task,score\na,en,x,1\nb,en,x,2\n")
    (tmp_path / "benchmark.yaml").write_text(card)
    with pytest.raises(InputError, match=said) as caught:
        load(tmp_path)
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


def test_long_values_of_a_reuben_configuration_are_shown_in_part(tmp_path: Path) -> None:
    table, mapping = tmp_path / "t.csv", tmp_path / "m.yaml"
    table.write_text("model,language,task,score\na,en,x,1\nb,en,x,2\n")
    mapping.write_text(f"score_col: [{', '.join(['word'] * 1000)}]\n")
    with pytest.raises(InputError, match="expected the name of a column, got") as caught:
        load(table, mapping_file=mapping)
    assert len(str(caught.value)) < len(str(mapping)) + 200


def test_what_is_noted_of_several_files_is_said_once(tmp_path: Path) -> None:
    for name in "abcde":
        language = f"l{name}"
        (tmp_path / f"{name}.csv").write_text(
            f"model,language,score\nm,{language},1\nn,{language},2\n"
        )
    told = "no task or dataset column: all records belong to one task, 'score'"
    files = [str(tmp_path / f"{name}.csv") for name in "abc"]
    notes = [str(note) for note in load(tmp_path).report.notes if "no task" in str(note)]
    assert notes == [f"all 5 files ({', '.join(files)} and 2 more): {told}"]
    (tmp_path / "e.csv").write_text("model,language,score,task\nm,le,1,t\nn,le,2,t\n")
    notes = [str(note) for note in load(tmp_path).report.notes if "no task" in str(note)]
    assert notes == [f"4 of 5 files ({', '.join(files)} and 1 more): {told}"]


def test_a_task_on_another_scale_is_said_to_be_averaged_as_it_is(tmp_path: Path) -> None:
    rows = [
        f"m{i},{code},{task},{score + i}"
        for i in range(2)
        for code in ("de", "en")
        for task, score in (("bleu", 35), ("rating", 6.5))
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["model,language,task,score", *rows]), encoding="utf-8")
    beside = (
        "; other tasks are on 0-100, and means are those of the scores as they are: rescale a task "
        "that is on another scale, or leave it out"
    )
    assert [str(note).endswith(beside) for note in load(path).report.notes] == [False, True]
    # Alone it has nothing that it is averaged with.
    path.write_text("\n".join(["model,language,task,score", *rows[1::2]]), encoding="utf-8")
    assert not any(beside in str(note) for note in load(path).report.notes)
