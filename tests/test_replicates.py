"""Replicates from table to results: sds, aggregates, other forms of the same data, MEGA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayeseval
from bayeseval import names
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines._density import random_point
from bayeseval.estimands import model_components_table
from bayeseval.records import Records, reduce_replicates
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests import replicate_tables as tables
from tests.replicate_checks import AGGREGATES, between, outside, p_above, resampled, shrunken

SHAPE = {"n_languages": 12, "n_tasks": 1, "n_models": 4, "observed_share": 1.0}
PAIR = ("m0", "m3")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Four models on twelve languages, with sds as large as those of arXiv:2509.22612's XQuAD."""
    rng = np.random.default_rng(11)
    drawn = simulate(
        "additive", seed=5, intercept=40.0, sds={"sd_language": 7.0, "sd_residual": 6.0}, **SHAPE
    )
    keep = drawn.records.table[list(names.FACTORS)].astype(str)
    score = drawn.records.table["score"].to_numpy().copy()
    # Two models a fraction of an sd apart, one of them less even over the languages.
    first, last = (keep["model"] == m for m in PAIR)
    score[last] = 40.0 + 0.66 * (score[last] - score[last].mean())
    score[first] += 40.5 - score[first].mean()
    score = np.maximum(score, 5.0)
    n = len(score)
    return keep.assign(
        score=score,
        seed_sd=0.7 * np.sqrt(rng.chisquare(4, size=n) / 4.0) * np.exp(0.2 * rng.normal(size=n)),
        boot_sd=rng.uniform(0.8, 1.2, size=n),
        n_seeds=5,
    )


@pytest.fixture(scope="module")
def records(table: pd.DataFrame) -> Records:
    return Records.from_frame(table, name="like-xquad", units=(0, 100))


def test_not_pooled_a_fit_is_parametric_resampling(records: Records, table: pd.DataFrame) -> None:
    fit = bayeseval.fit(
        records, {"name": "x", "replicates": {"pool": False}}, engine="marginal", draws=1000
    )
    ours, theirs = p_above(fit, PAIR), resampled(table, PAIR)
    assert set(ours) == set(AGGREGATES)
    # Two of the three are undecided, and they disagree: something to get wrong.
    assert 0.05 < theirs["geometric_mean"] < 0.2
    assert 0.8 < theirs["arithmetic_mean"] < 0.95
    for name, p in ours.items():
        assert p == pytest.approx(theirs[name], abs=0.02), name
    # Negative control: test-set noise averaged away over bootstraps.
    wrong = resampled(table, PAIR, boots=0.0)
    assert max(abs(p - wrong[name]) for name, p in ours.items()) > 0.02
    means = fit.data["estimands"].to_dataset()["cell_mean"]
    sd = np.sqrt(table["seed_sd"] ** 2 / 5 + table["boot_sd"] ** 2).to_numpy()
    n = means.sizes["chain"] * means.sizes["draw"]
    error = means.mean(("chain", "draw")).values - table["score"].to_numpy()
    assert np.abs(error / sd).max() < 5.0 / np.sqrt(n)
    spread = means.std(("chain", "draw")).values / sd
    assert np.abs(spread - 1.0).max() < 5.0 / np.sqrt(2 * n)


def test_pooled_sds_lie_between_raw_ones_and_the_average(
    records: Records, table: pd.DataFrame
) -> None:
    fit = bayeseval.fit(records, "replicates", engine="numpyro", chains=2, draws=800, tune=600)
    gaps = between(fit, table)
    assert list(gaps.index) == ["m0", "m1", "m2", "m3"]
    # Without pooling sqrt(sd^2 + v) would be 0.2 above the least plain sd here.
    assert gaps["gap"].abs().max() < 0.3
    cells = shrunken(fit, table)
    assert len(cells) == 48
    # Monte-Carlo errors of two means of 1,600 draws with sds near 0.15.
    assert outside(cells, slack=0.02).empty
    # Negative control: raw sds of another cell are not what ours are shrunken from.
    mixed = cells.assign(seed_sd=cells["seed_sd"].to_numpy()[::-1])
    assert len(outside(mixed, slack=0.02)) > 10
    rows = model_components_table(fit.data).set_index(["component", "model"])
    assert {"between", "between_population", "seed", "boot", "within"} <= set(
        rows.index.get_level_values("component")
    )
    boot = table.assign(square=table["boot_sd"] ** 2).groupby("model")["square"].mean() ** 0.5
    for model, sd in boot.items():
        assert rows.loc[("boot", model), "sd_mean"] == pytest.approx(sd, rel=1e-9)


# Two forms of the same data ----------------------------------------------------------------


def _two_forms() -> tuple[Records, Records]:
    """Seeds on the test set at hand in one task, one run's bootstraps in another."""
    seeds, boots = tables.frame("seeds"), tables.frame("boots")
    rows = [
        part.assign(task=task).astype(dict.fromkeys(names.FACTORS, str))
        for part, task in ((seeds[seeds["task"] == "t0"], "a"), (boots[boots["task"] == "t1"], "b"))
    ]
    short = [tables.summarised(rows[0], "seed"), tables.summarised(rows[1], "boot")]
    return (
        Records.from_frame(pd.concat(rows, ignore_index=True), name="rows"),
        Records.from_frame(pd.concat(short, ignore_index=True), name="short"),
    )


