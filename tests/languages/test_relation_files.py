"""Relations of languages from a file: similarities, distances, and what is refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.languages.relation_files import by_file

LABELS = ["deu", "nld", "jpn", "zho"]
SIMILAR = np.array([[1, 0.8, 0.2, 0], [0.8, 1, 0.1, 0], [0.2, 0.1, 1, 0.3], [0, 0, 0.3, 1]])


def write(folder: Path, values: np.ndarray, labels: Sequence[str] = LABELS) -> str:
    path = folder / "m.csv"
    pd.DataFrame(values, index=labels, columns=labels).to_csv(path)
    return str(path)


def test_similarities_are_taken_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, SIMILAR)
    related = by_file(["Japanese", "de", "zh"], path)
    np.testing.assert_allclose(related.matrix, SIMILAR[np.ix_([2, 0, 3], [2, 0, 3])], atol=1e-12)
    # A file that was edited is read again.
    changed = SIMILAR.copy()
    changed[0, 2] = changed[2, 0] = 0.4
    write(tmp_path, changed)
    assert by_file(["Japanese", "de"], path).matrix[0, 1] == pytest.approx(0.4)


def test_distances_become_similarities(tmp_path: Path) -> None:
    # Points of a line, whose median distance is 3.
    points = np.array([0.0, 1.0, 4.0, 4.0])
    distance = np.abs(points[:, None] - points)
    assert np.median(distance[np.triu_indices(4, 1)]) == 3.0
    related = by_file(LABELS, write(tmp_path, distance))
    np.testing.assert_allclose(related.matrix, np.exp(-distance / 3.0), atol=1e-9)


def test_rounded_similarities_stay_positive_semidefinite(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    related = by_file(LABELS, write(tmp_path, (x @ x.T).round(4)))
    assert np.linalg.eigvalsh((x @ x.T).round(4)).min() < -1e-6
    assert np.linalg.eigvalsh(related.matrix).min() > -1e-9
    np.testing.assert_allclose(related.matrix, x @ x.T, atol=1e-3)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            SIMILAR + np.eye(4)[:, ::-1] * [0, 0, 0, 0.2],
            "'deu' and 'zho' are related by 0.2 in one",
        ),
        (
            2 * SIMILAR,
            r"ones on the diagonal, or distances with zeros; the diagonal is from 2 to 2",
        ),
        (np.where(np.eye(4) == 1, 1, -0.9), "not positive semidefinite .smallest eigenvalue -1.7"),
        (np.where(np.eye(4) == 1, 1, np.nan), "the row 'deu' must have 4 finite numbers"),
        (np.where(np.eye(4) == 1, 0, 1e308), r"the row 'deu' has a number beyond 1e\+12"),
        (np.eye(4)[:, ::-1] * [1, 0, 0, 1], "half of the distances between languages or more"),
    ],
)
def test_no_kernels_are_refused(values: np.ndarray, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=line):
        by_file(LABELS, write(tmp_path, values))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.csv: no such file of relations.*current folder"):
        by_file(LABELS, str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="no row for 'xh', 'ours'; add them, or leave these"):
        by_file(["de", "xh", "ours"], write(tmp_path, SIMILAR))
    path = tmp_path / "wide.csv"
    path.write_text("language,de,nl\nde,1,0\n", encoding="utf-8")
    with pytest.raises(InputError, match="square table with the same languages, each once"):
        by_file(["de"], str(path))
    # One number would have been that of all languages.
    path.write_text("language,de,nl\nde,1,0\nnl,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="the row 'nl' must have 2 finite numbers; it has 1$"):
        by_file(["de"], str(path))
    path.write_text("language,de,nl\nde,1,0\nnl,0,1\nsv,0,0\n", encoding="utf-8")
    with pytest.raises(InputError, match="square table with the same languages, each once"):
        by_file(["de"], str(path))
    path.write_text("," + ",".join(map(str, range(5001))) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="5001 languages; a matrix of at most 5000 is read"):
        by_file(["de"], str(path))
    path.write_text("language,de,nl\nde,1,x\nnl,0,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="the row 'de' must have 2 finite numbers"):
        by_file(["de"], str(path))


def test_a_large_matrix_is_read_in_the_memory_of_a_few(tmp_path: Path) -> None:
    """Its text and the copies of the checks took fifteen times that of the matrix."""
    n = 500
    points = np.random.default_rng(2).standard_normal((n, 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2).round(6)
    languages = [f"l{i}" for i in range(n)]
    path = write(tmp_path, distance, languages)
    tracemalloc.start()
    try:
        matrix = by_file(languages[:3], path).matrix
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    unit = np.median(distance[np.triu_indices(n, 1)])
    np.testing.assert_allclose(matrix, np.exp(-distance[:3, :3] / unit), atol=1e-5)
    assert peak < 5 * distance.nbytes
