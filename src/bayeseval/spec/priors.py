"""Priors of single parameters, in absolute units or in multiples of the scores' sd."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from bayeseval._yaml import FrozenConfig
from bayeseval.errors import BayesevalError, SpecError

__all__ = ["Number", "Prior", "SpecConfig"]

Distribution = Literal[
    "normal", "student_t", "half_normal", "half_student_t", "exponential", "gamma"
]

# Parameters of each distribution. Of these, `loc` and `scale` are in score units and
# therefore multiplied by sd(score) when the prior is relative.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "normal": ("loc", "scale"),
    "student_t": ("df", "loc", "scale"),
    "half_normal": ("scale",),
    "half_student_t": ("df", "scale"),
    "exponential": ("scale",),
    "gamma": ("shape", "rate"),
}
_REAL_LINE = ("normal", "student_t")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Number = Annotated[float, AfterValidator(_finite)]
# Densities of priors that are narrower or wider lose all digits of a float.
_LEAST: Final = 1e-6
_MOST: Final = 1e9
_Positive = Annotated[Number, Field(ge=_LEAST, le=_MOST)]


class SpecConfig(FrozenConfig):
    """Base of the parts of a model specification."""

    _error: ClassVar[type[BayesevalError]] = SpecError


class Prior(SpecConfig):
    """Prior of one scalar parameter.

    Attributes
    ----------
    dist : str
        ``normal`` and ``student_t`` on the real line; ``half_normal``,
        ``half_student_t``, ``exponential`` and ``gamma`` on the positive half.
    loc, scale, df, shape, rate : float, optional
        Its parameters; ``exponential`` is given by its mean, ``scale``. Positive ones are
        from 1e-6 to 1e9.
    low : float, optional
        Lower truncation point, for example 1 for the degrees of freedom.
    relative : bool
        When true, `loc` and `scale` are counted in standard deviations of the
        observed scores, and `loc` from their mean.
    """

    dist: Distribution
    loc: Annotated[Number, Field(ge=-_MOST, le=_MOST)] | None = None
    scale: _Positive | None = None
    df: _Positive | None = None
    shape: _Positive | None = None
    rate: _Positive | None = None
    low: Annotated[Number, Field(ge=0, le=_MOST)] | None = None
    relative: bool = True

    @model_validator(mode="after")
    def _complete(self) -> Prior:
        needed = _ARGUMENTS[self.dist]
        given = [
            key for key in ("loc", "scale", "df", "shape", "rate") if getattr(self, key) is not None
        ]
        missing = [key for key in needed if key not in given and key != "loc"]
        surplus = [key for key in given if key not in needed]
        if missing or surplus:
            problem = (
                f"needs {', '.join(missing)}" if missing else f"does not take {', '.join(surplus)}"
            )
            raise ValueError(f"{self.dist} {problem}; its parameters: {', '.join(needed)}")
        if self.low is not None and self.dist in _REAL_LINE:
            raise ValueError(f"low is allowed for positive priors only, not for {self.dist}")
        if self.dist == "gamma" and self.relative and "relative" in self.model_fields_set:
            raise ValueError("a gamma prior is always in absolute units; remove relative")
        return self

    @property
    def positive(self) -> bool:
        """Whether the prior lives on the positive half line."""
        return self.dist not in _REAL_LINE

    def in_units(self, *, mean: float, sd: float) -> Prior:
        """Return the same prior in the units of the score.

        Parameters
        ----------
        mean, sd : float
            Mean and standard deviation of the observed scores.
        """
        loc = 0.0 if self.loc is None and "loc" in _ARGUMENTS[self.dist] else self.loc
        scale = self.scale
        if self.relative and self.dist != "gamma":
            loc = None if loc is None else mean + sd * loc
            scale = None if scale is None else sd * scale
        return self.model_copy(update={"loc": loc, "scale": scale, "relative": False})

    def __str__(self) -> str:
        numbers = [
            f"{key}={getattr(self, key):.4g}"
            for key in _ARGUMENTS[self.dist]
            if getattr(self, key) is not None
        ]
        if self.low is not None:
            numbers.append(f"low={self.low:g}")
        unit = " x sd(score)" if self.relative and self.dist != "gamma" else ""
        return f"{self.dist}({', '.join(numbers)}){unit}"
