"""Ways to break good files of every format, for tests and for perf/fuzz_readers.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from tests.readers.good_files import Good


def _replaced(text: str, old: str, new: str) -> bytes:
    return text.replace(old, new, 1).encode("utf-8")


def _last_number(text: str, new: str) -> bytes:
    """The last number of the text, which is a score rather than a version, replaced."""
    end = max(i for i, c in enumerate(text) if c.isdigit()) + 1
    start = end
    while start and (text[start - 1].isdigit() or text[start - 1] in ".-e"):
        start -= 1
    return (text[:start] + new + text[end:]).encode("utf-8")


# What YAML means something by.
TAGS = (
    *("!!float ''", "!!int ''", "!!bool x", "!!timestamp x", "!!set {a, b}", "!!binary x"),
    *("!!python/object/apply:os.getcwd []", "!own x", "2001-99-99", "0x", "*gone", "<<"),
)
NUMBERS = ("NaN", "1e400", "-Infinity", "9" * 5000, "null", '"x"', "[null]", "{}", "true")


def broken(good: Good) -> Iterator[tuple[str, bytes]]:
    """Variants of a file with what is wrong with them."""
    data = good.data
    for tenth in range(1, 10):
        yield f"cut at {tenth}/10", data[: len(data) * tenth // 10]
    yield "cut by a byte", data.rstrip()[:-1]
    yield "latin-1", data[: len(data) // 2] + b"\xe7\xe9" + data[len(data) // 2 :]
    yield "NUL", data[: len(data) // 3] + b"\0" + data[len(data) // 3 :]
    yield "NUL first", b"\0" + data
    yield "twice", data + data
    if good.is_text:
        yield "UTF-16", good.text.encode("utf-16")
        if any(c.isdigit() for c in good.text):
            for number in NUMBERS:
                yield f"number {number[:9]}", _last_number(good.text, number)
    if good.is_json:
        yield from _broken_json(good.text)
    elif good.document is not None and good.is_text:
        yield from _broken_yaml(good.text)
    elif good.is_text:
        yield from _broken_lines(good.text)
    if good.document is not None:
        for what, tree in _broken_trees(good.document):
            yield what, good.pack(tree)


def _broken_lines(text: str) -> Iterator[tuple[str, bytes]]:
    data = text.encode("utf-8")
    yield "no header", data.split(b"\n", 1)[1]
    yield "only a header", data.split(b"\n", 1)[0]
    yield "a cell more", _replaced(text, "\n", ",1,2\n")
    yield "an open quote", _replaced(text, "\n", '\n"')
    yield "a long cell", _replaced(text, "\n", "\n" + "x" * 200_000)
    yield "many columns", _replaced(text, "\n", "," * 20_000 + "\n")
    header, _, rest = text.partition("\n")
    first = re.split(r"[,|&]", header)[0]
    yield "a column twice", f"{first},{header}\n{rest}".encode()


def _broken_json(text: str) -> Iterator[tuple[str, bytes]]:
    first = re.findall(r'"(\w+)"\s*:', text)[0]
    yield "a key twice", _replaced(text, "{", f'{{"{first}": 1, ')
    yield "deep", _replaced(text, "{", '{"deep": ' + "[" * 50_000 + "]" * 50_000 + ", ")
    yield "deep and open", _replaced(text, "{", '{"deep": ' + "[" * 50_000)
    yield "trailing comma", _replaced(text.rstrip()[::-1], "}", "},")[::-1]
    try:
        document = json.loads(text)
    except ValueError:
        document = json.loads(next(line for line in text.splitlines() if line.strip()))
    if isinstance(document, list):
        document = document[0]
    for what, tree in _broken_trees(document):
        yield what, json.dumps(tree).encode("utf-8")


def _broken_yaml(text: str) -> Iterator[tuple[str, bytes]]:
    first = text.partition(":")[0]
    yield "a key twice", f"{first}: 1\n{text}".encode()
    yield "tabs", text.replace(": ", ":\t").encode()
    yield "deep", f"{text}deep: {'[' * 3000}{']' * 3000}\n".encode()
    yield "deep and open", f"{text}deep: {'[' * 3000}\n".encode()
    # Each alias stands for nine of the one before it.
    laughs = ["a0: &a0 [lol, lol]"]
    laughs += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    yield "aliases", "\n".join(["? x", *laughs, text]).encode()
    yield "an alias for a value", "\n".join([*laughs, f"{first}: *a11"]).encode()
    itself = text.replace(f"{first}:", f"{first}: &a [*a] #", 1)
    yield "a list in itself", itself.encode()
    for tag in TAGS:
        yield f"value {tag}", f"{text}extra: {tag}\n".encode()
        yield f"key {tag}", f"{text}? {tag}\n: 1\n".encode()


VALUES = (None, 3, [None], {"a": {"b": None}})


def _broken_trees(document: Any, values: tuple[Any, ...] = VALUES) -> Iterator[tuple[str, Any]]:
    """Other types in the first level of a tree, or in the first rows of a list."""
    if isinstance(document, list):
        yield "nothing", []
        for value in values:
            yield f"first is {value!r}", [value, *document[1:]]
        for what, tree in _broken_trees(document[0], values) if document else ():
            yield f"first: {what}", [tree, *document[1:]]
        return
    if not isinstance(document, dict):
        return
    few = len(document) < 3
    for key, held in document.items():
        for value in values:
            yield f"{key} is {value!r}", {**document, key: value}
        yield f"without {key}", {k: v for k, v in document.items() if k != key}
        if few and isinstance(held, dict | list):
            # What holds one or two things only is looked into.
            for what, tree in _broken_trees(held, values[:1]):
                yield f"{key}: {what}", {**document, key: tree}


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | st.sampled_from(["", "N/A", "en", "xnli_sw", "\x00", "é" * 3, "../..", "1e400", "-"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "mean", "acc,none", "score", "x"]), inner)
    ),
    max_leaves=4,
)
_CHARACTERS = "{}[]\",:\\\n|&-±/0123456789eé\x00N<>!*?#'"


@st.composite
def mutated(draw: Callable[..., Any], good: Good) -> bytes:
    """A file with something else in one place of its tree, or with other characters."""
    tree = good.document is not None or good.is_json
    if not tree or draw(st.booleans()):
        if good.is_text:
            return _other_text(draw, good.text).encode("utf-8", errors="replace")
        if good.document is None or draw(st.booleans()):
            return _other_bytes(draw, good.data)
    if good.document is not None:
        return good.pack(_other_tree(draw, good.document))
    lines = good.text.strip().splitlines() if good.file.endswith(".jsonl") else [good.text]
    which = draw(st.integers(0, len(lines) - 1))
    lines[which] = json.dumps(_other_tree(draw, json.loads(lines[which])))
    return "\n".join(lines).encode("utf-8", errors="replace")


def _other_text(draw: Callable[..., Any], text: str) -> str:
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        gone = draw(st.integers(0, 20))
        added = draw(st.text(alphabet=_CHARACTERS, max_size=6))
        text = text[:at] + added + text[at + gone :]
    return text


def _other_bytes(draw: Callable[..., Any], data: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        added = draw(st.binary(max_size=4))
        data = data[:at] + added + data[at + draw(st.integers(0, 4)) :]
    return data


def _other_tree(draw: Callable[..., Any], tree: Any) -> Any:
    for _ in range(draw(st.integers(1, 3))):
        tree = _elsewhere(draw, tree)
    return tree


def _elsewhere(draw: Callable[..., Any], tree: Any) -> Any:
    """The tree with another value somewhere, more often deep than at its top."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        return {**tree, key: _elsewhere(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(tree) - 1))
        return [*tree[:at], _elsewhere(draw, tree[at]), *tree[at + 1 :]]
    if isinstance(tree, str) and len(tree) > 20 and draw(st.booleans()):
        return _other_text(draw, tree)
    return draw(JUNK)
