"""Effects integrated out of a joint density in which they are normal given the other variables.

With normal scores the effects of all terms are jointly normal given the sds, the intercept and the
covariates. Where the noise of replicates is estimated as well, there are too many sds for
importance sampling, and NUTS on sds and effects together meets funnels. On small tables NUTS
therefore samples the density without the effects. With u the unit-scale offsets of the effects,
X u what they add to the scores, r the deviations of the scores from their centres at u = 0 and D
their variances,

    -log p(data | sds) = E(0) - g' Q^-1 g / 2 + log det(Q) / 2,

where E(0) is the energy at u = 0, Q = I + X' D^-1 X the precision of u and g = X' D^-1 r. For every
draw of the other variables the offsets are then drawn from N(Q^-1 g, Q^-1), which is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from bayeseval._typing import Floats
from bayeseval.design import Design

__all__ = [
    "MOST_OPERATIONS",
    "Block",
    "Conditional",
    "blocks_of",
    "columns_of",
    "conditional",
    "integrates",
    "split",
    "with_offsets",
]

# Q costs n P^2 operations in every step of NUTS, for P effects and n records. A step takes twice as
# long as one in the joint density at 7,000 operations, and a hundred times as long at 3,600,000.
MOST_OPERATIONS: Final = 100_000


class Block(NamedTuple):
    """Offsets of one term.

    Attributes
    ----------
    offset : str
    sd : str or None
        Parameter that scales them; None where their sd is known.
    size : int
    zero_sum : bool
    """

    offset: str
    sd: str | None
    size: int
    zero_sum: bool


class Conditional(NamedTuple):
    """Offsets of effects given all other variables.

    Attributes
    ----------
    root : array, shape (n_offsets, n_offsets)
        Lower triangle L with L L' = Q, the precision of the offsets.
    gradient : array, shape (n_offsets,)
        g; the mean of the offsets is Q^-1 g.
    at_zero : array, shape ()
        Joint energy, minus the log of the joint density, at offsets of zero.
    """

    root: Any
    gradient: Any
    at_zero: Any

    @property
    def energy(self) -> Any:
        """Minus the log density of all else, up to a constant."""
        half = solve_triangular(self.root, self.gradient, lower=True)
        return self.at_zero - 0.5 * half @ half + jnp.log(jnp.diag(self.root)).sum()

    def joint_energy(self, offsets: Any) -> Any:
        """Joint energy at offsets, shape ()."""
        half = self.root.T @ offsets
        return self.at_zero - self.gradient @ offsets + 0.5 * half @ half

    def draw(self, key: Any, blocks: Sequence[Block]) -> Any:
        """Draw the offsets, shape (n_offsets,); those of zero-sum terms sum to zero."""
        z = jax.random.normal(key, self.gradient.shape, self.gradient.dtype)
        half = solve_triangular(self.root, self.gradient, lower=True)
        drawn = split(solve_triangular(self.root.T, half + z, lower=False), blocks)
        return jnp.concatenate(
            [drawn[b.offset] - drawn[b.offset].mean() * b.zero_sum for b in blocks]
        )


def split(offsets: Any, blocks: Sequence[Block]) -> dict[str, Any]:
    """Offsets by variable."""
    ends = np.cumsum([b.size for b in blocks])
    parts = jnp.split(offsets, ends[:-1])
    return {b.offset: part for b, part in zip(blocks, parts, strict=True)}


def integrates(design: Design) -> bool:
    """Whether the effects of a design are integrated out: few ones, beside sds of replicates.

    Effects of prompts are not, as there are many of them. A spec that says in which form effects
    are sampled has them sampled.
    """
    n_effects = sum(term.n_levels for term in design.terms)
    return (
        design.outcome.is_gaussian
        and bool(design.sources)
        and not any(source.shared for source in design.sources)
        and not any(term.rank or term.relations for term in design.terms)
        and not design.spec.centring
        and design.n_records * n_effects**2 <= MOST_OPERATIONS
    )


def with_offsets(design: Design) -> Design:
    """The same design with unit-scale offsets of all effects in its joint density."""
    return replace(design, terms=tuple(replace(term, centred=False) for term in design.terms))


def blocks_of(design: Design) -> tuple[Block, ...]:
    """Blocks of the offsets, in the order of the columns of :func:`columns_of`."""
    return tuple(Block(t.offset, t.sd, t.n_levels, t.zero_sum) for t in design.terms)


def columns_of(design: Design) -> Floats:
    """Weight of every offset in every record, apart from the sds that are parameters.

    Returns
    -------
    ndarray, shape (n_records, n_offsets)
    """
    columns = []
    for term in design.terms:
        known = 1.0 if term.known_sd is None else term.known_sd
        weight = np.eye(term.n_levels) * np.broadcast_to(known, term.n_levels)
        # Offsets that sum to zero are others less their mean.
        weight -= term.zero_sum * weight.mean(axis=1, keepdims=True)
        columns.append(weight[term.index])
    return np.hstack(columns)


def conditional(
    blocks: Sequence[Block],
    columns: Any,
    known: Mapping[str, Any],
    energy: Any,
    *,
    rest: Any,
    variance: Any,
) -> Conditional:
    """Distribution of the offsets given all other variables.

    Parameters
    ----------
    blocks : sequence of Block
    columns : array, shape (n_records, n_offsets)
        From :func:`columns_of`.
    known : mapping
        Values of the sds.
    energy : array, shape ()
        Joint energy at offsets of zero.
    rest, variance : array, shape (n_records,)
        Deviations of the scores from their centres at offsets of zero, and their variances.
    """
    scale = jnp.concatenate(
        [jnp.broadcast_to(1.0 if b.sd is None else known[b.sd], b.size) for b in blocks]
    )
    scaled = columns * scale
    weighted = scaled / variance[:, None]
    root = jnp.linalg.cholesky(jnp.eye(len(scale)) + scaled.T @ weighted)
    return Conditional(root, rest @ weighted, energy)
