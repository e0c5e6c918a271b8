"""The shipped benchmark end to end: what the truth looks like, from exact to sampled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import optimize, stats

from bayeseval import Fit, fit, load
from bayeseval.design import Design, build_design
from bayeseval.records import Records
from bayeseval.spec import load_spec
from tests.helpers import assert_within_mcse
from tests.mega_ranking import check_ranking
from tests.reference_posteriors import distances, far

Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def records() -> Records:
    return load("mega")


@pytest.fixture(scope="module")
def additive(records: Records) -> Fit:
    return fit(records, "additive", engine="numpyro", seed=0, chains=2)


@pytest.fixture(scope="module")
def paper(records: Records) -> Fit:
    return fit(records, "paper", engine="numpyro", seed=0)


@pytest.fixture(scope="module")
def published(records: Records) -> Fit:
    return fit(records, "paper", engine="ml")


def exact_sds(design: Design) -> tuple[Floats, Floats]:
    """Posterior means of an additive model's sds, and their Monte-Carlo errors.

    Independent of every engine: the effects are integrated out in closed form on
    dense matrices, the four log sds by importance sampling from a Student-t at
    the mode.
    """
    score = design.score - design.score.mean()
    n, sd_score = len(score), design.score.std(ddof=1)
    columns, sizes = [np.ones((n, 1))], []
    for term in design.terms:
        k = term.n_levels
        contrasts = np.linalg.svd(np.eye(k) - 1.0 / k)[0][:, : k - 1]
        columns.append(np.eye(k)[term.index] @ contrasts)
        sizes.append(k - 1)
    x = np.hstack(columns)
    xx, xy, yy = x.T @ x, x.T @ score, float(score @ score)

    def log_posterior(phi: Floats) -> float:
        sds = np.exp(phi)
        scale = np.concatenate([[2.5 * sd_score], np.repeat(sds[:3], sizes)])
        noise = sds[3] ** 2
        lower = np.linalg.cholesky(np.eye(len(scale)) + scale[:, None] * xx * scale / noise)
        half = np.linalg.solve(lower, scale * xy / noise)
        likelihood = -0.5 * (yy / noise - half @ half) - np.log(np.diag(lower)).sum() - n * phi[3]
        return float(likelihood + stats.halfnorm(scale=sd_score).logpdf(sds).sum() + phi.sum())

    mode = optimize.minimize(lambda p: -log_posterior(p), np.log([10.0, 15.0, 11.0, 11.0])).x
    step = 1e-3
    slopes = [
        (
            optimize.approx_fprime(mode + step * e, log_posterior, 1e-5)
            - optimize.approx_fprime(mode - step * e, log_posterior, 1e-5)
        )
        / (2 * step)
        for e in np.eye(4)
    ]
    proposal = stats.multivariate_t(
        mode, 1.2 * np.linalg.inv(-(np.array(slopes) + np.array(slopes).T) / 2), df=7, seed=1
    )
    points = proposal.rvs(6000)
    log_weight = np.array([log_posterior(p) for p in points]) - proposal.logpdf(points)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    sds = np.exp(points)
    mean = weight @ sds
    return mean, np.sqrt((weight**2) @ (sds - mean) ** 2)


def test_the_sds_of_the_additive_model_are_the_exact_ones(records: Records, additive: Fit) -> None:
    assert additive.gate.status == "pass"
    exact, error = exact_sds(build_design(records, load_spec("additive")))
    # The exact values, in the digits that are certain (see also the closing note of
    # the issue: the orientation figure of 11.38 for the residual is not one of them).
    assert exact == pytest.approx([10.15, 16.5, 12.15, 11.29], abs=0.15)
    posterior = additive.data["posterior"].dataset
    for name, value, mcse in zip(
        ("sd_language", "sd_task", "sd_model", "sd_residual"), exact, error, strict=True
    ):
        draws = posterior[name].to_numpy()
        # Both sides have a Monte-Carlo error; ours is the smaller one.
        assert mcse < 0.02 * value
        assert_within_mcse(draws, value, min_ess=400, n_mcse=5 + 5 * mcse / (draws.std() / 40))
    with pytest.raises(AssertionError):
        assert_within_mcse(posterior["sd_residual"].to_numpy(), 11.38, min_ess=400)


def test_the_paper_model_lands_on_the_maximum_likelihood_potentials(
    paper: Fit, published: Fit, additive: Fit
) -> None:
    assert paper.gate.status == "pass"
    draws = paper.data["posterior"]["language_potential"]
    exact = published.data["posterior"]["language_potential"].squeeze()
    assert draws["language"].to_numpy().tolist() == exact["language"].to_numpy().tolist()
    from arviz_stats.base import array_stats

    values = draws.transpose("language", "chain", "draw").to_numpy()
    mcse = array_stats.mcse(values, chain_axis=1, draw_axis=2)
    # 0.1 points: the prior of the intercept and of the sds is proper, the
    # published estimate has none.
    distance = np.abs(values.mean(axis=(1, 2)) - exact.to_numpy())
    assert (distance < 5.0 * mcse + 0.1).all(), distance.max()
    # Negative control: pooled potentials do not, Wolof is pulled towards the rest.
    wolof = additive.data["posterior"]["language_potential"].sel(language="wo").to_numpy()
    away = abs(float(wolof.mean()) - float(exact.sel(language="wo")))
    assert away > 5.0 * float(mcse.max()) + 0.1


def test_nuts_gives_the_reference_posteriors(additive: Fit, paper: Fit) -> None:
    for model, result in (("additive", additive), ("paper", paper)):
        # Not quantiles: of runs this short, their errors are guesses.
        beyond = far(distances(result, "mega", model, estimates=("mean", "sd")))
        assert beyond.empty, beyond.to_string()
    # Negative control: with other priors of languages and tasks it is another posterior.
    other = far(distances(additive, "mega", "paper", estimates=("mean",)))
    assert (other.index.get_level_values("quantity") == "language_potential").sum() > 20


def test_pooling_pulls_a_thin_language_in(additive: Fit, published: Fit) -> None:
    pooled = additive.potential(detail=True).set_index("language")["potential_mean"]
    alone = published.potential(detail=True).set_index("language")["potential_mean"]
    assert pooled["wo"] > alone["wo"] + 5.0
    assert abs(pooled["en"] - alone["en"]) < 1.0


def test_the_published_table_is_in_the_ml_result(published: Fit, tmp_path: Path) -> None:
    folder = published.save(tmp_path / "ml", figures=False)
    ours = pd.read_csv(folder / "tables" / "language_potential.csv").set_index("language")
    table = pd.read_csv(Path(__file__).parent / "reference" / "mega_table2.csv").set_index(
        "language"
    )
    assert len(table) == 53
    difference = (ours["published_potential"] - table["potential"]).abs()
    assert difference.max() < 0.015
    # A point estimate ranks nobody; its order is the published one.
    assert ours["rank_median"].isna().all()
    order = ours["published_potential"].rank(ascending=False)
    assert (order.loc[table.index] == table["rank_potential"]).all()
    constant = ours["published_potential"] - ours["potential_mean"]
    assert constant.to_numpy() == pytest.approx(np.full(53, 1.6256), abs=1e-4)


def test_table_1_is_in_the_ml_result(published: Fit) -> None:
    ours = published.disparity(detail=True).set_index("model")
    table = pd.read_csv(Path(__file__).parent / "reference" / "mega_table1.csv").set_index("model")
    assert set(ours.index) == set(table.index)
    for quantity in table.columns:
        # Half a unit of the published digits.
        difference = (ours[f"{quantity}_mean"] - table[quantity]).abs()
        assert difference.max() < 0.00501, quantity
    assert not [column for column in ours.columns if "rank" in column or column.startswith("p_")]


# The larger model, which `auto` takes, has its first table checked in test_readme.py.
def test_the_first_table_is_full(additive: Fit) -> None:
    ranking = check_ranking(additive)
    # Nothing in the model tells how even a model is over languages.
    assert ranking["gap_sd_languages_mean"].isna().all()


# Score, PRR with interval and rank interval, from a script that shares no code with this
# package's estimands; the intervals of scores to a point, of ratios to 0.02.
CROSSED = {
    "TuLRv6 - XXL": (79.0, 1.32, 1.22, 1.41, 1, 2),
    "XLM-R Large": (69.0, 1.15, None, None, 2, 4),
    "gpt-4-32k (TT)": (68.4, 1.14, 0.98, 1.30, 1, 8),
    "MuRIL": (68.2, 1.14, 0.93, 1.35, 1, 9),
    "gpt-4-32k": (63.4, 1.06, None, None, 3, 6),
    "text-davinci-003": (45.1, 0.75, None, None, 12, 13),
    "XGLM": (42.2, 0.70, None, None, 12, 13),
}


def check_crossed(ranking: pd.DataFrame) -> None:
    for model, (score, prr, lower, upper, first, last) in CROSSED.items():
        row = ranking.loc[model]
        assert row["score_mean"] == pytest.approx(score, abs=0.4), model
        assert row["prr_mean"] == pytest.approx(prr, abs=0.011), model
        if lower is not None:
            assert row["prr_lower"] == pytest.approx(lower, abs=0.02), model
            assert row["prr_upper"] == pytest.approx(upper, abs=0.02), model
        assert row["rank_lower"] == first, model
        assert abs(row["rank_upper"] - last) <= 1, model
    even = ranking["gap_sd_languages_mean"]
    # The least even three; the page's 6.2, 6.8 and 7.2 are before the mean over models goes.
    assert set(even.nlargest(3).index) == {"BLOOMZ", "text-davinci-003", "XLM-R Large"}
    others = even.drop(["BLOOMZ", "text-davinci-003", "XLM-R Large"])
    assert others.between(4.5, 5.4).all()


def fit_with_the_defaults_of_xla(spec: str, folder: Path) -> Fit:
    """In a process of its own: long runs of NUTS are slower with the flags of conftest.py."""
    command = [sys.executable, "-m", "bayeseval", "fit", "--benchmark", "mega", "--model", spec]
    command += ["--chains", "2", "--no-figures", "--no-checks", "--quiet", "--out", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    subprocess.run(command, env=environment, check=True)
    return Fit.open(folder)


@pytest.mark.parametrize("spec", ["interaction", "crossed", "robust"])
def test_larger_models_pass_the_gate(spec: str, records: Records, tmp_path: Path) -> None:
    # The first two are integrated out; that NUTS says the same is tested where the
    # marginal engine is. The third needs NUTS, whose chains are the slowest of all tests.
    if spec == "robust":
        result = fit_with_the_defaults_of_xla(spec, tmp_path / "robust")
    else:
        result = fit(records, spec, seed=0, chains=2)
    ranking = check_ranking(result)
    if spec == "crossed":
        check_crossed(ranking)
        described = result.disparity(detail=True)
        assert described["mean_prr_mean"].notna().all()
        left_out = json.loads(result.data["posterior"]["mean_prr"].attrs["left_out"])
        assert left_out == ["ja|panx:f1", "or|indicqa:exact_match", "th|panx:f1"]
        assert set(described["n_pairs_left_out"]) == {3}
    assert result.run["engine"] == ("numpyro" if spec == "robust" else "marginal")
    assert result.gate.status == "pass"
    components = result.components(detail=True).set_index("component")["sd_mean"]
    # Orientation: the sizes that several runs agree on, to a few Monte-Carlo errors.
    expected = {
        "interaction": {"language:task": 6.1, "residual": 10.2},
        "crossed": {
            "language:task": 7.2,
            "model:task": 7.1,
            "model:language": 5.6,
            "residual": 5.9,
        },
        "robust": {"language:task": 6.7, "model:task": 8.0, "model:language": 3.6},
    }[spec]
    for name, value in expected.items():
        assert components[name] == pytest.approx(value, abs=0.15), name
