"""Engines: methods that draw from the posterior of a design, chosen by name.

``numpyro`` and ``pymc`` sample the joint density with NUTS, ``marginal`` integrates the
effects out of a normal likelihood, ``ml`` is the published maximum-likelihood procedure.
Each is a module that is imported when it is used, so that naming an engine loads no PPL.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Final

from bayeseval.design import Design
from bayeseval.engines.base import Draws, Engine, SamplerSettings, to_tree
from bayeseval.errors import EngineError, did_you_mean, wording

__all__ = [
    "ENGINES",
    "Choice",
    "Draws",
    "Engine",
    "SamplerSettings",
    "choose_engine",
    "cores_of",
    "load_engine",
    "to_tree",
]

ENGINES = ("numpyro", "pymc", "marginal", "ml")

# Engines that mostly use a single thread.
_ONE_CORE: Final = ("marginal", "ml")
# Default number of chains of the others, which run in parallel.
_NUTS_CHAINS: Final = 4

_NOTHING_SET = SamplerSettings()


@dataclass(frozen=True)
class Choice:
    """An engine, and why it was chosen.

    Attributes
    ----------
    name : str
        One of :data:`ENGINES`.
    reason : str
        Why ``auto`` chose it; empty when it was requested by name.
    """

    name: str
    reason: str = ""

    def __str__(self) -> str:
        """Name, with the reason if there is one."""
        return f"{self.name} (auto: {self.reason})" if self.reason else self.name


def choose_engine(name: str, design: Design, settings: SamplerSettings = _NOTHING_SET) -> Choice:
    """Resolve ``auto`` to the engine that suits the design and the settings.

    ``marginal`` for Gaussian likelihoods; ``numpyro`` for others, and where settings of a
    warm-up are given, which ``marginal`` does not have.

    Parameters
    ----------
    name : str
        ``auto`` or one of :data:`ENGINES`.
    design : Design
        The model and its table.
    settings : SamplerSettings
        As the user gave them.

    Raises
    ------
    EngineError
        If there is no engine of that name, ``marginal`` cannot fit the design, or ``auto`` is
        given a ``nuts_sampler``.
    """
    # Imported here, so that importing this module loads no engine.
    from bayeseval.engines.marginal import check_design, why_not

    if name == "marginal":
        check_design(design)
    if name != "auto":
        if name in ENGINES:
            return Choice(name)
        allowed = ("auto", *ENGINES)
        raise EngineError(
            f"unknown engine {name!r}{did_you_mean(name, allowed)} (allowed: {', '.join(allowed)})"
        )
    if settings.nuts_sampler is not None:
        raise EngineError(
            f"nuts_sampler {settings.nuts_sampler} needs the engine pymc; set "
            + wording("engine='pymc'", "--engine pymc")
        )
    given = [key for key in ("tune", "target_accept") if getattr(settings, key) is not None]
    if given:
        verb = "is a setting" if len(given) == 1 else "are settings"
        return Choice("numpyro", f"{' and '.join(given)} {verb} of NUTS")
    reason = why_not(design)
    if reason is None:
        return Choice("marginal", "all effects can be integrated out exactly")
    return Choice("numpyro", f"not marginal, {reason}")


def cores_of(engine: str) -> int:
    """Number of cores that one fit of an engine uses: NUTS runs its chains in parallel.

    Parameters
    ----------
    engine : str
        One of :data:`ENGINES`.
    """
    return 1 if engine in _ONE_CORE else _NUTS_CHAINS


def load_engine(name: str) -> Engine:
    """Return the ``sample`` function of an engine's module."""
    engine: Engine = import_module(f"bayeseval.engines.{name}").sample
    return engine
