"""Wrong calls of public functions, refused in one line that says how to call them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from bayeseval.errors import InputError, did_you_mean

__all__ = ["explained", "explained_class"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class")

# What options of commands are called in Python.
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("spec",),
    "models": ("specs",),
    "benchmark": ("records", "like", "source"),
    "out": ("work",),
}


def explained(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function whose wrong calls are an InputError in place of Python's TypeError."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as problem:
            name = function.__qualname__.removesuffix(".__init__")
            said = _problem(signature, args, kwargs) or str(problem)
            raise InputError(f"{name}: {said}; call {name}({_usage(signature)})") from None
        return function(*args, **kwargs)

    return call


def explained_class(of: type[Class]) -> type[Class]:
    """The same for a class that is called."""
    of.__init__ = explained(of.__init__)  # type: ignore[method-assign]
    return of


def _problem(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    parameters = list(signature.parameters.values())
    given = {one.name for one, _ in zip(parameters, args, strict=False)} | kwargs.keys()
    texts = []
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    if missing:
        texts.append(f"{_and(missing)} must be given")
    known = [one.name for one in parameters if one.name != "self"]
    for name in kwargs:
        if name not in known:
            called = next((own for own in _OPTIONS.get(name, ()) if own in known), None)
            hint = did_you_mean(name, known) if called is None else f"; it is called {called!r}"
            texts.append(f"there is no argument {name!r}{hint}")
    return "; ".join(texts)


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _usage(signature: inspect.Signature) -> str:
    """Arguments that can be given by position: ``records, spec='auto', ...``."""
    own = [one for one in signature.parameters.values() if one.name != "self"]
    shown = [
        one.name if one.default is one.empty else f"{one.name}={one.default!r}"
        for one in own
        if one.default is one.empty
        or (one.kind is not one.KEYWORD_ONLY and isinstance(one.default, str) and one.default)
    ]
    if len(shown) < len(own):
        shown.append("...")
    return ", ".join(shown)
