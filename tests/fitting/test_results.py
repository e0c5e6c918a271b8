"""Saving a fit: what is written first, and what is left when a later step does not end well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr

import bayeseval
from bayeseval import Fit
from bayeseval.errors import EngineError
from bayeseval.fitting.report import folder as results
from tests.fitting.dying_driver import FULL, STEPS, checked, made_up

DRIVER = Path(__file__).with_name("dying_driver.py")
ROOT = DRIVER.parents[2]
TABLES = {
    "tables/language_potential.csv",
    "tables/model_disparity.csv",
    "tables/pairwise_models.csv",
    "tables/rank_probabilities.csv",
    "tables/variance_components.csv",
}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return made_up()


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def check_readable(folder: Path, fit: Fit) -> None:
    """Posterior, provenance and tables are whole, and the run file lists what is there."""
    again = Fit.open(folder)
    xr.testing.assert_identical(again.data, fit.data)
    listed = json.loads((folder / "run.json").read_text(encoding="utf-8"))["files"]
    assert set(listed) == files(folder)
    assert {"posterior.nc", "run.json"} | TABLES <= files(folder)
    potential = pd.read_csv(folder / "tables" / "language_potential.csv")
    assert list(potential["potential_mean"]) == pytest.approx(
        list(fit.potential(detail=True)["potential_mean"])
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders that processes were saving to when they were killed, by step."""
    folder = tmp_path_factory.mktemp("killed")
    source = Path(bayeseval.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {**dict.fromkeys(STEPS, int(signal.SIGKILL)), FULL: 0}
    return folder


@pytest.mark.parametrize("step", ["checks", "figures"])
def test_a_kill_during_checks_or_figures_loses_nothing_finished(
    step: str, killed: Path, fit: Fit
) -> None:
    folder = killed / step / "run"
    check_readable(folder, fit)
    there = files(folder)
    assert not any(name.startswith("figures/") for name in there)
    assert ("tables/checks.csv" in there) == (step == "figures")
    # Saved again, nothing of the killed process lies about.
    fit.save(folder, checks=checked, figures=False)
    check_readable(folder, fit)
    assert "tables/checks.csv" in files(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


def test_a_kill_before_the_tables_are_whole_leaves_no_result(killed: Path) -> None:
    """Negative control: the first step is all or nothing."""
    assert not (killed / "tables" / "run").exists()


def test_a_disk_that_fills_up_ends_in_one_line_and_leaves_nothing(killed: Path) -> None:
    assert list((killed / FULL).iterdir()) == []


def test_the_posterior_is_there_when_checks_are_asked_for(tmp_path: Path, fit: Fit) -> None:
    folder, seen = tmp_path / "run", []

    def look() -> Any:
        seen.append(files(folder))
        return checked()

    fit.save(folder, checks=look, figures=False)
    assert seen == [files(folder) - {"tables/checks.csv"}]


def test_an_error_of_ours_says_in_its_line_that_the_results_are_saved(
    tmp_path: Path, fit: Fit
) -> None:
    folder = tmp_path / "run"

    def refuse() -> Any:
        raise EngineError("no closed form")

    with pytest.raises(EngineError) as said:
        fit.save(folder, checks=refuse)
    assert str(said.value) == (
        f"no closed form; the results are saved in {folder}, without checks and figures; in Python,"
        f" fit = bayeseval.Fit.open('{folder}'); fit.save('{folder}', checks=fit.checks) adds them"
    )
    check_readable(folder, fit)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_any_other_end_has_it_as_a_note(
    error: type[BaseException], tmp_path: Path, fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(results, "figure_writers", fail)
    with pytest.raises(error) as said:
        fit.save(folder, checks=checked)
    (note,) = said.value.__notes__
    assert note.startswith(f"the results are saved in {folder}, without figures; in Python, ")
    check_readable(folder, fit)
    assert "tables/checks.csv" in files(folder)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"checks": checked}, "fit.save({}, checks=fit.checks) adds them"),
        ({}, "fit.save({}) adds them"),
        ({"ci_prob": 0.5}, "fit.save({}, ci_prob=0.5) adds them"),
    ],
)
def test_the_way_to_the_figures_asks_for_what_was_asked_for(
    options: dict[str, Any],
    call: str,
    tmp_path: Path,
    fit: Fit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EngineError("no ink")

    monkeypatch.setattr(results, "figure_writers", fail)
    with pytest.raises(EngineError) as said:
        fit.save(tmp_path / "run", **options)
    assert str(said.value).endswith(call.format(repr(str(tmp_path / "run"))))
    assert ", without figures; " in str(said.value)


def test_figures_of_an_earlier_run_do_not_stay_beside_new_numbers(
    tmp_path: Path, fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(path: Path) -> None:
        path.write_bytes(b"a picture")

    def one_figure(*_: object, **__: object) -> dict[str, object]:
        return {"figures/potential.png": draw}

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(results, "figure_writers", one_figure)
    folder = fit.save(tmp_path / "run")
    assert "figures/potential.png" in files(folder)
    check_readable(folder, fit)
    monkeypatch.setattr(results, "figure_writers", fail)
    with pytest.raises(ZeroDivisionError):
        fit.save(folder)
    assert not any(name.startswith("figures/") for name in files(folder))
    check_readable(folder, fit)


@pytest.mark.parametrize(
    ("pairs", "ending"),
    [("any", ""), ("shared", "-shared"), ("lists/my pairs.csv", "-my_pairs"), ("x.csv", "-x")],
)
def test_other_common_pairs_go_into_another_folder(pairs: str, ending: str) -> None:
    found = results.default_folder("mega", "crossed", "marginal", 3, pairs=pairs)
    assert found == Path("results/mega") / f"crossed-marginal-seed3{ending}"
