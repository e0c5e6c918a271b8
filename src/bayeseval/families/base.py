"""What a likelihood family is: its parameters, and its densities, means and draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats

__all__ = ["SD_RESIDUAL_PRIOR", "At", "Family", "Kernel", "Parameter", "Quantity"]

#: Quantity that a density is of: the score itself, the logit of its share of the range, that
#: share, or the number of correct items.
Quantity = Literal["score", "logit", "share", "count"]

#: Distribution of the modelled quantity, where effects can be integrated out: ``normal``, or
#: ``student_t``, a normal whose precision has a gamma-distributed factor in every record.
Kernel = Literal["normal", "student_t"]

SD_RESIDUAL_PRIOR: Mapping[str, Any] = {"dist": "half_normal", "scale": 1.0}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter of a likelihood.

    Attributes
    ----------
    name : str
        Name in the posterior and in the priors of a spec.
    prior : dict
        Default prior, as keys of a :class:`bayeseval.spec.Prior`.
    typical : float
        Value in simulated tables; for scores on a scale of 0 to 100.
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
        Value of ``Family.scale``, for ``score`` with known errors added in quadrature; unused
        by a family without a scale.
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
    """One likelihood, with its parameters, densities and draws.

    The quantity determines the rest. ``score`` has an identity link unless another task
    needs bounds, and takes known standard errors. All others have a logit link and need the
    bounds of the scores; ``count`` also needs the number of items. The centre is the
    expectation of ``score``, ``share`` and ``count``, and the median of ``logit``, whose
    expectation is computed by integrating over its normal noise.

    Attributes
    ----------
    name : str
        As in ``names.LIKELIHOODS``.
    quantity : {"score", "logit", "share", "count"}
        The quantity that has the density.
    scale : Parameter or None
        Noise scale, which may differ by level under ``residual_by``: the residual sd for
        ``score`` and ``logit``, a dispersion for others.
    extra : tuple of Parameter
        Further parameters, one value for all records.
    kernel : {"normal", "student_t"} or None
        Its distribution, where effects can be integrated out in closed form; else None.
    log_density : callable
        ``log_density(observed, at)`` of the modelled quantity, in NumPy.
    numpyro : callable
        ``numpyro(at)``: the distribution of the modelled quantity.
    pymc : callable
        ``pymc(site, at, **observed)`` adds the observed variable to the model in context.
    draw : callable
        ``draw(rng, at)``: scores for ``score``, shares of the range for the others; for
        ``count`` without items the expected share of each draw.
    cdf : callable
        ``cdf(observed, at)``: the distribution function of the modelled quantity, in NumPy; of
        counts, the probability of fewer and half of that of as many (mid-p).
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
    cdf: Callable[[Floats, At], Floats]

    def __post_init__(self) -> None:
        has_residual = self.scale is not None and self.scale.name == names.SD_RESIDUAL
        if has_residual != (self.quantity in ("score", "logit")):
            raise ValueError(
                f"{self.name}: families of scores and logits, and no others, have the scale "
                f"{names.SD_RESIDUAL}"
            )
        if self.quantity == "logit" and self.kernel != "normal":
            raise ValueError(
                f"{self.name}: expected scores of logits are implemented for the kernel normal only"
            )

    @property
    def has_residual(self) -> bool:
        """Whether the scale is the residual sd."""
        return self.quantity in ("score", "logit")
