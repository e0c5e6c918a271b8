"""Which columns of a wide table are models, languages, tasks, ranks and facts about the models."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.readers.columns import missing_columns, resolve_columns
from bayeseval.readers.printed import Cell, parse_cell
from bayeseval.readers.raw import object_array, without_line_feeds
from bayeseval.records import Records, Units, load

_SCORES = {("A", "German"): 51.0, ("A", "French"): 49.0, ("B", "German"): 41.5, ("B", "French"): 39}


def _load(tmp_path: Path, text: str, **options: object) -> Records:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return load(path, **options)  # type: ignore[arg-type]


def _scores(records: Records) -> dict[tuple[str, str], float]:
    table = records.table
    rows = zip(table["model"], table["language"], table["score"], strict=True)
    return {(model, language): score for model, language, score in rows}


@pytest.mark.parametrize(
    ("header", "before", "said"),
    [
        ("Rank,Model", ("1,A", "2,B"), "numbers of rows: Rank"),
        ("#,Name", ("1,A", "2,B"), "numbers of rows: #"),
        (",Model", ("0,A", "1,B"), "numbers of rows: (unnamed column 1)"),
        ("Unnamed: 0,System", ("7,A", "3,B"), "numbers of rows: Unnamed: 0"),
        ("S.No,Model", ("1,A", "2,B"), "numbers of rows: S.No"),
        ("id,Model", ("0,A", "1,B"), "numbers of rows: id"),
        ("Rank,", ("1,A", "2,B"), "numbers of rows: Rank"),
        ("Rank,Checkpoint", ("1,A", "1,B"), "about the models: Rank"),
        ("License,Organization,Model", ("mit,O,A", "mit,P,B"), "models: License, Organization"),
        ("Params (B),Hub license,Model", ("7,mit,A", "13,mit,B"), "Params (B), Hub license"),
    ],
)
def test_ranks_and_facts_are_no_models(
    tmp_path: Path, header: str, before: tuple[str, str], said: str
) -> None:
    first, second = before
    text = f"{header},Average,German,French\n{first},50,51,49\n{second},40,41.5,39\n"
    records = _load(tmp_path, text)
    assert _scores(records) == _SCORES
    (note,) = (note for note in records.report.notes if said in note)
    assert note.startswith("columns not read, ")
    assert "columns not read, averages: Average" in records.report.notes
    # The same in a frame, in which a blank header has pandas' name.
    assert _scores(load(pd.read_csv(tmp_path / "t.csv"))) == _SCORES


@pytest.mark.parametrize(
    "text",
    [
        "German,French,Model\n51,49,A\n41.5,39,B\n",
        "German,Model,French,Remark\n51,A,49,new one\n41.5,B,39,\n",
        "Rank,Language,A,B\n1,German,51,41.5\n2,French,49,39\n",
        "Code,Language,A,B\nde,German,51,41.5\nfr,French,49,39\n",
    ],
)
def test_names_stand_anywhere(tmp_path: Path, text: str) -> None:
    assert _scores(_load(tmp_path, text)) == _SCORES


def test_a_place_in_a_message_is_that_of_the_file(tmp_path: Path) -> None:
    text = "Rank,Model,German,French,Swahili\n1,A,5,4,3\n2,B,5,?!,3\n"
    with pytest.raises(InputError, match=r"line 3, column 4: '\?!' is not a score"):
        _load(tmp_path, text)
    down = "#,Language,A,B,C\n1,de,5,4,3\n2,fr,5,?!,3\n"
    with pytest.raises(InputError, match=r"line 3, column 4: '\?!' is not a score"):
        _load(tmp_path, down)


@pytest.mark.parametrize("date", ["12. Mai", "2024-05-12 00:00:00", "May-12"])
def test_dates_among_scores_are_no_names(tmp_path: Path, date: str) -> None:
    """The column was left out with a note, and the rest of the table fitted."""
    said = "spreadsheets turn scores such as 12.5 into dates"
    text = f"Model,de,fr,sv\nA,{date},4,3\nB,{date},5,4\nC,12,6,4.5\n"
    with pytest.raises(InputError, match=f"line 2, column 2: '{date}' is not a score.*{said}"):
        _load(tmp_path, text)
    # Indonesian, but models.
    records = _load(tmp_path, "id,de,fr,sv\nGPT-4,5,4,3\nLlama-2,5,7,4\n")
    assert records.coords["model"] == ("GPT-4", "Llama-2")


def test_numbers_that_are_no_ranks(tmp_path: Path) -> None:
    """Models, seeds and scores may be 1, 2, 3 as well; ``no`` is Norwegian."""
    records = _load(tmp_path, "Model,no,sv\n1,1,5\n2,2,6\n3,3,7\n")
    assert _scores(records)["3", "no"] == 3
    assert records.coords["model"] == ("1", "2", "3")
    records = _load(tmp_path, "seed,Model,de,sv\n1,A,5,5.5\n2,A,6,6.5\n1,B,5,7\n2,B,7,5\n")
    assert sorted(set(records.table["seed"])) == ["1", "2"]
    records = _load(tmp_path, "Language,A,B\nde,1,7\nsv,2,8\nda,3,9\n")
    assert records.coords["model"] == ("A", "B")


def test_models_that_cannot_be_told(tmp_path: Path) -> None:
    text = "License,Organization,German,French\nmit,A,51,49\nmit,B,41.5,39\n"
    with pytest.raises(InputError, match="no column is known to name the models") as caught:
        _load(tmp_path, text)
    assert "choose columns={'model': 'License'} or columns={'model': 'Org" in str(caught.value)
    chosen = {"columns": {"model": "Organization"}}
    records = _load(tmp_path, text, **chosen)
    assert _scores(records) == _SCORES
    assert "columns not read, about the models: License" in records.report.notes
    assert _scores(load(pd.read_csv(tmp_path / "t.csv"), **chosen)) == _SCORES  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"'Organisation'.*columns: License, Organization"):
        _load(tmp_path, text, columns={"model": "Organisation"})
    with pytest.raises(InputError, match="name the models; add a column 'model'"):
        _load(tmp_path, ",German,French\n0,51,49\n1,41.5,39\n")
    with pytest.raises(InputError, match="choose columns={'model': 'id'}$"):
        _load(tmp_path, "id,German,French\n1,51,49\n2,41.5,39\n")


def test_tasks_in_the_header(tmp_path: Path) -> None:
    header = "Rank,Model,Average,MMLU (de),MMLU (French),ARC [de],MMLU (avg)"
    records = _load(tmp_path, f"{header}\n1,A,50,51,49,52,50\n2,B,40,41.5,39,42,40\n")
    table = records.table[["model", "task", "language", "score"]]
    assert sorted(map(tuple, table.to_numpy().tolist())) == [
        ("A", "ARC", "de", 52.0),
        ("A", "MMLU", "French", 49.0),
        ("A", "MMLU", "de", 51.0),
        ("B", "ARC", "de", 42.0),
        ("B", "MMLU", "French", 39.0),
        ("B", "MMLU", "de", 41.5),
    ]
    assert "columns not read, averages: Average, MMLU (avg)" in records.report.notes
    # A name and its code are no task of a language.
    records = _load(tmp_path, "Model,German (de),French (fr)\nA,51,49\nB,41.5,39\n")
    assert _scores(records) == _SCORES
    assert records.coords["task"] == ("t",)


@pytest.mark.parametrize(
    ("header", "tasks"),
    [
        # ARC and acc are codes of languages, too.
        ("Model,German,,,French,,\n,XNLI,ARC,Avg,XNLI,ARC,Avg", "XNLI ARC - XNLI ARC -"),
        ("Model,XNLI,,ARC,,Avg,\n,German,French,German,French,German,French", "XNLI XNLI ARC ARC"),
        (",German,German,French,French\n,acc,f1,acc,f1", "t:acc - t:acc -"),
    ],
)
def test_languages_stand_in_either_line_of_a_header(
    tmp_path: Path, header: str, tasks: str
) -> None:
    n = header.count(",") // 2
    rows = [",".join([m, *(str(9 * i + j + 0.5) for j in range(n))]) for i, m in enumerate("AB")]
    table = _load(tmp_path, "\n".join([header, *rows])).table.query("model == 'A'")
    found = dict(
        zip(table["score"], zip(table["task"], table["language"], strict=True), strict=True)
    )
    blocks = ["German"] * (n // 2) + ["French"] * (n // 2)
    languages = ["German", "French"] * 3 if "XNLI,," in header else blocks
    expected = zip(tasks.split(), languages, strict=False)
    assert found == {j + 0.5: cell for j, cell in enumerate(expected) if cell[0] != "-"}


@pytest.mark.parametrize(
    ("header", "units"),
    [("German,French,Swahili", "Time (ms)"), ("de,fr", "Time (ms),Latency (ms)")],
)
def test_units_in_a_header_are_no_languages(tmp_path: Path, header: str, units: str) -> None:
    """kg is Kongo and ms Malay."""
    names = f"Model,{header},{units}"
    cells = [",".join(f"{row}{i}" for i in range(names.count(","))) for row in (4, 7)]
    with pytest.raises(InputError, match=r"line 1: 'Time \(ms\)' is not a known language"):
        _load(tmp_path, f"{names}\nA,{cells[0]}\nB,{cells[1]}\n")


def test_malay_in_the_company_of_other_languages_is_no_unit(tmp_path: Path) -> None:
    text = "Model,MMLU (de),MMLU (ms),ARC (ms),ARC (fr)\nA,51,49,1,7\nB,41.5,39,2,8\n"
    assert _load(tmp_path, text).coords["language"] == ("de", "fr", "ms")


@pytest.mark.parametrize(
    ("rows", "languages"),
    [
        # Numbers of rows stand before the models, or are whole where hardly any score is.
        (["id,Model,de,fr", "7,A,51,49", "3,B,41,39", "5,C,40,34"], ("de", "fr")),
        (["Model,no,de,fr", "A,7,51.2,4.9", "B,3,41.5,3.9", "C,5,40.1,3.4"], ("de", "fr")),
        (["Model,id,de,fr", "A,57,51,49", "B,43,41,39", "C,45,40,34"], ("de", "fr", "id")),
        (["Model,id,de,fr", "A,57,51.2,4.9", "B,,41.5,3.9", "C,,40,3.4"], ("de", "fr", "id")),
    ],
)
def test_numbers_of_rows_under_the_code_of_a_language(
    tmp_path: Path, rows: list[str], languages: tuple[str, ...]
) -> None:
    records = _load(tmp_path, "\n".join(rows) + "\n")
    assert (records.coords["model"], records.coords["language"]) == (("A", "B", "C"), languages)


@pytest.mark.parametrize(
    "rows",
    [
        ["Model,F1 (de),EM (de),F1 (fr),EM (fr)", "A,51,1,49,2", "B,41.5,3,39,4"],
        ["Model,F1,,EM,", ",de,fr,de,fr", "A,51,49,1,2", "B,41.5,39,3,4"],
        ["Model,Task,F1 (de),EM (de),F1 (fr)", "A,t,51,1,49", "B,t,41.5,2,39"],
    ],
)
def test_metrics_in_the_header_are_no_tasks(tmp_path: Path, rows: list[str]) -> None:
    records = _load(tmp_path, "\n".join(rows) + "\n", metric="F1")
    assert records.coords["task"] == ("t:F1",)
    named = {"de": "German", "fr": "French"}
    found = {(model, named[code]): score for (model, code), score in _scores(records).items()}
    assert found == _SCORES
    # One header that is no metric, and all are tests.
    text = "Model,F1 (de),MMLU (de),F1 (fr),MMLU (fr)\nA,51,1,49,2\nB,41.5,3,39,5\n"
    assert _load(tmp_path, text).coords["task"] == ("F1", "MMLU")


def test_line_feeds_in_a_header(tmp_path: Path) -> None:
    text = '"Model\nname","German","French\r\n(fr)"\n"A",51,49\n"B",41.5,39\n'
    assert _scores(_load(tmp_path, text)) == _SCORES
    rows = [("A", "German", 51), ("A", "French", 49), ("B", "German", 41.5), ("B", "French", 39)]
    lines = [f"{model},{language},{score}" for model, language, score in rows]
    plain = "\n".join(['"model\nid",language,"my\nscore"', *lines])
    with pytest.raises(InputError, match=r"name it with columns={'score': 'my score'}"):
        _load(tmp_path, plain)
    assert _scores(_load(tmp_path, plain, columns={"score": "my score"})) == _SCORES


def test_labels_of_languages_stay_as_they_are_written(tmp_path: Path) -> None:
    labels = ["Bahasa Indonesia", "Portuguese (BR)", "Portuguese (PT)", "🇩🇪 German"]
    wide = "Model," + ",".join(labels) + "\nA,1,2,3,4\nB,5,6,7,9\n"
    down = "Language,A,B\n" + "".join(f"{label},{i},{i * i}\n" for i, label in enumerate(labels))
    for text in (wide, down):
        assert _load(tmp_path, text).coords["language"] == tuple(labels)


@pytest.mark.parametrize("name", ["task", "Benchmark"])
@pytest.mark.parametrize(
    "rows",
    [
        ["Model,German,French,{}", "A,51,49,qa", "B,41.5,39,qa", "A,1,2,nli", "B,3,4,nli"],
        ["Language,A,B,{}", "German,51,41.5,qa", "French,49,39,qa", "German,1,3,nli"],
        ["Language,{},A,B", "German,qa,51,41.5", "French,qa,49,39", "German,nli,1,3"],
    ],
)
def test_a_column_of_tasks_anywhere(tmp_path: Path, name: str, rows: list[str]) -> None:
    records = _load(tmp_path, "\n".join(rows).format(name) + "\n")
    assert records.coords["task"] == ("nli", "qa")
    table = records.table
    qa = {
        (model, language): score
        for model, language, task, score in zip(
            *(table[column] for column in ("model", "language", "task", "score")), strict=True
        )
        if task == "qa"
    }
    assert qa == _SCORES


def test_a_choice_of_the_tasks(tmp_path: Path) -> None:
    text = "Model,Suite,German,French\nA,qa,51,49\nB,qa,41.5,39\nA,nli,1,2\nB,nli,3,4\n"
    records = _load(tmp_path, text, columns={"task": "Suite"})
    assert records.coords["task"] == ("nli", "qa")


def test_missing_columns_are_returned_and_told_where_they_are_shown() -> None:
    cells = {"Model": ["a", "b"], "Sprache": ["de", "sw"], "acc": ["1", "2"]}
    columns = {name: object_array(values) for name, values in cells.items()}
    found = resolve_columns([*columns], source="t.csv", explicit={})
    assert (found.missing, found.ours) == (("language",), {"model": "Model", "score": "acc"})
    assert missing_columns(found, columns, source="t.csv") == (
        "t.csv: no column for 'language' (columns: Model, Sprache, acc);"
        " name it with columns={'language': 'Sprache'}"
    )


def test_bounds_in_columns_of_a_wide_table(tmp_path: Path) -> None:
    text = "Model,de,fr,Scale_min,scale max\nA,0.5,0.25,0,100\nB,0.75,0.5,0,100\n"
    records = _load(tmp_path, text)
    assert records.units == {"t": Units(0.0, 100.0)}
    assert not [note for note in records.report.notes if "scale guessed" in note]


def test_the_scale_that_a_table_states_overrules_the_guess() -> None:
    rows = [
        (m, lang, 40.0 + 5 * (m == "B") + i) for m in "AB" for i, lang in enumerate(("de", "fr"))
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "score"])
    frame.loc[frame["model"] == "A", "score"] /= 100
    with pytest.raises(InputError, match="mixes scales"):
        load(frame)
    records = load(frame.assign(scale_min=0, scale_max=100))
    assert sorted(records.scores) == [0.4, 0.41, 45.0, 46.0]
    assert records.units == {"score": Units(0.0, 100.0)}
    (note,) = (note for note in records.report.notes if "mixes scales" in note)
    assert note.endswith("they are kept, because the table states the scale 0 to 100")


def test_a_column_for_each_task_is_told_to_be_made_rows(tmp_path: Path) -> None:
    """Naming one of them left the others out."""
    text = "Model,Language,ARC,MMLU\nA,de,20.5,31\nA,ar,33,44\nB,de,35,47\nB,ar,26,38\n"
    with pytest.raises(InputError) as caught:
        _load(tmp_path, text)
    assert str(caught.value).endswith(
        "name it with columns={'score': 'NAME'}; if several are tasks, write one row per score,"
        " with a column 'task'"
    )
    rows = pd.read_csv(tmp_path / "t.csv").melt(["Model", "Language"], var_name="task")
    assert load(rows).coords["task"] == ("ARC", "MMLU")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("plain", "plain"),
        ("two  blanks", "two  blanks"),
        ("MMLU\n(5-shot)", "MMLU (5-shot)"),
        ("a \t\r\n\n \tb\rc", "a b c"),
        (" a\nb ", " a b "),
        ("\na", " a"),
        ("a\u00a0\nb", "a\u00a0 b"),
    ],
)
def test_a_wrapped_header_becomes_one_line(header: str, name: str) -> None:
    assert without_line_feeds(header) == name


def test_a_plain_number_of_a_cell_is_read_as_one_with_marks_is() -> None:
    for text in ("0", "7", "12.5", "007.250", "123456789012345.1"):
        plain, marked = parse_cell(text), parse_cell(f"{text}*")
        assert plain == Cell((float(text),))
        assert marked is not None
        assert (marked.values, marked.marked) == (plain.values, True)
