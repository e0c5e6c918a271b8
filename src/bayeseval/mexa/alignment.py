"""Alignment scores from sentence embeddings: array arithmetic, no torch and no files.

NumPy arrays, torch tensors on any device and JAX arrays are taken as they are: only
operators and methods that all three share are used, so nothing has to be imported and
nothing leaves its device but counts and means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from bayeseval._typing import Floats
from bayeseval.errors import InputError

__all__ = ["Pooling", "Scores", "chance", "cosines", "mu", "pool", "score"]

Pooling = Literal["mean", "max"]
_SMALL = 256
#: An array with a shape, operators and the methods ``sum``, ``diagonal`` and ``swapaxes``.
Array = Any


@dataclass(frozen=True, eq=False)
class Scores:
    """How one language's sentences lie to the pivot's, layer by layer.

    Attributes
    ----------
    alignment : ndarray, shape (n_layers,)
        Share of sentences that are nearest to their own translation in both directions,
        0 to 1. NaN where an embedding is not finite.
    cosine : ndarray, shape (n_layers,)
        Mean cosine of parallel sentences, the baseline of section 5.3.
    cosine_other : ndarray, shape (n_layers,)
        Mean cosine of sentences that are not parallel; NaN for one sentence.
    n : int
        Number of sentences.
    """

    alignment: Floats
    cosine: Floats
    cosine_other: Floats
    n: int

    @property
    def chance(self) -> Floats:
        """Probability of at least this alignment in a random matrix, by layer."""
        return chance(self.alignment, self.n)


def score(language: Array, pivot: Array) -> Scores:
    """Score a language's sentence embeddings against the pivot's.

    Parameters
    ----------
    language, pivot : array, shape (n_layers, n_sentences, width)
        Sentence i of one is the translation of sentence i of the other. Half
        precision is computed with in single precision.

    Returns
    -------
    Scores

    Raises
    ------
    InputError
        If the shapes differ, or nothing is there.

    Notes
    -----
    A vector of zeros has cosine 0 with every other: its own sentence cannot score, the
    others are compared with 0. One layer is held as a matrix at a time.
    """
    if tuple(language.shape) != tuple(pivot.shape) or len(pivot.shape) != 3:
        raise InputError(
            "embeddings must be two arrays of one shape (layers, sentences, width); got "
            f"{tuple(language.shape)} and {tuple(pivot.shape)}"
        )
    if 0 in tuple(pivot.shape):
        raise InputError(f"no embeddings to score: the shape is {tuple(pivot.shape)}")
    layers, n = int(pivot.shape[0]), int(pivot.shape[1])
    alignment, own, other = np.empty(layers), np.empty(layers), np.empty(layers)
    # Products this small lose more to threads waiting for each other than they gain.
    with threadpool_limits(1 if n <= _SMALL else None, user_api="blas"):
        for layer in range(layers):
            matrix = cosines(language[layer], pivot[layer])
            alignment[layer] = mu(matrix)
            own[layer] = float(matrix.diagonal(0, -2, -1).sum()) / n
            total = float(matrix.sum())
            other[layer] = (total - n * own[layer]) / (n * (n - 1)) if n > 1 else np.nan
    return Scores(alignment, own, other, n)


def cosines(language: Array, pivot: Array) -> Array:
    """Cosine similarity of every sentence of a language with every sentence of the pivot.

    Parameters
    ----------
    language, pivot : array, shape (..., n_sentences, width)

    Returns
    -------
    array, shape (..., n_sentences, n_sentences)
        Entry ij is sentence i of the language with sentence j of the pivot; the matrix
        C(L1, L2) of section 3. Zero for a vector of zeros.
    """
    language, pivot = _single(language), _single(pivot)
    # What is not finite gives NaN, which is a result here and no accident.
    with np.errstate(invalid="ignore", over="ignore"):
        # Dividing the small matrix spares a copy of the long vectors.
        products = language @ pivot.swapaxes(-1, -2)
        return products / _length(language)[..., :, None] / _length(pivot)[..., None, :]


def mu(matrix: Array) -> Floats:
    r"""Alignment score of similarity matrices, section 3 of the paper.

    .. math:: \mu(C) = \frac1n \sum_i 1\bigl(c_{ii} > \max_{j \ne i} \{c_{ij}, c_{ji}\}\bigr)

    Parameters
    ----------
    matrix : array, shape (..., n, n)
        Any similarity; larger is more alike.

    Returns
    -------
    ndarray, shape (...)
        Between 0 and 1. A tie is not a win: "greater" is strict. With n = 1 there is
        nothing to compare with and the formula gives 1. NaN where any entry is NaN:
        missing similarities are no evidence of bad alignment.

    Raises
    ------
    InputError
        If the matrices are not square, or empty.
    """
    shape = tuple(matrix.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0:
        raise InputError(f"similarities must be square matrices; the shape is {shape}")
    n = shape[-1]
    own = matrix.diagonal(0, -2, -1)
    # The entry itself is not below itself, so n - 1 of its row and column have to be.
    row = (matrix < own[..., :, None]).sum(-1) == n - 1
    column = (matrix < own[..., None, :]).sum(-2) == n - 1
    hits = np.asarray((row & column).sum(-1).tolist(), dtype=np.float64)
    missing = np.asarray((matrix != matrix).sum((-2, -1)).tolist())
    return np.where(missing > 0, np.nan, hits / n)


def pool(
    alignment: npt.ArrayLike, how: Pooling = "mean", *, layers: Sequence[int] | None = None
) -> Floats:
    """One score per language from the scores of its layers.

    Parameters
    ----------
    alignment : array_like, shape (..., n_layers)
        Layer 0 is the embedding layer.
    how : {"mean", "max"}
        The paper's default is the mean; the maximum is higher and suits easier tasks
        (section 5.1, table 6).
    layers : sequence of int, optional
        Only these; all when not given. Section 5.3 takes 5, 10, 15, 20 and 25.

    Returns
    -------
    ndarray, shape (...)
        NaN where a layer is NaN: a missing layer is not left out silently.

    Raises
    ------
    InputError
        For an unknown `how`, or layers that are not there.
    """
    values = np.asarray(alignment, dtype=np.float64)
    count = values.shape[-1] if values.ndim else 0
    if how not in get_args(Pooling):
        raise InputError(f"pooling must be one of {', '.join(get_args(Pooling))}; got {how!r}")
    if layers is not None:
        strays = [layer for layer in layers if not 0 <= layer < count]
        if strays or not layers:
            raise InputError(f"layers are 0 to {count - 1}; got {list(layers)}")
        values = values[..., list(layers)]
    elif count == 0:
        raise InputError("no layers to pool")
    return np.asarray(values.mean(axis=-1) if how == "mean" else values.max(axis=-1))


def chance(alignment: npt.ArrayLike, n: int) -> Floats:
    r"""Probability that a random matrix scores at least this, appendix A.4.

    .. math:: P(X \ge k) = 1 - \sum_{i<k} \binom ni p^i (1-p)^{n-i}, \quad p = \frac1{2n-1}

    Parameters
    ----------
    alignment : array_like
        One layer's score, k/n. For the maximum over layers, the probability is larger, by at most
        a factor of the number of layers.
    n : int
        Number of sentences.

    Returns
    -------
    ndarray
        Between 0 and 1, NaN where the score is. The events of the diagonal count as
        independent, as in the paper.
    """
    from scipy.stats import binom

    values = np.asarray(alignment, dtype=np.float64)
    # A pooled score is no multiple of 1/n: the next lower count is the safe side.
    hits = np.floor(values * n + 1e-9)
    return np.asarray(binom.sf(hits - 1, n, 1.0 / (2 * n - 1)))


def _single(vectors: Array) -> Array:
    """Half precision as single precision, all else as it is."""
    if "16" not in str(vectors.dtype):
        return vectors
    # torch's bfloat16 has no NumPy name, NumPy's float16 no method `float`.
    return vectors.float() if hasattr(vectors, "float") else vectors.astype(np.float32)


def _length(vectors: Array) -> Array:
    """Euclidean lengths; 1 for a vector of zeros, whose products are zero anyway."""
    squares = (vectors * vectors).sum(-1)
    return (squares + (squares == 0)) ** 0.5
