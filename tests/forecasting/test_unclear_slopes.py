"""What a forecast says of a covariate whose slope may be 0, where no forecast is checked."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import DesignError, addressing_command_line
from bayeseval.estimands import covariates_table
from bayeseval.forecasting.words import unclear_slopes
from bayeseval.reporting.further import _of_forecasts
from bayeseval.reporting.summary import Facts

SAID = "the 95 % interval of the slope of mexa includes 0, so this covariate may not help"
TO_CHECK = "to compare forecasts of left-out languages with and without it"


@pytest.fixture(scope="module")
def clear() -> be.Fit:
    with pytest.warns(UserWarning, match="the convergence gate failed"):
        return be.fit("mega", "mexa", draws=50, chains=1)


@pytest.fixture(scope="module")
def unclear(clear: be.Fit) -> be.Fit:
    tree = clear.data.copy(deep=True)
    draws = tree["posterior"]["mexa_slope"]
    assert (draws.to_numpy() > 0.0).all()
    draws.values -= draws.to_numpy().mean()
    return replace(clear, data=tree)


@pytest.mark.filterwarnings("ignore::bayeseval.errors.ConvergenceWarning")
def test_a_slope_that_may_be_zero_is_named(
    clear: be.Fit, unclear: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = be.forecast(unclear, check=False)
    assert made.notes[-1] == f"{SAID}; leave check=False out {TO_CHECK}"
    with addressing_command_line():
        printed = " ".join(str(be.forecast(unclear, check=False)).split())
    assert f"note: {SAID}; leave --no-check out {TO_CHECK}" in printed
    assert not any("includes 0" in note for note in be.forecast(clear, check=False).notes)

    def refused(*_: object) -> None:
        raise DesignError("not available")

    # Where no check can be made, none is advised.
    monkeypatch.setattr("bayeseval.forecasting.run.restore_design", refused)
    notes = be.forecast(unclear).notes
    assert "no check of the forecasts: not available" in notes and notes[-1] == SAID
    # The page of a folder with a forecast says it too, unless there is a check.
    tables = {"forecast": made.table, "covariates": covariates_table(unclear.data)}
    facts = Facts({}, tables, unit="", language_names={}, observed=None)
    assert _of_forecasts(facts) == f"T{SAID[1:]}."
    checked = replace(facts, tables={**tables, "forecast_check": made.table})
    assert _of_forecasts(checked) == ""


def test_several_slopes_are_named_and_those_of_models_are_not(unclear: be.Fit) -> None:
    table = covariates_table(unclear.data)
    assert unclear_slopes(pd.concat([table, table.assign(covariate="speakers")])) == (
        "the 95 % intervals of the slopes of mexa and speakers include 0, so these covariates may "
        "not help"
    )
    assert unclear_slopes(table.assign(by="model")) == unclear_slopes(table.iloc[:0]) == ""
