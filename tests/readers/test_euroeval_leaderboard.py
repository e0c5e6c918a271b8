"""Leaderboards of EuroEval, as `leaderboard_generation.py` of its repository writes them."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.readers.euroeval_leaderboard import _plain
from bayeseval.records import load

STYLE = "style='font-size: 12px; font-weight: normal; color: Grey; text-decoration: underline;'"


def task(number: int, name: str, text: str) -> str:
    return f"<a id={number} href='https://euroeval.com/tasks/{name}/' {STYLE}>{text}</a>"


def dataset(language: str, name: str) -> str:
    label = name.replace("-", "_")
    return f"<a href='https://euroeval.com/datasets/{language}#{name}'>{label}</a>"


def board(language: str, scala: tuple[str, str], *, newer: bool = False) -> str:
    """A leaderboard of two models; `newer` ones show ranks first and have nothing to sort by."""
    values = '<a href="https://euroeval.com/tasks/european-values">European Values</a>'
    top = [
        "<span style='font-size: 12px; font-weight: normal; opacity: 0.6;'>Task Type</span>",
        *("<span style='visibility: hidden;'>dummy</span>", "", ""),
        task(4, "linguistic-acceptability", "Linguistic acceptability"),
        "~~~" + task(5, "knowledge", "Knowledge") + "~~~",
        *("", "<span style='visibility: hidden;'>hidden</span>", "", ""),
    ]
    names = [
        *(("Rank", "Model", "Type") if newer else ("Model", "Type", "Rank")),
        values,
        *(dataset(language, f"{n}-{language[:2]}") for n in ("scala", "sayings", "tests")),
        *(f"{n}_{language[:2]}_version" for n in ("scala", "sayings", "tests")),
    ]
    versions = ["16.7.0@@160700"] * 3
    rows = [
        [
            *("<a href='https://hf.co/org/a'>org/a</a>", "T", "1.13@@1.13", "43.75", scala[0]),
            *("89.63 ± 2.05 / 92.34 ± 1.61@@89.63", "-@@-1", *versions),
        ],
        [
            *("<a href='https://b.example/?x&amp;y'>b &amp; c (zero-shot, val)</a>", "T"),
            *("1.20@@1.20", "N/A", scala[1]),
            *(
                "100.00 ± 0.00 / 4.00 ± nan@@100.00",
                "5.00 ± 1.00 / 6.00 ± 2.00@@5.00",
                *versions,
            ),
        ],
    ]
    if newer:
        rows = [[r[2], r[0], r[1], *r[3:]] for r in rows]
        rows = [[cell.partition("@@")[0] for cell in row] for row in rows]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([top, names, *rows])
    return file.getvalue()


DANISH = board(
    "danish", ("-0.40 ± 1.16 / 42.52 ± 5.03@@-0.40", "68.90 ± 1.88 / 84.24 ± 0.92@@68.90")
)
GERMAN = board("german", ("3.00 ± 1.96 / 4.00 ± 0.98", "-"), newer=True)


def test_scores_and_errors_of_single_languages(tmp_path: Path) -> None:
    (tmp_path / "danish_all.csv").write_text(DANISH, encoding="utf-8")
    (tmp_path / "german_all.csv").write_text(GERMAN, encoding="utf-8")
    (tmp_path / "danish_all.json").write_text('{"annotate": {"notes": "Last updated"}}')
    records = load(tmp_path)
    table = records.table
    cells = table.set_index(["model", "language", "dataset"])
    assert cells["score"].to_dict() == {
        ("b & c (zero-shot, val)", "danish", "knowledge/sayings-da"): 100.0,
        ("b & c (zero-shot, val)", "danish", "knowledge/tests-da"): 5.0,
        ("b & c (zero-shot, val)", "danish", "linguistic-acceptability"): 68.9,
        ("b & c (zero-shot, val)", "german", "knowledge/sayings-ge"): 100.0,
        ("b & c (zero-shot, val)", "german", "knowledge/tests-ge"): 5.0,
        ("org/a", "danish", "knowledge/sayings-da"): 89.63,
        ("org/a", "danish", "linguistic-acceptability"): -0.4,
        ("org/a", "german", "knowledge/sayings-ge"): 89.63,
        ("org/a", "german", "linguistic-acceptability"): 3.0,
    }
    assert set(table["metric"]) == {"primary"}
    # What is printed is 1.96 sd / sqrt(10), the error over test sets sd sqrt(1 + 1/10).
    factor = math.sqrt(10) / 1.96 * math.sqrt(1.1)
    assert cells["se"]["org/a", "german", "linguistic-acceptability"] == pytest.approx(
        1.96 * factor
    )
    assert cells["se"]["org/a", "danish", "knowledge/sayings-da"] == pytest.approx(2.05 * factor)
    # 0.00 is a small one that was rounded.
    assert math.isnan(cells["se"]["b & c (zero-shot, val)", "danish", "knowledge/sayings-da"])
    assert any("se is the file's _se times 1.692" in note for note in records.report.notes)
    assert any(
        "left out, as no scores of one dataset: European V" in n for n in records.report.notes
    )
    second = load(tmp_path, metric="secondary").table.set_index(["model", "language", "dataset"])
    assert second["score"]["org/a", "danish", "linguistic-acceptability"] == 42.52


def test_a_cell_of_two_leaderboards_is_read_once_and_the_newer_counts(tmp_path: Path) -> None:
    (tmp_path / "danish_all.csv").write_text(DANISH, encoding="utf-8")
    expected = load(tmp_path)
    (tmp_path / "danish_nlu.csv").write_text(DANISH, encoding="utf-8")
    records = load(tmp_path)
    assert records.content_hash == expected.content_hash
    assert "5 cells that two leaderboards have read once" in records.report.notes
    newer = DANISH.replace("-0.40 ±", "-0.50 ±").replace("160700", "160800")
    (tmp_path / "danish_nlu.csv").write_text(newer, encoding="utf-8")
    scores = load(tmp_path).table["score"].tolist()
    assert -0.5 in scores
    assert -0.4 not in scores
    # Of one version, there is no way to tell which is right.
    (tmp_path / "danish_nlu.csv").write_text(newer.replace("160800", "160700"), encoding="utf-8")
    with pytest.raises(InputError, match=r"danish_nlu\.csv, line 3, scala-da: duplicate of"):
        load(tmp_path)


def test_the_scale_of_a_leaderboard_is_known(tmp_path: Path) -> None:
    """A score of 0.94 percent is not taken for a fraction, and a correlation may be negative."""
    low = board("danish", ("0.94 ± 1.16 / 42.52 ± 5.03", "56.64 ± 1.88 / 84.24 ± 0.92"))
    (tmp_path / "danish_all.csv").write_text(low, encoding="utf-8")
    high = board("german", ("-", "61.00 ± 1.96 / 4.00 ± 0.98"), newer=True)
    (tmp_path / "german_all.csv").write_text(high, encoding="utf-8")
    records = load(tmp_path)
    assert {str(units) for units in records.units.values()} == {"0 to 100"}
    (warning,) = (text for text in records.report.warnings if "within 0-1" in text)
    assert "'linguistic-acceptability:primary' mixes scales: the scores of model org/a" in warning
    assert warning.endswith(
        "(here 0.94), the median of the others is 58.82; they are kept, because the table states"
        " the scale 0 to 100"
    )
    (tmp_path / "german_all.csv").write_text(DANISH.replace("danish", "german"), encoding="utf-8")
    assert str(load(tmp_path).units["linguistic-acceptability:primary"]) == "-100 to 100"


def test_an_empty_file_beside_leaderboards_is_named(tmp_path: Path) -> None:
    (tmp_path / "danish_all.csv").write_text(DANISH, encoding="utf-8")
    (tmp_path / "german_all.csv").write_text("", encoding="utf-8")
    assert "german_all.csv (the file is empty)" in load(tmp_path).report.warnings[0]


def test_leaderboards_of_ranks_are_named(tmp_path: Path) -> None:
    (tmp_path / "danish_all.csv").write_text(DANISH, encoding="utf-8")
    simplified = "model,generative_type,rank,parameters\n<a href='x'>org/a</a>,T,1.13,31\n"
    (tmp_path / "danish_all_simplified.csv").write_text(simplified, encoding="utf-8")
    top, names, *rows = csv.reader(io.StringIO(DANISH))
    several = io.StringIO()
    csv.writer(several).writerows(
        [[*top[:3], "", ""], [*names[:3], "Danish", "Swedish"]]
        + [[*row[:3], "1.13@@1.13", "1.28@@1.28"] for row in rows]
    )
    (tmp_path / "scandinavian_all.csv").write_text(several.getvalue(), encoding="utf-8")
    report = load(tmp_path).report
    assert report.warnings[0] == (
        "warning: 2 files of 3 cannot be read, and scores that only they hold are missing:"
        " danish_all_simplified.csv (a simplified leaderboard, which has ranks of models and no"
        " scores); scandinavian_all.csv (a leaderboard of several languages, which has ranks of"
        " models and no scores; those of single languages have them); restore them, or take them"
        " out of the folder"
    )


def test_a_cell_that_is_too_long_is_a_fault_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "danish_all.csv").write_text(DANISH, encoding="utf-8")
    path = tmp_path / "long.csv"
    path.write_text(DANISH.replace("43.75", "4" * 140_000), encoding="utf-8")
    fault = "line 3: not valid CSV: field larger than field limit (131072)"
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}, {fault}"
    assert (
        f"that only they hold are missing: long.csv ({fault});" in load(tmp_path).report.warnings[0]
    )


def test_only_whole_tags_are_taken_off() -> None:
    """A tag has no other one in it, or the search takes the square of the text's length."""
    assert _plain("<a href='x'>a &amp; b</a>") == "a & b"
    assert _plain("<<b>a") == "<a"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-0.40 ± 1.16 /", "-0.40 /", "line 3, scala-da: expected scores as 57.04 ± 1.20 / 64.31"),
        ("Model,Type", "Name,Type", "line 2: expected a header with the columns Model, Type"),
        ("43.75,", "", "line 3: 9 cells, but the header has 10"),
        (
            task(4, "linguistic-acceptability", "Linguistic acceptability"),
            "",
            "line 1: no task abo",
        ),
    ],
)
def test_damage_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "danish_all.csv"
    text = DANISH.replace(old, new, 1)
    assert text != DANISH
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}, {message}")
