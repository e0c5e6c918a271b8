"""Wide tables as papers print them, from CSV, Markdown, LaTeX and Excel."""

from __future__ import annotations

import re
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeseval.errors import InputError
from bayeseval.readers.base import HEAD_BYTES
from bayeseval.readers.printed import Cell, parse_cell
from bayeseval.records import Records, load

CSV = """\
Model,Size,de,sw,Avg.
A,7B,**12.3 ± 0.4**,10.1 ± 0.3†,11.2
B,13B,9.0 ± 0.5,-,9.0
Average,,10.7,10.1,10.4
"""
MARKDOWN = """\
# Results

| Model | Size | de | sw | Avg. |
|:---|---:|---:|---:|---:|
| A | 7B | **12.3 ± 0.4** | 10.1 ± 0.3† | 11.2 |
| B | 13B | 9.0 ± 0.5 | — | 9.0 |
| Average | | 10.7 | 10.1 | 10.4 |
"""
LATEX = r"""
\begin{table}[t]
\begin{tabular}{l@{}r|rr>{\bfseries}r}
\toprule
Model & Size & de & sw & Avg. \\ \midrule
A & 7B & \textbf{12.3}$\pm$0.4 & 10.1 $\pm$ 0.3$^{\dagger}$ & 11.2 \\  % the best
B & 13B & 9.0$_{\pm 0.5}$ & -- & 9.0 \\[2pt]
\midrule
Average & & 10.7 & 10.1 & 10.4 \\
\bottomrule
\end{tabular}
\end{table}
"""
SCORES = {
    ("A", "de"): (12.3, 0.4),
    ("A", "sw"): (10.1, 0.3),
    ("B", "de"): (9.0, 0.5),
}


def excel(path: Path, text: str) -> Path:
    book = openpyxl.Workbook()
    for line in text.splitlines():
        cells = [float(c) if re.fullmatch(r"[\d.]+", c) else c or None for c in line.split(",")]
        book.active.append(cells)
    book.save(path)
    return path


def values(records: Records) -> dict[tuple[str, str], tuple[float, float]]:
    table = records.table
    rows = zip(*(table[c] for c in ("model", "language", "score", "se")), strict=True)
    return {(model, language): (score, se) for model, language, score, se in rows}


