"""Engines: ways to the posterior of a design, found by name.

``numpyro`` and ``pymc`` sample the joint density with NUTS, ``marginal`` integrates the
effects out of a normal likelihood, ``ml`` is the published maximum-likelihood
procedure. Each lives in a module of its own that is
imported when it is asked for, so that naming an engine loads no PPL.
"""

from __future__ import annotations

from importlib import import_module

from bayeseval.design import Design
from bayeseval.engines.base import Draws, Engine, Progress, SamplerSettings, to_tree
from bayeseval.errors import EngineError, did_you_mean

__all__ = [
    "ENGINES",
    "Draws",
    "Engine",
    "Progress",
    "SamplerSettings",
    "choose_engine",
    "load_engine",
    "to_tree",
]

ENGINES = ("numpyro", "pymc", "marginal", "ml")


def choose_engine(name: str, design: Design) -> str:
    """Resolve ``auto`` to the engine that suits the design.

    Raises
    ------
    EngineError
        If there is no engine of that name.
    """
    if name == "auto":
        return "numpyro"
    if name not in ENGINES:
        allowed = ("auto", *ENGINES)
        raise EngineError(
            f"no engine {name!r}{did_you_mean(name, allowed)} (there are: {', '.join(allowed)})"
        )
    return name


def load_engine(name: str) -> Engine:
    """Return the ``sample`` function of an engine's module."""
    engine: Engine = import_module(f"bayeseval.engines.{name}").sample
    return engine
