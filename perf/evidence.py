"""Log evidence of models that need NUTS: a Gaussian proposal joined to the posterior by a bridge.

Bridge sampling (Meng and Wong 1996) on the unconstrained parameters, as in the R package
bridgesampling (Gronau and others 2020): one half of the draws gives the mean and the covariance
of the proposal, the other half and as many draws of the proposal give the ratio of normalising
constants. The error is how far batches of draws disagree, five of each chain.

A low-rank interaction has as many posterior modes as its products have orders and signs, all alike.
One proposal covers one of them: draws are moved to the mode of the first, and the integral over
the points that are nearer to it than to its images is multiplied by the number of modes.

A Gaussian in two thousand dimensions is no proposal. Where the noise is normal and interactions
are low-rank, the effects and the loadings of models are therefore integrated out in closed form,
given all sds and the loadings of the other factor, which leaves about a hundred parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS
from numpyro.infer.initialization import init_to_value
from numpyro.infer.util import compute_log_probs, potential_energy, unconstrain_fn
from scipy.linalg import cholesky, solve_triangular

from bayeseval import names
from bayeseval._processes import in_threads
from bayeseval.comparison.bridge import bridge
from bayeseval.design import Design
from bayeseval.engines._density import sampled_variables, start_point
from bayeseval.engines._leave_out_mixture import why_no_mixture
from bayeseval.engines._marginal_density import build_marginal, one_thread_per_call
from bayeseval.engines._marginal_prior import log_prior_density, scales_of
from bayeseval.engines._numpyro_density import data_of, joint_density, log_density, structure_of

Floats = npt.NDArray[np.float64]

CHAINS: Final = 4
_TUNE: Final = 1000
_AT_ONCE: Final = 500
# Of each chain. Four chains by themselves tell their error with three degrees of freedom only.
_BATCHES: Final = 5


class Evidence(NamedTuple):
    """Natural log of the marginal likelihood of the scores, in score units.

    Attributes
    ----------
    value, mcse : float
    overlap : float
        Of posterior and proposal, from 0 to 1; a half where they are the same.
    n_parameters : int
    """

    value: float
    mcse: float
    overlap: float
    n_parameters: int


def log_evidence(design: Design, *, draws: int, tune: int = _TUNE, seed: int) -> Evidence:
    """Draw by NUTS in double precision, and bridge.

    Parameters
    ----------
    design : Design
    draws : int
        Of each of four chains. The covariance of d parameters needs more than d / 2.
    tune : int
    seed : int
    """
    with jax.enable_x64(True):
        arguments = (structure_of(design), data_of(design))
        start = start_point(design, np.random.default_rng([seed, 0]))
        kernel = NUTS(
            joint_density, target_accept_prob=0.9, init_strategy=init_to_value(values=start)
        )
        chains = MCMC(
            kernel,
            num_warmup=tune,
            num_samples=draws,
            num_chains=CHAINS,
            chain_method="sequential",
            progress_bar=False,
        )
        chains.run(jax.random.PRNGKey(seed), *arguments)
        drawn = chains.get_samples(group_by_chain=True)
        points = {name: drawn[name] for name in sampled_variables(design)}
        if is_integrable(design):
            with one_thread_per_call():
                return over_effects(design, points, seed)
        first = jax.tree.map(lambda values: values[0, 0], points)

        def free(point: dict[str, jax.Array]) -> dict[str, jax.Array]:
            found: dict[str, jax.Array] = unconstrain_fn(joint_density, arguments, {}, point)
            return found

        flat = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda p: ravel_pytree(free(p))[0])))(points))
        _, unflatten = ravel_pytree(free(first))
        potential = jax.jit(
            jax.vmap(lambda x: potential_energy(joint_density, arguments, {}, unflatten(x)))
        )
        parts, _ = compute_log_probs(joint_density, arguments, {}, first)
        # The density is of standardised scores; `log_density` is in score units.
        point = {name: np.asarray(values) for name, values in first.items()}
        units = sum(log_density(design, point).values()) - float(sum(parts.values()))

        def log_posterior(x: Floats) -> Floats:
            batches = range(0, len(x), _AT_ONCE)
            return np.concatenate([-np.asarray(potential(x[i : i + _AT_ONCE])) for i in batches])

        places = unflatten(jax.numpy.arange(flat.shape[2], dtype=flat.dtype))
        moves = symmetries(design, {k: np.asarray(v).astype(int) for k, v in places.items()})
        return bridged_in_one_mode(flat, log_posterior, units, seed, moves)


def is_integrable(design: Design) -> bool:
    """Whether effects can be integrated out given loadings; without any, engines do so."""
    low_rank = any(term.rank for term in design.terms)
    one_sd = not design.sources and design.spec.residual_by is None
    return low_rank and one_sd and design.outcome.is_gaussian and why_no_mixture(design) is None


def over_effects(design: Design, points: Mapping[str, npt.ArrayLike], seed: int) -> Evidence:
    """Bridge the density of sds and of loadings of languages or tasks, the effects integrated out.

    Parameters
    ----------
    design : Design
        For which :func:`is_integrable` holds.
    points : mapping of str to ndarray, shape (chain, draw, ...)
        Draws of all variables.
    seed : int
    """
    density = GivenLoadings.of(design)
    flat = density.flat({name: np.asarray(values) for name, values in points.items()})
    return bridged_in_one_mode(flat, density, 0.0, seed, symmetries(design, density.places))


@dataclass(frozen=True, eq=False)
class GivenLoadings:
    """Log density of scores, log sds and loadings, the effects integrated out; score units.

    Attributes
    ----------
    design : Design
        Without the sds of low-rank interactions, which are not sds of effects here.
    places : dict of str to ndarray of int
        Where the values of every variable are among the parameters.
    priors : dict of str to callable
        Log densities of the sds of low-rank interactions.
    """

    design: Design
    places: dict[str, npt.NDArray[np.intp]]
    priors: dict[str, Callable[[Floats], Floats]]

    @classmethod
    def of(cls, design: Design) -> GivenLoadings:
        """The density of a design."""
        low_rank = {names.sd_name(term.name): term for term in design.terms if term.rank}
        priors = {name: p for name, p in design.priors.items() if name not in low_rank}
        reduced = replace(design, priors=priors)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(scales_of(reduced).names, ())
        for name, term in low_rank.items():
            shapes[name] = (term.rank,)
            shapes[term.drawn_loadings[1]] = (term.rank, term.n_members(term.factors[1]))
        places, d = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            places[name] = np.arange(d, d + size).reshape(shape)
            d += size
        of_sds = {name: log_prior_density(design.priors[name]) for name in low_rank}
        return cls(reduced, places, of_sds)

    def flat(self, points: Mapping[str, Floats]) -> Floats:
        """Draws (chain, draw, ...) of all variables as parameters (chain, draw, parameter)."""
        columns = []
        for name in self.places:
            values = points[name].reshape(*points[name].shape[:2], -1)
            is_sd = name in self.priors or name in self.design.priors
            columns.append(np.log(values) if is_sd else values)
        return np.concatenate(columns, axis=-1)

    def __call__(self, x: Floats) -> Floats:
        """Log densities of points (n, parameter)."""
        return np.concatenate(in_threads(self._one, list(x)))

    def _one(self, x: Floats) -> Floats:
        value, loadings = 0.0, {}
        for term in (term for term in self.design.terms if term.rank):
            log_sd, other = x[self.places[names.sd_name(term.name)]], term.drawn_loadings[1]
            sd, of_other = np.exp(log_sd), x[self.places[other]]
            loadings[term.name] = sd, of_other
            value += (self.priors[names.sd_name(term.name)](sd) + log_sd).sum()
            value -= 0.5 * (of_other**2 + np.log(2.0 * np.pi)).sum()
        marginal = build_marginal(self.design, loadings=loadings)
        return np.asarray(value + marginal.log_posterior(x[None, : marginal.scales.n]))


@dataclass(frozen=True, eq=False)
class Move:
    """A symmetry of a density: parameters change places and signs."""

    index: npt.NDArray[np.intp]
    sign: Floats

    def __call__(self, x: Floats) -> Floats:
        """The images of points (..., parameter)."""
        return np.asarray(x[..., self.index] * self.sign)

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which parameters it moves."""
        return np.asarray((self.index != np.arange(len(self.index))) | (self.sign != 1.0))


