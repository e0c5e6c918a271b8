"""Good files of every format and ways to break them, for tests and for perf/fuzz_readers.py."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers"

CSV = "model,language,task,score\na,en,t,1.5\na,sw,t,2.5\nb,en,t,3.5\nb,sw,t,4.5\n"
WIDE = "model,en,sw,de\nA,1.5 ± 0.1,2/3,-\nB,**3**,4,5\n"
MARKDOWN = "| model | en | sw |\n|---|---|---|\n| A | 1 | 2 |\n| B | 3 | 4 |\n"
LATEX = (
    "\\begin{tabular}{lrr}\nmodel & en & \\textbf{sw} \\\\\n"
    "A & 1 $\\pm$ 0.1 & 2 \\\\\nB & 3 & 4 \\\\\n\\end{tabular}\n"
)
JSONL = (
    '{"model": "a", "language": "en", "score": 1}\n{"model": "b", "language": "sw", "score": 2}\n'
)


@dataclass(frozen=True)
class Good:
    """A file that is read, and the files that have to lie beside it."""

    name: str
    file: str
    text: str
    beside: tuple[Path, ...] = ()

    def write(self, folder: Path, data: bytes) -> Path:
        """The file with other content; the others as they are."""
        folder.mkdir(parents=True, exist_ok=True)
        for other in self.beside:
            shutil.copy(other, folder / other.name)
        path = folder / self.file
        path.write_bytes(data)
        return path


def _fixture(name: str, pattern: str, *beside: str) -> Good:
    path = sorted(FIXTURES.glob(pattern))[0]
    return Good(
        name,
        path.name,
        path.read_text(encoding="utf-8"),
        tuple(path.with_name(other) for other in beside),
    )


GOOD = (
    _fixture("lm-eval", "lm_eval/v0.4.13/org-a*/results*"),
    _fixture("lm-eval old", "lm_eval/v0.3.0/*.json"),
    _fixture("lm-eval samples", "lm_eval/v0.4.13/org-a*/samples_xnli_en*"),
    _fixture("lighteval", "lighteval/results/org-a/small/*"),
    _fixture("euroeval", "euroeval/issues*"),
    _fixture("euroeval records", "euroeval/every*"),
    _fixture("every-eval", "every_eval/*/org-a/small/*"),
    _fixture(
        "every-eval samples",
        "every_eval_samples/xnli_sw/org-a/small/*_samples.jsonl",
        "00000001-0000-4000-8000-000000000002.json",
    ),
    _fixture("mteb", "mteb/org-a*/*/Massive*", "model_meta.json"),
    _fixture("helm", "helm/v1/mgsm*en*a_small/stats.json", "run_spec.json"),
    _fixture(
        "helm instances", "helm_instances/v1/*en*a_small/per_instance_stats.json", "run_spec.json"
    ),
    _fixture(
        "helm display",
        "helm_instances/v1/*en*a_small/display_predictions.json",
        "run_spec.json",
        "instances.json",
    ),
    Good("csv", "t.csv", CSV),
    Good("wide", "w.csv", WIDE),
    Good("markdown", "w.md", MARKDOWN),
    Good("latex", "w.tex", LATEX),
    Good("jsonl", "t.jsonl", JSONL),
)
BY_NAME = {good.name: good for good in GOOD}


def _replaced(text: str, old: str, new: str) -> bytes:
    return text.replace(old, new, 1).encode("utf-8")


def _first_number(text: str, new: str) -> bytes:
    """The last number of the text, which is a score rather than a version, replaced."""
    end = max(i for i, c in enumerate(text) if c.isdigit()) + 1
    start = end
    while start and (text[start - 1].isdigit() or text[start - 1] in ".-e"):
        start -= 1
    return (text[:start] + new + text[end:]).encode("utf-8")


def broken(good: Good) -> Iterator[tuple[str, bytes]]:
    """Variants of a file with what is wrong with them."""
    text, data = good.text, good.text.encode("utf-8")
    for tenth in range(1, 10):
        yield f"cut at {tenth}/10", data[: len(data) * tenth // 10]
    yield "cut by a byte", data.rstrip()[:-1]
    yield "latin-1", data[: len(data) // 2] + b"\xe7\xe9" + data[len(data) // 2 :]
    yield "NUL", data[: len(data) // 3] + b"\0" + data[len(data) // 3 :]
    yield "NUL first", b"\0" + data
    yield "UTF-16", text.encode("utf-16")
    yield "twice", data + data
    for number in ("NaN", "1e400", "-Infinity", "9" * 5000, "null", '"x"', "[null]", "{}", "true"):
        yield f"number {number[:9]}", _first_number(text, number)
    if text.lstrip().startswith(("{", "[")):
        yield from _broken_json(text)
    else:
        yield "no header", data.split(b"\n", 1)[1]
        yield "only a header", data.split(b"\n", 1)[0]
        yield "a cell more", _replaced(text, "\n", ",1,2\n")


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
    for key in document:
        for value in (None, 3, [None], {"a": {"b": None}}):
            yield f"{key} is {value!r}", json.dumps({**document, key: value}).encode("utf-8")
        yield (
            f"without {key}",
            json.dumps({k: v for k, v in document.items() if k != key}).encode("utf-8"),
        )


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


@st.composite
def mutated(draw: Callable[..., Any], good: Good) -> bytes:
    """A file with something else in one place of its tree, or with other characters."""
    if not good.text.lstrip().startswith(("{", "[")) or draw(st.booleans()):
        text = good.text
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(text)))
            gone = draw(st.integers(0, 20))
            added = draw(st.text(alphabet='{}[]",:\\\n|&-±/0123456789eé\x00N', max_size=6))
            text = text[:at] + added + text[at + gone :]
        return text.encode("utf-8", errors="replace")
    lines = good.text.strip().splitlines() if good.file.endswith(".jsonl") else [good.text]
    which = draw(st.integers(0, len(lines) - 1))
    document = json.loads(lines[which])
    for _ in range(draw(st.integers(1, 3))):
        document = _elsewhere(draw, document)
    lines[which] = json.dumps(document)
    return "\n".join(lines).encode("utf-8", errors="replace")


def _elsewhere(draw: Callable[..., Any], tree: Any) -> Any:
    """The tree with another value somewhere, more often deep than at its top."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        return {**tree, key: _elsewhere(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(tree) - 1))
        return [*tree[:at], _elsewhere(draw, tree[at]), *tree[at + 1 :]]
    return draw(JUNK)
