"""What a likelihood family is: its parameters, and its densities, means and draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats

__all__ = ["SD_RESIDUAL_PRIOR", "At", "Family", "Kernel", "Parameter", "Quantity"]

#: What the density is one of: the score itself, the logit of its share of the range, that
#: share, or the number of correct items.
Quantity = Literal["score", "logit", "share", "count"]

#: How the modelled quantity scatters, where effects can be integrated out: ``normal``, or
#: ``student_t``, a normal whose precision has a gamma-distributed factor in every record.
Kernel = Literal["normal", "student_t"]

SD_RESIDUAL_PRIOR: Mapping[str, Any] = {"dist": "half_normal", "scale": 1.0}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter of a likelihood.

    Attributes
    ----------
    name : str
        In the posterior and in the priors of a spec.
    prior : dict
        Keys of a :class:`bayeseval.spec.Prior`, where the spec has none of its own.
    typical : float
        Value in simulated tables: on a scale of 0 to 100 for scores, else as it is.
    """

    name: str
    prior: Mapping[str, Any]
    typical: float


@dataclass(frozen=True, eq=False)
class At:
    """Where a family is evaluated: arrays of NumPy, JAX or PyTensor that broadcast.

    Attributes
    ----------
    centre : array
        ``score``: location, score units. ``logit``: location. ``share`` and ``count``: for
        densities the logit of the expected share of the range, for draws the share.
    scale : array
        Value of ``Family.scale``, for ``score`` with known errors added in quadrature. Not
        read by a family without one.
    extra : dict of str to array
        Values of ``Family.extra``, by name.
    items : array or None
        Items behind each count.
    """

    centre: Any
    scale: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    items: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """One likelihood: all that the package knows about it.

    What follows from the quantity is not said again. ``score`` makes the link the identity
    unless another task needs bounds; it takes known standard errors. All others have a logit
    link and need the bounds of the scores; ``count`` needs the number of items too. The
    expectation of ``score``, ``share`` and ``count`` is the centre; ``logit`` has it as the
    median, and its scatter is integrated out as a normal one.

    Attributes
    ----------
    name : str
        As in ``names.LIKELIHOODS``.
    quantity : {"score", "logit", "share", "count"}
        What is modelled.
    scale : Parameter or None
        How far scores scatter, which ``residual_by`` lets differ. The residual sd for
        ``score``, which is a location plus the scale times noise, and for ``logit``.
    extra : tuple of Parameter
        Further parameters, one value for all records.
    kernel : {"normal", "student_t"} or None
        None where there is no closed form.
    log_density : callable
        ``log_density(observed, at)`` in NumPy: of the modelled quantity.
    numpyro : callable
        ``numpyro(at)``: the distribution of the modelled quantity.
    pymc : callable
        ``pymc(site, at, **observed)`` adds the observed variable to the model in context.
    draw : callable
        ``draw(rng, at)``: scores for ``score``, shares of the range for the others; for
        ``count`` without items the expected share of each draw.
    cdf : callable or None
        ``cdf(error, at)`` of ``score``: the distribution function of errors of scale one.
    """

    name: names.Likelihood
    quantity: Quantity
    scale: Parameter | None
    extra: tuple[Parameter, ...] = ()
    kernel: Kernel | None = None
    log_density: Callable[[Floats, At], Floats]
    numpyro: Callable[[At], Any]
    pymc: Callable[..., Any]
    draw: Callable[[np.random.Generator, At], Floats]
    cdf: Callable[[Floats, At], Floats] | None = None

    def __post_init__(self) -> None:
        has_residual = self.scale is not None and self.scale.name == names.SD_RESIDUAL
        if has_residual != (self.quantity in ("score", "logit")):
            raise ValueError(f"{self.name}: {names.SD_RESIDUAL} is for scores and logits")
        if self.quantity == "logit" and self.kernel != "normal":
            raise ValueError(f"{self.name}: expected scores are known for normal logits only")

    @property
    def has_residual(self) -> bool:
        """Whether the scale is the residual sd."""
        return self.quantity in ("score", "logit")