def _on_the_test_set_itself(design: Design) -> Design:
    """The same with means that stand on the test set at hand, not on its bootstraps."""
    assert design.replicates is not None
    sources = tuple(
        replace(s, share=np.minimum(s.share, 1.0)) if s.name == "boot" else s
        for s in design.sources
    )
    return replace(design, replicates=replace(design.replicates, sources=sources))


def test_rows_and_their_summary_are_one_density() -> None:
    """The same posterior without Monte-Carlo error: equal at every point."""
    rows, short = (build_design(r, load_spec("additive")) for r in _two_forms())
    assert rows.coords == short.coords
    assert rows.n_records < len(_two_forms()[0])
    rng = np.random.default_rng(1)
    on_boots, rows = rows, _on_the_test_set_itself(rows)
    for _ in range(3):
        point = random_point(rows, rng)
        ours, theirs = (numpyro_engine.log_density(d, point) for d in (rows, short))
        assert set(ours) == set(theirs)
        for name, value in ours.items():
            # sds went through one square root.
            assert value == pytest.approx(theirs[name], rel=1e-9), name
    # Negative control: a mean of six bootstraps has a sixth of their variance on top.
    boot = next(s for s in on_boots.sources if s.name == "boot")
    assert set(boot.share) == {0.0, 1 + 1 / 6}
    found = numpyro_engine.log_density(on_boots, point)
    assert found["score"] != pytest.approx(ours["score"], rel=1e-6)
    # Negative control: one replicate more than there were.
    table = _two_forms()[1].table
    wrong = Records.from_frame(table.assign(n_seeds=table["n_seeds"] + 1), name="wrong")
    found = numpyro_engine.log_density(build_design(wrong, load_spec("additive")), point)
    assert found[names.SQUARES] != pytest.approx(ours[names.SQUARES], rel=1e-3)


# Known truth -----------------------------------------------------------------------------


def test_known_seed_sds_are_covered() -> None:
    """A few tables; `perf/replicate_recovery.py` runs hundreds of all forms."""
    covered, wrong = [], []
    # The forms are given, so that all tables share one compiled program. Four scores say little
    # of a language, and a chain of centred effects can stay where their sd is near zero.
    spec = load_spec({"name": "x", "centring": {"language": "non_centred", "model": "centred"}})
    for seed in range(5):
        drawn = simulate(
            "additive", seed=seed, n_languages=8, n_tasks=1, n_models=4, observed_share=1.0,
            n_seeds=6, sds={"sd_seed_model": 1.0, "sd_log_seed": 0.3, "sd_language": 6.0},
        )  # fmt: skip
        design = build_design(drawn.records, spec)
        settings = SamplerSettings(draws=400, tune=300, chains=1, seed=seed)
        sd = load_engine("numpyro")(design, settings).posterior["sd_seed_cell"][0]
        low, high = np.quantile(sd, [0.025, 0.975], axis=0)
        at = tuple(design.factor_index[f] for f in names.FACTORS)
        truth = drawn.truth["sd_seed_cell"][at]
        covered.append((low <= truth) & (truth <= high))
        wrong.append((low <= 1.6 * truth) & (1.6 * truth <= high))
    n = np.size(covered)
    assert n == 160
    # Five standard errors below 95 %, were the cells independent.
    limit = 0.95 - 5.0 * np.sqrt(0.95 * 0.05 / n)
    assert np.mean(covered) > limit
    assert np.mean(wrong) < limit


# MEGA with standard errors in one task -------------------------------------------------------


def test_standard_errors_of_one_task_move_only_its_languages() -> None:
    table = bayeseval.load("mega").table
    own = table["task"].astype(str) == "xnli:accuracy"
    assert own.sum() == 165
    with_se = Records.from_frame(
        table.assign(se=np.where(own, 6.0, np.nan)), name="mega-se", units=(0, 100)
    )
    plain = bayeseval.fit("mega", "additive", draws=500)
    noisy = bayeseval.fit(with_se, "additive", draws=500)
    assert noisy.data["posterior"].attrs["engine"] == "marginal"
    before, after = (f.potential(detail=True).set_index("language") for f in (plain, noisy))
    moved = ((after["potential_mean"] - before["potential_mean"]) / before["potential_sd"]).abs()
    there = moved.index.isin(set(table["language"][own].astype(str)))
    assert (there.sum(), len(there)) == (15, 53)
    # Posterior sds; Monte-Carlo errors of 2,000 draws are 0.02 of one.
    assert moved[~there].max() < 0.1
    # Negative control: languages of the task with errors do move.
    assert moved[there].max() > 0.15
    sds = noisy.components(detail=True).set_index("component")["sd_mean"]
    assert "known_se" in sds
    assert "known_se" not in set(plain.components(detail=True)["component"])
    kept = ["language", "task", "model", "residual"]
    ratio = sds[kept] / plain.components(detail=True).set_index("component")["sd_mean"][kept]
    assert ratio.to_numpy() == pytest.approx(np.ones(4), abs=0.02)
    assert reduce_replicates(with_se).has_replicates is False
