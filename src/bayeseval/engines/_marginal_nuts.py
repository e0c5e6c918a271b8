"""NUTS on the log-sds, for posteriors that importance sampling does not fit.

The density of `_marginal_density` once more, in JAX, with its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from numpyro.infer import MCMC, NUTS

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.engines._marginal_density import Marginal
from bayeseval.engines._marginal_schur import OneClass, meeting_links

__all__ = ["TARGET_ACCEPT", "TUNE", "log_posterior_function", "sample_scales"]


# Seven smooth dimensions at most: short warm-up, and smaller steps than usual, for
# the densities that end here fall off like exp(phi) on one side.
TUNE: Final = 500
TARGET_ACCEPT: Final = 0.95


# Entries of a matrix that is worth multiplying instead of adding up what is not zero.
_DENSE: Final = 2_000_000


@jax.custom_vjp
def _log_determinant_and_quadratic(bordered: Any) -> tuple[Any, Any]:
    """Of ``[[S, r], [r', c]]``: log|S| and c - r'S^-1 r."""
    return _forward(bordered)[0]


def _forward(bordered: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    r = bordered[:-1, -1]
    lower = jnp.linalg.cholesky(bordered[:-1, :-1], symmetrize_input=False)
    solution = jax.scipy.linalg.cho_solve((lower, True), r)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diag(lower)))
    return (log_determinant, bordered[-1, -1] - r @ solution), (lower, solution)


def _backward(saved: tuple[Any, Any], cotangent: tuple[Any, Any]) -> tuple[Any]:
    # The derivatives are the inverse of S, and (x, -1)(x, -1)' with x = S^-1 r: far
    # cheaper to compile and to run than differentiating through the factorisation.
    lower, solution = saved
    n = len(solution)
    inverse = jax.scipy.linalg.cho_solve((lower, True), jnp.eye(n))
    direction = jnp.append(solution, -1.0)
    gradient = cotangent[1] * jnp.outer(direction, direction)
    return (gradient.at[:n, :n].add(cotangent[0] * inverse),)


_log_determinant_and_quadratic.defvjp(_forward, _backward)


def log_posterior_function(marginal: Marginal) -> Callable[[Any], Any]:
    """Log posterior of the log-sds, as a function of one point that JAX can differentiate.

    Parameters
    ----------
    marginal : Marginal
        Sufficient statistics and parameters.

    Notes
    -----
    log p(y | phi) + log p(phi), both normalised. To be called with 64-bit floats enabled.
    """
    statistics, scales = marginal.statistics, marginal.scales
    cells, width = statistics.cells, statistics.n_kept + 1
    cross, link, count = (
        m.tocoo() for m in (statistics.cross_map, statistics.link_map, statistics.count_map)
    )
    row, level = statistics.link_row, statistics.link_level
    meeting = meeting_links(statistics)
    blocks = (*statistics.kept, statistics.eliminated)
    residual = scales.names.index(names.SD_RESIDUAL)
    n_levels, zero_sum = statistics.eliminated.size, statistics.eliminated.zero_sum

    def summed(matrix: Any, weights: Any) -> Any:
        values = matrix.data * weights[matrix.col]
        return jnp.zeros(matrix.shape[0]).at[matrix.row].add(values)

    # With one noise class the products of links are constants: worth having as a
    # matrix where it is small, because scattered additions are slow in XLA.
    constant = marginal.schur if isinstance(marginal.schur, OneClass) else None
    if constant is not None and math.prod(constant.products.shape) > _DENSE:
        constant = None
    products = None if constant is None else constant.products.toarray()

    def taken_out(precision: Any, links: Any, divided: Any, variance: Any) -> Any:
        if constant is None:
            pairs = divided[meeting.first] * links[meeting.second]
            return jnp.zeros(width * width).at[meeting.target[meeting.place]].add(pairs)
        inverse = precision[0] ** 2 / (1.0 + variance * precision[0] * constant.counts)
        return jnp.zeros(width * width).at[constant.target].add(products @ inverse)

    def log_posterior(phi: Any) -> Any:
        natural = scales.natural(phi, jnp)
        precision = 1.0 / (natural[residual] ** 2 + cells.known)
        sds = [
            jnp.asarray(block.known_sd)
            if block.sd is None
            else natural[scales.names.index(block.sd)]
            for block in blocks
        ]
        diagonal = 1.0 + sds[-1] ** 2 * summed(count, precision)
        links = summed(link, precision)
        divided = links / diagonal[level]
        taken = taken_out(precision, links, divided, sds[-1] ** 2)
        bordered = (summed(cross, precision) - sds[-1] ** 2 * taken).reshape(width, width)
        log_determinant = jnp.sum(jnp.log(diagonal))
        if zero_sum:
            total = jnp.zeros(width).at[row].add(divided)
            share = jnp.sum(1.0 / diagonal)
            bordered = bordered + sds[-1] ** 2 / share * jnp.outer(total, total)
            log_determinant = log_determinant + jnp.log(share / n_levels)
        scale = []
        for block, sd in zip(statistics.kept, sds, strict=False):
            if block.zero_sum:
                here = block.columns
                bordered = bordered.at[here].add(-bordered[here].mean(axis=0))
                mean = bordered[:, here].mean(axis=1, keepdims=True)
                bordered = bordered.at[:, here].add(-mean)
            scale.append(jnp.broadcast_to(sd, block.size))
        border = jnp.concatenate([*scale, jnp.ones(1)])
        bordered = bordered * border[:, None] * border
        bordered = bordered + jnp.diag(jnp.append(jnp.ones(width - 1), 0.0))
        inner, quadratic = _log_determinant_and_quadratic(bordered)
        value = jnp.log(precision) @ cells.class_count - log_determinant - inner - quadratic
        constant = cells.count.sum() * float(np.log(2.0 * np.pi)) - 2.0 * cells.log_units
        return 0.5 * (value - constant) + scales.log_prior(phi, jnp)

    return log_posterior


def sample_scales(
    marginal: Marginal, starts: Floats, *, draws: int, seed: np.random.SeedSequence
) -> tuple[Floats, dict[str, npt.NDArray[np.generic]]]:
    """Draw log-sds by NUTS.

    Parameters
    ----------
    marginal : Marginal
        The density.
    starts : ndarray, shape (chains, n)
        Where the chains start.
    draws : int
        Kept draws per chain.
    seed : SeedSequence
        Source of randomness.

    Returns
    -------
    phi : ndarray, shape (chains, draws, n)
    sample_stats : dict of str to ndarray, shape (chains, draws)
    """
    with jax.enable_x64(True):
        log_posterior = log_posterior_function(marginal)
        kernel = NUTS(
            potential_fn=lambda phi: -log_posterior(phi), target_accept_prob=TARGET_ACCEPT
        )
        mcmc = MCMC(
            kernel,
            num_warmup=TUNE,
            num_samples=draws,
            num_chains=len(starts),
            chain_method="vectorized",
            progress_bar=False,
        )
        key = jax.random.wrap_key_data(jnp.asarray(seed.generate_state(2)), impl="threefry2x32")
        mcmc.run(
            key,
            init_params=jnp.asarray(starts if len(starts) > 1 else starts[0]),
            extra_fields=("diverging", "energy", "num_steps", "accept_prob", "potential_energy"),
        )
        phi = np.asarray(mcmc.get_samples(group_by_chain=True))
        extra = {k: np.asarray(v) for k, v in mcmc.get_extra_fields(group_by_chain=True).items()}
    return phi, {
        "diverging": extra["diverging"],
        "energy": extra["energy"],
        "n_steps": extra["num_steps"],
        "acceptance_rate": extra["accept_prob"],
        "lp": -extra["potential_energy"],
    }