@pytest.mark.parametrize(
    ("name", "text"), [("t.csv", CSV), ("t.md", MARKDOWN), ("t.tex", LATEX), ("t.xlsx", CSV)]
)
def test_the_same_table_in_four_formats(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    if path.suffix == ".xlsx":
        excel(path, text)
    else:
        path.write_text(text, encoding="utf-8")
    records = load(path)
    assert values(records) == SCORES
    assert records.coords["task"] == ("t",)
    said = "\n".join(records.report.notes)
    for phrase in (
        "columns not read, averages: Avg.",
        "columns not read, about the models: Size",
        "rows not read, averages: Average",
        "1 cell without a score",
        "3 cells with a standard error",
    ):
        assert phrase in said


@pytest.mark.parametrize(
    "label",
    [
        "all",
        "All languages",
        "Overall (53)",
        "Total",
        "Macro-Avg.",
        "Avg-all",
        "mean over tasks",
        "Ø",
    ],
)
def test_rows_of_averages(tmp_path: Path, label: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"model,en,sw\nA,1,2\n{label},3,4\nB,5,6\n", encoding="utf-8")
    assert load(path).coords["model"] == ("A", "B")


def test_names_of_models_that_look_like_something_else(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 is no average, and the 2.5 of Qwen_2.5 is no standard error."""
    path = tmp_path / "t.csv"
    path.write_text("model,en,sw\nall-MiniLM-L6-v2,1,2\nall_mpnet,3,4\nTotalBERT,5,6\n")
    assert load(path).coords["model"] == ("TotalBERT", "all-MiniLM-L6-v2", "all_mpnet")
    path = tmp_path / "t.tex"
    path.write_text(
        r"""\begin{tabular}{lrr}
Model & en & sw \\
Qwen\_2.5 & {\bf 60.1}$_{0.5}$ & 50 \\
Llama$_2$ & $50.0_{\pm 0.4}$ & 40 \\
\end{tabular}"""
    )
    records = load(path)
    assert records.coords["model"] == ("Llama_2", "Qwen_2.5")
    assert values(records)["Qwen_2.5", "en"] == (60.1, 0.5)
    assert values(records)["Llama_2", "en"] == (50.0, 0.4)


def test_languages_down(tmp_path: Path) -> None:
    """The form of the tables of the MEXA leaderboard: languages down, models across."""
    path = tmp_path / "mexa.csv"
    path.write_text(
        "language,gemma_9b,llama_8b,avg\neng_Latn,0.92,0.88,0.9\nfra_Latn,0.9,0.8,0.85\n"
    )
    records = load(path)
    assert records.table[["model", "language", "score"]].to_numpy().tolist() == [
        ["gemma_9b", "eng_Latn", 0.92],
        ["gemma_9b", "fra_Latn", 0.9],
        ["llama_8b", "eng_Latn", 0.88],
        ["llama_8b", "fra_Latn", 0.8],
    ]


TWO_LINES = r"""
\begin{tabular}{lrrrr}
Model & \multicolumn{2}{c}{XQuAD (F1/EM)} & \multicolumn{2}{c}{TyDiQA (F1/EM)} \\
 & en & sw & en & sw \\
mBERT & 84.6/71.7 & 53.0/40.1 & 60/50 & 61/51 \\
XLM-R & 80.1/70.0 & 55.5/41.0 & 62/52 & \\
\end{tabular}
"""


def test_two_lines_of_header_and_two_metrics_in_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "t.tex"
    path.write_text(TWO_LINES)
    first, second = load(path), load(path, metric="EM")
    assert first.coords["task"] == ("TyDiQA:F1", "XQuAD:F1")
    assert second.coords["task"] == ("TyDiQA:EM", "XQuAD:EM")
    rows = zip(first.table["model"], first.table["task"], first.table["score"], strict=True)
    assert ("mBERT", "XQuAD:F1", 84.6) in set(rows)
    assert sorted(second.table["score"]) == [40.1, 41.0, 50.0, 51.0, 52.0, 70.0, 71.7]


def test_datasets_and_metrics_in_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Dataset,Model,Metric,en,sw\nXNLI,A,acc,80,60\n,B,acc,70,50\nPAWS,A,f1,90,80\n")
    records = load(path)
    assert records.table[["model", "task", "score"]].to_numpy().tolist() == [
        ["A", "PAWS:f1", 90.0],
        ["A", "XNLI:acc", 80.0],
        ["A", "PAWS:f1", 80.0],
        ["A", "XNLI:acc", 60.0],
        ["B", "XNLI:acc", 70.0],
        ["B", "XNLI:acc", 50.0],
    ]


def test_a_workbook_with_a_row_per_score_and_one_with_two_sheets(tmp_path: Path) -> None:
    tidy = "model,language,score\nA,en,1.5\nA,sw,2.5\nB,en,3.5\n"
    records = load(excel(tmp_path / "tidy.xlsx", tidy))
    assert list(records.table["score"]) == [1.5, 2.5, 3.5]
    assert "read as tables with one row per score (1 file)" in records.report.notes
    with pytest.raises(InputError, match="an Excel workbook, which format='wide' reads"):
        load(tmp_path / "tidy.xlsx", format="table")
    assert load(tmp_path / "tidy.xlsx", format="wide").content_hash == records.content_hash
    book = openpyxl.load_workbook(excel(tmp_path / "two.xlsx", "model,en,sw\nA,1,2\nB,3,4\n"))
    book.active.title = "XNLI"
    other = book.create_sheet("PAWS")
    # With a title above the header.
    for row in (["Our results"], [], ["model", "en", "zh"], ["A", 5, 6], ["B", 7, 8]):
        other.append(row)
    book.save(tmp_path / "two.xlsx")
    records = load(tmp_path / "two.xlsx")
    assert "read as wide tables (models by languages) (1 file)" in records.report.notes
    assert records.coords["task"] == ("PAWS", "XNLI")
    assert list(records.table["score"]) == [5, 1, 2, 6, 7, 3, 4, 8]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("12.3", Cell((12.3,))),
        ("−3", Cell((-3.0,))),
        ("12.3%", Cell((12.3,))),
        ("12.3 +- 0.4", Cell((12.3,), 0.4)),
        ("12.3 (±0.4)", Cell((12.3,), 0.4)),
        ("84.6/71.7", Cell((84.6, 71.7))),
        ("84.6 / 71.7", Cell((84.6, 71.7))),
        ("**84.6**†", Cell((84.6,), marked=True)),
        ("<b>84.6</b>", Cell((84.6,), marked=True)),
        ("84.6*", Cell((84.6,), marked=True)),
        ("84.6* ± 1", Cell((84.6,), 1.0, marked=True)),
        ("-", None),
        ("—", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_cells_that_are_printed(text: str, cell: Cell | None) -> None:
    assert parse_cell(text) == cell


@pytest.mark.parametrize("text", ["abc", "12,3", "1.2.3", "1 2", "1/x", "± 3", "1e400", "inf"])
def test_cells_that_are_no_scores(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        parse_cell(text)


@given(st.floats(-999, 999), st.floats(0, 99), st.sampled_from(["±", "+-", "+/-"]))
def test_printed_numbers_are_read_as_they_are(value: float, error: float, sign: str) -> None:
    cell = parse_cell(f"{value:.4f} {sign} {error:.3f}")
    assert cell is not None
    assert (cell.values, cell.se) == ((float(f"{value:.4f}"),), float(f"{error:.3f}"))


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("model,en,sw\nA,80,x1\nB,3,4\n", ["line 2, column 3", "'x1' is not a score"]),
        (
            "language,writing,A,B\nar,Arab,1,2\nsw,Latn,3,5\n",
            ["line 2, column 2: 'Arab' is not a score; the column 'writing' has no scores: remove"],
        ),
        (
            "model,ar,sw\nwriting,Arab,Latn\nA,1,2\nB,3,5\n",
            ["line 2, column 2: 'Arab' is not a score; the row 'writing' has no scores: remove"],
        ),
        (
            "model,en,sw,de,Swahilli\nA,1,2,3,4\n",
            ["line 1: 'Swahilli' is not a known language", "'Swahili'? (all other headers are lan"],
        ),
        (
            "language,A,B\nen,1,2\nsw,3,4\nSwahilli,5,6\nde,7,8\n",
            ["line 4: 'Swahilli' is not a known language", "'Swahili'? (all other rows are langua"],
        ),
        (
            "model,en,sw,de,Swahilli,fr,es,Xyzzq\nA,1,2,3,4,5,6,7\n",
            [
                "line 1: 'Swahilli' is not a known language; did you mean 'Swahili'?, 'Xyzzq' is"
                " not a known language (all other headers are languages); rename them, or remove"
                " them from the table"
            ],
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, text: str, phrases: list[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(path)
    assert [phrase for phrase in phrases if phrase not in str(caught.value)] == []


def test_columns_that_are_also_language_codes_do_not_make_a_wide_table(tmp_path: Path) -> None:
    """se is Northern Sami and id Indonesian, but here they are columns of ours."""
    path = tmp_path / "t.csv"
    path.write_text("model,lang,F1,se,n\nA,en,80,1,100\nA,sw,60,2,100\nB,en,70,3,100\n")
    assert list(load(path).table["se"]) == [1.0, 2.0, 3.0]


def test_a_wide_frame_is_read_like_a_wide_file(tmp_path: Path) -> None:
    text = "model,en,sw,de,avg\nA,80.25,,60,70\nB,50,40.5,0.00001,30\nC,-,41,42,30\n"
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    frame = pd.read_csv(path)
    expected = load(path)
    assert len(expected) == 7
    # No columns of the file are ours: languages are columns.
    assert expected.report.columns == ()
    for wide in (frame, frame.set_index("model"), frame[frame["avg"] > 0], frame.set_index("avg")):
        records = load(wide, name="t")
        assert records.content_hash == expected.content_hash
        assert sorted(records.scores) == [1e-05, 40.5, 41, 42, 50, 60, 80.25]
        assert "read as a wide table (models by languages)" in records.report.notes[0]
    assert frame.columns.tolist() == ["model", "en", "sw", "de", "avg"]
    down = frame.drop(columns="avg").set_index("model").T
    assert load(down, name="t").content_hash == expected.content_hash
    assert load(frame, format="wide", name="t").content_hash == expected.content_hash


def test_what_is_wrong_in_a_wide_frame_is_said_with_its_place() -> None:
    frame = pd.DataFrame({"model": ["A", "B"], "en": [1, 2], "sw": [3, "x1"], "de": [4, 5]})
    with pytest.raises(InputError, match=r"^table, row 2, column 3: 'x1' is not a score"):
        load(frame)
    with pytest.raises(InputError, match=r"^table, columns: 'Swahilli' is not a known language"):
        load(frame.assign(sw=[3, 4], Swahilli=[1, 2]))
    with pytest.raises(InputError, match="no column for 'model', 'language' and 'score'|no column"):
        # Models are named nowhere.
        load(frame.drop(columns=["model", "sw"]))
    with pytest.raises(InputError, match="no column for 'language' and 'score'"):
        load(frame.assign(sw=[3, 4]), format="table")
    with pytest.raises(InputError, match="the frame is not wide"):
        load(frame.drop(columns=["model", "sw"]), format="wide")


@pytest.mark.parametrize("cells", [["1", "2"], ["zero-shot", "five-shot"]])
@pytest.mark.parametrize("header", ["model,NAME", "NAME,model"])
@pytest.mark.parametrize("name", ["seed", "prompt", "judge", "run"])
def test_columns_of_repetitions_are_kept(
    tmp_path: Path, name: str, header: str, cells: list[str]
) -> None:
    """They were taken for a language, or left out as facts about the model."""
    order = (lambda a, b: f"{a},{b}") if header.startswith("model") else (lambda a, b: f"{b},{a}")
    lines = [f"{header.replace('NAME', name)},en,sw,de"]
    lines += [f"{order(m, c)},0.{i}1,0.{i}2,0.{i}3" for m in "AB" for i, c in enumerate(cells)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    columns = {"seed": name} if name == "run" else {}
    if columns:
        with pytest.raises(InputError, match=f"column '{name}' tells them apart: columns=.*'seed'"):
            load(path)
    records = load(path, columns=columns)
    table = records.table
    chosen = table[(table["model"] == "B") & (table["language"] == "sw")]
    read = "seed" if name == "run" else name
    assert dict(zip(chosen[read], chosen["score"], strict=True)) == {
        cells[0]: 0.02,
        cells[1]: 0.12,
    }


def test_rundi_is_a_language_beside_languages(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("model,swa,run,kin\nA,0.5,0.25,0.75\nB,0.5,0.5,0.5\n", encoding="utf-8")
    assert load(path).coords["language"] == ("kin", "run", "swa")


def test_facts_about_languages_are_no_scores(tmp_path: Path) -> None:
    """'Arab' is a script, not a score of the model "script"."""
    down = tmp_path / "t.csv"
    down.write_text(
        "language,script,family,A,B\nar,Arab,Afro-Asiatic,0.5,0.6\nde,Latn,IE,0.7,0.8\n",
        encoding="utf-8",
    )
    records = load(down)
    assert records.coords["model"] == ("A", "B")
    assert sorted(records.scores) == [0.5, 0.6, 0.7, 0.8]
    notes = records.report.notes
    assert "columns not read, about the languages: script" in notes
    assert "columns not read, about the languages: family" in notes
    across = tmp_path / "u.csv"
    across.write_text("model,ar,de\nscript,Arab,Latn\nA,0.5,0.7\nB,0.6,0.8\n", encoding="utf-8")
    records = load(across)
    assert records.coords["model"] == ("A", "B")
    assert "rows not read, about the languages: script" in records.report.notes


def test_a_score_that_a_spreadsheet_made_a_date_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("model,en,sw,de\nA,12. Mai,0.5,0.6\nB,0.5,0.4,0.3\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2, column 2: '12\. Mai' is not a score; a date: "):
        load(path)


def test_a_header_longer_than_what_detection_reads_first(tmp_path: Path) -> None:
    names = [f"{'T' * 180}{i} ({language})" for i in range(100) for language in ("de", "sw")]
    header = ",".join(["model", *names])
    assert len(header) > HEAD_BYTES
    rows = [",".join([model, *(str(30 + i % 40) for i in range(200))]) for model in "AB"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    records = load(path)
    assert len(records.coords["task"]) == 100
    assert records.coords["language"] == ("de", "sw")


def test_links_in_markdown_are_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.md"
    path.write_text(
        "| Model | German | French |\n| --- | --- | --- |\n"
        "| [GPT-4 (2024)](https://x.org/2) | 60 | [55](https://x.org/run) |\n| B [x] | 40 | 31 |\n"
    )
    records = load(path)
    assert records.coords["model"] == ("B [x]", "GPT-4 (2024)")
    assert sorted(records.table["score"]) == [31.0, 40.0, 55.0, 60.0]


def test_a_score_with_a_decimal_comma_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Model;German;French\na;60,1;55,2\nb;40,3;31,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2, column 2: '60,1' is not a score; it has a dec"):
        load(path)


def test_a_column_of_prompts_that_is_not_needed_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("model,prompt_id,de,sw\nA,p1,12,10\nB,p1,9,8\n")
    assert "column 'prompt_id' is not needed: it has one value" in load(path).report.notes
    path.write_text("model,prompt_id,de,sw\nA,p1,12,10\nB,p2,9,8\n")
    advice = "columns={'seed': 'prompt_id'} reads it as repetitions"
    assert (
        "column 'prompt_id' is not needed: it tells no two scores of a cell apart; " + advice
    ) in load(path).report.notes
    read = load(path, columns={"seed": "prompt_id"})
    assert read.table["seed"].tolist() == ["p1", "p1", "p2", "p2"]
    assert not [note for note in read.report.notes if "not needed" in note]


PAGE = """# Results of a benchmark

Translated by professionals; see [the paper](https://example.org).

| Language   | o3-high   | o1    |
| :--------: | :-------: | :---: |
| Arabic     | **0.904** | 0.890 |
| Yoruba     | 0.780     | **0.754** |
| Average    | **0.842** | 0.822 |

These results can be reproduced.
"""


def test_a_table_within_a_page_of_markdown(tmp_path: Path) -> None:
    path = tmp_path / "multilingual.md"
    path.write_text(PAGE, encoding="utf-8")
    table = load(path).table.set_index(["model", "language"])["score"]
    expected = {"Arabic": (0.904, 0.890), "Yoruba": (0.780, 0.754)}
    assert table.to_dict() == {
        (model, language): score
        for language, scores in expected.items()
        for model, score in zip(("o3-high", "o1"), scores, strict=True)
    }


def test_a_page_whose_table_has_no_languages(tmp_path: Path) -> None:
    """The page was read as delimited text with the one column '# Results'."""
    path = tmp_path / "README.md"
    path.write_text("# Results\n\n| Model | MMLU |\n|---|---|\n| o1 | 91.8 |\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3: expected one row per score, or languages as"):
        load(path)


def test_a_table_without_scores_beside_tables_that_have_them(tmp_path: Path) -> None:
    """The page was refused as a whole."""
    path = tmp_path / "page.md"
    costs = "# Costs\n\n| Model | Price |\n|---|---|\n| o1 | 15 |\n"
    path.write_text(f"{PAGE}\n\n{costs}", encoding="utf-8")
    line = len(PAGE.splitlines()) + 5
    records = load(path)
    assert len(records) == 4
    note = f"{path}, line {line}: a table without scores by language not read ('Model', 'Price')"
    assert note in records.report.notes


@pytest.mark.parametrize("name", ["split", "Dataset split"])
def test_splits_are_read_as_in_a_table_with_a_row_per_score(tmp_path: Path, name: str) -> None:
    rows = [("A", "test", 41, 50), ("A", "dev", 42, 51), ("B", "test", 44, 43), ("B", "dev", 45, 4)]
    wide = pd.DataFrame(rows, columns=["model", name, "de", "en"])
    wide.insert(0, "task", "qa")
    tidy = wide.melt(["model", name, "task"], var_name="language", value_name="score").rename(
        columns={"task": "dataset"}
    )
    path = tmp_path / "t.csv"
    wide.to_csv(path, index=False)
    records = load(path)
    assert records.content_hash == load(tidy).content_hash
    assert records.coords["task"] == ("qa (dev)", "qa (test)")
    assert records.table.query("model == 'B' and task == 'qa (test)'")["score"].tolist() == [44, 43]
