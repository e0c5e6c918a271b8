"""Alignment scores against a brute-force twin, and what odd input gives."""

from __future__ import annotations

from math import comb, prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayeseval.errors import InputError
from bayeseval.mexa.alignment import Scores, chance, cosines, mu, pool, score

Floats = npt.NDArray[np.float64]


def brute_force(matrix: Floats) -> float:
    """Section 3 of the paper, read aloud."""
    n, hits = len(matrix), 0
    for i in range(n):
        rivals = [matrix[i, j] for j in range(n) if j != i]
        rivals += [matrix[j, i] for j in range(n) if j != i]
        hits += all(matrix[i, i] > rival for rival in rivals)
    return hits / n


SQUARES = st.integers(1, 8).map(lambda n: (n, n))
TIED = hnp.arrays(np.float64, SQUARES, elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0]))
SMOOTH = hnp.arrays(np.float64, SQUARES, elements=st.floats(-1, 1, width=32))


@given(st.one_of(TIED, SMOOTH))
def test_mu_is_the_definition(matrix: Floats) -> None:
    assert mu(matrix) == brute_force(matrix)
    assert mu(matrix.astype(np.float32)) == brute_force(matrix)
    # The order is all that counts; rounding may make a tie of two that differ.
    assert mu(np.exp(3 * matrix)) <= brute_force(matrix)
    assert mu(matrix.T) == brute_force(matrix)


def test_the_twin_tells_apart_what_is_wrong() -> None:
    """Negative controls: ties that win, and rows alone."""
    tie = np.array([[1.0, 0.0], [1.0, 2.0]])
    assert (mu(tie), (tie.diagonal() >= tie.max(axis=0)).mean()) == (0.5, 1.0)
    column = np.array([[0.5, 0.1], [0.9, 1.0]])
    assert (mu(column), (column.diagonal() >= column.max(axis=1)).mean()) == (0.5, 1.0)


def test_layers_at_once() -> None:
    layers = np.random.default_rng(1).normal(size=(3, 2, 6, 6)).round(1)
    expected = [[brute_force(one) for one in pair] for pair in layers]
    np.testing.assert_array_equal(mu(layers), expected)


def test_odd_matrices() -> None:
    assert mu(np.array([[0.3]])) == 1.0
    assert mu(np.ones((4, 4))) == 0.0
    holed = np.eye(3)
    holed[0, 2] = np.nan
    np.testing.assert_array_equal(mu(np.stack([holed, np.eye(3)])), [np.nan, 1.0])
    for shape in ((2, 3), (0, 0), (4,)):
        with pytest.raises(InputError, match="square matrices"):
            mu(np.ones(shape))


def test_cosines_by_hand() -> None:
    language = np.array([[3.0, 4.0], [0.0, 0.0]])
    pivot = np.array([[1.0, 0.0], [-6.0, -8.0]])
    np.testing.assert_allclose(cosines(language, pivot), [[0.6, -1.0], [0.0, 0.0]], atol=1e-15)


def test_a_zero_vector_loses_alone() -> None:
    pivot = np.eye(4)[None]
    language = pivot.copy()
    language[0, 1] = 0.0
    assert score(language, pivot).alignment == [0.75]


def test_scores_of_separated_data_do_not_depend_on_precision() -> None:
    rng = np.random.default_rng(2)
    pivot = rng.normal(size=(5, 20, 64))
    # From the translation alone to noise alone, layer by layer.
    noise = np.array([0.0, 0.5, 1.5, 3.0, 100.0])[:, None, None]
    language = pivot + noise * rng.normal(size=pivot.shape)
    exact = score(language, pivot)
    expected = [
        brute_force(
            (a @ b.T) / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)[None]
        )
        for a, b in zip(language, pivot, strict=True)
    ]
    np.testing.assert_array_equal(exact.alignment, expected)
    assert exact.alignment[0] == 1.0
    assert exact.alignment[-1] < 0.3
    single = score(language.astype(np.float32), pivot.astype(np.float32))
    np.testing.assert_array_equal(single.alignment, exact.alignment)
    np.testing.assert_allclose(single.cosine, exact.cosine, atol=1e-6)
    np.testing.assert_allclose(exact.cosine[0], 1.0, atol=1e-12)
    np.testing.assert_allclose(exact.cosine_other, 0.0, atol=0.05)


