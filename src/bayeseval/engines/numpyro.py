"""NumPyro engine: NUTS in float64, one compiled program for tables of one structure.

Everything that may change in a refit (scores, indices, known errors, the numbers in
the priors) is an argument of the compiled program; what determines the program (terms,
their levels, likelihood, kinds of priors, warm-up length) is a small hashable
:class:`Structure`. A second table of the same structure is not compiled again. On small tables
with replicates the effects are integrated out of this density and drawn afterwards.

Chains run in blocks of iterations. Between blocks, progress is reported and the run can
be interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro
from jax.flatten_util import ravel_pytree
from numpyro.infer.hmc import hmc
from numpyro.infer.util import (
    constrain_fn,
    potential_energy,
    unconstrain_fn,
)

from bayeseval import names
from bayeseval._random import stream
from bayeseval._text import counted
from bayeseval._typing import Floats, Progress
from bayeseval.design import Design
from bayeseval.engines._density import inverse_mass, start_point, to_posterior
from bayeseval.engines._integrated_effects import (
    Conditional,
    blocks_of,
    columns_of,
    conditional,
    integrates,
    split,
    with_offsets,
)
from bayeseval.engines._numpyro_density import (
    Structure,
    Tree,
    data_of,
    free_shapes,
    joint_density,
    log_density,
    structure_of,
)
from bayeseval.engines._prompt_effects import with_prompts
from bayeseval.engines.base import Draws, SamplerSettings, resolve_settings
from bayeseval.families import scale_names

__all__ = ["log_density", "sample"]


_DEFAULTS: Final = {"draws": 1000, "tune": 1000, "chains": 4, "target_accept": 0.9}

# Iterations per call of the compiled program: a fraction of a second on MEGA, short enough
# for progress and Ctrl-C, long enough to make the overhead of the call negligible.
_BLOCK: Final = 50

_FIRST_STEP_SIZE: Final = 0.5


@dataclass(frozen=True, eq=False)
class _Program:
    """Compiled functions for one structure and one warm-up length.

    Attributes
    ----------
    start : callable
        (key, point, inverse mass, data) to the state of the kernel.
    advance : callable
        (state, number of iterations, data) to the new state, draws and statistics,
        arrays with `_BLOCK` rows of which the first ones are filled.
    """

    start: Callable[..., Any]
    advance: Callable[..., Any]


# Tables of one shape share at most one program for each set of centred terms and each of the two
# attempts at the gate: 100 tables of `robust` have 29 such sets.
@lru_cache(maxsize=128)
def _program(structure: Structure, tune: int, target_accept: float, vectorised: bool) -> _Program:
    empty = {name: np.zeros(shape) for name, shape in free_shapes(structure).items()}
    blocks = structure.integrated
    at_zero = {block.offset: empty[block.offset] for block in blocks}
    # One flat vector instead of a dozen arrays: building the tree of NUTS has a cost per
    # array.
    sampled = {name: zeros for name, zeros in empty.items() if name not in at_zero}
    _, unflatten = ravel_pytree(sampled)
    shift = _shift(structure)
    of_prompts = [drawn for source in structure.sources for drawn, *_ in source.shared]

    def to_free(flat: Any, data: Tree) -> tuple[Tree, Any]:
        values = shift(unflatten(flat), data, -1.0)
        return (values | at_zero, 0.0) if blocks else _with_prompts(structure, data, values)

    def potential(data: Tree) -> Callable[[Any], Any]:
        def energy(flat: Any) -> Any:
            values, log_determinant = to_free(flat, data)
            if blocks:
                return _of_offsets(structure, data, values)[1].energy
            return potential_energy(joint_density, (structure, data), {}, values) - log_determinant

        return energy

    def to_model(state: Any, data: Tree) -> tuple[Tree, Any]:
        """Variables of the joint density and their energy."""
        values, log_determinant = to_free(state.z, data)
        if blocks:
            known, offsets = _of_offsets(structure, data, values)
            # The next iteration splits the key of the state; this one is another.
            drawn = offsets.draw(jax.random.fold_in(state.rng_key, 0), blocks)
            return known | split(drawn, blocks), offsets.joint_energy(drawn)
        known = constrain_fn(joint_density, (structure, data), {}, values)
        return known, state.potential_energy + log_determinant

    init_kernel, sample_kernel = hmc(potential_fn_gen=potential, algo="NUTS")

    def start(key: Any, point: Tree, mass: Tree, data: Tree) -> Any:
        free = unconstrain_fn(joint_density, (structure, data), {}, point)
        # Effects of prompts start at what the scores say about them.
        expected = {name: jnp.zeros_like(free[name]) for name in of_prompts}
        free = shift(free, data, 1.0) | expected
        variances = {name: jnp.broadcast_to(mass[name], a.shape) for name, a in sampled.items()}
        return init_kernel(
            ravel_pytree({name: free[name] for name in sampled})[0],
            tune,
            step_size=_FIRST_STEP_SIZE,
            inverse_mass_matrix=ravel_pytree(variances)[0],
            target_accept_prob=target_accept,
            model_args=(data,),
            rng_key=key,
        )

    def collect(state: Any, data: Tree) -> tuple[Tree, Tree]:
        values, energy = to_model(state, data)
        return {name: values[name] for name in empty}, {
            "acceptance_rate": state.accept_prob,
            "diverging": state.diverging,
            "energy": state.energy,
            "lp": -energy,
            "n_steps": state.num_steps,
            "step_size": state.adapt_state.step_size,
        }

    def advance(state: Any, n: Any, data: Tree) -> tuple[Any, Any]:
        shapes = jax.eval_shape(collect, state, data)
        rows = jax.tree.map(lambda s: jnp.zeros((_BLOCK, *s.shape), s.dtype), shapes)

        def iterate(i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            state = sample_kernel(carry[0], (data,))
            row = collect(state, data)
            return state, jax.tree.map(lambda a, b: a.at[i].set(b), carry[1], row)

        after: tuple[Any, Any] = jax.lax.fori_loop(0, n, iterate, (state, rows))
        return after

    if vectorised:
        start = jax.vmap(start, in_axes=(0, 0, None, None))
        advance = jax.vmap(advance, in_axes=(0, None, None))
    return _Program(start=jax.jit(start), advance=jax.jit(advance))


def _shift(structure: Structure) -> Callable[[Tree, Tree, float], Tree]:
    """Add (sign 1) to unconstrained variables what they share with others, or subtract it (-1).

    The intercept is added to effects that need not sum to zero: the scores do not identify how
    a constant is split between the two. Each has a posterior sd of sd_model / sqrt(13) on MEGA,
    their sum a tenth of it. To the log of a typical sd is added the mean of the deviations of
    its levels' log sds, where these are sampled as unit-scale offsets: the data identify the
    mean of the log sds. Sampling the sums removes these correlations, and with them, on 48 cells
    with five seeds and 20 bootstraps, divergences in the tails of the typical sds. Every map
    adds a function of other variables, so its Jacobian is one.
    """
    effects = [term.effect for term in structure.terms if term.shifted]
    scales = [name for name, _, _ in structure.priors if name in scale_names()]
    sources = [source for source in structure.sources if not source.centred]

    def shift(values: Tree, data: Tree, sign: float) -> Tree:
        added: Tree = dict.fromkeys(effects, values[names.INTERCEPT])
        if structure.residual is not None:
            mean = values[structure.residual[0]].mean()
            added |= dict.fromkeys(scales, jnp.exp(values[names.SD_LOG_RESIDUAL]) * mean)
        for source in sources:
            model = data["sources"][structure.sources.index(source)]["model"]
            count = jnp.zeros(source.n_models).at[model].add(1.0)
            total = jnp.zeros(source.n_models).at[model].add(values[source.drawn])
            spread = jnp.exp(values[names.source_log_sd(source.name)])
            added[names.source_model_sd(source.name)] = spread * total / jnp.maximum(count, 1.0)
        return values | {name: values[name] + sign * value for name, value in added.items()}

    return shift


def _of_offsets(structure: Structure, data: Tree, values: Tree) -> tuple[Tree, Conditional]:
    """Variables of the joint density at offsets of zero, and the distribution of the offsets."""
    known = constrain_fn(joint_density, (structure, data), {}, values, return_deterministic=True)
    energy = potential_energy(joint_density, (structure, data), {}, values)
    (family,) = data["families"]
    return known, conditional(
        structure.integrated,
        data["columns"],
        known,
        energy,
        rest=family["observed"] - known[names.SCORE_CENTRE],
        variance=known[names.SCORE_SD] ** 2,
    )


def _with_prompts(structure: Structure, data: Tree, values: Tree) -> tuple[Tree, Any]:
    """Replace standard normal variables by effects of prompts; also the log determinant."""
    for source, arrays in zip(structure.sources, data.get("sources", []), strict=True):
        if source.shared:
            known = constrain_fn(
                joint_density, (structure, data), {}, values, return_deterministic=True
            )
            shared = [(drawn, sd) for drawn, sd, _, _ in source.shared]
            return with_prompts(source.name, shared, arrays["by_cell"], known, values)
    return values, 0.0


def _with_effects_drawn(design: Design) -> Design:
    """The same design with effects of prompts, not offsets, in its joint density."""
    if design.replicates is None:
        return design
    sources = tuple(
        source
        if source.by_cell is None
        else replace(
            source,
            by_cell=replace(
                source.by_cell, shared=tuple(replace(e, centred=True) for e in source.shared)
            ),
        )
        for source in design.replicates.sources
    )
    return replace(design, replicates=replace(design.replicates, sources=sources))


def sample(design: Design, settings: SamplerSettings, *, progress: Progress | None = None) -> Draws:
    """Draw from the posterior with NumPyro's NUTS.

    Parameters
    ----------
    design : Design
        The model and its table.
    settings : SamplerSettings
        ``draws``, ``tune``, ``chains``, ``seed`` and ``target_accept``; others are
        refused. The defaults are 1000, 1000, 4, 0 and 0.9.
    progress : callable, optional
        Called between blocks of iterations as ``progress(stage, done, total, remark)``;
        an exception raised in it, or Ctrl-C, ends the run.

    Returns
    -------
    Draws
        Score scale. The same seed gives the same numbers, whatever the number of cores;
        adding chains does not change the first ones.

    Raises
    ------
    EngineError
        If a setting is given that the engine does not have.

    Notes
    -----
    On a CPU every chain is a separate run of the same compiled program, in as many threads
    as there are cores: vectorised chains would all wait for the longest trajectory (on MEGA
    with `crossed` and two cores, 35 s against 14 s). On an accelerator the chains are
    vectorised.
    """
    settings = resolve_settings(settings, engine="numpyro", defaults=_DEFAULTS)
    vectorised = jax.default_backend() != "cpu"
    design = with_offsets(design) if integrates(design) else _with_effects_drawn(design)
    # Enable float64 for this block and thread only: the user's JAX is not changed.
    with jax.enable_x64(True):
        drawn, stats = _run(design, settings, vectorised=vectorised, progress=progress)
    stats["tree_depth"] = np.floor(np.log2(stats["n_steps"])).astype(np.int64) + 1
    return Draws(
        posterior=to_posterior(design, drawn),
        sample_stats=stats,
        settings=settings,
        attrs={
            "inference_library": "numpyro",
            "inference_library_version": numpyro.__version__,
            "jax_version": jax.__version__,
            "device": jax.default_backend(),
        },
    )


def _run(
    design: Design, settings: SamplerSettings, *, vectorised: bool, progress: Progress | None
) -> tuple[dict[str, Floats], dict[str, npt.NDArray[np.generic]]]:
    """Draws and statistics, each (chain, draw, ...)."""
    report = progress or (lambda stage, done, total, remark: None)
    draws, tune, chains = settings.draws or 0, settings.tune or 0, settings.chains or 0
    structure, data = structure_of(design), data_of(design)
    if integrates(design):
        structure = replace(structure, integrated=blocks_of(design))
        data["columns"] = columns_of(design)
    program = _program(structure, tune, settings.target_accept or 0.0, vectorised)
    mass = inverse_mass(design) | {one.drawn: 1.0 for s in design.sources for one in s.shared}
    data, mass = jax.device_put((data, mass))

    report("compiling", 0, 1, "")
    groups = []
    for key, point in _starts(design, settings.seed, chains=chains, vectorised=vectorised):
        groups.append(_Group(program, program.start(key, point, mass, data), data))
    # Compile the program first, so that not several threads do so at the same time.
    groups[0].advance(0)
    report("compiling", 1, 1, "")

    kept: list[list[Tree]] = []
    divergences = 0
    with ThreadPoolExecutor(max_workers=min(len(groups), _n_cores())) as pool:
        for stage, total in (("warm-up", tune), ("sampling", draws)):
            for done in range(0, total, _BLOCK):
                n = min(_BLOCK, total - done)
                blocks = list(pool.map(lambda group, n=n: group.advance(n), groups))
                remark = ""
                if stage == "sampling":
                    kept.append(blocks)
                    divergences += sum(int(b["stats"]["diverging"].sum()) for b in blocks)
                    remark = counted(divergences, "divergence")
                report(stage, done + n, total, remark)

    def join(*leaves: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        # Leaves are ordered by block, then by group; in a vectorised run the first axis
        # is the chain.
        rows = [leaves[i :: len(groups)] for i in range(len(groups))]
        axis = 1 if vectorised else 0
        joined = [np.concatenate(parts, axis=axis) for parts in rows]
        return joined[0] if vectorised else np.stack(joined)

    flat = [block for blocks in kept for block in blocks]
    merged = jax.tree.map(join, flat[0], *flat[1:])
    return merged["drawn"], merged["stats"]


@dataclass(eq=False)
class _Group:
    """Chains that run together: one on a CPU, all of them on an accelerator."""

    program: _Program
    state: Any
    data: Tree

    def advance(self, n: int) -> Tree:
        """Run `n` iterations and return their draws and statistics as NumPy arrays."""
        with jax.enable_x64(True):
            self.state, rows = self.program.advance(self.state, n, self.data)
            chain_axis = rows[1]["energy"].ndim - 1
            drawn, stats = jax.tree.map(
                lambda a: np.asarray(a)[(slice(None),) * chain_axis + (slice(n),)], rows
            )
        return {"drawn": drawn, "stats": stats}


def _starts(design: Design, seed: int, *, chains: int, vectorised: bool) -> list[tuple[Any, Any]]:
    """Random key and starting point of every group of chains."""
    keys, points = [], []
    for child in stream(seed, "fit").spawn(chains):
        for_key, for_point = child.spawn(2)
        keys.append(
            jax.random.wrap_key_data(jnp.asarray(for_key.generate_state(2)), impl="threefry2x32")
        )
        points.append(start_point(design, np.random.default_rng(for_point)))
    if vectorised:
        return [(jnp.stack(keys), jax.tree.map(lambda *values: np.stack(values), *points))]
    return list(zip(keys, points, strict=True))


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
