"""The density of replicates: two backends, and the dense normal density of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from bayeseval import names
from bayeseval.design import Design
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines.base import noise_variance, pointwise_log_likelihood
from bayeseval.records import Records
from tests import replicate_tables as tables

# The two backends order their sums differently; see test_density.
REL = 1e-8

Point = Mapping[str, npt.NDArray[np.float64]]


@pytest.mark.parametrize(
    ("kind", "centred"),
    [(kind, True) for kind in (*tables.ROWS, *tables.SUMMARIES, "mixed")]
    + [(kind, False) for kind in ("unbalanced", "both with numbers", "single runs")],
)
def test_backends_agree(kind: str, centred: bool) -> None:
    design = tables.design(kind, spec="additive" if centred else "replicates")
    design = _with_form(design, centred=centred)
    rng = np.random.default_rng(3)
    density = pymc_engine.density_function(design)
    for _ in range(4):
        point = random_point(design, rng)
        ours, theirs = density(point), numpyro_engine.log_density(design, point)
        extra = _replicate_parts(design)
        assert set(ours) == set(theirs) == {*sampled_variables(design), "score", *extra}
        for name, value in ours.items():
            assert value == pytest.approx(theirs[name], rel=REL), name
        likelihood = pointwise_log_likelihood(design, to_posterior(design, point)).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=REL)


def _with_form(design: Design, *, centred: bool) -> Design:
    if design.replicates is None:
        return design
    sources = tuple(replace(s, centred=centred) for s in design.sources)
    return replace(design, replicates=replace(design.replicates, sources=sources))


def _replicate_parts(design: Design) -> set[str]:
    parts = set()
    if design.replicates is not None and len(design.replicates.squares):
        parts.add(names.SQUARES)
    if design.replicates is not None and design.replicates.unbalanced is not None:
        parts.add(names.UNBALANCED)
    return parts


@pytest.mark.parametrize("kind", ["crossed", "mixed"])
def test_the_form_of_the_log_sds_does_not_change_the_model(kind: str) -> None:
    design = tables.design(kind)
    centred, offsets = (_with_form(design, centred=c) for c in (True, False))
    point = random_point(offsets, np.random.default_rng(8))
    other: dict[str, Any] = dict(point)
    jacobian = 0.0
    for source, twin in zip(offsets.sources, centred.sources, strict=True):
        spread = point[names.source_log_sd(source.name)]
        centre = np.log(point[names.source_model_sd(source.name)])[source.model]
        other[twin.drawn] = centre + spread * other.pop(source.drawn)
        jacobian += source.n_cells * np.log(spread)
    assert offsets.sources[0].drawn not in other
    first = sum(numpyro_engine.log_density(offsets, point).values())
    second = sum(numpyro_engine.log_density(centred, other).values())
    # Sums of some hundred terms in another order.
    assert second + jacobian == pytest.approx(first, rel=1e-10)


def dense_log_density(records: Records, design: Design, posterior: Point) -> float:
    """All contrasts among the rows of every cell, from their dense covariance."""
    table = records.table
    total = 0.0
    codes = np.stack([records.codes(f) for f in names.FACTORS])
    for i in range(design.n_records):
        own = np.stack([design.factor_index[f][i] for f in names.FACTORS])
        rows = table[(codes == own[:, None]).all(axis=0)]
        variance = dict.fromkeys(names.RUN_SOURCES, 0.0)
        for source in design.sources:
            if source.share[i] > 0.0:
                cell = posterior[names.source_cell_sd(source.name)][source.of_record[i]]
                variance[source.name] = float(cell**2)
        if len(rows) < 2:
            continue
        # The test set at hand moves all rows alike, and all rows of a seed.
        covariance = variance["seed_boot"] * np.eye(len(rows)) + variance["boot"]
        between = {"seed": variance["seed"] + variance["seed_boot"], "boot": variance["boot"]}
        for source, value in between.items():
            if source in rows and not rows[source].isna().any():
                same = rows[source].to_numpy()
                covariance += value * (same[:, None] == same)
        total += tables.contrasts_log_density(rows["score"].to_numpy(), covariance)
    return total


def _gap(records: Records, design: Design, point: Point, *, dense: Design | None = None) -> float:
    found = numpyro_engine.log_density(design, point)
    ours = sum(found[name] for name in _replicate_parts(design))
    return ours - dense_log_density(records, dense or design, to_posterior(design, point))


def _without_summaries() -> Records:
    """`mixed` without the task that has no rows of its own."""
    table = tables.mixed().table
    return Records.from_frame(table[table["task"].astype(str) != "t2"], name="rows")


@pytest.mark.parametrize("kind", [*tables.ROWS, "mixed", "single runs"])
def test_the_density_of_the_squares_is_that_of_all_rows(kind: str) -> None:
    records = _without_summaries() if kind == "mixed" else tables.records(kind)
    design = tables.design(records)
    rng = np.random.default_rng(5)
    points = [random_point(design, rng) for _ in range(4)]
    gaps = [_gap(records, design, point) for point in points]
    size = [dense_log_density(records, design, to_posterior(design, p)) for p in points]
    # The parameters move the density; the gap is the constant of the reduction.
    assert np.ptp(size) > 5.0
    assert np.ptp(gaps) < 1e-8 * np.abs(size).max()
    if kind == "unbalanced":
        assert design.replicates is not None
        assert design.replicates.unbalanced is not None
        assert len(design.replicates.unbalanced) > 10


@pytest.mark.parametrize("source", ["seed", "boot"])
def test_a_forgotten_product_is_seen(source: str) -> None:
    """Negative control: without omega^2 in a mean square the gap varies."""
    records = tables.records("crossed")
    design = tables.design(records)
    replicates = design.replicates
    assert replicates is not None
    wrong = dict(replicates.weight)
    others = replicates.weight[source] > 0.0
    wrong["seed_boot"] = np.where(others, 0.0, wrong["seed_boot"])
    broken = replace(design, replicates=replace(replicates, weight=wrong))
    rng = np.random.default_rng(5)
    gaps = [_gap(records, broken, random_point(design, rng)) for _ in range(4)]
    assert np.ptp(gaps) > 0.5


def test_bootstraps_as_draws_from_the_population_are_seen() -> None:
    """Negative control: omega^2 / B between seeds, as if each boot were a new test set."""
    records = tables.records("crossed")
    design = tables.design(records)
    replicates = design.replicates
    assert replicates is not None
    seeds = replicates.weight["seed"] > 0.0
    wrong = dict(replicates.weight)
    assert set(wrong["seed_boot"][seeds]) == {1 + 1 / 5}
    wrong["seed_boot"] = np.where(seeds, 1 / 5, wrong["seed_boot"])
    broken = replace(design, replicates=replace(replicates, weight=wrong))
    rng = np.random.default_rng(5)
    gaps = [_gap(records, broken, random_point(design, rng)) for _ in range(4)]
    assert np.ptp(gaps) > 0.5


def test_the_noise_of_means_by_hand() -> None:
    design = tables.design("crossed")
    posterior = to_posterior(design, random_point(design, np.random.default_rng(2)))
    sd = {s: posterior[names.source_cell_sd(s)] for s in names.RUN_SOURCES}
    by_hand = (sd["seed"] ** 2 + 1.2 * sd["seed_boot"] ** 2) / 3 + 1.2 * sd["boot"] ** 2
    assert [len(sd[s]) for s in names.RUN_SOURCES] == [design.n_records] * 3
    assert noise_variance(design, posterior) == pytest.approx(by_hand, rel=1e-14)
    averaged = sd["seed"] ** 2 / 3 + sd["boot"] ** 2 / 5 + sd["seed_boot"] ** 2 / 15
    assert not np.allclose(noise_variance(design, posterior), averaged, rtol=0.1)


def test_the_noise_of_means_in_a_mixed_table() -> None:
    design = tables.design("mixed")
    posterior = to_posterior(design, random_point(design, np.random.default_rng(2)))
    noise = noise_variance(design, posterior)
    task = np.array(design.coords["task"])[design.factor_index["task"]]
    seed = {s.name: s for s in design.sources}["seed"]
    sd = posterior["sd_seed_cell"][seed.of_record]
    for kind in ("t1", "t2"):
        own = task == kind
        assert own.sum() >= 4
        # Seeds alone: three of them, and nothing is known about test sets.
        assert noise[own] == pytest.approx(sd[own] ** 2 / 3, rel=1e-14)
    assert (noise[task == "t3"] == 0.0).all()
    assert design.se is not None
    assert (design.se[task == "t3"] == 1.5).all()
    assert (design.se[task != "t3"] == 0.0).all()


def test_the_scores_density_has_residual_noise_and_known_errors() -> None:
    design = tables.design("mixed")
    point = random_point(design, np.random.default_rng(4))
    posterior = to_posterior(design, point)
    eta = np.full(design.n_records, float(posterior["intercept"]))
    for factor in names.FACTORS:
        eta += posterior[f"{factor}_effect"][design.factor_index[factor]]
    assert design.se is not None
    variance = float(posterior["sd_residual"]) ** 2 + design.se**2
    expected = stats.norm.logpdf(
        design.score, eta, np.sqrt(variance + noise_variance(design, posterior))
    ).sum()
    assert numpyro_engine.log_density(design, point)["score"] == pytest.approx(expected, rel=REL)
    without = stats.norm.logpdf(design.score, eta, np.sqrt(variance)).sum()
    assert without != pytest.approx(expected, rel=1e-3)


def test_log_sds_are_normal_about_the_models_typical_one() -> None:
    design = _with_form(tables.design("seeds"), centred=True)
    point = random_point(design, np.random.default_rng(6))
    (source,) = design.sources
    centre = np.log(point["sd_seed_model"][source.model])
    expected = stats.norm.logpdf(point[source.drawn], centre, point["sd_log_seed"]).sum()
    found = numpyro_engine.log_density(design, point)
    assert found[source.drawn] == pytest.approx(expected, rel=REL)
    squares = stats.gamma.logpdf(
        design.replicates.squares,
        design.replicates.df / 2.0,
        scale=2.0 * np.exp(2.0 * point[source.drawn]),
    ).sum()
    assert found[names.SQUARES] == pytest.approx(squares, rel=REL)
