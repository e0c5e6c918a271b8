"""Readers of other distributions: found by their entry points, refused in one line."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers import READERS, detect

TOY = """
from bayeseval.readers.base import Reader
from bayeseval.readers.scores import Score, settle

def sniff(path, head):
    return head.text.startswith("TOY 1")

def read(paths, options):
    scores = []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines()[1:], start=2):
            model, dataset, language, value = line.split()
            scores.append(
                Score(model, dataset, language, "accuracy", float(value), f"{path}: line {number}")
            )
    return settle(scores, source=str(paths[0]), options=options)

TOY = Reader("toy", "results of the toy harness", sniff, read, suffixes=(".toy",))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a distribution with one reader on the path, as pip would."""

    def put(code: str, *, name: str) -> None:
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        # A name of its own: what has been imported stays imported.
        module = f"reader_{uuid4().hex}"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[bayeseval.readers]\ntoy = {module}:TOY\n")
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)

    return put


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    for model in ("a", "b"):
        lines = [f"{model} xnli {language} 0.{digit}" for language, digit in (("de", 5), ("sw", 3))]
        (folder / f"{model}.toy").write_text("\n".join(["TOY 1", *lines]))
    return folder


def test_a_reader_of_another_distribution_is_found(install, results: Path) -> None:
    install(TOY, name="toyreader")
    records = be.load(results)
    table = records.table.set_index(["model", "language"])["score"]
    assert table.to_dict() == {
        ("a", "de"): 0.5,
        ("a", "sw"): 0.3,
        ("b", "de"): 0.5,
        ("b", "sw"): 0.3,
    }
    found = detect(results / "a.toy", format="toy")
    assert found is not None
    assert found.reader.title == "results of the toy harness"
    assert "toy" not in [reader.name for reader in READERS]


def test_without_it_the_format_is_unknown(results: Path) -> None:
    with pytest.raises(InputError, match="no format 'toy'"):
        detect(results, format="toy")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import no_such_module",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("TOY = 3", "is 3, not a bayeseval.readers.base.Reader"),
        (
            TOY.replace('Reader("toy"', 'Reader("mteb"'),
            "the format name 'mteb', which belongs to bayeseval",
        ),
        (
            TOY.replace('Reader("toy"', 'Reader("table"'),
            "the format name 'table', which belongs to bayeseval",
        ),
        (TOY.replace('head.text.startswith("TOY 1")', "1 / 0"), "failed on .*a.toy: ZeroDivision"),
        (TOY.replace("scores = []", "raise OSError('a\\nb')"), "failed on .*a.toy: OSError: a b;"),
    ],
)
def test_a_broken_reader_is_refused_in_one_line(
    install, results: Path, code: str, message: str
) -> None:
    install(code, name="badreader")
    with pytest.raises(InputError, match=message) as refusal:
        be.load(results)
    assert "\n" not in str(refusal.value)
    assert "of the distribution badreader 1.0" in str(refusal.value)


def test_a_broken_reader_is_not_asked_for_our_formats(install, tmp_path: Path) -> None:
    install("import no_such_module", name="badreader")
    table = tmp_path / "table.csv"
    table.write_text("model,language,task,score\na,de,t,1\nb,de,t,2\na,sw,t,3\nb,sw,t,2\n")
    with pytest.raises(InputError, match="badreader"):
        be.load(table)
    assert len(be.load(table, format="table")) == 4


def test_two_readers_of_one_format_are_refused(install, results: Path) -> None:
    install(TOY, name="first")
    install(TOY, name="second")
    with pytest.raises(InputError, match="of the distribution second 1.0 .* belongs to first 1.0"):
        be.load(results)


def test_a_distribution_that_the_path_lists_twice_counts_once(
    install, results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(TOY, name="toyreader")
    monkeypatch.syspath_prepend(tmp_path / "site-toyreader")
    assert len(be.load(results)) == 4


def test_errors_of_the_reader_itself_stay_as_they_are(install, results: Path) -> None:
    install(TOY, name="toyreader")
    with pytest.raises(InputError, match="metric") as refusal:
        be.load(results, metric="bleu")
    assert "distribution" not in str(refusal.value)
