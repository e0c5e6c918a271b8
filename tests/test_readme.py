"""README shows what a run prints: its block, tables and numbers, held against runs and results."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from bayeseval import Fit, fit, load
from bayeseval.cli import main
from bayeseval.errors import addressing_command_line
from bayeseval.fitting.report.terminal import format_results
from tests.mega_ranking import check_ranking

README = Path(__file__).parents[1] / "README.md"
RESULTS = Path(__file__).parents[1] / "perf" / "results"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LEFT_OUT = "..."


def block() -> list[str]:
    """Lines of the output block, without the indent."""
    text = README.read_text(encoding="utf-8").split("## What comes out\n", 1)[1]
    lines = []
    for line in text.lstrip("\n").split("\n"):
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    return lines


def alike(shown: str, printed: str) -> bool:
    """The same words, and numbers equal but for what versions of libraries move."""
    words = [_NUMBER.sub("#", re.sub(r"\s+", " ", line)) for line in (shown, printed)]
    if words[0] != words[1]:
        return False
    return all(map(_close, _NUMBER.findall(shown), _NUMBER.findall(printed)))


def _close(shown: str, printed: str) -> bool:
    """Whole numbers (ranks, counts, per cent) to one, others to three of their last digit.

    Rounding differs between versions of libraries, which moves an importance draw now and
    then: a Monte-Carlo error, about a twentieth of an interval's half width.
    """
    decimals = len(printed.partition(".")[2])
    allowed = 1.0 if decimals == 0 else 3.0 * 10.0**-decimals
    return abs(float(shown) - float(printed)) <= 1.000001 * allowed


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit("mega", seed=0)


@pytest.fixture(scope="module")
def printed(fitted: Fit) -> list[str]:
    """What `make fit` prints."""
    with addressing_command_line():
        text = format_results(
            fitted.data,
            fitted.run,
            folder="results/mega/dataset-marginal-seed0",
            checks=str(fitted.checks()),
        )
    return text.split("\n")


def test_the_first_table_of_the_model_that_auto_takes_is_full(fitted: Fit) -> None:
    assert fitted.spec.name == "dataset"
    ranking = check_ranking(fitted)
    assert ranking["gap_sd_languages_mean"].notna().all()


def test_every_line_of_the_block_is_printed_in_its_order(printed: list[str]) -> None:
    place = 0
    shown = [line for line in block() if line.strip()]
    assert len(shown) > 40
    for line in shown:
        if line.strip() == _LEFT_OUT:
            continue
        found = [i for i in range(place, len(printed)) if alike(line, printed[i])]
        assert found, f"not printed, or not after what stands before it: {line!r}"
        place = found[0] + 1


def test_only_what_is_marked_is_left_out(printed: list[str]) -> None:
    """Between two lines of the block without a mark nothing is printed."""
    lines = [line for line in block() if line.strip()]
    solid = [line for line in printed if line.strip()]
    place = None
    for line in lines:
        if line.strip() == _LEFT_OUT:
            place = None
            continue
        if place is None:
            place = next(i for i, text in enumerate(solid) if alike(line, text))
        assert alike(line, solid[place]), (line, solid[place])
        place += 1


def test_a_changed_number_or_word_would_be_seen() -> None:
    line = "  XLM-R Large             68.8 [66.5, 71.0]   1.14 [1.09, 1.20]      3 [2, 4]      2"
    assert alike(line, line.replace("68.8", "68.9"))
    assert not alike(line, line.replace("1.14", "1.18"))
    assert not alike(line, line.replace("68.8", "78.8"))
    assert not alike(line, line.replace("3 [2, 4]", "3 [2, 7]"))
    assert not alike(line, line.replace("Large", "Base"))


def sentences() -> str:
    """README in one line, so that a sentence can be found across line breaks."""
    return " ".join(README.read_text(encoding="utf-8").split())


def first_table() -> list[list[str]]:
    """Rows of the table of plain averages and expected scores, as cells of text."""
    text = README.read_text(encoding="utf-8")
    lines = text.split("\n\n| ", 1)[1].split("\n\n", 1)[0].split("\n")
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


def test_the_first_table_is_that_of_the_records_and_the_fit(fitted: Fit) -> None:
    records = load("mega").table
    ranking = fitted.ranking(detail=True).set_index("model")
    average = records.groupby("model")["score"].mean()
    rank = average.rank(ascending=False)
    pairs = records.groupby("model")[["language", "task"]].apply(lambda x: len(x.drop_duplicates()))
    shown = first_table()
    assert [row[0] for row in shown] == ["gpt-4-32k (TT)", "TuLRv6 - XXL", "gpt-4-32k", "XGLM"]
    for model, tested, mean, place, score, rank_shown in shown:
        assert tested == f"{pairs[model]} pairs"
        assert (mean, place) == (f"{average[model]:.1f}", f"{rank[model]:.0f}")
        row = ranking.loc[model]
        made = f"{row['score_mean']:.1f} [{row['score_lower']:.1f}, {row['score_upper']:.1f}]"
        assert alike(score, made), (score, made)
        made = "{rank_median:.0f} [{rank_lower:.0f}, {rank_upper:.0f}]".format_map(row)
        assert alike(rank_shown, made), (rank_shown, made)
    tasks = records.loc[records["model"] == "gpt-4-32k (TT)", "task"].nunique()
    assert (average.idxmax(), tasks) == ("gpt-4-32k (TT)", 2)
    all_pairs = len(records[["language", "task"]].drop_duplicates())
    assert f"on the same {all_pairs} language-task pairs:" in sentences()


def test_the_sizes_of_shipped_tables_are_counted() -> None:
    page = (README.parent / "docs" / "records.md").read_text(encoding="utf-8")
    tables = {name: load(name).table for name in ("mega", "mmmlu", "euroeval")}
    mega, mmmlu, euroeval = (
        {one: table[one].nunique() for one in ("model", "language", "task")}
        for table in tables.values()
    )
    assert "{model} models, {language} languages, {task} tasks)".format_map(mega) in sentences()
    datasets = tables["mega"]["task"].str.partition(":")[0].nunique()
    said = "{model} models on {language} languages and ".format_map(mega)
    assert f"{said}{datasets} data sets" in page
    assert f"`mmmlu` (MMLU in {mmmlu['language']} languages)" in sentences()
    assert f"accuracy of ten models on MMLU in {mmmlu['language']} languages" in page
    assert mmmlu["model"] == 10
    said = "{model} open-weight models on {language} languages".format_map(euroeval)
    assert f"`euroeval` ({said})" in sentences()
    assert f"{said} and {euroeval['task']} tasks" in page


def test_the_elpds_are_those_of_the_measurement() -> None:
    measured = pd.read_csv(RESULTS / "mega_models.csv").set_index("spec")
    gain = measured.loc["crossed", "elpd"] - measured.loc["additive", "elpd"]
    assert f"density of `crossed` is {gain:.0f} higher than that of `additive`" in sentences()
    last = measured.loc["crossed"]
    more = f"is another {-last['elpd_diff']:.0f} higher (SE {last['diff_se']:.0f})"
    assert measured["elpd"].idxmax() == "dataset"
    assert more in sentences()


def test_what_alignment_explains_and_forecasts_is_that_of_the_measurement() -> None:
    made = pd.read_csv(RESULTS / "mega_forecast.csv").iloc[0]
    mean, lower, upper = (100 * made[f"explained {part}"] for part in ("mean", "lower", "upper"))
    for said in (
        f"alignment for {made['languages']} languages, "
        f"{made['languages forecast']} of them without a score in MEGA",
        f"explains {mean:.0f} % [{lower:.0f}, {upper:.0f}] of the variance between languages",
        f"each of the {made['languages checked']} languages with records is left out and forecast",
        f"root mean square error is {made['rmse with covariate']:.1f} points, against "
        f"{made['rmse without covariate']:.1f} without the covariate",
    ):
        assert said in sentences(), said


def example_table() -> str:
    """The CSV table under "Your own table", as a user copies it."""
    text = README.read_text(encoding="utf-8").split("## Your own table\n", 1)[1]
    block = text[text.index("    model,language,task,score") :].split("\n\n", 1)[0]
    return "".join(f"{line.strip()}\n" for line in block.splitlines())


def test_the_example_table_is_fitted_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scores.csv").write_text(example_table(), encoding="utf-8")
    assert main(["validate", "scores.csv"]) == 0
    read = capsys.readouterr().out
    assert read.startswith("scores: 16 records of 3 models, 3 languages, 2 tasks")
    assert "dropped: nothing" in read
    assert read.endswith("Ready to fit: yes (model additive)\n")
    assert main(["fit", "--benchmark", "scores.csv", "--no-figures", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "Convergence gate: passed" in out
    assert "gpt-x has the highest score" in out
    # The two pairs that the text says open-70b was not tested on.
    assert "open-70b was tested on the fewest pairs, 4" in " ".join(out.split())