def test_half_precision_does_not_overflow() -> None:
    pivot = (np.eye(3) * 300)[None].astype(np.float16)  # 300 squared is beyond float16
    assert score(pivot, pivot).alignment == [1.0]


def test_an_infinite_embedding_is_missing_not_unaligned() -> None:
    pivot = np.stack([np.eye(3), np.eye(3)])
    language = pivot.copy()
    for value in (np.nan, np.inf):
        language[1, 0, 0] = value
        np.testing.assert_array_equal(score(language, pivot).alignment, [1.0, np.nan])


def test_shapes_are_checked() -> None:
    with pytest.raises(InputError, match=r"got \(1, 3, 2\) and \(1, 2, 2\)"):
        score(np.ones((1, 3, 2)), np.ones((1, 2, 2)))
    with pytest.raises(InputError, match="no embeddings"):
        score(np.ones((1, 0, 2)), np.ones((1, 0, 2)))


def test_one_sentence() -> None:
    one = score(np.ones((1, 1, 2)), np.ones((1, 1, 2)))
    assert (one.alignment[0], one.n, np.isnan(one.cosine_other[0])) == (1.0, 1, True)
    assert one.chance == [1.0]


def test_pooling() -> None:
    layers = np.array([[0.0, 0.5, 1.0, 0.5], [0.1, np.nan, 0.2, 0.3]])
    np.testing.assert_allclose(pool(layers, "mean"), [0.5, np.nan])
    np.testing.assert_allclose(pool(layers, "max"), [1.0, np.nan])
    np.testing.assert_allclose(pool(layers, "max", layers=[0, 3]), [0.5, 0.3])
    with pytest.raises(InputError, match=r"layers are 0 to 3; got \[4\]"):
        pool(layers, layers=[4])
    with pytest.raises(InputError, match="mean, max; got 'median'"):
        pool(layers, "median")  # type: ignore[arg-type]


def test_chance_is_that_of_the_paper() -> None:
    # Appendix A.4: five of a hundred have probability 0.00016.
    assert chance(0.05, 100).round(5) == 0.00016
    np.testing.assert_allclose(chance([0.0, 1.0, np.nan], 3), [1.0, 0.2**3, np.nan])


def exact_chance(n: int) -> Floats:
    """P(at least k of n) in a random matrix, k = 0..n, without the paper's independence.

    That k given diagonal entries all win has probability 1 / ((2n-1)(2n-2)...(2n-k)): the
    largest of their rows and columns together, k(2n-k) entries, must be one of the k, and
    the same goes for the rest without it. Inclusion and exclusion does the rest.
    """
    win = np.array([1.0 / prod(range(2 * n - k, 2 * n)) for k in range(n + 1)])
    exactly = [
        sum((-1) ** (k - m) * comb(k, m) * comb(n, k) * win[k] for k in range(m, n + 1))
        for m in range(n + 1)
    ]
    return np.cumsum(exactly[::-1])[::-1]


def test_chance_against_random_matrices() -> None:
    n, draws = 6, 20_000
    simulated = mu(np.random.default_rng(3).random((draws, n, n)))
    exact = exact_chance(n)[:4]
    beyond = np.array([(simulated >= k / n - 1e-12).mean() for k in range(4)])
    # Five standard errors of the simulation.
    assert (np.abs(beyond - exact) <= 5 * np.sqrt(exact * (1 - exact) / draws)).all()
    # Negative control: rows alone would win more often.
    matrices = np.random.default_rng(3).random((draws, n, n))
    rows = (matrices.diagonal(axis1=1, axis2=2) >= matrices.max(axis=2)).any(axis=1).mean()
    assert rows > exact[1] + 0.2


def test_chance_takes_the_diagonal_as_independent() -> None:
    """As the paper does: what that is off by, most at k = 1 and less with more sentences."""
    for n, off in ((6, 0.0080), (20, 0.0020), (100, 0.0004)):
        error = exact_chance(n) - chance(np.arange(n + 1) / n, n)
        assert np.abs(error).argmax() == 1
        assert -error[1] == pytest.approx(off, abs=0.00005)
    # At five of a hundred 1.69e-4 where the paper has 1.62e-4.
    assert exact_chance(100)[5] == pytest.approx(chance(0.05, 100), rel=0.05)


def test_scores_carry_their_chance() -> None:
    scores = Scores(np.array([0.05]), np.array([0.1]), np.array([0.0]), 100)
    assert scores.chance.round(5) == [0.00016]
