"""Known truth from items: the sds of one run and of the mean of five, against exact values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines.base import to_tree
from bayeseval.estimands import derive
from bayeseval.estimands.noise import read_noise
from bayeseval.records import item_variance, reduce_replicates
from bayeseval.spec import load_spec
from tests.simulated_items import Floats, ItemBench, records_of

BOOTS = 20


def test_the_exact_variances_of_runs_and_means() -> None:
    """Brute force: two thousand fresh test sets, each with five fresh runs."""
    n = 2_000
    bench = ItemBench(n_models=1, n_languages=n, n_items=60, seed_sd=0.2)
    ability = np.full((1, n), 0.4)
    scores = 100.0 * bench.answers(ability, np.random.default_rng(1)).mean(axis=-1)[0]
    truth = {name: float(values[0, 0]) for name, values in bench.variances(ability).items()}
    # All three matter, so that none can be forgotten.
    assert min(truth.values()) > 0.2 * sum(truth.values())
    five_ses = 5.0 * np.sqrt(2.0 / n)
    assert scores[:, 0].var(ddof=1) / sum(truth.values()) == pytest.approx(1.0, abs=five_ses)
    of_mean = (truth["seed"] + truth["seed_boot"]) / 5 + truth["boot"]
    assert scores.mean(axis=1).var(ddof=1) / of_mean == pytest.approx(1.0, abs=five_ses)
    # Negative control: runs on test sets of their own.
    assert scores.mean(axis=1).var(ddof=1) / (sum(truth.values()) / 5) > 1.0 + five_ses


def test_mean_squares_of_simulated_items() -> None:
    """What the formulas say of seeds on one test set, without any normal distribution."""
    n = 400
    # Nothing shared by models, so that all cells are independent.
    bench = ItemBench(n_languages=n // 2, n_items=100, seed_sd=0.2, common_sd=0.0, own_sd=1.2)
    rng = np.random.default_rng(2)
    ability = np.full((2, n // 2), 0.4)
    answers = bench.answers(ability, rng)
    truth = {name: float(values[0, 0]) for name, values in bench.variances(ability).items()}
    boots = reduce_replicates(records_of(bench.rows_by_boot(answers, 4, rng)))
    whole = records_of(bench.rows_by_item(answers))
    items = reduce_replicates(whole)
    by_item = item_variance(whole, items)
    assert by_item is not None
    seed, boot, both = (truth[name] for name in ("seed", "boot", "seed_boot"))
    # A bootstrap of n items has (n - 1) / n of the variance.
    left = 99 / 100
    for found, expected in (
        (boots.seed.mean_square, seed + both * (1 + left / 4)),
        (boots.boot.mean_square, left * (boot + both / 5)),
        (boots.cross.mean_square, left * both),
        (items.seed.mean_square, seed + both),
        (items.cross.mean_square, both),
        (by_item.se**2, boot + both / 5),
    ):
        error = found.std(ddof=1) / np.sqrt(n)
        assert abs(found.mean() - expected) < 5.0 * error
    # Negative control: bootstraps as draws from all test sets there might be.
    error = boots.seed.mean_square.std(ddof=1) / np.sqrt(n)
    assert boots.seed.mean_square.mean() > seed + both / 4 + 5.0 * error


def _sds(design: Design, *, seed: int) -> Floats:
    """Posterior means by model of the sds of one run and of five, root mean square of cells."""
    settings = SamplerSettings(draws=400, tune=400, chains=1, seed=seed)
    posterior = load_engine("numpyro")(design, settings).posterior
    part = {s.name: posterior[f"sd_{s.name}_cell"][0] ** 2 for s in design.sources}
    return _runs_and_means(part, design.factor_index["model"])


def _runs_and_means(part: Mapping[str, Floats], model: np.ndarray) -> Floats:
    run = part["seed"] + part["boot"] + part["seed_boot"]
    five = (part["seed"] + part["seed_boot"]) / 5 + part["boot"]
    by_model = [
        [np.sqrt(v[:, model == m].mean(axis=1)).mean() for m in (0, 1)] for v in (run, five)
    ]
    return np.array(by_model)


def _in_one_form(design: Design) -> Design:
    """The same model in one parametrisation: one compiled program serves all tables."""
    assert design.replicates is not None
    sources = tuple(replace(s, centred=s.name != "seed") for s in design.sources)
    return replace(design, replicates=replace(design.replicates, sources=sources))


def _without_the_test_set_at_hand(design: Design) -> Design:
    """The seeds' mean square as sigma^2 + omega^2 / B."""
    assert design.replicates is not None
    weight = dict(design.replicates.weight)
    weight["seed_boot"] = np.where(
        design.replicates.weight["seed"] > 0.0, 1.0 / BOOTS, weight["seed_boot"]
    )
    return replace(design, replicates=replace(design.replicates, weight=weight))


