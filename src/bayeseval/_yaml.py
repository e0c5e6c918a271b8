"""YAML in, validated frozen objects out; an error is one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from bayeseval._special import refuse_special
from bayeseval._text import grouped, show, two_sizes
from bayeseval.errors import BayesevalError, InputError, did_you_mean, not_utf8

__all__ = [
    "FrozenConfig",
    "parse_config",
    "parse_yaml",
    "read_front_matter",
    "read_yaml",
    "text_like",
    "unix_lines",
]

Config = TypeVar("Config", bound=BaseModel)

_MAX_BYTES: Final = 1 << 20
# Aliases count as what they stand for. Without them, no file has more text than
# bytes, or more values than every other byte (`[1,1,1]`).
_MAX_VALUES: Final = _MAX_BYTES // 2
_MAX_TEXT: Final = _MAX_BYTES
# By pydantic's names of errors.
_KINDS: Final = {
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "string_type": "text",
    "path_type": "a path",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "tuple_type": "a list",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
# The parser's time grows with the square of it.
_MAX_DEPTH: Final = 200
# Without the line that ends it, which would begin a second document.
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n.*?(?=^---[ \t]*$)", re.DOTALL | re.MULTILINE)
# Escapes such as "\ud800" make characters that no file can hold.
_HALF: Final = re.compile("[\\ud800-\\udfff]")


class FrozenConfig(BaseModel):
    """Base of all configuration: frozen, without unknown keys, refused in one line.

    Made by hand, ``ModelSpec(name="a", likelihood="normla")``, it raises what
    :func:`parse_config` raises for a file, and not pydantic's own report.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    _error: ClassVar[type[BayesevalError]] = InputError

    # Hidden from the type checker, which makes a signature of the fields.
    if not TYPE_CHECKING:

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as problem:
                name = type(self).__name__
                raise self._error(f"{name}: {_one_line(problem, type(self))}") from problem

        # Parts of a larger whole are validated with it: its message names the place in it.
        __init__.__pydantic_base_init__ = True


def text_like(pattern: str, words: str) -> AfterValidator:
    """Text that matches a pattern; `words` describe it in messages."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"expected {words}, got {_short_repr(text)}")
        return text

    return AfterValidator(check)


class _Loader(yaml.SafeLoader):
    """Safe YAML without the traps of a table.

    YAML 1.1 reads the language code ``no`` as false and the score ``0755`` as 493, and a key
    given twice silently keeps the last value. The loader in C would be twice as fast, but ends
    the process on lists in thousands of lists.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                # Merges of merges grow without bound.
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    "merge keys (<<) are not read; write the keys out",
                    key_node.start_mark,
                )
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict | set):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a plain word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if _HALF.search(str(value)):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{show(value)} holds half of a surrogate pair, which is no character; write the"
                " character itself",
                node.start_mark,
            )
        return value

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
            if isinstance(value, int):
                # Python refuses to write out what has thousands of digits.
                str(value)
            return value
        except (yaml.YAMLError, RecursionError):
            raise
        # PyYAML lets through whatever its constructors meet: !!bool x is a KeyError.
        except Exception as problem:
            kind = node.tag.rpartition(":")[2]
            value = _short_repr(node.value)
            raise yaml.constructor.ConstructorError(
                None, None, f"{value} is no {kind}", node.start_mark
            ) from problem


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    # ".inf" and ".nan" are written with a point.
    return float(re.sub(r"^([-+]?)\.(?=[a-zA-Z])", r"\1", loader.construct_scalar(node)))


# Numbers and truth values are those of the core schema of YAML 1.2: in YAML 1.1, 0755 is 493, 12:30
# is 750, and 1e5 is a text.
_TAG: Final = "tag:yaml.org,2002:"
_OF_CORE: Final = {
    "bool": (r"true|True|false|False", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAG) not in _OF_CORE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, (_pattern, _first) in _OF_CORE.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_TAG + "int", _whole)
_Loader.add_constructor(_TAG + "float", _float)


def read_yaml(path: Path, *, error: type[BayesevalError] = InputError) -> Any:
    """Read one YAML document.

    Raises
    ------
    BayesevalError
        Of the type `error`, if the file cannot be read or is not valid YAML.
    """
    return parse_yaml(_text(path, error), path, error=error)


def read_front_matter(path: Path, *, error: type[BayesevalError] = InputError) -> Any:
    """Read the YAML between the first two lines ``---`` of a Markdown file; None without.

    Raises
    ------
    BayesevalError
        Of the type `error`, if the file cannot be read or the part is not valid YAML.
    """
    match = _FRONT_MATTER.match(unix_lines(_text(path, error)).lstrip())
    return None if match is None else parse_yaml(match[0], path, error=error)


