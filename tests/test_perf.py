"""Results of measurements name their origin, and the shared writer says it."""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PERF = Path(__file__).parents[1] / "perf"
RESULTS = sorted((PERF / "results").glob("*.csv"))
_SCRIPT = re.compile(r"python (perf/\w+\.py)( .*)?")


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`perf/measure.py`, which the scripts import from their own folder."""
    monkeypatch.syspath_prepend(str(PERF))
    monkeypatch.delitem(sys.modules, "measure", raising=False)
    import measure

    monkeypatch.delitem(sys.modules, "measure")
    return measure


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    command = ["git", *names, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_there_are_results() -> None:
    assert len(RESULTS) > 5


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_row_of_results_names_script_commit_and_date(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        script = _SCRIPT.fullmatch(row["command"])
        assert script is not None, row["command"]
        assert (PERF.parent / script[1]).is_file()
        assert re.fullmatch("[0-9a-f]{40}", row["commit"]), "measured with uncommitted changes"
        assert datetime.date.fromisoformat(row["date"])


def test_every_commit_that_results_name_is_in_the_history() -> None:
    if not (PERF.parent / ".git").exists():
        return
    history = set(git(PERF, "rev-list", "HEAD").split())
    # Archives, shallow clones and copies with a history of their own cannot tell.
    if len(history) < 500:
        return
    texts = [path.read_text(encoding="utf-8") for path in (PERF / "results").rglob("*.*")]
    named = set(re.findall(r"\b[0-9a-f]{40}\b", "\n".join(texts)))
    assert len(named) > 20
    assert named <= history
    # The control: a commit of nobody.
    assert not {"0" * 40} <= history


def test_the_commit_is_marked_where_the_code_differs_from_it(
    measure: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "perf" / "results")
    script = tmp_path / "perf" / "speed.py"
    script.parent.mkdir()
    script.write_text("print(1)\n", encoding="utf-8")
    machine = ["--work", "here", "--jobs=2"]
    monkeypatch.setattr(sys, "argv", [str(script), *machine, "--tables", "two of them"])
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Add a measurement")
    commit = git(tmp_path, "rev-parse", "HEAD")

    before = datetime.date.today()
    said = measure.provenance()
    assert before <= datetime.date.fromisoformat(said["date"]) <= datetime.date.today()
    assert said == {
        "command": "python perf/speed.py --tables 'two of them'",
        "commit": commit,
        "date": said["date"],
    }
    rows = [{"model": "a", "seconds": 1 / 3}, {"model": "b", "seconds": 2.0, "more": 7}]
    path = measure.write_csv("speed", rows, said, digits=3)
    assert path.read_text(encoding="utf-8").splitlines() == [
        "model,seconds,more,command,commit,date",
        f"a,0.333,,python perf/speed.py --tables 'two of them',{commit},{said['date']}",
        f"b,2,7,python perf/speed.py --tables 'two of them',{commit},{said['date']}",
    ]
    # Rows of what was measured again are replaced.
    measure.write_csv("speed", [{"model": "a", "seconds": 9, "more": 8}], said, key="model")
    assert path.read_text(encoding="utf-8").splitlines()[1:] == [
        f"b,2,7,python perf/speed.py --tables 'two of them',{commit},{said['date']}",
        f"a,9,8,python perf/speed.py --tables 'two of them',{commit},{said['date']}",
    ]
    with pytest.raises(ValueError, match=r"speed\.csv use names that the writer uses: date$"):
        measure.write_csv("speed", [{"date": 1}], said)
    # The results themselves do not count: a script may write several files.
    assert measure.provenance()["commit"] == commit
    script.write_text("print(2)\n", encoding="utf-8")
    assert measure.provenance()["commit"] == f"{commit}+changes"
    assert measure.machine()["commit"] == f"{commit}+changes"


def test_a_calibration_grid_without_tables_ends_in_one_line(
    measure: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "measure", measure)
    import calibration_grid

    monkeypatch.delitem(sys.modules, "calibration_grid")
    asked = argparse.Namespace(shapes=2, most_records=1)
    with pytest.raises(SystemExit, match=r"^error: no shape has a table; ask for more --shapes"):
        calibration_grid.run(asked)


def test_the_legend_of_the_performance_figure_lies_above_the_lines(measure: ModuleType) -> None:
    spec = importlib.util.spec_from_file_location("perf_report", PERF / "report.py")
    assert spec is not None
    assert spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "measure", measure)
        spec.loader.exec_module(report)
    drawn = report.figure()
    drawn.canvas.draw()
    axes = drawn.axes[1]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(texts) == [
        "aggregation, additive",
        "aggregation, crossed",
        "fit, additive",
        "fit, crossed",
    ]
    assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1
