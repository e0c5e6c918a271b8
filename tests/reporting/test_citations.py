"""What a result used is cited, what it did not use is not, and the entries parse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import bayeseval as be
from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.records import card_citations
from bayeseval.reporting import SavedResults, read_saved
from bayeseval.reporting.bibliography import ENTRIES, SAMPLER_KEYS
from bayeseval.reporting.citations import citations_of, cited_keys
from tests.reporting.results import saved_fit

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = {"bayeseval", "hu2025quantifying"}
GATE = {"vehtari2021rhat", "kumar2019arviz"}


def parse(text: str) -> dict[str, dict[str, str]]:
    """A strict reading of BibTeX: nothing between entries, braces paired, no key or field twice."""
    entries: dict[str, dict[str, str]] = {}
    for block in text.strip().split("\n\n"):
        head, *lines = block.split("\n")
        match = re.fullmatch(r"@(article|inproceedings|misc|software)\{([\w:.-]+),", head)
        assert match is not None, head
        assert lines[-1] == "}", block
        assert match.group(2) not in entries, f"{match.group(2)} twice"
        fields: dict[str, str] = {}
        for name, value in re.findall(
            r"^  (\w+) = \{(.*?)\},$", "\n".join(lines[:-1]), flags=re.MULTILINE | re.DOTALL
        ):
            assert name not in fields
            depth = 0
            for brace in re.findall(r"[{}]", value):
                depth += 1 if brace == "{" else -1
                assert depth >= 0
            assert depth == 0, value
            fields[name] = value
        assert "title" in fields, block
        rest = re.sub(r"^  \w+ = \{.*?\},$", "", "\n".join(lines[:-1]), flags=re.M | re.S)
        assert rest.strip() == "", rest
        entries[match.group(2)] = fields
    return entries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_fit(tmp_path_factory.mktemp("fit") / "result")


@pytest.fixture(scope="module")
def results(folder: Path) -> SavedResults:
    return read_saved(folder)


def changed(
    results: SavedResults,
    run: Mapping[str, Any] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> SavedResults:
    return SavedResults(
        results.path, {**results.run, **(run or {})}, {**results.tables, **(tables or {})}
    )


def test_a_plain_fit_cites_what_it_used_and_no_more(results: SavedResults) -> None:
    entries = parse(citations_of(results))
    assert set(entries) == {*ALWAYS, *GATE, "vehtari2024psis", "gelman2005anova"}
    assert list(entries)[:2] == ["bayeseval", "hu2025quantifying"]
    assert entries["bayeseval"]["version"] == be.__version__


ONE_MORE = {
    "replicates": ({}, {"within_language": pd.DataFrame({"model": ["a"]})}, {"saleva2025tests"}),
    "alignment by its name": ({"covariates": {"mexa": {"source": "x"}}}, {}, {"kargaran2024mexa"}),
    "alignment by its file": (
        {"covariates": {"a": {"source": "runs/MEXA-llama/alignment.csv"}}},
        {},
        {"kargaran2024mexa"},
    ),
    "another covariate": ({"covariates": {"speakers": {"source": "speakers.csv"}}}, {}, set()),
    "a map": (
        {"files": ["figures/forecast_map.pdf"]},
        {},
        {"dryer2013wals", "hammarstrom2024glottolog"},
    ),
    "a forecast without a map": ({"files": ["figures/forecast.png"]}, {}, set()),
    "checks": ({}, {"checks": pd.DataFrame({"check": ["a"]})}, {"gelman1996checking"}),
    "checks with prior sensitivity": (
        {},
        {name: pd.DataFrame({"x": [1]}) for name in ("checks", "prior_sensitivity")},
        {"gelman1996checking", "kallioinen2024powerscale"},
    ),
    "energy": (
        {"gate": {"status": "pass", "checks": [{"name": "bfmi"}]}},
        {},
        {"betancourt2016bfmi"},
    ),
}


@pytest.mark.parametrize("case", ONE_MORE)
def test_one_more_method_is_one_more_entry(results: SavedResults, case: str) -> None:
    run, tables, more = ONE_MORE[case]
    other = changed(results, run, tables)
    assert set(cited_keys(other)) - set(cited_keys(results)) == more
    assert set(parse(citations_of(other))) == set(cited_keys(other))


ENGINES = {
    "numpyro": ({"engine": "numpyro"}, {"hoffman2014nuts", "phan2019numpyro"}),
    "pymc": ({"engine": "pymc"}, {"hoffman2014nuts", "abrilpla2023pymc"}),
    "pymc with nutpie": (
        {"engine": "pymc", "settings": {"nuts_sampler": "nutpie"}},
        {"hoffman2014nuts", "abrilpla2023pymc", "nutpie"},
    ),
    "marginal, importance": ({"sampling": {"path": "importance"}}, {"vehtari2024psis"}),
    "marginal, NUTS": ({"sampling": {"path": "nuts"}}, {"hoffman2014nuts", "phan2019numpyro"}),
    "ml": ({"engine": "ml"}, {"seabold2010statsmodels"}),
}


@pytest.mark.parametrize("case", ENGINES)
def test_engines(results: SavedResults, case: str) -> None:
    run, keys = ENGINES[case]
    assert set(cited_keys(changed(results, run))) == {*ALWAYS, *GATE, "gelman2005anova", *keys}


def test_a_point_estimate_has_no_gate(results: SavedResults) -> None:
    run = {"engine": "ml", "gate": {"status": "not applicable", "checks": []}}
    assert not GATE & set(cited_keys(changed(results, run)))


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("exact given the sds, PSIS over the sds", {"vehtari2017loo", "vehtari2024psis"}),
        ("6 groups by refits", set()),
        ("6 groups by refits, 2 by bridge sampling", {"meng1996bridge"}),
    ],
)
def test_comparisons(results: SavedResults, method: str, keys: set[str]) -> None:
    run = {
        "engine": "compare",
        "models": {"additive": "numpyro", "paper": "ml"},
        "gates": {"additive": "pass", "paper": "not applicable"},
        "files": [],
    }
    table = pd.DataFrame({"spec": ["additive"], "method": [method]})
    compared = SavedResults(results.path, run, {"comparison": table})
    nuts = {"hoffman2014nuts", "phan2019numpyro", "seabold2010statsmodels"}
    assert set(cited_keys(compared)) == {*ALWAYS, *GATE, *nuts, *keys}
    assert set(parse(citations_of(compared))) == set(cited_keys(compared))


def test_comparisons_where_nuts_took_over(results: SavedResults) -> None:
    run = {
        "models": {"additive": "marginal", "crossed": "marginal"},
        "samplers": {"additive": {"path": "importance"}, "crossed": {"path": "nuts"}},
        "files": [],
    }
    table = pd.DataFrame({"spec": ["additive"], "method": ["exact"]})
    keys = set(cited_keys(SavedResults(results.path, run, {"comparison": table})))
    assert keys >= {"vehtari2024psis", "hoffman2014nuts", "phan2019numpyro"}


def test_the_page_may_show_a_map(results: SavedResults) -> None:
    shown = citations_of(results, with_map=True)
    assert "@misc{hammarstrom2024glottolog," in shown
    assert "Glottolog 5.1" in shown  # the release whose rows languages.csv has
    assert "glottolog" not in citations_of(results)


# The benchmark's own citation


def test_shipped_benchmarks_have_entries(results: SavedResults) -> None:
    sources = [str(ROOT / "benchmarks" / "mega" / "records.csv")]
    citations = card_citations(sources)
    assert len(citations) == 1
    entries = parse(citations_of(changed(results, {"citations": citations})))
    assert set(entries) - set(cited_keys(results)) == {"ahuja2023mega"}
    assert entries["ahuja2023mega"]["pages"] == "4232--4267"
    assert list(entries).index("ahuja2023mega") == 2


@pytest.mark.parametrize("name", ["mega", "xquad", "flores"])
def test_cards_and_the_bibliography_agree(results: SavedResults, name: str) -> None:
    card = yaml.safe_load((ROOT / "benchmarks" / name / "benchmark.yaml").read_text("utf-8"))
    for key, fields in parse(card["citation"]).items():
        known = ENTRIES.get(key, ("", {}))[1]
        for field, value in fields.items():
            assert " ".join(value.split()) == known.get(field, " ".join(value.split())), (
                key,
                field,
            )


def test_the_card_of_a_downloaded_table(tmp_path: Path) -> None:
    cached = tmp_path / "benchmarks" / "xquad" / "data.jsonl"
    cached.parent.mkdir(parents=True)
    cached.write_text("{}", encoding="utf-8")
    assert "saleva2025tests" in "".join(card_citations([str(cached), str(cached)]))
    mine = tmp_path / "mine" / "data.csv"
    mine.parent.mkdir()
    mine.write_text("x\n", encoding="utf-8")
    assert card_citations([str(mine), "table", str(tmp_path / "gone.csv")]) == []


def test_a_fit_stores_the_citation_of_its_card(tmp_path: Path) -> None:
    benchmark = tmp_path / "mine"
    benchmark.mkdir()
    be.simulate("additive", n_languages=5, n_tasks=2, n_models=4, seed=2).records.table.to_csv(
        benchmark / "scores.csv", index=False
    )
    (benchmark / "benchmark.yaml").write_text(
        "name: mine\ntitle: Mine\ncitation: 'A. Author & B. Writer. My {table}, 50 % done.'\n",
        encoding="utf-8",
    )
    fit = be.fit(str(benchmark), "additive", engine="marginal", draws=100, chains=2)
    assert fit.run["citations"] == ["A. Author & B. Writer. My {table}, 50 % done."]
    saved = read_saved(fit.save(tmp_path / "result", figures=False))
    entry = parse(citations_of(saved))["data-mine-1"]
    assert entry == {"title": "mine", "note": r"A. Author \& B. Writer. My (table), 50 \% done."}


@pytest.mark.parametrize(
    ("title", "note"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash input(/etc/passwd)"),
        (r"{\em a} \csname x", r"(\textbackslash em a) \textbackslash csname x"),
        # TeX reads this as a backslash.
        ("^^5cinput /etc/passwd", r"\textasciicircum \textasciicircum 5cinput /etc/passwd"),
        # A right-to-left override.
        ("a\u202eb", r"a\textbackslash u202eb"),
    ],
)
def test_bibtex_that_could_read_files_is_cited_as_text(
    results: SavedResults, title: str, note: str
) -> None:
    found = citations_of(
        changed(results, {"citations": [f"@misc{{a,\n  title = {{{title}}},\n}}"]})
    )
    entries = parse(found)
    assert "a" not in entries
    (key,) = (key for key in entries if key.startswith("data-"))
    assert entries[key]["note"] == f"@misc(a, title = ({note}), )"
    # A plain text may hold the same.
    plain = parse(citations_of(changed(results, {"citations": [title]})))
    assert plain[key]["note"] == note


def test_accents_fonts_and_links_stay_bibtex(results: SavedResults) -> None:
    title = r"{\'E}t\'e, \v{c}, {\O}, \emph{very} \textsc{nlp}, 5 \% at \url{https://x.org/a_b}"
    entry = f"@misc{{a,\r\n\ttitle = {{{title}}},\r\n}}"
    assert entry in citations_of(changed(results, {"citations": [entry]}))


def test_one_key_for_two_works_is_refused(results: SavedResults) -> None:
    both = "@misc{a,\n  title = {One},\n}\n\n@misc{a,\n  title = {Two},\n}"
    with pytest.raises(InputError, match="has two entries with the key a; give them different"):
        citations_of(changed(results, {"citations": [both]}))
    same = changed(results, {"citations": [both.split("\n\n")[0]] * 2})
    assert parse(citations_of(same))["a"] == {"title": "One"}


# The list itself, and the command


def test_the_software_is_that_of_the_citation_file() -> None:
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    _, fields = ENTRIES["bayeseval"]
    assert re.sub("[{}]", "", fields["title"]) == cff["title"]
    assert re.sub("[{}]", "", fields["author"]) == cff["authors"][0]["name"]
    paper = cff["references"][0]
    assert ENTRIES["hu2025quantifying"][1]["title"] == paper["title"]
    assert paper["identifiers"][0]["value"] == (
        f"arXiv:{ENTRIES['hu2025quantifying'][1]['eprint']}"
    )


def test_every_entry_can_be_cited() -> None:
    reached = set(ALWAYS | GATE | {"gelman2005anova", "vehtari2017loo", "meng1996bridge"})
    reached |= {key for _, _, keys in ONE_MORE.values() for key in keys}
    reached |= {key for _, keys in ENGINES.values() for key in keys}
    reached |= {key for keys in SAMPLER_KEYS.values() for key in keys}
    assert reached == set(ENTRIES)


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", str(folder)]) == 0
    assert capsys.readouterr().out == citations_of(read_saved(folder))
    assert main(["cite", str(folder), "--out", str(tmp_path / "refs.bib")]) == 0
    assert set(parse((tmp_path / "refs.bib").read_text("utf-8"))) == set(
        cited_keys(read_saved(folder))
    )
    assert main(["cite", str(tmp_path)]) == 2
    assert "is not a result folder" in capsys.readouterr().err


def test_python_cites_what_the_command_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved_fit(tmp_path / "fit")
    assert main(["cite", str(folder)]) == 0
    assert capsys.readouterr().out == be.cite(folder) == be.cite(str(folder))
    with pytest.raises(InputError, match="nowhere"):
        be.cite(tmp_path / "nowhere")
    with pytest.raises(InputError, match="folder must be a path, got 3"):
        be.cite(3)  # type: ignore[arg-type]
