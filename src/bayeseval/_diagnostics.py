"""R-hat and effective sample sizes of many quantities at once, and smoothed importance weights.

The definitions are those of Vehtari et al. (2021), doi:10.1214/20-BA1221, and (2024),
arXiv:1507.02646, and the numbers those of ArviZ, which computes them for one quantity after the
other and takes as long to import as a small fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bayeseval._processes import in_threads
from bayeseval._typing import Bools, Floats, Index

__all__ = ["Convergence", "convergence", "mean_mcse", "smoothed_weights"]

# Two halves of a chain have to vary.
_DRAWS_MIN = 4
# Quantities at a time: arrays of 500 kB at the usual number of draws, which caches hold.
_BLOCK = 16
# Draws of independent chains or of importance sampling are noise after these.
_FIRST_LAGS = 16
# Fewer blocks are done before threads have started.
_THREADED = 4
# The tails that an interval of 90 % ends in, as ArviZ's own convention.
_TAILS = (0.05, 0.95)
# The prior of the shape of a tail: its mean, and the number of draws that it counts as.
_SHAPE = 0.5
_SHAPE_DRAWS = 10
# Fewer draws have no tail of their own.
_LEAST_TAIL = 5
_MANY = 225


class Convergence(NamedTuple):
    """Diagnostics of quantities, one value each; NaN where a quantity has none."""

    #: Rank-normalised split R-hat, of the draws or of their distances from the median.
    r_hat: Floats
    #: Effective sample size of the middle of the distribution.
    bulk: Floats
    #: The smaller effective sample size of the two tails.
    tail: Floats


def convergence(draws: Floats) -> Convergence:
    """R-hat, bulk and tail effective sample size of draws (quantity, chain, draw).

    ArviZ's ``rhat`` with the method ``rank``, and its ``ess`` with ``bulk`` and with ``tail`` at
    5 and 95 %.
    """
    blocks = [draws[at : at + _BLOCK] for at in range(0, len(draws), _BLOCK)]
    if len(blocks) < _THREADED:
        made = [_of_block(block) for block in blocks]
    else:
        # Sorting and Fourier transforms let other threads work.
        made = in_threads(_of_block, blocks)
    if not made:
        return Convergence(*np.empty((3, 0)))
    return Convergence(*np.concatenate(made, axis=1))


def mean_mcse(draws: Floats) -> Floats:
    """Monte-Carlo standard errors of means of draws (quantity, chain, draw).

    ArviZ's ``mcse`` with the method ``mean``; NaN where chains have fewer than four draws.
    """
    n, _, n_draws = draws.shape
    if n_draws < _DRAWS_MIN:
        return np.full(n, np.nan)
    half = n_draws // 2
    ess = [
        _ess(np.concatenate([block[:, :, :half], block[:, :, n_draws - half :]], axis=1))
        for block in (draws[at : at + _BLOCK] for at in range(0, n, _BLOCK))
    ]
    sd: Floats = draws.reshape(n, -1).std(axis=1, ddof=1)
    return sd / np.sqrt(np.concatenate(ess))


def smoothed_weights(
    log_weights: Floats, *, efficiency: float = 1.0, most: float = 1.0
) -> tuple[Floats, float]:
    """Pareto-smoothed log weights, which sum to one, and the shape k-hat of their tail.

    Parameters
    ----------
    log_weights : ndarray, shape (n_draws,)
        Log importance ratios.
    efficiency : float
        Effective draws of each draw.
    most : float
        Share of the draws that the tail may have.

    Raises
    ------
    ValueError
        If the draws are too few to have a tail, or all weights of the tail are the same.
    """
    from scipy.special import logsumexp

    n = len(log_weights)
    size = int(3.0 * np.sqrt(n / efficiency) if n * efficiency > _MANY else n / 5)
    if most < 1.0:
        size = max(min(size, int(most * n)), _LEAST_TAIL)
    if size < _LEAST_TAIL:
        raise ValueError(f"{n} draws have no tail")
    smooth = log_weights - log_weights.max()
    order = np.argsort(smooth)
    tail, cutoff = smooth[order[-size:]], np.exp(smooth[order[-size - 1]])
    highest = tail[-1]
    if highest - tail[0] < np.finfo(np.float64).tiny:
        raise ValueError("all weights of the tail are the same")
    shape, scale = _generalised_pareto(np.exp(tail) - cutoff)
    if np.isfinite(shape):
        smooth[order[-size:]] = _smooth_tail(size, shape, scale, cutoff, highest)
    return smooth - logsumexp(smooth), float(shape)


def _smooth_tail(size: int, shape: float, scale: float, cutoff: float, highest: float) -> Floats:
    """Logs of expected order statistics of a tail, none above the highest weight."""
    if scale <= 0.0:
        return np.full(size, np.nan)
    steps = np.log1p(-np.arange(0.5, size) / size)
    values = cutoff + (scale * np.expm1(-shape * steps) / shape if shape else -scale * steps)
    smooth: Floats = np.minimum(np.log(values), highest)
    return smooth


def _generalised_pareto(tail: Floats) -> tuple[float, float]:
    """Shape and scale of sorted distances from a cutoff, by empirical Bayes (Zhang 2009)."""
    from scipy.special import logsumexp

    n = len(tail)
    m = 30 + int(n**0.5)
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    grid /= 3.0 * tail[int(n / 4 + 0.5) - 1]
    grid += 1.0 / tail[-1]
    shapes = np.log1p(-grid[:, None] * tail).mean(axis=1)
    profile = n * (np.log(-grid / shapes) - shapes - 1.0)
    weights = np.exp(profile - logsumexp(profile))
    kept = weights >= 10.0 * np.finfo(np.float64).eps
    weights = weights[kept] / weights[kept].sum()
    rate = np.sum(grid[kept] * weights)
    shape = np.log1p(-rate * tail).mean()
    scale = -shape / rate
    return float((n * shape + _SHAPE_DRAWS * _SHAPE) / (n + _SHAPE_DRAWS)), float(scale)


def _of_block(draws: Floats) -> Convergence:
    n, n_chains, n_draws = draws.shape
    if n_draws < _DRAWS_MIN:
        return Convergence(*np.full((3, n), np.nan))
    half = n_draws // 2
    split = np.concatenate([draws[:, :, :half], draws[:, :, n_draws - half :]], axis=1)
    flat = split.reshape(n, -1)
    order = np.argsort(flat, axis=1)
    # Places in flattened arrays: several times faster than places along an axis.
    start = np.arange(n)[:, None] * flat.shape[1]
    ordered = np.take(flat, order + start)
    scores = _normal_scores(ordered, order).reshape(split.shape)
    # The halves of a chain with an odd number of draws leave one out.
    whole = ordered if 2 * half == n_draws else np.sort(draws.reshape(n, -1), axis=1)
    bounds = (whole[:, int((whole.shape[1] - 1) * tail), None, None] for tail in _TAILS)
    tails = [_ess((split <= bound).astype(np.float64)) for bound in bounds]
    r_hat = np.full(n, np.nan)
    if n_chains > 1:
        middle = ordered.shape[1] // 2
        folded = np.abs(ordered - ordered[:, middle - 1 : middle + 1].mean(axis=1, keepdims=True))
        # They fall to the median and rise from there: two runs, which a stable sort merges.
        again = np.argsort(folded, axis=1, kind="stable")
        again += start
        distances = _normal_scores(np.take(folded, again), np.take(order, again))
        r_hat = np.maximum(_r_hat(scores), _r_hat(distances.reshape(split.shape)))
    made = Convergence(r_hat, _ess(scores), np.minimum(*tails))
    known = np.isfinite(flat).all(axis=1)
    return Convergence(*(np.where(known, values, np.nan) for values in made))


def _normal_scores(ordered: Floats, order: Index) -> Floats:
    """Normal quantiles of ranks (Blom 1958) from sorted values and the places they come from."""
    size = ordered.shape[1]
    quantiles = _quantiles(size)
    scores = np.empty_like(ordered)
    differs = ordered[:, 1:] != ordered[:, :-1]
    for own, places, is_other in zip(scores, order, differs, strict=True):
        if is_other.all():
            own[places] = quantiles[::2]
            continue
        # Ties share the middle of their ranks, which lies between two whole numbers.
        starts = np.concatenate([[0], np.flatnonzero(is_other) + 1, [size]])
        own[places] = np.repeat(quantiles[starts[:-1] + starts[1:] - 1], np.diff(starts))
    return scores


@lru_cache(maxsize=1)
def _quantiles(size: int) -> Floats:
    """Normal quantiles of the ranks 1, 1.5, 2, ... of so many values."""
    from scipy.special import ndtri

    ranks = np.arange(2, 2 * size + 1) / 2.0
    values: Floats = ndtri((ranks - 3 / 8) / (size - 2 * (3 / 8) + 1))
    return values


def _r_hat(chains: Floats) -> Floats:
    """Square root of total over within-chain variance."""
    n = chains.shape[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = n * chains.mean(axis=2).var(axis=1, ddof=1)
        within = chains.var(axis=2, ddof=1).mean(axis=1)
        value: Floats = np.sqrt((between / within + n - 1) / n)
    return value


def _ess(chains: Floats) -> Floats:
    """Effective sample size from the autocorrelations of all chains (Geyer 1992)."""
    centred = chains - chains.mean(axis=2, keepdims=True)
    ess, ended = _ess_from(chains, _first_covariances(centred))
    # Few quantities need all lags, which take several times as long.
    left = np.flatnonzero(~ended)
    if left.size:
        ess[left], _ = _ess_from(chains[left], _all_covariances(centred[left]))
    return ess


def _ess_from(chains: Floats, covariance: Floats) -> tuple[Floats, Bools]:
    """Effective sample size from covariances at the first lags, and whether these were enough."""
    n_chains, n = chains.shape[1:]
    size = n_chains * n
    with np.errstate(divide="ignore", invalid="ignore"):
        within = covariance[:, :1] * n / (n - 1.0)
        total = covariance[:, :1].copy()
        if n_chains > 1:
            total += chains.mean(axis=2).var(axis=1, ddof=1)[:, None]
        correlation = 1.0 - (within - covariance) / total
    correlation[:, 0] = 1.0
    # Sums of neighbours are positive and fall, up to the lag from which on they are noise.
    odd = correlation[:, 1::2]
    even = correlation[:, 0::2][:, : odd.shape[1]]
    pairs = even + odd
    last = min(max((n - 3) // 2, 0), pairs.shape[1] - 1)
    stops = ~(pairs[:, : last + 1] > 0.0)
    ended = stops.any(axis=1)
    stop = np.where(ended, stops.argmax(axis=1), last)
    falling = np.minimum.accumulate(pairs, axis=1)
    falling[np.arange(pairs.shape[1]) >= stop[:, None]] = 0.0
    row = np.arange(len(chains))
    end, positive = even[row, stop], pairs[row, stop] >= 0.0
    time = -1.0 + 2.0 * falling.sum(axis=1) + np.where(positive, end, np.maximum(end, 0.0))
    ess = size / np.maximum(time, 1.0 / np.log10(size))
    spread = chains.max(axis=(1, 2)) - chains.min(axis=(1, 2))
    value: Floats = np.where(spread < np.finfo(np.float64).resolution, float(size), ess)
    return value, ended


def _first_covariances(centred: Floats) -> Floats:
    """Autocovariance at the first lags, mean over chains: shape (quantity, lag)."""
    n_chains, n = centred.shape[1:]
    sums = [
        np.vecdot(centred[:, :, : n - lag], centred[:, :, lag:]).sum(axis=1)
        for lag in range(min(_FIRST_LAGS, n))
    ]
    covariance: Floats = np.stack(sums, axis=1) / (n * n_chains)
    return covariance


def _all_covariances(centred: Floats) -> Floats:
    """Autocovariance at every lag, mean over chains: shape (quantity, lag)."""
    from scipy.fft import irfft, next_fast_len, rfft

    n_chains, n = centred.shape[1:]
    length = next_fast_len(2 * n, real=True)
    spectrum = rfft(centred, n=length, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
    covariance: Floats = irfft(power, n=length, axis=1)[:, :n] / (n * n_chains)
    return covariance
