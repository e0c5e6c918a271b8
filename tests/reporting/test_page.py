"""The page of a result: the numbers of its tables, names as text, and no request."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.fitting.report.sentences import ranking_sentences
from bayeseval.output.language_names import add_language_names
from bayeseval.output.numbers import interval_texts, probability_text, rank_interval_texts
from bayeseval.records.remote import CACHE_VARIABLE
from bayeseval.reporting import SavedResults, bundle, read_saved, summary
from bayeseval.reporting.bundle import chart_library
from bayeseval.reporting.charts import heat_map, interval_spec
from bayeseval.reporting.citations import citations_of
from bayeseval.reporting.grid import MOST_ROWS, Column, Grid, any_grid, packed
from bayeseval.reporting.observed import read_observed
from bayeseval.reporting.page import REPORT_FILE, _isolating, render_page, write_page
from bayeseval.reporting.summary import Facts, checks_sentence, facts_of
from tests.reporting.pages import (
    ARABIC,
    LONG,
    MODELS,
    SCRIPT,
    TURNED,
    Element,
    odd_table,
    read_page,
    save,
    unpacked,
)

# A page of MEGA's size; the chart library alone takes 0.9 MB.
MOST_BYTES = 2_500_000
# One with tables of more than MOST_ROWS rows.
MOST_BYTES_LONG = 10_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(odd_table(), tmp_path_factory.mktemp("odd") / "result")


@pytest.fixture(scope="module")
def results(folder: Path) -> SavedResults:
    return read_saved(folder)


@pytest.fixture(scope="module")
def html(results: SavedResults) -> str:
    return render_page(results)


@pytest.fixture(scope="module")
def page(html: str) -> Element:
    return read_page(html)


def with_tables(results: SavedResults, **tables: pd.DataFrame) -> SavedResults:
    return replace(results, tables={**results.tables, **tables})


def only(results: SavedResults, *names: str) -> SavedResults:
    return replace(results, tables={name: results.tables[name] for name in names})


def test_models_are_those_of_the_csv(results: SavedResults, page: Element) -> None:
    table = results.tables["model_ranking"]
    ranking = page.of("ranking")
    assert ranking.column("model") == list(table["model"])
    assert ranking.column("score") == interval_texts(table, "score")
    assert ranking.column("PRR") == interval_texts(table, "prr")
    assert ranking.column("rank") == rank_interval_texts(table, "rank")
    evenness = page.of("evenness")
    assert evenness.column("model") == list(table["model"])
    assert evenness.column("sd of gaps") == interval_texts(table, "gap_sd_languages")
    assert evenness.column("rank") == rank_interval_texts(table, "gap_sd_rank")
    gaps = results.tables["model_language"].set_index(["model", "language"])
    named = pd.MultiIndex.from_frame(table[["model", "worst_language"]])
    assert evenness.column("gap there") == interval_texts(gaps.loc[named], "gap")
    files = "All digits: tables/model_ranking.csv"
    assert evenness.all("p")[-1].text == f"{files} and tables/model_language.csv"
    assert ranking.all("p")[-1].text == files
    assert ranking.column("P(best)") == [probability_text(p) for p in table["p_best"]]
    assert ranking.column("records") == [str(n) for n in table["n_records"]]


def test_what_is_sorted_by_are_the_numbers_of_the_csv(results: SavedResults, page: Element) -> None:
    rows = page.of("ranking").all("tbody")[0].all("tr")
    orders = [float(row.children[1].attributes["data-v"] or "nan") for row in rows]
    # Seven significant digits are written.
    assert np.allclose(orders, results.tables["model_ranking"]["score_mean"], rtol=1e-6, atol=0)


def test_languages_and_components_are_those_of_the_csv(
    results: SavedResults, page: Element
) -> None:
    table = results.tables["language_potential"]
    shown = page.of("potential-table")
    assert shown.column("potential") == interval_texts(table, "potential")
    assert "units of the scale 0 to 1" in shown.all("thead")[0].text
    assert shown.column("rank") == rank_interval_texts(table, "rank")
    average = odd_table().groupby("language")["score"].mean().reindex(table["language"])
    assert [float(text) for text in shown.column("average score")] == pytest.approx(
        list(average), abs=0.0051
    )
    table = results.tables["variance_components"]
    shown = page.of("components-table")
    assert shown.column("component") == list(table["component"])
    shares = interval_texts(table, "share", digits=0, scale=100.0)
    assert shown.column("share of variance, %") == shares


def test_probabilities_are_those_of_the_csv(results: SavedResults, page: Element) -> None:
    table = results.tables["rank_probabilities"]
    own = table[table["quantity"] == "standardised_score"].set_index(["level", "rank"])
    shown = page.of("rank-probabilities-table")
    models = shown.column("model")
    for rank in range(1, len(MODELS) + 1):
        wanted = [probability_text(own.loc[(model, rank), "probability"]) for model in models]
        assert shown.column(str(rank)) == wanted
    pairs = results.tables["pairwise_models"]
    row = pairs[pairs["quantity"] == "standardised_score"].iloc[0]
    matrix = page.of("pairs-table")
    models = matrix.column("model")
    there = matrix.column(row["model_b"])[models.index(row["model_a"])]
    back = matrix.column(row["model_a"])[models.index(row["model_b"])]
    assert there == probability_text(row["p_a_better"])
    assert back == probability_text(1.0 - row["p_a_better"])


def test_charts_hold_the_numbers_of_the_csv(results: SavedResults, page: Element) -> None:
    table = results.tables["language_potential"]
    spec = json.loads(page.of("potential-spec").text)
    values = spec["data"]["values"]
    assert [row["text"] for row in values] == interval_texts(table, "potential")
    # Five significant digits.
    for end in ("mean", "lower", "upper"):
        assert [row[end] for row in values] == pytest.approx(
            list(table[f"potential_{end}"]), rel=1e-4
        )
    language = unpacked(page.of("model-language-rows").text)
    table = results.tables["model_language"]
    assert [language["models"][i] for i in language["model"]] == list(table["model"])
    assert language["prr"] == interval_texts(table, "prr_language")
    assert language["records"] == list(table["n_records"])


def test_the_first_sentences_are_those_of_the_terminal(
    results: SavedResults, page: Element
) -> None:
    ranking, pairs = results.tables["model_ranking"], results.tables["pairwise_models"]
    lead = [one.text for one in page.of("summary").all("p")]
    assert lead[0] == ranking_sentences(ranking, pairs)[0]
    assert 3 <= len(lead) <= 5
    # No line of the page ends between the number and its unit.
    assert "means with 95\u00a0% equal-tailed" in render_page(results)
    potential = results.tables["language_potential"]
    texts = interval_texts(potential, "potential")
    low, high = potential[["rank_lower", "rank_upper"]].to_numpy(dtype=int)[0]
    between = f"{low} to {high}" if low < high else f"{low}"
    ranks = f"{texts[0]} units of the scale 0 to 1 (rank {between} of {len(potential)})"
    assert any(ranks in one and texts[-1] in one for one in lead)
    share = results.tables["variance_components"].sort_values("share_mean", ascending=False)
    first = share["component"].iloc[0]
    (variance,) = [one for one in lead if "of the variance of scores" in one]
    assert first in re.split(" accounts? for ", variance)[0]
    named = share["component"] if len(share) <= 4 else share["component"][:3]
    assert all(name in variance for name in named)
    known = share.dropna(subset=["share_mean"])
    separate = known["share_lower"].iloc[0] > known["share_upper"].iloc[1:].max()
    assert ("for the largest share" in variance) == separate
    assert ("The intervals of the largest shares overlap." in variance) != separate


def test_conclusions_repeat_that_scores_may_be_errors() -> None:
    ranking = pd.DataFrame(
        {"model": ["A"], "score_mean": [5.0], "score_lower": [4.0], "score_upper": [6.0]}
        | {"rank_lower": [np.nan], "gap_sd_languages_mean": [np.nan]}
    )
    facts = Facts({}, {"model_ranking": ranking, "pairwise_models": pd.DataFrame()}, "", {}, None)
    warning = (
        "warning: tasks 'a ↓', 'b ↓' say in their names that lower is better, and higher scores "
        "count as better here: if lower is better, enter 100 less the error"
    )
    doubted = summary.headline(replace(facts, run={"notes": ["another", warning]}))
    plain = summary.headline(facts)
    assert [one for one in doubted if one not in plain] == [
        "Warning: tasks 'a ↓', 'b ↓' say in their names that lower is better, and higher scores "
        "count as better here; if lower is better there, the scores and ranks of models are wrong."
    ]


def test_of_many_components_three_are_named_and_the_rest_summed() -> None:
    shares = np.array([0.4, 0.2, 0.15, 0.1, 0.08, 0.07])
    table = pd.DataFrame(
        {
            "model": "",
            "component": ["a", "model", "b", "c", "d", "residual"],
            "share_mean": shares,
            "share_lower": shares - 0.02,
            "share_upper": shares + 0.02,
        }
    )
    facts = Facts({}, {"variance_components": table}, "", {}, None)
    sentence = summary._components(facts)
    assert sentence == (
        "The term a accounts for the largest share of the variance of scores, 40 [38, 42] %; "
        "differences between models 20 [18, 22] %, the term b 15 [13, 17] % and the 3 other "
        "components together 25 %."
    )
    short = summary._components(replace(facts, tables={"variance_components": table.head(4)}))
    assert "the term c 10 [8, 12] %" in short
    errors = table.assign(component=["known_se", "model", "shared_items", "c", "d", "residual"])
    known = summary._components(replace(facts, tables={"variance_components": errors}))
    assert known.startswith("Known standard errors account for the largest share")
    assert "the noise of shared test items 15 [13, 17] %" in known


def test_long_names_are_cut_in_the_first_sentences_and_their_titles_are_whole() -> None:
    long = [f"an-organisation/{'very-' * 10}long-{size}b-instruct" for size in (7, 70)]
    ranking = pd.DataFrame({"model": [*long, "short & sweet"]})
    facts = Facts({}, {"model_ranking": ranking}, "", {}, None)
    sentence = f"{long[0]} is ahead of {long[1]} and short & sweet."
    cut = str(_isolating(facts, most=40)(sentence))
    for name in long:
        assert f'<bdi title="{name}">' in cut
    shown = re.findall(r"<bdi[^>]*>([^<]*)</bdi>", cut)
    assert len(set(shown)) == 2
    assert all(len(name) <= 40 for name in shown)
    assert cut.endswith("and short &amp; sweet.")
    # Whole names keep together, as far as there is room: none ends a line at its hyphen.
    whole = str(_isolating(facts)(sentence))
    assert [whole.count(f"<bdi>{name}</bdi>") for name in long] == [1, 1]
    assert re.sub("</?bdi>", "", whole) == sentence.replace("&", "&amp;")
    assert str(_isolating(facts)("by 1.2 [0.9, 1.5] %")) == "by 1.2\u00a0[0.9,\u00a01.5]\u00a0%"


def test_warnings_are_named_and_sensitive_quantities_too() -> None:
    checks = pd.DataFrame(
        {
            "check": ["prior_sensitivity", "influential_records", "calibration"],
            "status": ["warn", "warn", "pass"],
            "sentence": ["Sensitive to the priors: 1 of 4 scores.", "S", "S"],
            "meaning": ["Report them with the priors.", "M", ""],
        }
    )
    facts = Facts({}, {"checks": checks}, "", {}, None)
    assert checks_sentence(facts) == (
        "Model checks: 1 passed, 2 with a warning (prior sensitivity and influential records). "
        "Sensitive to the priors: 1 of 4 scores. Report them with the priors."
    )


def test_names_are_text(html: str, page: Element) -> None:
    assert SCRIPT not in html
    assert "alert(1)</script>" not in html
    assert not [one for one in page.all("script") if one.text.startswith("alert")]
    assert not [one for one in page.all("b") if one.text == "xx"]
    cells = page.of("ranking").column("model")
    assert sorted(cells) == sorted(MODELS)
    options = [one.text for one in page.of("model-language-select").all("option")]
    assert sorted(options) == sorted(MODELS)


def test_control_characters_of_a_result_are_escaped(results: SavedResults) -> None:
    """Of a folder that somebody sent: a terminal acts on them, and HTML does not allow them."""
    mark = "\x1b[31m\x00\r\x7f\x9b\u202e"
    escaped = "\\x1b[31m\\x00\\r\\x7f\\x9b\u202e"
    run = {
        **results.run,
        **{name: f"{results.run[name]}{mark}" for name in ("benchmark", "created_at")},
        "spec": {**results.run["spec"], "name": f"crossed{mark}"},
        "versions": {"bayeseval": f"9.9{mark}"},
    }
    texts = {"model", "model_a", "model_b", "language", "level", "component", "check", "sentence"}
    tables = {
        name: table.assign(
            **{
                one: table[one].where(table[one] == "", table[one] + mark)
                for one in texts & {*table}
            }
        )
        for name, table in results.tables.items()
    }
    html = render_page(
        replace(results, path=results.path.with_name(f"r{mark}"), run=run, tables=tables)
    )
    # The library is not of the folder.
    before, _, after = html.partition(chart_library())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", before + after)
    page = read_page(html)
    (title,) = page.all("title")
    assert title.text.startswith(f"table{escaped}: model crossed{escaped}, engine")
    generator = [one for one in page.all("meta") if one.attributes.get("name") == "generator"]
    assert generator[0].attributes["content"] == f"bayeseval 9.9{escaped}"
    (footer,) = page.all("footer")
    assert f"from the folder r{escaped}." in footer.text
    assert f"residual{escaped}" in page.of("components-table").column("component")
    assert f"{ARABIC}{escaped}" in page.of("ranking").column("model")
    assert f"{ARABIC}{escaped}" in {one.text for one in page.of("models").all("bdi")}
    # A script reads the labels as they are.
    labels = json.dumps(json.loads(page.of("potential-spec").text), ensure_ascii=False)
    assert json.dumps(f"sw{mark}", ensure_ascii=False)[1:-1] in labels


def test_names_that_run_from_right_to_left_turn_nothing_else(page: Element) -> None:
    isolated = {one.text for one in page.of("models").all("bdi")}
    assert {ARABIC, TURNED, LONG} <= isolated
    for element in page.of("content").everything():
        # Options of a list stand alone.
        alone = bool(element.all("option"))
        if element.tag in ("p", "li", "th", "td") and TURNED in element.text and not alone:
            inside = [one for one in element.all("bdi") if TURNED in one.text]
            assert inside, element.text


def test_the_page_asks_for_nothing(page: Element) -> None:
    for element in page.everything():
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            target = element.attributes.get(name)
            assert target is None or target.startswith(("#", "data:,")), (element.tag, target)
    style = "".join(one.text for one in page.all("style"))
    assert "url(" not in style and "@import" not in style
    (policy,) = [
        one.attributes["content"]
        for one in page.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None and policy.startswith("default-src 'none'")
    # The library knows addresses of schemas, which it does not load.
    scripts = [one.text for one in page.all("script")]
    assert "vegaEmbed" in scripts.pop(-2)
    assert re.findall(r"https?://", style + "".join(scripts)) == []


def test_headings_are_in_order_and_everything_has_a_name(page: Element) -> None:
    assert page.all("html")[0].attributes["lang"] == "en"
    assert page.all("title")[0].text.strip() != ""
    levels = [int(one.tag[1]) for one in page.everything() if re.fullmatch("h[1-6]", one.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    ids = [one.attributes["id"] for one in page.everything() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    for table in page.all("table"):
        assert len(table.all("caption")) == 1
    for figure in page.all("figure"):
        assert figure.all("figcaption")[0].text.strip()


def test_the_page_is_small_and_equal_for_equal_results(html: str, folder: Path) -> None:
    assert len(html.encode("utf-8")) < MOST_BYTES
    assert render_page(read_saved(folder)) == html


def sections(results: SavedResults) -> list[str | None]:
    page = read_page(render_page(results))
    return [one.attributes.get("id") for one in page.of("content").all("section")]


def test_sections_are_those_the_folder_has_tables_for(results: SavedResults) -> None:
    assert sections(results) == [
        *("summary", "models", "languages", "components", "checks", "made")
    ]
    core = ("model_ranking", "pairwise_models")
    assert sections(only(results, *core)) == ["summary", "models", "made"]
    plan = pd.DataFrame(
        {"languages": [5.0, 10.0], "cost": [5.0, 10.0]}
        | {f"sd_difference_{end}": [0.2, 0.1] for end in ("mean", "lower", "upper")}
        | {"gate": "pass"}
    )
    found = with_tables(results, plan=plan)
    assert sections(found)[-2:] == ["plan", "made"]
    shown = read_page(render_page(found)).of("table-plan")
    assert shown.column("languages") == ["5", "10"]
    assert shown.column("sd difference") == interval_texts(plan, "sd_difference")


def test_a_comparison_has_its_page(results: SavedResults, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "spec": ["crossed", SCRIPT],
            "elpd": [-10.0, -30.0],
            "se": [2.0, 3.0],
            "elpd_diff": [0.0, -20.0],
            "diff_se": [0.0, 4.0],
            "p_eff": [3.0, 2.0],
            "n_bad_k": [0, 1],
            "n": [50, 50],
            "method": ["exact", "psis"],
        }
    )
    run = {
        "benchmark": "odd",
        "by": "task",
        "models": {"crossed": "marginal", SCRIPT: "marginal"},
        "gates": {"crossed": "pass", SCRIPT: "fail"},
        "verdict": [f"crossed is ahead of {SCRIPT}."],
        "versions": results.run["versions"],
        "files": ["run.json", "tables/comparison.csv"],
    }
    found = SavedResults(tmp_path, run, {"comparison": table})
    page = read_page(render_page(found))
    shown = page.of("comparison-table")
    assert shown.column("model") == ["crossed", SCRIPT]
    assert shown.column("difference") == ["0.0 [0.0, 0.0]", "-20.0 [-28.0, -12.0]"]
    assert "one task left out" in shown.text
    assert page.of("summary").all("p")[0].text == f"crossed is ahead of {SCRIPT}."
    assert "Not converged" in page.of("content").text
    assert SCRIPT in page.of("summary").text
    moved = table.assign(unmoved_diff=[0.0, 5.0], unmoved_diff_se=[0.0, 1.5])
    found = SavedResults(tmp_path, run, {"comparison": moved})
    shown = read_page(render_page(found)).of("comparison-table")
    assert shown.column("unmoved difference") == ["0.0", "5.0"]
    assert shown.column("SE of the unmoved") == ["0.0", "1.5"]
    alone = SavedResults(tmp_path, run, {"comparison": moved.head(1)})
    text = read_page(render_page(alone)).of("comparison-table").text
    assert "ifference" not in text


def test_a_failed_gate_stands_first(results: SavedResults) -> None:
    first = {}
    for status in ("fail", "pass"):
        gate = {**results.run["gate"], "status": status}
        found = replace(results, run={**results.run, "gate": gate})
        first[status] = read_page(render_page(found)).of("content").children[0]
    assert first["fail"].attributes.get("class") == "alarm"
    assert "do not rely on these numbers" in first["fail"].text
    assert first["pass"].attributes.get("id") == "summary"


def test_citations_are_those_of_the_result(results: SavedResults, page: Element) -> None:
    # The page of this table has a map, whose sources are cited with it.
    assert page.of("map").attributes["role"] == "img"
    assert page.of("citations").text == citations_of(results, with_map=True)
    assert citations_of(results, with_map=True) != citations_of(results)


def test_failing_checks_say_what_they_mean(results: SavedResults) -> None:
    checks = results.tables["checks"].copy()
    checks.loc[checks["check"] == "independence", ["status", "meaning", "command"]] = [
        *("fail", "Intervals are too narrow.", "bayeseval fit --benchmark x --model y")
    ]
    page = read_page(render_page(with_tables(results, checks=checks)))
    assert "Intervals are too narrow." in page.of("summary").text
    (item,) = [one for one in page.of("checks").all("li") if one.attributes["class"] == "fail"]
    assert "independence" in item.text
    assert item.all("code")[0].text == "bayeseval fit --benchmark x --model y"


def long_results(results: SavedResults, n: int) -> SavedResults:
    """As many languages of every model as make `n` rows."""
    table = results.tables["model_language"]
    copies = -(-n // len(table))
    parts = [table.assign(language=table["language"] + f"-{i}") for i in range(copies)]
    return with_tables(results, model_language=pd.concat(parts, ignore_index=True).head(n))


def test_a_long_table_is_whole_and_compressed(results: SavedResults) -> None:
    n = MOST_ROWS + 500
    found = long_results(results, n)
    table = found.tables["model_language"]
    page = read_page(render_page(found))
    rows = unpacked(page.of("model-language-table-rows").text)
    columns = {column["name"]: column for column in rows}
    assert columns["model"]["cells"] == list(table["model"])
    assert columns["PRR"]["cells"] == interval_texts(table, "prr_language")
    assert columns["PRR"]["order"] == pytest.approx(list(table["prr_language_mean"]), rel=1e-6)
    # Without a script there is a summary, and the name of the file.
    assert page.of("model-language-table").all("tbody")[0].text.strip() == ""
    summary = page.of("model-language-summary")
    assert summary.column("model") == list(dict.fromkeys(table["model"]))
    highest = table.groupby("model", sort=False)["prr_language_mean"].max()
    assert [float(text) for text in summary.column("highest")] == pytest.approx(
        list(highest), abs=0.0051
    )
    assert f"{n} rows: tables/model_language.csv" in page.of("languages").text


def test_any_long_table_has_its_ends_as_text(results: SavedResults) -> None:
    n = MOST_ROWS + 1
    ends = {f"potential_{end}": np.arange(n, dtype=float) for end in ("mean", "lower", "upper")}
    covariates = pd.DataFrame({"covariate": [f"c{i}" for i in range(n)], **ends})
    page = read_page(render_page(with_tables(results, covariates=covariates)))
    shown = page.of("table-covariates-ends").column("covariate")
    assert shown == [f"c{i}" for i in (*range(10), *range(n - 10, n))]
    (names, _) = unpacked(page.of("table-covariates-rows").text)
    assert names["cells"] == list(covariates["covariate"])


def test_a_hundred_thousand_cells_fit_into_ten_megabytes(results: SavedResults) -> None:
    html = render_page(long_results(results, 100_000))
    assert len(html.encode("utf-8")) < MOST_BYTES_LONG


def test_the_page_goes_with_its_folder(results: SavedResults, folder: Path) -> None:
    path = write_page(results, folder / REPORT_FILE)
    assert path.read_text(encoding="utf-8") == render_page(results)
    assert REPORT_FILE in read_saved(folder).run["files"]
    assert not list(folder.parent.glob(".*"))


def test_the_page_can_go_elsewhere(results: SavedResults, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    assert write_page(results, path) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(InputError, match=r"nowhere.*could not be written"):
        write_page(results, tmp_path / "nowhere" / "page.html")


def test_the_command_writes_the_page_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    odd_table().to_csv("odd.csv", index=False)
    fit = ["fit", "-b", "odd.csv", "-m", "additive", "--draws", "500", "--chains", "2", "-q"]
    fit += ["--no-figures", "--no-checks"]
    assert main([*fit, "--out", "one"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["Results: one", "Report: one/report.html"]
    assert "report.html" in read_saved(Path("one")).run["files"]
    first = Path("one/report.html").read_text(encoding="utf-8")
    assert main(["report", "one", "--out", "page.html"]) == 0
    assert capsys.readouterr().out == "Report: page.html\n"
    assert Path("page.html").read_text(encoding="utf-8") == first
    assert main([*fit, "--out", "two", "--no-report"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Results: two"
    assert not Path("two/report.html").exists()
    assert main(["report", "two"]) == 0
    assert capsys.readouterr().out == "Report: two/report.html\n"
    assert Path("two/report.html").is_file()


def test_a_folder_without_its_posterior_has_a_page(results: SavedResults, tmp_path: Path) -> None:
    page = read_page(render_page(replace(results, path=tmp_path)))
    names = [one.text for one in page.of("potential-table").all("th")]
    assert not [name for name in names if "average score" in name]
    assert page.of("ranking").column("model") == list(results.tables["model_ranking"]["model"])


def test_a_damaged_posterior_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    whole = (copy / "posterior.nc").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"x" * 100):
        (copy / "posterior.nc").write_bytes(content)
        assert main(["report", str(copy)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{copy}/posterior.nc is damaged (" in line
        assert line.endswith(
            "); run bayeseval fit again, or remove the file: the report is then made from the "
            "tables alone"
        )
    with h5py.File(copy / "posterior.nc", "w"):
        pass
    assert main(["report", str(copy)]) == 2
    assert "posterior.nc is damaged (" in capsys.readouterr().err
    (copy / "posterior.nc").unlink()
    assert main(["report", str(copy)]) == (3 if read_saved(copy).gate_failed else 0)


def test_the_power_of_ten_is_that_of_the_largest_score(results: SavedResults) -> None:
    observed = read_observed(results.path)
    assert observed is not None
    assert sorted(observed.score) == pytest.approx(sorted(odd_table()["score"]))
    assert facts_of(results, observed).exponent == 0
    # Averages may lie on the other side of a million, as the terminal's scores do not.
    largest = np.append(observed.score, 2e6)
    assert facts_of(results, replace(observed, score=largest)).exponent == 6


def test_point_estimates_have_no_intervals(tmp_path: Path) -> None:
    page = read_page(
        render_page(read_saved(save(odd_table(), tmp_path / "ml", "paper", engine="ml")))
    )
    assert "Scores are means over the same 15 language-task pairs." in page.of("models").text
    assert "how certain this order is, is not known" in page.of("summary").text
    ids = {one.attributes.get("id") for one in page.everything()}
    assert "pairs-table" not in ids and "rank-probabilities-table" not in ids


def test_scores_below_zero_have_no_prr_and_no_words_on_its_columns(tmp_path: Path) -> None:
    table = odd_table()
    table["score"] = table["score"] - table["score"].mean()
    models = read_page(render_page(read_saved(save(table, tmp_path / "below", "additive")))).of(
        "models"
    )
    assert "PRR is not reported: " in models.text
    assert "PRR: score divided by the language potential" not in models.text
    assert "CV-PRR, equal gaps" not in models.text
    assert "Published description" not in models.text


def test_long_names_of_a_heat_map_are_cut_in_their_middle_and_stay_different() -> None:
    models = [f"a-common-prefix-that-is-longer-than-thirty-characters-{i}" for i in "abcdef"]
    matrix = pd.DataFrame(0.5, index=models, columns=models)
    spec = heat_map(matrix, columns="", value="", texts=matrix.map(str), diverging=True)
    for side in ("x", "y"):
        axis = spec["encoding"][side]["axis"]
        cut = json.loads(axis["labelExpr"].removesuffix("[datum.label] || datum.label")[1:-1])
        assert list(cut) == models
        assert len(set(cut.values())) == 6
        assert all("…" in text and len(text) <= 30 for text in cut.values())
        assert axis["labelLimit"] == 0


def test_two_hundred_languages_have_names_on_their_axis() -> None:
    for n, height, size, orient in ((60, 1140, None, None), (200, 3000, 10, "top")):
        rows = [{"label": f"Language {i}", "text": "", "place": i + 1} for i in range(n)]
        spec = interval_spec(rows, n=n, title="PRR", what="language")
        y = spec["layer"][1]["encoding"]["y"]
        assert (y["field"], spec["height"]) == ("label", height)
        assert y["axis"]["labelOverlap"] is False
        assert y["axis"].get("labelFontSize") == size
        for layer in spec["layer"]:
            assert layer["encoding"]["x"]["axis"].get("orient") == orient
    many = interval_spec([], n=401, title="PRR", what="language")
    assert many["layer"][1]["encoding"]["x"]["field"] == "place"


def test_names_below_many_columns_have_room() -> None:
    for n, angle, least in ((16, -60, 726), (60, -90, 810)):
        models = [f"model {i}" for i in range(n)]
        matrix = pd.DataFrame(0.5, index=models, columns=models)
        spec = heat_map(matrix, columns="with", value="p", texts=matrix, diverging=True)
        assert spec["encoding"]["x"]["axis"]["labelAngle"] == angle
        assert spec["usermeta"]["least"] == least


def test_ranks_of_languages_have_names_too() -> None:
    table = pd.DataFrame(
        {
            "quantity": ["language_potential", "language_potential_rank", "standardised_score"],
            "level": ["tr", "wo", "tr"],
            "prior": [0.1, 0.2, 0.3],
        }
    )
    known = add_language_names(table, {"tr": "Turkish", "wo": "Wolof"})
    assert list(known["level_name"]) == ["Turkish", "Wolof", "tr"]


def test_any_table_is_shown_with_intervals_in_one_column() -> None:
    table = pd.DataFrame(
        {
            "language": ["en", "xx"],
            "a_mean": [1.0, 2.0],
            "a_sd": [0.1, 0.1],
            "a_lower": [0.8, 1.8],
            "a_upper": [1.2, 2.2],
            "n_records": [3, 4],
            "flag": [True, False],
            "ci_prob": 0.95,
        }
    )
    grid = any_grid("x", table, "X.", csv="x.csv", language_names={"en": "English"})
    assert [(c.name, list(c.cells)) for c in grid.columns] == [
        ("language", ["English (en)", "xx"]),
        ("a", ["1.00 [0.80, 1.20]", "2.00 [1.80, 2.20]"]),
        ("records", ["3", "4"]),
        ("flag", ["yes", "no"]),
    ]


def test_a_pipe_in_the_cache_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(bundle, "_made", lambda: "made")
    (tmp_path / "report").mkdir()
    os.mkfifo(tmp_path / "report" / f"vega-{bundle.version('vl-convert-python')}.js")
    assert chart_library() == "made"


def test_the_chart_library_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    made = chart_library()
    assert "window.vegaEmbed" in made
    assert "</script" not in made
    (kept,) = (tmp_path / "cache" / "report").iterdir()
    assert kept.read_text(encoding="utf-8") == made
    # The hash of the tested version is known; after a change of it, see `_HASHES`.
    installed = bundle.version("vl-convert-python")
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == bundle._HASHES[installed]
    monkeypatch.setattr(bundle, "_made", lambda: "made again")
    assert chart_library() == made
    # What somebody else has put there is no part of a page.
    kept.write_text(f"alert(1);{made}", encoding="utf-8")
    assert chart_library() == "made again"
    # A script whose hash is not known is not kept.
    kept.unlink()
    assert chart_library() == "made again"
    assert list(kept.parent.iterdir()) == []
    monkeypatch.setattr(bundle, "_made", lambda: made)
    monkeypatch.setattr(bundle, "_HASHES", {})
    assert chart_library() == made
    assert list(kept.parent.iterdir()) == []
    # A cache that cannot be made is done without.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    assert chart_library() == made


def test_bars_share_one_scale() -> None:
    table = pd.DataFrame({"a_mean": [0.0, 10.0], "a_lower": [0.0, 5.0], "a_upper": [5.0, 10.0]})
    grid = any_grid("x", table, "X.", csv="x.csv")
    (column,) = grid.columns
    assert column.bars is not None
    assert column.bars.tolist() == [[2.0, 2.0, 50.0], [98.0, 50.0, 98.0]]


def test_missing_numbers_are_null_for_the_script() -> None:
    grid = Grid("x", "X.", (Column("a", ["1", "-"], order=[1.0, float("nan")]),))
    assert unpacked(grid.payload)[0]["order"] == [1.0, None]
    assert packed({"a": 1}) == packed({"a": 1})
