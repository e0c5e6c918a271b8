"""Refits of a comparison that is interrupted: kept one by one, found again, and not mixed up."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayeseval.cli import main
from bayeseval.comparison import prepare_comparison
from bayeseval.comparison.refits import refit_units
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.simulation import simulate
from tests.test_compare_routes import Drawn, counts, flat, posterior, silent

refits = import_module("bayeseval.comparison.refits")
run = import_module("bayeseval.comparison.run")

MODELS = {"additive": None, "interaction": None}


def stop_after(number: int) -> Callable[..., None]:
    def stop(stage: str, done: int, total: int, remark: str) -> None:
        if done == number:
            raise KeyboardInterrupt

    return stop


def test_finished_refits_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = counts()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    asked: dict[str, Any] = {"seed": 9, "jobs": 1, "work": tmp_path / "own"}
    with pytest.raises(KeyboardInterrupt):
        refit_units(design, "record", [5, 2, 7], progress=stop_after(2), **asked)
    assert len(drawn.asked) == 2
    elpd, k_hat = refit_units(design, "record", [5, 2, 7], progress=silent, **asked)
    # Only the third is fitted now, and the numbers are those without any interruption.
    assert len(drawn.asked) == 3
    density = pointwise_log_likelihood(design, flat(drawn.posterior))
    by_hand = np.log(np.exp(density).mean(axis=0))[[5, 2, 7]]
    np.testing.assert_allclose(elpd, by_hand, rtol=1e-12)
    assert np.isnan(k_hat).all()
    plain, _ = refit_units(design, "record", [5, 2, 7], seed=9, jobs=1, progress=silent)
    assert elpd.tolist() == plain.tolist()


def test_refits_of_groups_depend_on_the_fit_that_they_are_bridged_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    design = counts()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    asked: dict[str, Any] = {"seed": 9, "jobs": 1, "progress": silent, "work": tmp_path}
    density = pointwise_log_likelihood(design, flat(posterior(design, seed=1)))
    own = density[:, design.factor_index["language"] == 2].sum(axis=1).reshape(1, 4, -1)
    first = refit_units(design, "language", [2], whole=own, **asked)
    again = refit_units(design, "language", [2], whole=own, **asked)
    assert len(drawn.asked) == 1
    for one, other in zip(again, first, strict=True):
        np.testing.assert_array_equal(one, other)
    refit_units(design, "language", [2], whole=own + 100.0, **asked)
    assert len(drawn.asked) == 2
    assert "is of another piece than x: the refit without language 2 (beside densities " in (
        capsys.readouterr().err
    )


def test_the_command_says_where_finished_refits_are_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = simulate("additive", n_languages=3, n_tasks=2, n_models=3, seed=2).records.table
    table.to_csv(tmp_path / "t.csv", index=False)
    places: list[Path] = []

    def score(*given: Any, work: Path, **more: Any) -> None:
        places.append(work)
        work.mkdir(exist_ok=True)
        (work / "000000.json").write_text("{}")
        if len(places) % 2 == 0:
            raise KeyboardInterrupt

    # Nothing is fitted: what is kept does not depend on the fits.
    monkeypatch.setattr(run, "score", score)
    monkeypatch.setattr(run.PreparedComparison, "_make", lambda self, *given, **more: MODELS)
    out = tmp_path / "out"
    call = ["compare", "--benchmark", str(tmp_path / "t.csv"), "--models", ",".join(MODELS)]
    call += ["--out", str(out), "--no-figures", "--quiet", "--jobs", "1"]
    said = []
    for _ in range(2):
        assert main(call) == 130
        said.append(capsys.readouterr().err)
    (own,) = out.with_name("out.unfinished").iterdir()
    assert places == 2 * [own / "model1", own / "model2"]
    kept = f"finished refits are kept in {own}; run the same command again to continue"
    assert [kept in one for one in said] == [True, True]


def test_other_fits_keep_their_refits_elsewhere(tmp_path: Path) -> None:
    records = simulate("additive", n_languages=3, n_tasks=2, n_models=3, seed=2).records
    places = {
        prepare_comparison(records, models, **more).kept_in(tmp_path)
        for models, more in (
            ("additive", {}),
            ("additive", {"seed": 1}),
            ("additive", {"by": "language"}),
            ("additive", {"engine": "numpyro"}),
            (["additive", "interaction"], {}),
        )
    }
    assert len(places) == 5
    assert prepare_comparison(records, "additive", refits=3).kept_in(tmp_path) in places