@dataclass(frozen=True, eq=False)
class Nearest:
    """Moves points to the image that is nearest to one of them; the first move moves nothing."""

    moves: Sequence[Move]
    point: Floats

    def move_of(self, x: Floats) -> npt.NDArray[np.intp]:
        """The move of each point (n, parameter)."""
        some = np.any([move.moved for move in self.moves], axis=0)
        near = [move(x)[:, some] @ self.point[some] for move in self.moves]
        return np.asarray(np.argmax(near, axis=0))

    def __call__(self, x: Floats) -> Floats:
        """The images of points (..., parameter)."""
        flat = x.reshape(-1, x.shape[-1]).copy()
        move_of = self.move_of(flat)
        for which, move in enumerate(self.moves):
            flat[move_of == which] = move(flat[move_of == which])
        return flat.reshape(x.shape)


def symmetries(design: Design, places: Mapping[str, npt.NDArray[np.intp]]) -> list[Move]:
    """Orders and signs of the products of low-rank interactions, the identity first.

    Parameters
    ----------
    design : Design
    places : mapping of str to ndarray of int
        Where the values of every variable are among the parameters; of loadings and their sds by
        product first. Loadings that are integrated out have none.
    """
    d = 1 + max(int(where.max()) for where in places.values())
    moves = [Move(np.arange(d), np.ones(d))]
    for term in design.terms:
        if not term.rank:
            continue
        # One with own sds of products; the loadings of models and of the other factor.
        sd, loadings = (
            places[names.sd_name(term.name)],
            [places[name] for name in term.drawn_loadings if name in places],
        )
        found = []
        orders = itertools.permutations(range(term.rank))
        signs = itertools.product((1.0, -1.0), repeat=term.rank)
        for (order, flipped), before in itertools.product(itertools.product(orders, signs), moves):
            index, sign = before.index.copy(), before.sign.copy()
            for where in (sd[:, None], *loadings):
                index[where] = before.index[where[list(order)]]
            for where in loadings:
                sign[where] = before.sign[where] * np.array(flipped)[:, None]
            found.append(Move(index, sign))
        moves = found
    return moves