def test_sds_of_runs_and_means_are_recovered_from_items() -> None:
    """32 cells of each of two models; `perf/item_recovery.py` has more tables and forms."""
    ratios, wrong = [], []
    for seed in range(4):
        bench, rng = ItemBench(), np.random.default_rng(seed)
        ability = bench.ability(rng)
        rows = bench.rows_by_boot(bench.answers(ability, rng), BOOTS, rng)
        design = _in_one_form(build_design(records_of(rows), load_spec("additive")))
        # Cells are in the order of their labels within a model, and means do not mind it.
        truth = bench.variances(ability)
        flat = {name: values.reshape(1, -1) for name, values in truth.items()}
        exact = _runs_and_means(flat, np.repeat([0, 1], bench.n_languages))
        ratios.append(_sds(design, seed=seed) / exact)
        if seed < 2:
            wrong.append(_sds(_without_the_test_set_at_hand(design), seed=seed) / exact)
    run, five = np.mean(ratios, axis=(0, 2))
    # Four tables have standard errors near 1.5 % of the one and 1 % of the other.
    assert run == pytest.approx(1.0, abs=0.05)
    assert five == pytest.approx(1.0, abs=0.05)
    # Negative control: the interaction counted twice.
    run, five = np.mean(wrong, axis=(0, 2))
    assert run > 1.15
    assert five > 1.05


def _draws(design: Design, *, seed: int) -> tuple[Floats, Floats]:
    """First table's scores, shape (draws, models), and sds of model:language where there is one."""
    found = load_engine("marginal")(design, SamplerSettings(draws=400, chains=1, seed=seed))
    additions, _ = derive(to_tree(design, found, engine="marginal"), seed=seed)
    scores = additions["standardised_score"].transpose("chain", "draw", "model").to_numpy()[0]
    return scores, found.posterior.get("sd_model_language", np.zeros((1, 1)))[0]


def test_numbers_of_items_beside_seeds_tell_models_apart() -> None:
    """One task, four seeds on the same 1,000 items for all models of a language."""
    # Items differ much and runs little: omega^2, counted twice, is a fifth of p (1 - p) / n.
    bench = ItemBench(
        n_models=6, n_languages=20, n_seeds=4, n_items=1000, seed_sd=0.05, common_sd=1.0, own_sd=4.0
    )
    plain = {"name": "plain", "replicates": {"pool": False}}
    uneven = plain | {"name": "uneven", "interactions": ["model:language"]}
    z, ratio, sds, wide = [], [], [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ability = 2.0 * bench.ability(rng)
        rows = bench.rows_by_seed(bench.answers(ability, rng))
        truth = bench.expected(ability)
        gap = truth - truth.mean(axis=0) - truth.mean(axis=1, keepdims=True) + truth.mean()
        scores, unevenness = _draws(build_design(records_of(rows), load_spec(uneven)), seed=seed)
        z.append((scores.mean(axis=0) - truth.mean(axis=1)) / scores.std(axis=0))
        ratio.append(unevenness.mean() / np.sqrt((gap**2).sum() / (5 * 19)))
        sds.append(scores.std(axis=0).mean())
        if seed < 2:
            without = build_design(records_of(rows.drop(columns="n")), load_spec(plain))
            wide.append(_draws(without, seed=seed)[0].std(axis=0).mean())
    # 30 scores; the errors are upper bounds, here 1.1 times too large.
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.15
    assert (np.abs(z) < 2.6).all()
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.07)
    # sqrt((0.7 / 4 + 2.4) / 20)
    assert np.mean(sds) == pytest.approx(0.35, abs=0.05)
    # Negative control: what languages do to models, as if it were noise.
    assert min(wide) > 2.0 * max(sds)


def test_one_run_and_the_mean_of_seeds_beside_numbers_of_items() -> None:
    """Upper bounds by no more than the seed x test-set interaction."""
    bench, rng = ItemBench(n_languages=200, n_seeds=5), np.random.default_rng(3)
    ability = np.full((2, 200), 0.4)
    rows = bench.rows_by_seed(bench.answers(ability, rng))
    design = build_design(
        records_of(rows), load_spec({"name": "plain", "replicates": {"pool": False}})
    )
    found = load_engine("marginal")(design, SamplerSettings(draws=50, chains=1, seed=0))
    noise = read_noise(to_tree(design, found, engine="marginal"))
    assert noise is not None
    assert noise.is_upper_bound.all()
    seed, boot, both = (float(v[0, 0]) for v in bench.variances(ability).values())
    # Mean squares of 400 cells on 4 degrees of freedom each: 3.5 %.
    run, mean = noise.run_variance.mean(), noise.mean_variance.mean()
    assert run == pytest.approx(seed + both + boot + both, rel=0.1)
    assert mean == pytest.approx((seed + both) / 5 + boot + both, rel=0.1)
