"""YAML in, validated frozen objects out, one clear line when something is off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from bayeseval.errors import BayesevalError, InputError, did_you_mean

__all__ = ["parse_config", "read_yaml"]

Config = TypeVar("Config", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """Safe YAML without the two traps of a language table.

    YAML 1.1 reads the language code ``no`` as false, and a key given twice
    silently keeps the last value.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a plain word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF")
)


def read_yaml(path: Path, *, error: type[BayesevalError] = InputError) -> Any:
    """Read one YAML document.

    Raises
    ------
    BayesevalError
        Of the type `error`, if the file cannot be read or is not valid YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{path}: cannot be read: {problem}") from problem
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise error(f"{path}{line}: not valid YAML: {problem.problem}") from problem
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        raise error(f"{path}: not valid YAML: {str(problem).splitlines()[0]}") from problem


def parse_config(
    model: type[Config], values: Any, *, source: str, error: type[BayesevalError] = InputError
) -> Config:
    """Validate a mapping against a pydantic model; the first problem becomes one line.

    Parameters
    ----------
    model : type of pydantic.BaseModel
        The frozen configuration class.
    values : object
        What the YAML file or the caller gave.
    source : str
        Named at the start of the message (a path, or ``"spec"``).

    Raises
    ------
    BayesevalError
        Of the type `error`: the key, what was given, what is allowed.
    """
    if not isinstance(values, dict):
        raise error(f"{source}: expected keys and values, got {type(values).__name__}")
    try:
        return model.model_validate(values)
    except ValidationError as problem:
        raise error(f"{source}: {_one_line(problem, model)}") from problem


def _one_line(problem: ValidationError, model: type[BaseModel]) -> str:
    first = problem.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        allowed = _fields_at(model, first["loc"][:-1])
        return (
            f"unknown key {where!r}{did_you_mean(str(first['loc'][-1]), allowed)}"
            f" (allowed: {', '.join(allowed)})"
        )
    if first["type"] == "missing":
        return f"key {where!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    given = repr(first["input"])
    given = given if len(given) <= 60 else given[:57] + "..."
    if first["type"] == "value_error":
        return f"{where}: {message}" if where else message
    lowered = message[0].lower() + message[1:]
    return f"{where}: {lowered}, got {given}"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the (possibly nested) model at `location`."""
    current: Any = model
    for part in location:
        field = getattr(current, "model_fields", {}).get(part)
        if field is not None:
            current = field.annotation
        for candidate in getattr(current, "__args__", ()):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                current = candidate
    return list(getattr(current, "model_fields", {}))
