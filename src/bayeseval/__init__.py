"""Bayesian multilevel models of incomplete multilingual evaluation tables.

>>> import bayeseval as be
>>> records = be.load("mega")  # doctest: +SKIP
>>> fit = be.fit(records, seed=0)  # doctest: +SKIP
>>> fit.potential()  # doctest: +SKIP

Importing the package loads nothing heavy: each public name is imported from its
module when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeseval.compare import compare
    from bayeseval.fit import Fit, fit
    from bayeseval.forecast import forecast
    from bayeseval.plan import plan
    from bayeseval.records import Records, load
    from bayeseval.sensitivity import sensitivity
    from bayeseval.spec import ModelSpec

__all__ = [
    "Fit",
    "ModelSpec",
    "Records",
    "compare",
    "fit",
    "forecast",
    "load",
    "plan",
    "sensitivity",
]

__version__ = "0.1.0"

_HOME = {
    "Fit": "bayeseval.fit",
    "ModelSpec": "bayeseval.spec",
    "Records": "bayeseval.records",
    "fit": "bayeseval.fit",
    "load": "bayeseval.records",
    "compare": "bayeseval.compare",
    "forecast": "bayeseval.forecast",
    "plan": "bayeseval.plan",
    "sensitivity": "bayeseval.sensitivity",
}


class _Package(ModuleType):
    """The package as a module that resolves its public names lazily.

    ``bayeseval.fit`` is a function and ``bayeseval/fit.py`` a module. The import
    system binds a submodule on its package once it is loaded, which would put the
    module in the function's place from then on; that one binding is turned down,
    so ``bayeseval.fit`` means the function whatever was imported before. The
    module stays reachable by ``from bayeseval.fit import ...`` and ``sys.modules``.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
