"""A failed convergence gate is loud: one warning, the repr and a column; else silence."""

from __future__ import annotations

import tracemalloc
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval as be
from bayeseval import Fit
from bayeseval.comparison import compare
from bayeseval.engines import SamplerSettings
from bayeseval.errors import ConvergenceWarning
from bayeseval.fitting import gate
from bayeseval.fitting.gate import (
    Check,
    Gate,
    convergence_gate,
    format_gate,
    gate_advice,
    warn_of_gates,
)
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.leaving_out.run import sensitivity
from bayeseval.planning.run import plan
from bayeseval.records import Records
from bayeseval.simulation import simulate

TOLD = "the convergence gate failed, do not rely on these results"
FAILED = Gate("fail", (Check("ess_bulk", 12.3, 400.0, "sd_task", passed=False),), 9)


@pytest.fixture(scope="module")
def records() -> Records:
    return simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1).records


@pytest.fixture(scope="module")
def passed(records: Records) -> Fit:
    with warnings.catch_warnings():
        # Overrides the ignore of pyproject.toml: a gate that passed gives no warning.
        warnings.simplefilter("error", ConvergenceWarning)
        return be.fit(records, "additive", engine="marginal", draws=500, chains=2)


@pytest.fixture(scope="module")
def failed(passed: Fit) -> Fit:
    """The same fit with another outcome of its gate."""
    return replace(passed, run={**passed.run, "gate": FAILED.to_dict()})


def _advice(engine: str, checks: tuple[Check, ...], likelihood: str = "normal") -> str:
    run = {"engine": engine, "spec": {"likelihood": likelihood}}
    run["settings"] = {"draws": 1000, "chains": 4}
    return gate_advice(Gate("fail", checks, 9), run)


def test_advice_names_the_draws_that_would_be_enough() -> None:
    tail = Check("ess_tail", 291.0, 400.0, "sd_task", passed=False)
    # 1000 * 400 / 291 = 1375, and a tenth in reserve.
    assert _advice("marginal", (tail,)) == (
        "What to do: fit again with draws=1600 in place of 1000 per chain, or with "
        "engine='numpyro'."
    )
    r_hat = Check("r_hat", 1.02, 1.01, "sd_task", passed=False)
    assert "draws=2200 in place of" in _advice("numpyro", (tail, r_hat))
    # Chains that do not mix, and values that cannot be computed.
    for value in (3.0, float("nan")):
        stuck = Check("ess_tail", value, 400.0, "sd_task", passed=False)
        assert _advice("numpyro", (stuck,)) == ("What to do: fit again with engine='marginal'.")
    assert _advice("numpyro", (tail,), "beta").endswith(", or with a simpler model.")
    # The noise of prompts and seeds is sampled, which `marginal` does not do.
    noisy = {"engine": "numpyro", "spec": {"likelihood": "normal"}}
    noisy["priors"] = {"sd_language": "", "sd_log_prompt": ""}
    assert gate_advice(Gate("fail", (stuck,), 9), noisy).endswith(" with a simpler model.")
    # So are values that a covariate lacks.
    lacking = {"likelihood": "normal", "covariates": [{"name": "x", "missing": "model"}]}
    run = {"engine": "numpyro", "spec": lacking}
    assert gate_advice(Gate("fail", (stuck,), 9), run).endswith(" with a simpler model.")


def test_advice_on_divergences_is_not_more_draws() -> None:
    diverging = Check("divergences", 7.0, 0.0, "all chains", passed=False)
    tail = Check("ess_tail", 291.0, 400.0, "sd_task", passed=False)
    assert _advice("pymc", (diverging, tail)) == (
        "What to do: fit again with a higher target_accept, such as 0.99, or with "
        "engine='marginal'."
    )
    # A fit that failed is drawn again with this rate: no more is to be had from it.
    again = {"engine": "pymc", "spec": {"likelihood": "normal"}}
    again["settings"] = {"draws": 4000, "target_accept": 0.99}
    assert gate_advice(Gate("fail", (diverging,), 9), again) == (
        "What to do: fit again with engine='marginal'."
    )
    assert "divergent transitions 7 in all chains (at most 0 is required)" in format_gate(
        Gate("fail", (diverging,), 9)
    )
    assert gate_advice(Gate("pass", (), 9), {}) == ""
    assert gate_advice(Gate("not applicable", (), 0), {}) == ""


VIEWS: dict[str, Callable[[Fit], pd.DataFrame]] = {
    "potential": lambda fit: fit.potential(ci_prob=0.8),
    "prr": lambda fit: fit.prr(ci_prob=0.8),
    "components": lambda fit: fit.components(ci_prob=0.8),
    "covariates": lambda fit: fit.covariates(ci_prob=0.8),
    "pairwise": lambda fit: fit.pairwise("model_effect", ci_prob=0.8),
}


def test_a_fit_that_did_not_converge_warns_once_where_it_was_called(records: Records) -> None:
    with pytest.warns(ConvergenceWarning, match=TOLD) as told:
        result = be.fit(records, "additive", engine="marginal", draws=10, chains=2)
    assert result.gate.status == "fail"
    (one,) = told
    assert one.filename == __file__
    text = str(one.message)
    assert "bulk ESS" in text
    assert "(at least 200 is required)" in text
    assert text.endswith("Fit again with more draws, or with a simpler model.")
    assert "\n" not in text


def test_the_repr_says_which_fit_it_is_and_first_that_it_failed(passed: Fit, failed: Fit) -> None:
    title = f"{passed.run['benchmark']}, model additive, engine marginal"
    title += f"; {passed.run['n_records']} records, gate"
    assert repr(passed).startswith(
        f"Fit({title} passed; m2 is ahead, and the best of the 4 models "
    )
    assert repr(failed) == f"Fit(NOT CONVERGED; {title} failed)"


