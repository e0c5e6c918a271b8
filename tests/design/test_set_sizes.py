"""Test sets of unequal size and difficulty: each cell has the noise of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeseval._typing import Bools, Floats
from bayeseval.design import Design, build_design
from bayeseval.design.test_sets import _over_pairs
from bayeseval.records import Records, reduce_replicates
from bayeseval.spec import load_spec

MODELS = 3
# Sds of item x cell parts: of the item, its language, its model, and the cell.
SDS = (2.0, 1.5, 1.0, 3.0)


def design_of(
    sizes: tuple[int, ...], *, seed: int, limits: tuple[int, ...] = (), pool: bool = True
) -> Design:
    """Languages with these numbers of items, the smaller sets part of the larger ones."""
    rng = np.random.default_rng(seed)
    n, shape = max(sizes), (len(sizes), MODELS)
    a, b, c, d = SDS
    x = a * rng.normal(size=(n, 1, 1)) + b * rng.normal(size=(n, shape[0], 1))
    x = 50.0 + x + c * rng.normal(size=(n, 1, MODELS)) + d * rng.normal(size=(n, *shape))
    rows = []
    for language, size in enumerate(sizes):
        for model in range(MODELS):
            own = min(size, limits[model]) if limits else size
            labels = {"model": f"m{model}", "language": f"l{language}", "task": "t"}
            scores = x[:own, language, model]
            rows.append(pd.DataFrame({**labels, "item": np.arange(own), "score": scores}))
    records = Records.from_frame(pd.concat(rows), name="t", units=(None, None))
    return build_design(records, load_spec({"name": "own", "replicates": {"pool": pool}}))


def parts_of(design: Design) -> dict[str, Floats]:
    """Variances by record of what cells share, and of what each has alone."""
    assert design.se is not None
    found = {"record": design.se**2}
    for term in design.terms:
        if term.is_noise:
            found[term.name] = np.asarray(term.known_sd)[term.index] ** 2
    return found


def errors_from(values: tuple[float, float], tables: list[Floats], odd: Bools) -> Floats:
    """How many standard errors the means of other and of odd cells are from two values."""
    means = np.array([[table[~odd].mean(), table[odd].mean()] for table in tables])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return np.asarray(np.abs(means.mean(axis=0) - values) / error)


def test_a_small_language_has_the_noise_of_its_own_test_set() -> None:
    sizes = (300, 300, 30)
    designs = [design_of(sizes, seed=seed) for seed in range(30)]
    tables = [parts_of(design) for design in designs]
    a, b, c, d = (sd**2 for sd in SDS)
    expected = {
        # The language part of the small set holds what its items are short of the others'.
        "test_set:language:task": (b / 300, (a + b) / 30 - a / 300),
        "record": (d / 300, (c + d) / 30 - c / 300),
    }
    small = designs[0].factor_index["language"] == 2
    for name, values in expected.items():
        off = errors_from(values, [t[name] for t in tables], small)
        assert (off < 5).all(), name
        # Negative control: the mean over the task is many standard errors from both.
        pooled = (2 * values[0] + values[1]) / 3
        assert (errors_from((pooled, pooled), [t[name] for t in tables], small) > 5).all(), name


def test_the_parts_of_a_cell_add_up_to_a_variance_that_is_drawn_to_those_of_others() -> None:
    design = design_of((300, 100, 30), seed=1)
    size = np.array([300, 100, 30])[design.factor_index["language"]]
    # The variance of one item is alike in all cells, so that estimates differ by chance alone.
    total = np.sum(list(parts_of(design).values()), axis=0) * size
    alone = design_of((300, 100, 30), seed=1, pool=False)
    own = alone.known_sds["boot"] ** 2 * size
    # What one run errs by is what the fit uses.
    np.testing.assert_allclose(design.known_sds["boot"] ** 2 * size, total, rtol=1e-9)
    assert total.std() < 0.5 * own.std()
    truth = sum(sd**2 for sd in SDS)
    assert np.mean((total - truth) ** 2) < np.mean((own - truth) ** 2)


def test_a_model_with_few_items_leaves_the_noise_of_others() -> None:
    limits, sizes = (20, 300, 300), (300,) * 4
    designs = [design_of(sizes, seed=seed, limits=limits) for seed in range(30)]
    tables = [parts_of(design) for design in designs]
    _, b, _, d = (sd**2 for sd in SDS)
    # Its own noise holds what its 20 items of a language are short of those of the other models.
    expected = {
        "test_set:language:task": (b / 300, b / 300),
        "record": (d / 300, (b + d) / 20 - b / 300),
    }
    few = designs[0].factor_index["model"] == 0
    for name, values in expected.items():
        assert (errors_from(values, [t[name] for t in tables], few) < 5).all(), name
    # Negative control: with the mean variance of the task, all models would have this noise.
    pooled = (2 * expected["record"][0] + expected["record"][1]) / 3
    assert (errors_from((pooled, pooled), [t["record"] for t in tables], few) > 5).all()


def test_sums_over_pairs_equal_loops() -> None:
    rng = np.random.default_rng(2)
    level = rng.integers(0, 5, size=30)
    sd, size = rng.uniform(0.5, 2.0, size=30), rng.integers(1, 6, size=30) * 10.0
    found, count = _over_pairs(sd, size, level, 6)
    for one in range(6):
        own = np.flatnonzero(level == one)
        pairs = [(i, j) for i in own for j in own if i < j]
        assert count[one] == len(pairs)
        expected = sum(sd[i] * sd[j] / max(size[i], size[j]) for i, j in pairs)
        assert found[one] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_model_whose_answers_are_all_right_is_not_exact() -> None:
    """A cell without any error in its items still has noise, more if its likes have some."""
    rng = np.random.default_rng(3)
    labels = [(m, one, i) for m in "abc" for one in "xyz" for i in range(50)]
    frame = pd.DataFrame(labels, columns=["model", "language", "item"]).assign(task="t")
    drawn = (rng.random(len(frame)) < 0.6).astype(float)

    def variances(right: pd.Series) -> Floats:
        scores = frame.assign(score=np.where(right, 1.0, drawn))
        records = Records.from_frame(scores, name="t")
        assert reduce_replicates(records).mean[0] == 1.0
        parts = parts_of(build_design(records, load_spec("additive")))
        return np.asarray(np.sum(list(parts.values()), axis=0))

    # With p = 1 / n of another answer, of which there was none, the variance would be p / n.
    whole_model = variances(frame["model"] == "a")
    assert (whole_model[:3] > 0.25 / 50**2).all()
    assert whole_model[:3].max() < 4.0 / 50**2 < whole_model[3:].min()
    one_cell = variances((frame["model"] == "a") & (frame["language"] == "x"))
    assert whole_model[0] < one_cell[0] < one_cell[1:].min()