def bridged_in_one_mode(
    flat: Floats,
    log_posterior: Callable[[Floats], Floats],
    units: float,
    seed: int,
    moves: Sequence[Move],
) -> Evidence:
    """:func:`bridged` for a density that has modes which `moves` map to one another."""
    if len(moves) == 1:
        return bridged(flat, log_posterior, units, seed)
    nearest = Nearest(moves, flat[0, -1])

    def of_one_mode(x: Floats) -> Floats:
        return np.asarray(np.where(nearest.move_of(x) == 0, log_posterior(x), -np.inf))

    return bridged(nearest(flat), of_one_mode, units + math.log(len(moves)), seed)


def bridged(
    flat: Floats, log_posterior: Callable[[Floats], Floats], units: float, seed: int
) -> Evidence:
    """Log of the integral of a density, of which `flat` (chain, draw, parameter) holds draws."""
    half, d = flat.shape[1] // 2 // _BATCHES * _BATCHES, flat.shape[2]
    own = flat[:, :half].reshape(-1, d)
    mean, root = own.mean(axis=0), cholesky(np.cov(own.T), lower=True)

    def log_proposal(x: Floats) -> Floats:
        z = solve_triangular(root, (x - mean).T, lower=True)
        log_det = np.log(np.diag(root)).sum()
        return np.asarray(-0.5 * (z**2).sum(axis=0) - log_det - 0.5 * d * np.log(2.0 * np.pi))

    rest = flat[:, half : 2 * half].reshape(-1, d)
    proposed = mean + np.random.default_rng([seed, 1]).normal(size=(CHAINS * half, d)) @ root.T
    found = bridge(
        *(
            (log_posterior(x) - log_proposal(x)).reshape(CHAINS * _BATCHES, -1)
            for x in (rest, proposed)
        )
    )
    return Evidence(found.value + units, found.error, found.overlap, d)