def unix_lines(text: str) -> str:
    """A text with line feeds for the line ends of Windows and of old Macs."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_yaml(text: str, path: Path, *, error: type[BayesevalError] = InputError) -> Any:
    """Parse the text of one YAML document; `path` is for messages.

    Raises
    ------
    BayesevalError
        Of the type `error`, if it is not valid YAML.
    """
    if _depth(text) > _MAX_DEPTH:
        raise error(f"{path}: not valid YAML: nested too deeply")
    try:
        values = yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise error(f"{path}{line}: not valid YAML: {problem.problem}") from problem
    except RecursionError as problem:
        raise error(f"{path}: not valid YAML: nested too deeply") from problem
    except yaml.YAMLError as problem:
        # Of several lines, the last one says where in memory.
        reason = " ".join(str(problem).splitlines()[0].split())
        raise error(f"{path}: not valid YAML: {reason}") from problem
    n_values, n_characters, depth = _expanded(values, {})
    if n_values > _MAX_VALUES:
        raise error(
            f"{path}: its aliases expand to more than {grouped(_MAX_VALUES)} values, or to "
            "themselves"
        )
    if n_characters > _MAX_TEXT:
        raise error(
            f"{path}: its aliases expand to more than {_MAX_TEXT / 1e6:.1f} million characters of"
            " text; write fewer of them"
        )
    if depth > _MAX_DEPTH:
        raise error(f"{path}: not valid YAML: nested too deeply")
    return values


def _text(path: Path, error: type[BayesevalError]) -> str:
    refuse_special(path, error=error)
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            has, most = two_sizes(size, _MAX_BYTES)
            raise error(f"{path}: the file has {has}; at most {most} of YAML are read")
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(not_utf8(path, data, problem)) from problem


def _depth(text: str) -> int:
    """How many brackets are open at once, at most; those in texts count too."""
    depth = deepest = 0
    for mark in re.finditer(r"[\[{\]}]", text):
        depth += 1 if mark[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _expanded(value: Any, counted: dict[int, tuple[int, int, int]]) -> tuple[int, int, int]:
    """Values, characters of text and depth of a tree; what holds itself has too many values."""
    if isinstance(value, str | bytes):
        return 1, len(value), 0
    if not isinstance(value, list | tuple | dict | set):
        return 1, 0, 0
    if id(value) not in counted:
        counted[id(value)] = _MAX_VALUES + 1, 0, 0
        inside, keys = (value.values(), value) if isinstance(value, dict) else (value, ())
        sizes = [_expanded(one, counted) for one in inside]
        of_keys = sum(len(key) for key in keys if isinstance(key, str))
        counted[id(value)] = (
            1 + sum(n_values for n_values, _, _ in sizes),
            of_keys + sum(n_characters for _, n_characters, _ in sizes),
            1 + max((depth for _, _, depth in sizes), default=0),
        )
    return counted[id(value)]


def parse_config(
    model: type[Config], values: Any, *, source: str, error: type[BayesevalError] = InputError
) -> Config:
    """Validate a mapping against a pydantic model; the first problem becomes one line.

    Parameters
    ----------
    model : type of pydantic.BaseModel
        The frozen configuration class.
    values : object
        Values of the YAML file or of the caller.
    source : str
        Named at the start of the message (a path, or ``"spec"``).

    Raises
    ------
    BayesevalError
        Of the type `error`: the key, what was given, what is allowed.
    """
    if not isinstance(values, dict):
        given = {"NoneType": "nothing", "list": "a list", "str": "text"}
        kind = type(values).__name__
        raise error(f"{source}: expected keys and values, got {given.get(kind, kind)}")
    try:
        return model.model_validate(values)
    except ValidationError as problem:
        raise error(f"{source}: {_one_line(problem, model)}") from problem


def _one_line(problem: ValidationError, model: type[BaseModel]) -> str:
    errors = problem.errors(include_url=False)
    first = errors[0]
    location = first["loc"]
    if first["type"] == "extra_forbidden":
        allowed = _fields_at(model, location[:-1])
        where = ".".join(map(str, location))
        return (
            f"unknown key {where!r}{did_you_mean(str(location[-1]), allowed)}"
            f" (allowed: {', '.join(allowed)})"
        )
    if location and location[-1] == "[key]":
        # A key that is not allowed; pydantic puts it before this mark.
        location = location[:-2]
    if len(errors) > 1 and location and _is_type_name(location[-1]):
        # A choice of types is a step of its own in pydantic's locations. What is wrong
        # inside of one of them says more than that it is not the other.
        location = location[:-1]
        for one in errors:
            inside = one["loc"][len(location) + 1 :]
            if inside and one["loc"][: len(location)] == location:
                return _one_problem(one, (*location, *inside))
    same = [one for one in errors if one["loc"][: len(location)] == location]
    return _one_problem(first, location, same)


def _one_problem(
    first: Mapping[str, Any],
    location: tuple[int | str, ...],
    same: Sequence[Mapping[str, Any]] = (),
) -> str:
    """What is wrong at one place; `same` are the other types that it might have been."""
    where = ".".join(map(str, location))
    if first["type"] == "missing":
        return f"key {where!r} is missing"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{where}: {message}" if where else message
    kinds = [one for one in same if one["type"] != "value_error"] or [first]
    expected = dict.fromkeys(_expected(one["type"], one["msg"]) for one in kinds)
    guess = ""
    if first["type"] == "literal_error":
        allowed = re.findall("'([^']+)'", " ".join(expected))
        guess = did_you_mean(str(first["input"]), allowed)
    return f"{where}: expected {' or '.join(expected)}, got {_short_repr(first['input'])}{guess}"


def _is_type_name(part: int | str) -> bool:
    return str(part).partition("[")[0] in ("str", "float", "int", "bool", "dict", "list", "tuple")


def _expected(kind: str, message: str) -> str:
    """The value that pydantic expects, in the terms of YAML."""
    if kind in _KINDS:
        return _KINDS[kind]
    message = message.removeprefix("Input should be ")
    message = message[0].lower() + message[1:]
    return f"a number {message}" if kind.startswith(("greater_than", "less_than")) else message


def _short_repr(value: Any) -> str:
    shown = "nothing" if value is None else " ".join(repr(value).split())
    return shown if len(shown) <= 60 else shown[:57] + "..."


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
