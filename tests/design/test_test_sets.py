"""Shared test items: the noise of the design is the sampling covariance of the cell means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeseval.design import Design, build_design
from bayeseval.design.cell_variances import by_margins
from bayeseval.design.test_sets import _subtract
from bayeseval.engines import load_engine, marginal
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import (
    inverse_mass,
    random_point,
    sampled_variables,
    start_point,
    to_posterior,
)
from bayeseval.engines.base import Draws, SamplerSettings, to_tree
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.noise import cell_means, read_noise
from bayeseval.records import Records, boot_variance, item_variance, reduce_replicates
from bayeseval.spec import load_spec

MODELS, LANGUAGES, TASKS, ITEMS = 4, 5, 2, 40


def items_table(*, seed: int = 0, n_seeds: int = 0) -> Records:
    """0/1 outcomes; items are harder or easier for all, for a language and for a model."""
    rng = np.random.default_rng(seed)
    ability = np.linspace(-0.5, 1.0, MODELS)
    ease = rng.normal(0.0, 0.5, LANGUAGES)
    rows = []
    for t in range(TASKS):
        common, by_model = rng.normal(0.0, 1.0, ITEMS), rng.normal(0.0, 0.7, (MODELS, ITEMS))
        for lang in range(LANGUAGES):
            by_language = rng.normal(0.0, 0.7, ITEMS)
            for m in range(MODELS):
                latent = ability[m] + ease[lang] + common + by_language + by_model[m]
                for s in range(max(n_seeds, 1)):
                    right = latent + rng.normal(0.0, 1.0, ITEMS) > 0.0
                    labels = (f"m{m}", f"l{lang}", f"t{t}")
                    rows += [(*labels, i, 100.0 * r, s) for i, r in enumerate(right)]
    frame = pd.DataFrame(rows, columns=["model", "language", "task", "item", "score", "seed"])
    if not n_seeds:
        frame = frame.drop(columns="seed")
    return Records.from_frame(frame, name="items", units=(0.0, 100.0))


def noise_covariance(design: Design) -> np.ndarray:
    """Covariance of the cell means by shared and own test items, from the design."""
    covariance = np.diag(design.se**2)
    for term in design.terms:
        if term.is_noise:
            member = np.eye(term.n_levels)[term.index]
            covariance = covariance + (member * np.asarray(term.known_sd) ** 2) @ member.T
    return covariance


@pytest.fixture(scope="module")
def records() -> Records:
    return items_table()


@pytest.fixture(scope="module")
def design(records: Records) -> Design:
    return build_design(records, load_spec("additive"))


def test_cells_vary_together_as_their_items_say(records: Records, design: Design) -> None:
    cells = reduce_replicates(records)
    parts = item_variance(records, cells)
    assert parts is not None
    task, language, model = (cells.codes[f] for f in ("task", "language", "model"))

    def same(codes: np.ndarray) -> np.ndarray:
        return codes[:, None] == codes[None, :]

    found = noise_covariance(design)
    assert (found[~same(task)] == 0.0).all()
    # Cells differ in their noise; on average over the pairs of a kind it is what was estimated, but
    # for a lower bound of what each cell has alone (here at most 2 % away).
    kinds = {
        "different": ~same(language) & ~same(model),
        "language": same(language) & ~same(model),
        "model": ~same(language) & same(model),
        "itself": same(language) & same(model),
    }
    expected = {
        "different": parts.task,
        "language": parts.task + parts.language_task,
        "model": parts.task + parts.model_task,
        "itself": parts.task + parts.language_task + parts.model_task + parts.record,
    }
    for kind, pairs in kinds.items():
        for t in range(TASKS):
            mean = found[pairs & same(task) & (task == t)].mean()
            assert mean == pytest.approx(expected[kind][t], rel=0.03), kind
    assert [term.name for term in design.terms if term.is_noise] == [
        "test_set:task",
        "test_set:language:task",
        "test_set:model:task",
    ]
    # Negative control: independent errors of the same size are another covariance.
    alone = build_design(records, load_spec({"name": "own", "replicates": {"pool": False}}))
    assert not any(term.is_noise for term in alone.terms)
    np.testing.assert_allclose(alone.se, parts.se, rtol=1e-12)
    apart = noise_covariance(alone)[kinds["language"] & same(task)]
    assert (apart == 0.0).all() and (found[kinds["language"] & same(task)] > 1.0).all()


def test_backends_agree_with_shared_test_sets(design: Design) -> None:
    rng = np.random.default_rng(5)
    density = pymc_engine.density_function(design)
    for _ in range(3):
        point = random_point(design, rng)
        ours, theirs = density(point), numpyro_engine.log_density(design, point)
        assert set(ours) == set(theirs)
        assert "test_set_model_task_effect" in ours
        for name, value in ours.items():
            # The contract between the backends.
            assert value == pytest.approx(theirs[name], rel=1e-8), name


def test_nuts_can_start(design: Design) -> None:
    assert set(inverse_mass(design)) == set(sampled_variables(design))
    for seed in range(2):
        point = start_point(design, np.random.default_rng(seed))
        assert list(point) == list(sampled_variables(design))
        assert np.isfinite(list(numpyro_engine.log_density(design, point).values())).all()


def test_nuts_runs(design: Design) -> None:
    draws = load_engine("numpyro")(design, SamplerSettings(draws=20, tune=30, chains=2, seed=3))
    for name, values in draws.posterior.items():
        assert values.shape[:2] == (2, 20), name
        assert np.isfinite(values).all(), name
        # A chain that is stuck repeats its first draw.
        assert (np.ptp(values, axis=1) > 0).all(), name


def test_means_of_cells_have_lost_what_their_test_sets_share(design: Design) -> None:
    assert marginal.why_not(design) is None
    # Of any draws, probable or not.
    rng = np.random.default_rng(3)
    points = [to_posterior(design, random_point(design, rng)) for _ in range(40)]
    posterior = {name: np.stack([point[name] for point in points])[None] for name in points[0]}
    tree = to_tree(design, Draws(posterior, {}, SamplerSettings()), engine="numpyro")
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    assert noise.shared is not None
    shared = sum(
        posterior[term.effect].reshape(40, -1)[:, term.index]
        for term in design.terms
        if term.is_noise
    )
    np.testing.assert_allclose(noise.shared, shared, rtol=1e-12)
    # No seeds: an observed score errs by its own and the shared part of its items.
    np.testing.assert_allclose(noise.mean_variance[0], np.diag(noise_covariance(design)), rtol=1e-9)
    assert not noise.is_upper_bound.any()
    # A new measurement on other items has this error once.
    new = read_measurement_noise(tree, arrays).sd
    total = np.sum([np.nan_to_num(sd[0]) ** 2 for sd in new.values()], axis=0)
    np.testing.assert_allclose(total, noise.run_variance[0], rtol=1e-12)
    np.testing.assert_allclose(total.mean(), np.diag(noise_covariance(design)).mean(), rtol=3e-2)
    with_all = cell_means(arrays, noise, rng=np.random.default_rng(1))
    without = cell_means(arrays, replace(noise, shared=None), rng=np.random.default_rng(1))
    errors = arrays.error_variance()
    assert errors is not None
    weight = arrays.residual_sd**2 / (arrays.residual_sd**2 + errors)
    np.testing.assert_allclose(with_all, without - weight * shared, rtol=1e-9, atol=1e-9)


def test_bootstrapped_cells_do_not_count_their_items_again() -> None:
    records = items_table(seed=1)
    frame = records.table
    frame["boot_sd"] = np.where(frame["task"] == "t0", 3.0, np.nan)
    mixed = Records.from_frame(frame, name="mixed", units=(0.0, 100.0))
    design = build_design(mixed, load_spec("additive"))
    first = design.factor_index["task"] == 0
    boot = design.known_sds["boot"]
    np.testing.assert_allclose(boot[first], 3.0)
    np.testing.assert_allclose(design.se[first], 3.0)
    items = item_variance(records, reduce_replicates(records))
    assert items is not None
    # What one run errs by: the own and the shared parts of its test set.
    whole = np.diag(noise_covariance(design))
    np.testing.assert_allclose(boot[~first] ** 2, whole[~first], rtol=1e-9)
    typical = (items.se[~first] ** 2).mean()
    assert whole[~first].mean() == pytest.approx(typical, rel=0.05)
    for term in design.terms:
        if term.is_noise:
            tiny = np.asarray(term.known_sd)[term.members["task"] == 0]
            assert tiny.max() < 1e-5 * np.asarray(term.known_sd).max()


# Seeds on the same items ---------------------------------------------------------------------


def test_what_seeds_do_on_single_items_counts_once() -> None:
    """An item standard error of seed averages holds omega^2 / S; the rest is tau^2."""
    records = items_table(n_seeds=3)
    cells = reduce_replicates(records)
    items = item_variance(records, cells)
    assert items is not None
    own = cells.cross.mean_square / 3
    assert set(cells.cross.df) == {2.0 * (ITEMS - 1)}
    alone = build_design(records, load_spec({"name": "own", "replicates": {"pool": False}}))
    assert (items.se**2 > own).all()
    np.testing.assert_allclose(alone.known_sds["boot"] ** 2, items.se**2 - own, rtol=1e-12)
    np.testing.assert_allclose(alone.known_sds["seed_boot"] ** 2, 3 * own, rtol=1e-12)
    sigma2 = np.maximum(cells.seed.mean_square - 3 * own, 0.0)
    np.testing.assert_allclose(alone.se**2, sigma2 / 3 + items.se**2, rtol=1e-12)
    # Negative control: seeds' mean squares beside item errors count it twice.
    twice = cells.seed.mean_square / 3 + items.se**2
    assert (alone.se**2 < 0.95 * twice).mean() > 0.8


def test_shared_test_sets_and_seeds_add_up_to_what_the_items_say() -> None:
    records = items_table(seed=9, n_seeds=3)
    cells = reduce_replicates(records)
    items = item_variance(records, cells)
    assert items is not None
    pooled = build_design(records, load_spec("additive"))
    source = {s.name: s for s in pooled.sources}
    assert set(source) == {"seed", "seed_boot"}
    assert set(source["seed_boot"].share) == {1 / 3}
    task = cells.codes["task"]
    # On average over the cells of a task: the variance of the means by their items.
    found = np.diag(noise_covariance(pooled)) + cells.cross.mean_square / 3
    parts = items.task + items.language_task + items.model_task + items.record
    for t in range(TASKS):
        assert found[task == t].mean() == pytest.approx(parts[t], rel=1e-2)
        # What single cells have is smaller, here less than what seeds did to it. Errors of cells
        # differ by up to 7 % from the root of their mean square.
        off = (cells.cross.mean_square / 3)[task == t].mean()
        left = items.record[t] - off
        assert pooled.se[task == t] == pytest.approx(np.sqrt(max(left, 0.0)), rel=0.1)


def test_the_interaction_leaves_the_parts_in_order() -> None:
    parts = {"record": 2.0, "model_task": 3.0, "language_task": 5.0, "task": 7.0}
    arrays = {name: np.array([value, value]) for name, value in parts.items()}
    left = _subtract(arrays, np.array([1.5, 6.0]))
    assert {name: values.tolist() for name, values in left.items()} == {
        "record": [0.5, 0.0],
        "model_task": [3.0, 0.0],
        "language_task": [5.0, 4.0],
        "task": [7.0, 7.0],
    }


def test_a_given_standard_error_holds_the_interaction() -> None:
    frame = items_table(n_seeds=3).table.assign(se=4.0)
    design = build_design(
        Records.from_frame(frame, name="se", units=(0, 100)), load_spec("additive")
    )
    source = {s.name: s for s in design.sources}
    assert set(source["seed_boot"].share) == {0.0}
    assert set(source["seed"].share) == {1 / 3}
    np.testing.assert_allclose(design.se, 4.0)


# Bootstraps of the same test sets ------------------------------------------------------------


def boots_table(*, n_boot: int = 40, seed: int = 0) -> Records:
    """Bootstraps with equal labels are the same resample of items in all models."""
    frame = items_table(seed=seed, n_seeds=2).table
    rng = np.random.default_rng(seed)
    drawn = {
        (language, task): rng.multinomial(ITEMS, np.full(ITEMS, 1.0 / ITEMS), size=n_boot)
        for language in sorted(set(frame["language"]))
        for task in sorted(set(frame["task"]))
    }
    rows = []
    for (model, language, task, run), own in frame.groupby(["model", "language", "task", "seed"]):
        score = own.assign(item=own["item"].astype(int)).sort_values("item")["score"].to_numpy()
        means = drawn[language, task] @ score / ITEMS
        rows += [(model, language, task, run, b, mean) for b, mean in enumerate(means)]
    columns = ["model", "language", "task", "seed", "boot", "score"]
    return Records.from_frame(pd.DataFrame(rows, columns=columns), name="boots", units=(0, 100))


def test_bootstraps_of_shared_test_sets_add_up_to_what_a_cell_has() -> None:
    records = boots_table()
    cells = reduce_replicates(records)
    parts = boot_variance(records, cells)
    assert parts is not None
    design = build_design(records, load_spec("additive"))
    terms = {term.name: term for term in design.terms if term.is_noise}
    # The languages have items of their own, and their bootstraps are independent.
    assert "test_set:language:task" in terms
    assert design.notes[-1].startswith("cells share test sets: ")
    task = cells.codes["task"]
    of_mean = 1.0 + 1.0 / 40
    use = cells.boot.df > 0
    others = [cells.codes["language"], cells.codes["model"]]
    levels = [100 * task + code for code in others]
    whole = by_margins(cells.boot.mean_square, cells.boot.df, task, levels, use)
    interaction = cells.boot.interaction * cells.cross.mean_square
    for t in range(TASKS):
        on = task == t
        whole[on] *= 1.0 - interaction[on].mean() / cells.boot.mean_square[on].mean()
    shared = np.zeros(len(cells))
    for name, term in terms.items():
        part = getattr(parts, {"language": "language_task", "task": "task"}[name.split(":")[1]])
        known = np.asarray(term.known_sd) ** 2 / of_mean
        # On average over the languages of a task: what was estimated.
        for t in range(TASKS):
            mean = known[term.members["task"] == t].mean()
            assert mean == pytest.approx(part[t], rel=1e-9, abs=1e-6)
        shared += known[term.index]
    boot = next(source for source in design.sources if source.name == "boot")
    # What a cell has of its own and shares is that of its test set, or its proportion is more.
    own = boot.share / of_mean
    least = np.array([own[task == t].min() for t in range(TASKS)])[task]
    assert (least > 0.0).all()
    adds_up = np.isclose(own * whole + shared, whole, rtol=1e-6)
    assert (adds_up | np.isclose(own, least, rtol=1e-9)).all()
    assert adds_up.any() and (own * whole + shared >= whole * (1.0 - 1e-6)).all()


def test_test_sets_of_bootstraps_with_labels_of_their_own_remain_independent() -> None:
    """Negative control: labels that differ between models share nothing."""
    frame = boots_table().table
    frame["boot"] = frame["model"] + "-" + frame["boot"].astype(str)
    own = Records.from_frame(frame, name="own", units=(0, 100))
    design = build_design(own, load_spec("additive"))
    names_of = [term.name for term in design.terms if term.is_noise]
    assert "test_set:language:task" not in names_of
    pooled = load_spec({"name": "own", "replicates": {"pool": False}})
    assert not any(term.is_noise for term in build_design(boots_table(), pooled).terms)
    no_boots = load_spec({"name": "seeds", "sources": ["seed"]})
    assert not any(term.is_noise for term in build_design(boots_table(), no_boots).terms)
