"""Every reported quantity of the marginal engine against NUTS on the joint density.

`tests/reference/estimands_mega.csv` is from `make_estimands.py` beside it. The same fits are held
against the reference posteriors of `perf/results/reference/`: sds and quantiles of posteriors too,
marginal likelihoods, and elpds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from arviz_stats import loo

from bayeseval import Fit, fit, load
from bayeseval.spec import load_spec
from tests.reference.make_estimands import SPECS, summarise
from tests.reference_posteriors import distances as from_reference
from tests.reference_posteriors import far, reference

REFERENCE = Path(__file__).parents[1] / "reference" / "estimands_mega.csv"

# Fewer effective draws see nothing; at 5 standard errors a correct program fails once in
# 1.7 million comparisons.
MIN_ESS = 400.0
N_MCSE = 5.0

# Draws of each chain for left-out densities; the reference has 250.
ELPD_DRAWS = 50

# What no table should be without.
EVENNESS = {"gap_sd_languages", "gap_sd_languages_rank", "cv_prr_languages", "worst_language_prr"}
REPORTED = {
    *("intercept", "sd_language", "sd_residual", "language_potential", "language_potential_rank"),
    *("standardised_score", "standardised_score_rank", "prr", *EVENNESS),
    *(f"{what}_prr{tail}" for what in ("mean", "std", "cv") for tail in ("", "_latent_common")),
}

# Not there by the model: language effects of `paper` are fixed, and without a term of models
# and languages there is no evenness. Both engines have to say so.
WITHHELD = {
    "additive": EVENNESS,
    "interaction": EVENNESS,
    "paper": {"sd_language", *EVENNESS},
}


@dataclass(frozen=True, eq=False)
class Found:
    """What is kept of a fit: the draws of four models would not fit into a small machine."""

    beside_nuts: pd.DataFrame
    from_reference: pd.DataFrame
    evidence: tuple[float, float]
    elpd: float | None


@cache
def found(spec: str) -> Found:
    """Fit a model, and compare it."""
    result = fit(load("mega"), spec, engine="marginal", seed=3)
    assert result.run["sampling"]["path"] == "importance"
    return Found(
        beside_nuts=beside_nuts(result, spec),
        from_reference=from_reference(result, "mega", spec),
        evidence=evidence(result),
        elpd=elpd(result) if spec == "additive" else None,
    )


def evidence(result: Fit) -> tuple[float, float]:
    """Log marginal likelihood and its Monte-Carlo standard error."""
    sampling = result.run["sampling"]
    return sampling["log_marginal_likelihood"], sampling["log_marginal_likelihood_se"]


def elpd(result: Fit) -> float:
    """Expected log predictive density of left-out records, from few draws."""
    return float(loo(result.leave_one_out(draws=ELPD_DRAWS)).elpd)


def both(spec: str) -> pd.DataFrame:
    """Reference and marginal engine side by side, one row per scalar quantity."""
    return found(spec).beside_nuts


def beside_nuts(result: Fit, spec: str) -> pd.DataFrame:
    """Means of NUTS and of a fit of the marginal engine."""
    keys = ["variable", "label"]
    reference = pd.read_csv(REFERENCE, keep_default_na=False)
    reference = reference[reference["spec"] == spec].drop(columns="spec")
    numbers = ["mean", "mcse", "ess"]
    # A quantity that never varies, such as a rank, has no effective sample size.
    reference[numbers] = reference[numbers].apply(pd.to_numeric, errors="coerce")
    own = summarise(result.data["posterior"].to_dataset())
    merged = reference.merge(own, on=keys, how="outer", suffixes=("_nuts", ""), indicator=True)
    assert set(merged["_merge"]) == {"both"}, merged[merged["_merge"] != "both"]
    # The effects at one point are independent, the points are counted by their weights.
    merged["ess"] = np.minimum(merged["ess"], result.run["sampling"]["importance_ess"])
    return merged


def distances(table: pd.DataFrame) -> pd.Series:
    """Differences in combined Monte-Carlo standard errors."""
    error = np.hypot(table["mcse_nuts"], table["mcse"])
    # Zero-sum effects and ratios are equal to rounding where neither side varies.
    floor = 1e-5 * table["mean_nuts"].abs() + 1e-9
    return (table["mean"] - table["mean_nuts"]).abs() / (error + floor)


def rarely_moves(table: pd.DataFrame) -> pd.Series:
    """Ranks that hardly ever change: their few jumps give no standard error to rely on."""
    spread = table["mcse_nuts"] * np.sqrt(table["ess_nuts"])
    steady = ~(spread > 0.05)
    return table["variable"].str.endswith("_rank") & steady


@pytest.mark.parametrize("spec", SPECS)
def test_every_reported_quantity_is_that_of_nuts(spec: str) -> None:
    table = both(spec)
    missing = REPORTED - set(table["variable"])
    assert missing == WITHHELD.get(spec, set())
    assert (table["variable"] == "language_potential").sum() == 53
    steady = rarely_moves(table)
    assert steady.mean() < 0.25
    # They must agree all the same, to a tenth of a rank.
    np.testing.assert_allclose(table["mean"][steady], table["mean_nuts"][steady], atol=0.1)
    moving = table[~steady]
    assert moving["ess_nuts"].min() > MIN_ESS
    assert moving["ess"].min() > MIN_ESS
    far = moving[~(distances(moving) < N_MCSE)]
    assert far.empty, far.to_string()


@pytest.mark.parametrize("spec", SPECS)
def test_three_per_cent_in_the_sds_would_be_seen(spec: str) -> None:
    """Negative control."""
    table = both(spec).copy()
    sds = table["variable"].str.startswith("sd_")
    table.loc[sds, "mean"] *= 1.03
    assert distances(table[sds]).max() > N_MCSE


@pytest.mark.parametrize("spec", SPECS)
def test_half_a_point_in_the_potentials_would_be_seen(spec: str) -> None:
    """Negative control: a prior or a contrast that moves potentials a little."""
    table = both(spec).copy()
    potentials = table["variable"] == "language_potential"
    table.loc[potentials, "mean"] += 0.5
    assert (distances(table[potentials]) > N_MCSE).mean() > 0.5


@pytest.mark.parametrize("spec", SPECS)
def test_means_sds_and_quantiles_are_those_of_the_reference(spec: str) -> None:
    table = found(spec).from_reference
    assert len(table) > 80
    assert far(table).empty, far(table).to_string()


@pytest.mark.parametrize("spec", SPECS)
def test_the_evidence_is_that_of_the_reference(spec: str) -> None:
    value, error = found(spec).evidence
    expected = reference("mega", spec)[1]["log_evidence"]
    assert abs(value - expected["value"]) < N_MCSE * np.hypot(error, expected["mcse"])


def test_the_elpd_is_that_of_the_reference() -> None:
    value = found("additive").elpd
    assert value is not None
    expected = reference("mega", "additive")[1]["elpd_loo"]["first"]
    # That of the reference is of 500 draws of each chain.
    limit = N_MCSE * expected["mcse"] * np.sqrt(1.0 + 500 / ELPD_DRAWS)
    assert abs(value - expected["value"]) < limit
    # Negative control: half a record of 1,364 would have been seen.
    assert limit < 0.5 * abs(expected["value"]) / 1364


def test_another_prior_is_far_from_the_reference() -> None:
    """Negative control: a prior of the sd of languages at half the size of its posterior."""
    prior = {"sd_language": {"dist": "half_normal", "scale": 0.25}}
    spec = load_spec({**load_spec("additive").to_dict(), "priors": prior})
    result = fit(load("mega"), spec, engine="marginal", seed=3)
    beyond = far(from_reference(result, "mega", "additive"))
    assert "sd_language" in beyond.index.get_level_values("quantity")
    value, error = evidence(result)
    expected = reference("mega", "additive")[1]["log_evidence"]
    assert abs(value - expected["value"]) > N_MCSE * np.hypot(error, expected["mcse"])
