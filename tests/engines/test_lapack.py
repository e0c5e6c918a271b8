"""LAPACK called in place."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.engines._lapack import cholesky_in_place, solve_in_place, subtract_square


def positive_definite(b: int, n: int) -> np.ndarray:
    root = np.random.default_rng(0).normal(size=(b, n, n))
    return root @ root.transpose(0, 2, 1) + np.eye(n)


def test_cholesky_reads_and_writes_the_lower_triangles_only() -> None:
    matrices = positive_definite(3, 7)
    expected = np.linalg.cholesky(matrices)
    work = np.tril(matrices) + np.triu(np.full((7, 7), np.nan), 1)
    assert cholesky_in_place(work).tolist() == [True] * 3
    np.testing.assert_allclose(np.tril(work), expected, rtol=1e-12)
    assert np.isnan(work[:, 0, 1:]).all()


def test_cholesky_says_which_matrix_has_no_factor() -> None:
    matrices = positive_definite(3, 4)
    matrices[1] *= -1.0
    assert cholesky_in_place(matrices).tolist() == [True, False, True]


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_are_solved_for_with_the_matrix_they_belong_to(transposed: bool) -> None:
    lower = np.linalg.cholesky(positive_definite(3, 5))
    rows = np.random.default_rng(1).normal(size=(6, 5))
    counts, owner = np.array([2, 0, 4]), [0, 0, 2, 2, 2, 2]
    found = rows.copy()
    solve_in_place(lower, found, counts, transposed=transposed)
    for row, right, i in zip(found, rows, owner, strict=True):
        matrix = lower[i].T if transposed else lower[i]
        np.testing.assert_allclose(matrix @ row, right, rtol=1e-11, atol=1e-12)


def test_a_singular_matrix_is_refused() -> None:
    lower = np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])])
    with pytest.raises(np.linalg.LinAlgError, match="triangular matrix 1 is singular"):
        solve_in_place(lower, np.ones((2, 3)), np.array([1, 1]))


def test_squares_are_subtracted_from_lower_triangles() -> None:
    rng = np.random.default_rng(6)
    matrices, rows = rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 7, 5))
    expected = np.tril(matrices - rows.transpose(0, 2, 1) @ rows) + np.triu(matrices, 1)
    subtract_square(matrices, rows)
    np.testing.assert_allclose(matrices, expected, rtol=1e-12, atol=1e-12)
    subtract_square(matrices, rows[:, :0])
    np.testing.assert_allclose(matrices, expected, rtol=1e-12, atol=1e-12)
