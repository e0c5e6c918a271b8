"""Tables for papers and leaderboards: structure, escapes, and the numbers of the CSV tables."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.output._files import csv_text
from bayeseval.reporting import SavedResults, read_saved
from bayeseval.reporting.export import export, paper_tables
from bayeseval.reporting.markup import (
    PaperTable,
    escape_latex,
    escape_markdown,
    to_latex,
    to_markdown,
    to_typst,
)
from bayeseval.reporting.observed import read_observed
from bayeseval.reporting.summary import facts_of
from tests.reporting.results import HARD_LANGUAGES, HARD_NAMES, saved_fit

TABLES = ("model-ranking", "language-potential", "variance-components")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_fit(tmp_path_factory.mktemp("fit") / "result")


@pytest.fixture(scope="module")
def results(folder: Path) -> SavedResults:
    return read_saved(folder)


@pytest.fixture
def failed(folder: Path, tmp_path: Path) -> Path:
    """The same result as if its gate had failed."""
    copy = Path(shutil.copytree(folder, tmp_path / "failed"))
    for path in (copy / "tables").glob("*.csv"):
        pd.read_csv(path, keep_default_na=False, dtype=str).assign(gate="fail").to_csv(
            path, index=False
        )
    run = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    run["gate"]["status"] = "fail"
    # As of a version that stored no hashes: the tables are edited.
    del run["sha256"], run["run_sha256"]
    (copy / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return copy


# Numbers


def shown_numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", " "))


def assert_shown(text: str, values: list[float]) -> None:
    """The text shows these numbers, each to its own last digit."""
    numbers = shown_numbers(text)
    assert len(numbers) == len(values), (text, values)
    for shown, value in zip(numbers, values, strict=True):
        last = Decimal(1).scaleb(int(Decimal(shown).as_tuple().exponent))
        assert abs(Decimal(shown) - Decimal(value)) <= last / 2, (shown, value)


@pytest.mark.parametrize(
    ("name", "heading", "prefix", "scale"),
    [
        ("model_ranking", "Score", "score", 1.0),
        ("model_ranking", "PRR", "prr", 1.0),
        ("language_potential", "Potential", "potential", 1.0),
        ("variance_components", "SD", "sd", 1.0),
        ("variance_components", "Share (%)", "share", 100.0),
    ],
)
def test_numbers_are_those_of_the_csv(
    results: SavedResults, name: str, heading: str, prefix: str, scale: float
) -> None:
    paper = {table.name: table for table in paper_tables(results)}[name.replace("_", "-")]
    table = results.tables[name]
    ends = scale * table[[f"{prefix}_{end}" for end in ("mean", "lower", "upper")]].to_numpy(float)
    for text, row in zip(paper.columns[heading], ends, strict=True):
        assert re.fullmatch(r"\S+ \[\S+, \S+\]", text), text
        assert_shown(text, list(row))


@pytest.mark.parametrize(("scale", "exponent"), [(1e5, 6), (1e-7, -6)])
def test_very_large_and_small_scores_have_the_unit_of_the_page(
    scale: float, exponent: int, tmp_path: Path, frame: pd.DataFrame
) -> None:
    fit = be.fit(frame.assign(score=scale * frame["score"]), "additive", draws=100, chains=2)
    results = read_saved(fit.save(tmp_path / "result", figures=False))
    unit = f"units of 1e{exponent}"
    papers = {table.name: table for table in paper_tables(results)}
    for name, heading, prefix in (
        ("model_ranking", "Score", "score"),
        ("language_potential", "Potential", "potential"),
        ("variance_components", "SD", "sd"),
    ):
        paper, table = papers[name.replace("_", "-")], results.tables[name]
        assert unit in paper.caption, paper.caption
        ends = table[[f"{prefix}_{end}" for end in ("mean", "lower", "upper")]].to_numpy(float)
        for text, row in zip(paper.columns[heading], ends, strict=True):
            assert_shown(text, [value * 10.0**-exponent for value in row])
    assert unit in facts_of(results, read_observed(results.path)).unit
    for to in ("latex", "typst", "markdown"):
        assert export(results, to).count(unit) == 3
    # The leaderboard has the numbers of the CSV.
    board = pd.read_csv(io.StringIO(export(results, "csv")))
    assert list(board["score_mean"]) == list(results.tables["model_ranking"]["score_mean"])


def test_components_of_models_have_a_table_of_their_own(results: SavedResults) -> None:
    whole = results.tables["variance_components"]
    one = whole.iloc[:2].assign(
        model=["a", "a"],
        component=["between", "seed_boot"],
        sd_mean=[0.912, 0.345],
        sd_lower=[0.871, 0.311],
        sd_upper=[0.951, 0.381],
        share_mean=[0.9, float("nan")],
    )
    tables = {**results.tables, "variance_components": pd.concat([whole, one], ignore_index=True)}
    *others, models = paper_tables(SavedResults(results.path, results.run, tables))
    assert [table.columns for table in others] == [t.columns for t in paper_tables(results)]
    assert models.label == "tab:table-model-components"
    assert models.columns["Component"] == ["between languages", "seed x test set"]
    assert models.columns["SD"] == ["0.912 [0.871, 0.951]", "0.345 [0.311, 0.381]"]
    assert [share.split()[0] for share in models.columns["Share (%)"]] == ["90", "-"]


def test_digits_follow_the_half_width(results: SavedResults) -> None:
    ranking = results.tables["model_ranking"]
    half = float(np.median((ranking["score_upper"] - ranking["score_lower"]) / 2))
    assert 1.0 <= half < 10.0, "the rule below is for these"
    for text in paper_tables(results)[0].columns["Score"]:
        assert all(len(number.partition(".")[2]) == 1 for number in shown_numbers(text)), text


def test_ranks_tiers_and_probabilities(results: SavedResults) -> None:
    ranking = results.tables["model_ranking"]
    columns = paper_tables(results)[0].columns
    for place, row in enumerate(ranking.to_dict("records")):
        assert columns["Rank"][place] == (
            f"{row['rank_median']:.0f} [{row['rank_lower']:.0f}, {row['rank_upper']:.0f}]"
        )
        ends = [f"{row[f'rank_set_{end}']:.0f}" for end in ("lower", "upper")]
        assert columns["Joint ranks"][place] == "-".join(dict.fromkeys(ends))
        assert columns["Tier"][place] == str(row["tier"])
        assert columns["Records"][place] == str(row["n_records"])


@pytest.mark.parametrize("to", ["latex", "typst", "markdown"])
def test_every_cell_is_in_every_format(results: SavedResults, to: str) -> None:
    text = export(results, to)  # type: ignore[arg-type]
    for table in paper_tables(results):
        for heading, cells in table.columns.items():
            if heading in ("Score", "PRR", "Potential", "SD"):
                assert all(cell in text for cell in cells), heading


# LaTeX


def latex_tables(text: str) -> list[tuple[str, list[list[str]]]]:
    """Column letters and rows of every tabular; an unescaped & ends a cell."""
    found = []
    environment = r"\\begin\{(tabular|longtable)\}\{(\w+)\}(.*?)\\end\{\1\}"
    for _, letters, body in re.findall(environment, text, flags=re.DOTALL):
        rows = [
            line for line in body.splitlines() if line.endswith(r" \\") and "caption" not in line
        ]
        found.append((letters, [re.split(r"(?<!\\) & ", row[: -len(r" \\")]) for row in rows]))
    return found


def plain_latex(cell: str) -> str:
    """What LaTeX prints: the escapes read by rules of their own."""
    words = {
        r"\textbackslash{}": "\\",
        r"\textasciitilde{}": "~",
        r"\textasciicircum{}": "^",
        r"\textless{}": "<",
        r"\textgreater{}": ">",
        r"\textbar{}": "|",
        r"\textasciigrave{}": "`",
        "-{}": "-",
        "'{}": "'",
    }
    pattern = "|".join([*map(re.escape, words), r"\\[&%$#_{}]", r"[{}]"])
    return re.sub(
        pattern,
        lambda m: words.get(m.group(), m.group()[1:] if m.group()[0] == "\\" else ""),
        cell,
    )


def assert_balanced(text: str) -> None:
    """Environments open and close in order, and so do the braces that are not escaped."""
    stack = []
    for which, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if which == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0


def test_latex_is_well_formed(results: SavedResults) -> None:
    text = export(results, "latex")
    assert_balanced(text)
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 3
    assert r"\hline" not in text
    assert text.count(r"% Needs \usepackage{booktabs}") == 3
    labels = re.findall(r"\\label\{([^}]*)\}", text)
    assert labels == [f"tab:table-{name}" for name in TABLES]
    tables = latex_tables(text)
    papers = paper_tables(results)
    assert len(tables) == len(papers) == 3
    for (letters, rows), paper in zip(tables, papers, strict=True):
        assert letters == "l" * paper.n_names + "r" * (len(paper.columns) - paper.n_names)
        assert "|" not in letters, "no vertical rules"
        assert {len(row) for row in rows} == {len(letters)}
        assert [plain_latex(cell) for cell in rows[0]] == list(paper.columns)
        assert len(rows) == 1 + len(paper.rows)


def test_latex_prints_the_names(results: SavedResults) -> None:
    _, rows = latex_tables(export(results, "latex"))[0]
    assert {plain_latex(row[0]) for row in rows[1:]} == set(HARD_NAMES)
    assert set(results.tables["model_ranking"]["model"]) == set(HARD_NAMES)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50 % & more", r"50 \% \& more"),
        ("a_b#c$d", r"a\_b\#c\$d"),
        ("{x}", r"\{x\}"),
        ("~^\\", r"\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("<b>|`", r"\textless{}b\textgreater{}\textbar{}\textasciigrave{}"),
        ("a---b ''", "a-{}-{}-b '{}'"),
        ("हिन्दी 中文", "हिन्दी 中文"),
    ],
)
def test_latex_escapes(text: str, latex: str) -> None:
    assert escape_latex(text) == latex
    assert plain_latex(latex) == text


def small(first: str, number: str, n: int = 1) -> PaperTable:
    return PaperTable("x", "tab:x", "Caption.", {"Name": [first] * n, "Value": [number] * n})


@pytest.mark.parametrize(
    ("name", "number", "row"),
    [
        ("[x]", "-1.2 [-1.4, -1.0]", r"{[}x] & $-$1.2 [$-$1.4, $-$1.0] \\"),
        ("*", "-", r"{*} & -- \\"),
        ("two\nlines\tof", "1-3", r"two lines of & 1--3 \\"),
        ("a", "9.2e-07", r"a & 9.2e$-$07 \\"),
    ],
)
def test_latex_cells_that_could_be_taken_for_something_else(
    name: str, number: str, row: str
) -> None:
    assert row in to_latex(small(name, number)).splitlines()


def test_a_long_table_breaks_across_pages() -> None:
    text = to_latex(small("a", "1", n=41))
    assert_balanced(text)
    assert r"% Needs \usepackage{booktabs} and \usepackage{longtable}" in text
    assert r"\begin{longtable}{lr}" in text
    assert r"\begin{table}" not in text
    assert text.count(r"a & 1 \\") == 41
    assert r"\begin{table}" in to_latex(small("a", "1", n=40))


# Typst


@pytest.fixture
def typst() -> Any:
    return pytest.importorskip("typst", reason="needs typst")


def test_very_long_names_are_cut_in_the_middle_and_named_in_full_below() -> None:
    names = [f"{'organisation/model-' * 20}{i}-instruct" for i in range(3)]
    table = PaperTable("m", "tab:m", "C.", {"Model": [*names, "short"], "Score": ["1"] * 4})
    cut = [row[0] for row in table.rows]
    assert len(set(cut)) == 4
    assert cut[3] == "short"
    assert all(len(name) <= 60 and "…" in name for name in cut[:3])
    assert table.cut_names == dict(zip(cut[:3], names, strict=True))
    for write, comment in ((to_latex, "% "), (to_typst, "// "), (to_markdown, "- ")):
        text = write(table)
        body, _, key = text.partition(f"{comment}Whole names")
        assert not any(name in body for name in names)
        lines = key.splitlines()[1:]
        assert len(lines) == 3
        for line, name in zip(lines, names, strict=True):
            assert line.startswith(comment)
            assert line.endswith(f" = {name}")
    assert "Whole names" not in to_latex(replace(table, columns={"Model": ["a"], "Score": ["1"]}))


def test_typst_compiles_with_other_scripts(results: SavedResults, typst: Any) -> None:
    pdf = typst.compile(export(results, "typst").encode())
    assert pdf.startswith(b"%PDF")
    with pytest.raises(Exception, match="unknown variable"):
        typst.compile(b"#(unquoted)")


def typst_texts(element: Any) -> list[str]:
    """All texts of a Typst element, in order."""
    if isinstance(element, list):
        return [text for part in element for text in typst_texts(part)]
    if not isinstance(element, dict):
        return []
    own = [element["text"]] if element.get("func") == "text" else []
    return own + [text for key in ("children", "body") for text in typst_texts(element.get(key))]


def test_typst_shows_the_cells(results: SavedResults, typst: Any) -> None:
    found = json.loads(typst.query(export(results, "typst").encode(), "table"))
    assert len(found) == 3
    for element, paper in zip(found, paper_tables(results), strict=True):
        shown = [
            text.replace("\u2013", "-").replace("\u2212", "-") for text in typst_texts(element)
        ]
        assert shown == [cell for row in (paper.headings, *paper.rows) for cell in row]
    everything = set(typst_texts(found))
    assert set(HARD_NAMES) <= everything
    assert set(HARD_LANGUAGES.values()) <= everything


def test_typst_strings() -> None:
    text = to_typst(small('a "b" \\ #c', "-1.2"))
    assert '      "a \\"b\\" \\\\ #c", "\u22121.2",' in text.splitlines()
    assert "<tab:x>" in text


# Markdown


def test_markdown(results: SavedResults) -> None:
    blocks = export(results, "markdown").strip().split("\n\n")
    assert [block.startswith("**") for block in blocks] == [True, False] * 3
    for block, paper in zip(blocks[1::2], paper_tables(results), strict=True):
        lines = block.splitlines()
        assert len(lines) == 2 + len(paper.rows)
        for line in lines:
            cells = re.split(r"(?<!\\)\|", line)
            assert len(cells) == len(paper.columns) + 2, line
    assert r"\<script\>alert(1)\</script\>" in blocks[1]


def test_markdown_escapes() -> None:
    assert escape_markdown("a|b*c_d`<e>") == r"a\|b\*c\_d\`\<e\>"
    assert "| a\\|b | 1 |" in to_markdown(small("a|b", "1")).splitlines()


@pytest.mark.parametrize(
    ("write", "shown"),
    [
        (to_latex, r"a\textbackslash{}u202eb"),
        (to_typst, r'"a\\u202eb"'),
        (to_markdown, r"a\\u202eb"),
    ],
)
def test_directions_of_a_name_are_written_out(write: Any, shown: str) -> None:
    text = write(small("a\u202eb", "1"))
    assert shown in text
    assert "\u202e" not in text
    # Joiners are part of the spelling of Persian and of Indic scripts.
    assert "\u0645\u06cc\u200c\u0631" in write(small("\u0645\u06cc\u200c\u0631", "1"))


# Captions


def test_captions_stand_alone(results: SavedResults) -> None:
    for table in paper_tables(results):
        assert "table (model additive, engine marginal)" in table.caption
        assert "Posterior means with 95 % equal-tailed intervals." in table.caption
        assert "score points" in table.caption
        assert "NOT CONVERGED" not in table.caption


@pytest.mark.parametrize("to", ["latex", "typst", "markdown"])
def test_a_failed_gate_is_said(failed: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    for table in paper_tables(read_saved(failed)):
        assert table.caption.startswith("NOT CONVERGED: do not rely on these numbers.")
    assert main(["report", str(failed), "--to", to]) == 3
    assert capsys.readouterr().out.count("NOT CONVERGED") == 3


def test_a_point_estimate_has_no_empty_columns(tmp_path: Path) -> None:
    records = be.simulate("paper", n_languages=5, n_tasks=2, n_models=5, seed=1).records
    be.fit(records, "paper", engine="ml").save(tmp_path / "ml", figures=False)
    results = read_saved(tmp_path / "ml")
    ranking, potential, _ = paper_tables(results)
    assert "P(best)" not in ranking.columns
    assert "Joint ranks" not in ranking.columns
    assert "Point estimates, without intervals." in ranking.caption
    assert "[" not in "".join(potential.columns["Potential"])
    board = pd.read_csv(io.StringIO(export(results, "csv")))
    assert list(board["rank"]) == [1, 2, 3, 4, 5]
    assert board["score_mean"].is_monotonic_decreasing
    assert board["rank_lower"].isna().all()
    for line in export(results, "json").splitlines():
        for result in json.loads(line)["evaluation_results"]:
            assert "uncertainty" not in result["score_details"]
            assert "rank_lower" not in result["score_details"]["details"]


# Leaderboards


def test_the_csv_leaderboard(results: SavedResults) -> None:
    board = pd.read_csv(io.StringIO(export(results, "csv")), keep_default_na=False)
    ranking = results.tables["model_ranking"]
    assert list(board["model"]) == list(ranking["model"])
    assert list(board["rank"]) == list(ranking["rank_median"])
    for column in (
        *("rank_lower", "rank_upper", "rank_set_lower", "rank_set_upper", "p_best", "tier"),
        *("score_mean", "score_lower", "score_upper", "prr_mean", "prr_lower", "prr_upper"),
    ):
        assert np.array_equal(board[column], ranking[column]), column
    assert set(board["gate"]) == {"pass"}
    assert set(board["ci_prob"]) == {0.95}


def test_the_records_follow_the_schema(results: SavedResults) -> None:
    records = [json.loads(line) for line in export(results, "json").splitlines()]
    ranking = results.tables["model_ranking"]
    assert len(records) == len(ranking)
    for record, row in zip(records, ranking.to_dict("records"), strict=True):
        # All required fields of eval.schema.json, and no other one.
        assert set(record) == {
            *("schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata"),
            *("eval_library", "model_info", "evaluation_results"),
        }
        info = record["model_info"]
        assert (info["name"], info["id"]) == (row["model"], row["model"])
        assert set(info["additional_details"]) >= {"deployment_type", "model_availability"}
        assert set(record["eval_library"]) == {"name", "version"}
        assert all(
            isinstance(v, str) for v in record["source_metadata"]["additional_details"].values()
        )
        assert record["retrieved_timestamp"].isdigit()
        assert record["source_metadata"]["source_type"] in ("documentation", "evaluation_run")
        assert record["source_metadata"]["evaluator_relationship"] in (
            *("first_party", "third_party", "collaborative", "other"),
        )
        score, prr = record["evaluation_results"]
        described = [one["metric_config"]["evaluation_description"] for one in (score, prr)]
        assert described[0] == (
            "expected score, averaged over the same language-task pairs for all models; scores "
            "of pairs that a model misses are predicted"
        )
        assert described[1].startswith("expected score divided by the language potential, over")
        for result, prefix in ((score, "score"), (prr, "prr")):
            assert {"evaluation_name", "source_data", "metric_config", "score_details"} <= set(
                result
            )
            details = result["score_details"]
            assert details["score"] == row[f"{prefix}_mean"]
            interval = details["uncertainty"]["confidence_interval"]
            assert interval["lower"] == row[f"{prefix}_lower"]
            assert interval["upper"] == row[f"{prefix}_upper"]
            assert interval["confidence_level"] == 0.95
            assert all(isinstance(value, str) for value in details["details"].values())
            assert details["details"]["rank_set_lower"] == f"{row['rank_set_lower']:.0f}"
            assert details["details"]["gate"] == "pass"
            assert result["metric_config"]["lower_is_better"] is False
            assert result["metric_config"]["score_type"] == "continuous"
            assert isinstance(result["source_data"]["dataset_name"], str)
        assert score["metric_config"]["min_score"] == 0.0
        assert score["metric_config"]["max_score"] == 100.0
        assert prr["metric_config"]["max_score"] == "Infinity"


def test_the_records_can_be_read_back(results: SavedResults, tmp_path: Path) -> None:
    path = tmp_path / "board.jsonl"
    path.write_text(export(results, "json"), encoding="utf-8")
    table = be.load(path).table
    ranking = results.tables["model_ranking"].set_index("model")
    scores = table[table["metric"] == "expected_score"].set_index("model")["score"]
    assert set(scores.index) == set(HARD_NAMES)
    assert np.array_equal(scores, ranking.loc[scores.index, "score_mean"])


def test_names_that_a_spreadsheet_takes_for_formulas(results: SavedResults) -> None:
    ranking = results.table("model_ranking")
    names = ["=1+1", "+a", "-b", "@c", "d=1", "\te"]
    hard = [f"{name}{i}" for i, name in zip(range(len(ranking)), names * 9, strict=False)]
    tables = {"model_ranking": ranking.assign(model=hard, score_mean=-1.5)}
    other = SavedResults(results.path, results.run, tables)
    read = {
        safe: pd.read_csv(io.StringIO(export(other, "csv", csv_safe=safe)), keep_default_na=False)
        for safe in (False, True)
    }
    assert list(read[False]["model"]) == hard
    assert list(read[True]["model"]) == [f"'{one}" if one[0] != "d" else one for one in hard]
    assert list(read[True]["score_mean"]) == [-1.5] * len(hard)


def test_full_width_signs_and_cells_behind_semicolons_are_guarded() -> None:
    """In some settings a spreadsheet separates cells by semicolons, whatever the quotes say."""
    guarded = {
        "\uff1d1+1": "'\uff1d1+1",
        "a;=1+1": "a;'=1+1",
        "a; @b;-c": "a;' @b;'-c",
        "=a;b": "'=a;b",
        "a;b-c": "a;b-c",
        "a; b": "a; b",
    }
    written = csv_text(pd.DataFrame({"model": list(guarded)}), safe=True)
    assert pd.read_csv(io.StringIO(written))["model"].tolist() == list(guarded.values())


# The command


def test_the_command_prints_or_writes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--to", "csv"]) == 0
    printed = capsys.readouterr().out
    assert printed == export(read_saved(folder), "csv")
    out = tmp_path / "board.csv"
    assert main(["report", str(folder), "--to", "csv", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"Written: {out}\n"
    assert out.read_text(encoding="utf-8") == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "json", "--out", "x.json"], "one record per line: call the file x.jsonl"),
        (
            ["--to", "csv", "--out", "nowhere/x.csv"],
            "nowhere/x.csv could not be written: there",
        ),
        (["--to", "latex", "--csv-safe"], "--csv-safe is about CSV files: add --to csv"),
    ],
)
def test_where_it_cannot_write(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_sensitivity_analysis_has_no_table_for_a_paper(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = read_saved(folder)
    other = SavedResults(saved.path, saved.run, {"sensitivity": saved.tables["model_ranking"]})
    with pytest.raises(InputError, match="a sensitivity analysis, which has no table for a paper"):
        export(other, "latex")
    with pytest.raises(InputError, match=r"has no tables/model_ranking\.csv"):
        export(other, "csv")
    assert main(["report", str(tmp_path), "--to", "csv"]) == 2
    assert "holds no run.json, so it is not a result folder" in capsys.readouterr().err
