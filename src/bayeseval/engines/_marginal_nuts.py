"""NUTS on the log-sds, for posteriors where importance sampling fails.

The density is that of `_marginal_density`, in JAX, with its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from numpyro.infer import MCMC, NUTS

from bayeseval._typing import Floats
from bayeseval.engines._marginal_density import Marginal
from bayeseval.engines._marginal_schur import OneClass, meeting_links
from bayeseval.engines._related import covariance

__all__ = ["TARGET_ACCEPT", "TUNE", "log_posterior_function", "sample_scales"]


# At most seven smooth dimensions need a short warm-up only. Steps are smaller than usual
# because densities that importance sampling fails on fall off like exp(phi) on one side.
TUNE: Final = 500
TARGET_ACCEPT: Final = 0.95


# Most entries of a matrix that is stored as dense, to multiply instead of scattering.
_DENSE: Final = 2_000_000


@jax.custom_vjp
def _log_determinant_and_quadratic(bordered: Any) -> tuple[Any, Any]:
    """Compute log|S| and c - r'S^-1 r of ``[[S, r], [r', c]]``."""
    return _forward(bordered)[0]


def _forward(bordered: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    r = bordered[:-1, -1]
    lower = jnp.linalg.cholesky(bordered[:-1, :-1], symmetrize_input=False)
    solution = jax.scipy.linalg.cho_solve((lower, True), r)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diag(lower)))
    return (log_determinant, bordered[-1, -1] - r @ solution), (lower, solution)


def _backward(saved: tuple[Any, Any], cotangent: tuple[Any, Any]) -> tuple[Any]:
    # The derivatives are the inverse of S, and (x, -1)(x, -1)' with x = S^-1 r. This is far
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
    log p(y | phi) + log p(phi), both normalised. Call it with 64-bit floats enabled.
    """
    marginal = marginal.without_nesting()
    statistics, scales = marginal.statistics, marginal.scales
    cells, width = statistics.cells, statistics.n_kept + 1
    cross, link, count = (
        m.tocoo() for m in (statistics.cross_map, statistics.link_map, statistics.count_map)
    )
    entry = statistics.layout.position(statistics.cross_row, statistics.cross_column)
    row, level = statistics.link_row, statistics.link_level
    n_levels, zero_sum = statistics.eliminated.size, statistics.eliminated.zero_sum
    eliminated_products = _eliminated_products(marginal)

    def log_posterior(phi: Any) -> Any:
        natural = scales.natural(phi, jnp)
        precision = 1.0 / (scales.residual(natural)[cells.level] ** 2 + cells.known)
        sds = [
            jnp.asarray(block.known_sd)
            if block.sd is None
            else 1.0
            if block.relations is not None
            else natural[scales.names.index(block.sd)]
            for block in statistics.kept
        ]
        eliminated = statistics.eliminated
        variance = (
            float(eliminated.known_sd[0])
            if eliminated.sd is None
            else natural[scales.names.index(eliminated.sd)]
        ) ** 2
        diagonal = 1.0 + variance * _summed(count, precision)
        links = _summed(link, precision)
        divided = links / diagonal[level]
        products = eliminated_products(precision, links, divided, variance)
        crossed = jnp.zeros(width * width).at[entry].add(_summed(cross, precision))
        lower = (crossed - variance * products).reshape(width, width)
        bordered = lower + jnp.tril(lower, -1).T
        log_determinant = jnp.sum(jnp.log(diagonal))
        if zero_sum:
            total = jnp.zeros(width).at[row].add(divided)
            share = jnp.sum(1.0 / diagonal)
            bordered = bordered + variance / share * jnp.outer(total, total)
            log_determinant = log_determinant + jnp.log(share / n_levels)
        scale = []
        for block, sd in zip(statistics.kept, sds, strict=True):
            columns = block.columns
            if block.relations is not None and block.sd is not None:
                own, *shared = (
                    natural[scales.names.index(name)] for name in (block.sd, *block.relations.sds)
                )
                lower = jnp.linalg.cholesky(
                    covariance(block.relations.contrasts, own, shared, xp=jnp)
                )
                root = block.relations.basis @ lower @ block.relations.basis.T
                bordered = bordered.at[columns].set(root.T @ bordered[columns])
                bordered = bordered.at[:, columns].set(bordered[:, columns] @ root)
            elif block.zero_sum:
                bordered = bordered.at[columns].add(-bordered[columns].mean(axis=0))
                mean = bordered[:, columns].mean(axis=1, keepdims=True)
                bordered = bordered.at[:, columns].add(-mean)
            scale.append(jnp.broadcast_to(sd, block.size))
        border = jnp.concatenate([*scale, jnp.ones(1)])
        bordered = bordered * border[:, None] * border
        bordered = bordered + jnp.diag(jnp.append(jnp.ones(width - 1), 0.0))
        inner, quadratic = _log_determinant_and_quadratic(bordered)
        value = jnp.log(precision) @ cells.class_count - log_determinant - inner - quadratic
        constant = cells.count.sum() * float(np.log(2.0 * np.pi)) - 2.0 * cells.log_units
        return 0.5 * (value - constant) + scales.log_prior(phi, jnp)

    return log_posterior


def _summed(matrix: Any, weights: Any) -> Any:
    """Product of a sparse matrix and a vector."""
    values = matrix.data * weights[matrix.col]
    return jnp.zeros(matrix.shape[0]).at[matrix.row].add(values)


def _eliminated_products(marginal: Marginal) -> Callable[[Any, Any, Any, Any], Any]:
    """Sums over the levels of the eliminated term of products of links, as a function.

    It takes the precisions of the noise classes, the links, these divided by the diagonal
    of the eliminated block, and the prior variance; it returns flattened cross-products.
    """
    statistics = marginal.statistics
    meeting, size = meeting_links(statistics), (statistics.n_kept + 1) ** 2

    # With one noise class the products of links are constants. A small matrix of them is
    # stored, because scattered additions are slow in XLA.
    constant = marginal.schur if isinstance(marginal.schur, OneClass) else None
    if constant is not None and len(meeting.target) * len(constant.counts) > _DENSE:
        constant = None
    products = None if constant is None else -constant.matrix[meeting.target, 1:].toarray()

    def summed_products(precision: Any, links: Any, divided: Any, variance: Any) -> Any:
        if constant is None:
            pairs = divided[meeting.first] * links[meeting.second]
            return jnp.zeros(size).at[meeting.target[meeting.place]].add(pairs)
        inverse = precision[0] ** 2 / (1.0 + variance * precision[0] * constant.counts)
        return jnp.zeros(size).at[meeting.target].add(products @ inverse)

    return summed_products


def sample_scales(
    marginal: Marginal, starts: Floats, *, draws: int, seed: np.random.SeedSequence
) -> tuple[Floats, dict[str, npt.NDArray[np.generic]]]:
    """Draw log-sds by NUTS.

    Parameters
    ----------
    marginal : Marginal
        The density.
    starts : ndarray, shape (chains, n)
        Starting points of the chains.
    draws : int
        Kept draws per chain.
    seed : SeedSequence
        Seed of the chains.

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