@pytest.mark.parametrize("view", VIEWS)
def test_views_carry_the_gate_and_the_interval_in_attrs(
    view: str, passed: Fit, failed: Fit
) -> None:
    good, bad = VIEWS[view](passed), VIEWS[view](failed)
    assert good.attrs == {"ci_kind": "eti", "ci_prob": 0.8, "gate": "pass"}
    assert bad.attrs == {"ci_kind": "eti", "ci_prob": 0.8, "gate": "fail"}
    # The column only where it warns.
    assert not {"ci_kind", "ci_prob", "gate"} & set(good.columns)
    assert set(bad.columns) - set(good.columns) == {"gate"}
    assert (bad["gate"] == "fail").all()
    pd.testing.assert_frame_equal(bad.drop(columns="gate"), good, check_like=True)


def test_ranks_carry_them_too(passed: Fit, failed: Fit) -> None:
    assert passed.ranks("language_potential").attrs["gate"] == "pass"
    assert set(failed.ranks("language_potential")["gate"]) == {"fail"}


def test_files_have_the_columns_whatever_the_gate(passed: Fit, tmp_path: Path) -> None:
    folder = passed.save(tmp_path / "here", figures=False)
    for path in sorted((folder / "tables").glob("*.csv")):
        table = pd.read_csv(path)
        assert set(table["gate"]) == {"pass"}, path.name
        assert set(table["ci_kind"]) == {"eti"}, path.name
        assert set(table["ci_prob"]) == {0.95}, path.name


def test_a_saved_fit_that_failed_says_so_when_it_is_opened(failed: Fit, tmp_path: Path) -> None:
    again = Fit.open(failed.save(tmp_path / "here", figures=False))
    assert repr(again) == repr(failed)
    assert again.potential().attrs["gate"] == "fail"


def test_a_plan_of_a_failed_fit_warns_once_and_says_it(passed: Fit, failed: Fit) -> None:
    with pytest.warns(ConvergenceWarning, match=f"{TOLD}: the fit: bulk ESS 12 at sd_task") as told:
        found = plan(failed)
    assert [one.filename for one in told] == [__file__]
    assert "note: the convergence gate of the fit failed" in str(found)
    assert "convergence" not in str(plan(passed))


def test_a_comparison_warns_once_of_all_fits_that_failed(records: Records, passed: Fit) -> None:
    other = be.fit(records, "interaction", engine="marginal", draws=500, chains=2)
    ready = {
        name: replace(one, run={**one.run, "gate": FAILED.to_dict()})
        for name, one in {"additive": passed, "interaction": other}.items()
    }
    with pytest.warns(ConvergenceWarning) as told:
        compare(records, ["additive", "interaction"], fits=ready)
    (one,) = told
    assert one.filename == __file__
    for name in ready:
        assert f"{name}: bulk ESS 12 at sd_task (at least 400 is required)" in str(one.message)


def test_refits_that_failed_are_one_warning(
    records: Records, passed: Fit, failed: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refit(prepared: Prepared, progress: object = None) -> Fit:
        return passed if len(prepared.records) == len(records) else failed

    monkeypatch.setattr(Prepared, "run", refit)
    with pytest.warns(ConvergenceWarning) as told:
        found = sensitivity(records, "additive", drop="model", engine="marginal", jobs=1)
    (one,) = told
    assert one.filename == __file__
    models = records.coords["model"]
    assert f"without {models[0]}: bulk ESS 12" in str(one.message)
    # Four refits failed: the first three are named.
    assert "; and 1 more fit." in str(one.message)
    assert not any("gate" in sentence for sentence in found.verdict)
    again = replace(found, fit=failed)
    assert again.verdict[0] == (
        "The convergence gate of the fit failed; do not rely on these numbers."
    )


def test_gates_that_passed_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_gates({"a": Gate("pass", (), 1), "b": Gate("not applicable", (), 0)}, stacklevel=1)


def test_gate_goes_through_quantities_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(2, 200, 330))
    draws[:, :, 4] = np.nan
    draws[:, :, 9] = 1.0
    draws[0, :, 40] += 3.0
    effect = xr.Variable(("chain", "draw", "language"), draws)
    levels = {"language": [f"l{i}" for i in range(330)]}
    dataset = xr.Dataset({"sd": (("chain", "draw"), draws[:, :, 0]), "e": effect}, coords=levels)
    tree = xr.DataTree.from_dict({"posterior": dataset})
    whole = convergence_gate(tree)
    # The two that do not vary are none.
    assert whole.n_quantities == 329
    assert (whole.status, whole.checks[0].where) == ("fail", "e[l40]")
    # Whole blocks of the diagnostics, of 16 quantities.
    monkeypatch.setattr(gate, "_AT_A_TIME", 32)
    tracemalloc.start()
    try:
        assert convergence_gate(tree) == whole
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # There were three copies of all draws. Diagnostics of a block take twenty times its memory.
    assert peak < 2.5 * draws.nbytes, peak / draws.nbytes


def test_a_failed_attempt_is_not_kept_beside_the_next(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(records, "additive", settings=SamplerSettings(draws=5, chains=2))
    attempt = Prepared._attempt
    draws: list[weakref.ref[np.ndarray]] = []
    alive = []

    def watched(self: Prepared, *args: Any, **options: Any) -> Any:
        alive.extend(one() is not None for one in draws)
        made = attempt(self, *args, **options)
        values = made[0]["posterior"]["language_effect"].variable._data
        draws.append(weakref.ref(values if values.base is None else values.base))
        return made

    monkeypatch.setattr(Prepared, "_attempt", watched)
    fitted = prepared.run()
    assert fitted.run["retried"]
    assert alive == [False]
    assert draws[1]() is not None
