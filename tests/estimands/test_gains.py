"""Gains of measurements against dense linear algebra, integrals, and draws of expected scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from bayeseval.estimands.asked import (
    asked_difference,
    asked_potentials,
    asked_ranking,
    asked_table,
)
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.effects import Effects, read_effects
from bayeseval.estimands.expected import expected_scores
from bayeseval.estimands.gains import Gains, p_right_order
from bayeseval.estimands.measurement import measurement_variance
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, edit, make_tree


def effects_of(rows, **settings) -> Effects:
    return read_effects(read_arrays(make_tree(rows, **settings)), seed=0)


def grid(effects: Effects) -> tuple[np.ndarray, ...]:
    shape = tuple(len(effects.arrays.levels[f]) for f in ("model", "language", "task"))
    return tuple(index.reshape(-1) for index in np.indices(shape))


def dense(effects: Effects) -> np.ndarray:
    """Covariance of all effects."""
    n = effects.n_drawn
    covariance = np.diag(np.concatenate([np.zeros(n), effects.prior]))
    covariance[:n, :n] = effects.centred.T @ effects.centred
    return covariance


@pytest.mark.parametrize("population", ["observed", "models"])
def test_rows_have_the_means_and_covariances_of_expected_scores(population: str) -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED)
    tree["constant_data"].attrs["population"] = population
    arrays = read_arrays(tree)
    effects = read_effects(arrays, seed=0)
    assert not len(effects.prior)
    blocks = list(expected_scores(arrays, seed=0).blocks())
    points = np.concatenate([block.points for block in blocks])
    model, language, task = grid(effects)
    # Pairs of a complete table are in the order of the grid.
    flat = points.reshape(len(points), -1)
    rows = effects.rows(model, language, task)
    assert rows @ effects.mean == pytest.approx(flat.mean(axis=0))
    assert effects.scores(model, language, task) == pytest.approx(flat.mean(axis=0))
    covariance = rows.toarray() @ dense(effects) @ rows.toarray().T
    assert covariance == pytest.approx(np.cov(flat.T), abs=1e-9)
    potential = np.concatenate([block.language_potential for block in blocks])
    asked = asked_potentials(effects).rows.toarray()
    expected = potential.var(axis=0, ddof=1) / potential.shape[1]
    assert np.diag(asked @ dense(effects) @ asked.T) == pytest.approx(expected)


def test_cells_without_records_have_the_variance_of_their_population() -> None:
    effects = effects_of(INCOMPLETE, interactions=CROSSED, sd_cells=2.0)
    assert effects.prior == pytest.approx(4.0)
    covariance = dense(effects)
    levels = effects.arrays.levels
    # m3 was never tested on language fr nor on task sum, which are a pair of the table.
    at = [np.array([levels[f].index(x)]) for f, x in zip(("model", "language", "task"),
          ("m3", "fr", "sum"), strict=True)]  # fmt: skip
    row = effects.rows(*at).toarray()[0]
    n = effects.n_drawn
    assert row[n:].sum() == 2.0
    drawn = row[:n] @ covariance[:n, :n] @ row[:n]
    assert row @ covariance @ row == pytest.approx(drawn + 2 * 4.0)


@pytest.mark.parametrize("rows", [COMPLETE, INCOMPLETE])
def test_gains_equal_dense_conditioning(rows: list[tuple[str, str, str]]) -> None:
    effects = effects_of(rows, interactions=CROSSED, draws=200)
    model, language, task = grid(effects)
    cells = effects.rows(model, language, task, measured=True)
    noise = np.linspace(4.0, 9.0, len(model))
    score = np.array([3.0, 1.0, 0.0, -2.0])[: len(effects.arrays.levels["model"])]
    is_asked = np.ones((len(effects.arrays.levels["language"]), 2 + (rows is INCOMPLETE)), bool)
    for asked in (
        asked_ranking(effects, score),
        asked_difference(effects, score, 0, 2),
        asked_potentials(effects),
        asked_table(effects, is_asked),
    ):
        gains = Gains(effects, cells, noise, asked.rows)
        start = gains.copy()
        x, w, covariance = cells.toarray(), asked.rows.toarray(), dense(effects)
        chosen, fallen = [], []
        for _ in range(3):
            shared = x @ covariance @ w.T
            variance = np.einsum("ij,jk,ik->i", x, covariance, x)
            expected = (shared**2).sum(axis=1) / (variance + noise)
            assert gains.reductions() == pytest.approx(expected)
            assert gains.cell_variance == pytest.approx(variance)
            assert gains.total == pytest.approx(np.trace(w @ covariance @ w.T))
            best = int(np.argmax(np.where(np.isin(np.arange(len(noise)), chosen), 0, expected)))
            chosen.append(best)
            fallen.append(gains.measure(best))
            own = covariance @ x[best]
            covariance = covariance - np.outer(own, own) / (variance[best] + noise[best])
        assert start.total > gains.total
        assert np.abs(start.in_order(chosen)) == pytest.approx(np.abs(fallen))


def test_variances_asked_are_those_of_the_draws() -> None:
    arrays = read_arrays(make_tree(COMPLETE, interactions=CROSSED))
    effects = read_effects(arrays, seed=0)
    points = np.concatenate([b.points for b in expected_scores(arrays, seed=0).blocks()])
    score = points.mean(axis=2)
    pairs = [(0, 1), (0, 2), (1, 2)]
    variances = [(score[:, a] - score[:, b]).var(ddof=1) for a, b in pairs]

    def total(asked) -> float:
        rows = asked.rows.toarray()
        return float(np.trace(rows @ dense(effects) @ rows.T))

    means = score.mean(axis=0)
    ranking = asked_ranking(effects, means)
    assert total(ranking) == pytest.approx(np.mean(variances))
    assert total(asked_difference(effects, means, 0, 2)) == pytest.approx(variances[1])
    table = asked_table(effects, np.ones((3, 2), dtype=bool))
    assert total(table) == pytest.approx(points.reshape(len(points), -1).var(axis=0, ddof=1).mean())
    # Before any measurement: the probability that the present order is right.
    differences = [means[a] - means[b] for a, b in pairs]
    now = [norm.cdf(abs(d) / np.sqrt(v)) for d, v in zip(differences, variances, strict=True)]
    nothing = np.empty((0, 3))
    assert ranking.p_right_order(effects, nothing) == pytest.approx([np.mean(now)])


def test_the_probability_of_the_right_order_is_that_of_the_sign_of_the_later_mean() -> None:
    difference, variance = np.array([0.0, 1.0, -1.0, 4.0]), np.array([4.0, 4.0, 9.0, 1.0])
    explained = np.array([3.0, 1.0, 6.0, 0.9])
    nodes = np.linspace(-12.0, 12.0, 200_001)
    for d, v, e, p in zip(
        difference, variance, explained, p_right_order(difference, variance, explained), strict=True
    ):
        later = d + np.sqrt(e) * nodes
        right = norm.cdf(np.abs(later) / np.sqrt(v - e)) * norm.pdf(nodes)
        assert p == pytest.approx(right.sum() * (nodes[1] - nodes[0]), abs=1e-6)
    none = p_right_order(difference, variance, np.zeros(4))
    assert none == pytest.approx(norm.cdf(np.abs(difference) / np.sqrt(variance)))
    assert p_right_order(difference, variance, variance) == pytest.approx(1.0)


def test_many_expected_scores_are_represented_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayeseval.estimands.asked.MOST_SCORES", 6)
    effects = effects_of(COMPLETE)
    asked = asked_table(effects, np.ones((3, 2), dtype=bool))
    assert (asked.rows.shape[0], asked.n_left_out) == (6, 12)
    whole = asked_table(effects, np.zeros((3, 2), dtype=bool) | [True, False])
    assert whole.n_left_out == 3
    # Six different ones, each with an equal weight.
    assert len(np.unique(asked.rows.toarray(), axis=0)) == 6
    assert np.unique(asked.rows.data) == pytest.approx([1.0 / np.sqrt(6.0)])


def test_under_a_logit_link_effects_count_with_the_slope_of_the_score() -> None:
    tree = make_tree(
        COMPLETE, interactions=CROSSED, likelihood="binomial", intercept=0.3, spread=0.01
    )
    ends = {"score_lower": ("task", np.zeros(2)), "score_upper": ("task", np.full(2, 100.0))}
    items = {"n_items": ("record", np.full(len(COMPLETE), 50.0))}
    tree = edit(tree, group="constant_data", **ends, **items)
    for factor in ("language", "task", "model"):
        effect = tree["posterior"][f"{factor}_effect"].to_numpy()
        tree = edit(tree, **{f"{factor}_effect": effect / 20.0})
    arrays = read_arrays(tree)
    effects = read_effects(arrays, seed=0)
    points = np.concatenate([b.points for b in expected_scores(arrays, seed=0).blocks()])
    flat = points.reshape(len(points), -1)
    rows = effects.rows(*grid(effects))
    assert effects.scores(*grid(effects)) == pytest.approx(flat.mean(axis=0))
    variance = np.diag(rows.toarray() @ dense(effects) @ rows.toarray().T)
    # Effects that vary by a hundredth: tangents are off by squares of this.
    assert variance == pytest.approx(flat.var(axis=0, ddof=1), rel=0.02)


def test_a_measurement_has_the_noise_of_its_likelihood() -> None:
    """The residual; heavy tails as the inverse of the Fisher information."""
    at = {"model": np.array([0, 2]), "language": np.array([1, 1]), "task": np.array([0, 1])}

    def noise_of(**settings) -> np.ndarray:
        tree = make_tree(COMPLETE, sd_residual=3.0, **settings)
        arrays = read_arrays(tree)
        noise = read_measurement_noise(tree, arrays)
        return measurement_variance(read_effects(arrays, seed=0), noise, at, None)

    assert noise_of() == pytest.approx([9.0, 9.0])
    assert noise_of(residual_by="model") == pytest.approx([9.0, 81.0])
    arrays = read_arrays(make_tree(COMPLETE, likelihood="student_t"))
    nu = arrays.extra["nu"]
    heavy = 9.0 * np.mean((nu + 3.0) / (nu + 1.0))
    assert noise_of(likelihood="student_t") == pytest.approx([heavy, heavy])
