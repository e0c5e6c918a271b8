"""Examples in the docstrings of the public surface are run, on one small fit that all share."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import bayeseval as be
from bayeseval.checks import Checks
from bayeseval.comparison import Comparison, HeldOut
from bayeseval.forecasting import Forecast
from bayeseval.leaving_out import Sensitivity
from bayeseval.planning import Plan
from bayeseval.simulation import Simulation

CLASSES = (
    *(be.Costs, be.Covariate, be.Fit, be.ModelSpec, be.Records),
    *(Checks, Comparison, Forecast, HeldOut, Plan, Sensitivity, Simulation),
)


def public() -> dict[str, object]:
    """Public functions, classes and their methods by name."""
    found: dict[str, object] = {
        name: item
        for name in be.__all__
        if not inspect.isclass(item := getattr(be, name)) or item is be.BayesevalError
    }
    for cls in CLASSES:
        found[cls.__name__] = cls
    return found


def methods(cls: type) -> Iterator[tuple[str, object]]:
    for name, member in inspect.getmembers_static(cls):
        if name.startswith("_") or not getattr(member, "__module__", "bayeseval").startswith("bay"):
            continue
        if isinstance(member, classmethod):
            yield f"{cls.__name__}.{name}", member.__func__
        elif inspect.isfunction(member):
            yield f"{cls.__name__}.{name}", member


RESULTS = (be.Fit, Checks, Comparison, Forecast, HeldOut, Plan, Sensitivity)
# A class method that puts checks into a table is no call of a user.
MUST = [
    *be.__all__,
    *(name for cls in RESULTS for name, _ in methods(cls) if name != "Checks.of"),
]
OBJECTS = public() | {name: item for cls in CLASSES for name, item in methods(cls)}


@pytest.fixture(scope="module")
def known() -> dict[str, object]:
    """The names that examples may use."""
    records = be.load(
        be.simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1).records.table
    )
    fit = be.fit(records, "additive", draws=400, chains=2)
    values = {label: float(i) for i, label in enumerate([*records.coords["language"], "de", "fr"])}
    covariate = be.Covariate(
        "speakers",
        "language",
        labels=tuple(values),
        models=(),
        values=np.array(list(values.values())),
    )
    spec = {"name": "speakers", "covariates": ["speakers"]}
    forecast = be.forecast(
        be.fit(records, spec, covariate=covariate, draws=400, chains=2),
        covariate=covariate,
        check=False,
    )
    return {
        "be": be,
        "np": np,
        "df": records.table,
        "records": records,
        "fit": fit,
        "covariate": covariate,
        "forecast": forecast,
        "comparison": be.compare(records, "additive", fits={}),
        "held_out": be.compare(records, "additive", holdout=0.2, repeats=2, jobs=1),
        "sensitivity": be.sensitivity(records, "additive", drop="task", jobs=1),
        "calibration": be.calibrate("additive", like=records, simulations=2, jobs=1),
        "plan": be.plan(fit, languages=[3, 6]),
        "chosen": be.next_cells(fit, budget=3),
        "checks": fit.checks(),
    }


def failures(name: str, item: object, known: dict[str, object]) -> tuple[int, str]:
    """How many examples there are, and what those that fail report."""
    text = inspect.getdoc(item) or ""
    test = doctest.DocTestParser().get_doctest(text, dict(known), name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False
    )
    runner.run(test, out=report.append)
    return len(test.examples), "".join(report)


@pytest.mark.parametrize("name", OBJECTS)
def test_examples_run(
    name: str, known: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, report = failures(name, OBJECTS[name], known)
    assert report == ""


@pytest.mark.parametrize("name", MUST)
def test_what_a_user_calls_first_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(OBJECTS[name]) or "")


def test_a_wrong_example_is_caught() -> None:
    def sample() -> None:
        """Add.

        >>> 1 + 1
        3
        """

    count, report = failures("sample", sample, {})
    assert count == 1
    assert "Expected:\n    3\nGot:\n    2" in report


def test_the_package_itself_is_an_example(known: dict[str, object]) -> None:
    assert isinstance(be, ModuleType)
    _, report = failures("bayeseval", be, known)
    assert report == ""
