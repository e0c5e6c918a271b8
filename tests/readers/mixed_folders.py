"""Folders of files of each tool, whole ones and damaged ones, and what is to become of each.

Inspect is stood in for, as in ``good_files.py``: its logs hold the frames that it would make.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayeseval.readers import Options, detect, read_results
from tests.readers.good_files import BY_NAME, FIXTURES, as_archive, inspect_frames, members_of

_MODEL: Final = b"org-a/small"
_STAMP: Final = "2026-03-01T10-00-00.000000"
_COUNTED: Final = re.compile(
    r"(?:read as [^(]*\(|warning: |)([\d,]+) (?:files?\)|files? of [\d,]+ cannot|other files?)"
)
_NUMBERED: Final = re.compile(r"model-\d+")
READ, REFUSED, OTHER = "read", "refused", "other"
Change = tuple[str, Callable[[bytes], bytes]]


def _sorted(data: bytes) -> bytes:
    def text(document: Any) -> str:
        return json.dumps(document, sort_keys=True)

    try:
        return text(json.loads(data)).encode()
    except json.JSONDecodeError:
        return "\n".join(text(json.loads(line)) for line in data.split(b"\n") if line).encode()


_WITH_HTML: Final = b"<html>503 Service Unavailable</html>"
_CUT: Final[Change] = (REFUSED, lambda data: data[: len(data) // 2])
_NOT_UTF8: Final[Change] = (
    REFUSED,
    lambda data: data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :],
)
_BINARY: Final[tuple[Change, ...]] = (
    _CUT,
    (REFUSED, lambda data: data[:-9]),
    (REFUSED, lambda data: b""),
    (REFUSED, lambda data: bytes(len(data))),
)
_WHOLE: Final[tuple[Change, ...]] = (
    (READ, lambda data: b"\xef\xbb\xbf" + data),
    (READ, lambda data: data.replace(b"\n", b"\r\n")),
)
_JSON: Final[tuple[Change, ...]] = (
    *_BINARY,
    _NOT_UTF8,
    (REFUSED, lambda data: _WITH_HTML),
    (REFUSED, lambda data: gzip.compress(data)[:-30]),
    (OTHER, lambda data: b'{"seed": 1}\n'),
    (READ, _sorted),
    *_WHOLE,
    (READ, gzip.compress),
)
# Of text that is no JSON, a beginning is all that says what it is.
_TEXT: Final[tuple[Change, ...]] = (
    _CUT,
    _NOT_UTF8,
    (OTHER, lambda data: b""),
    (OTHER, lambda data: _WITH_HTML),
    *_WHOLE,
)
# What is named .csv and holds nothing is a table that is damaged.
_TABLE: Final = (*_TEXT[:2], (REFUSED, _TEXT[2][1]), *_TEXT[3:])
# Inspect reads no packed logs, and no byte order mark.
_LOG: Final = (*_JSON[:9], _WHOLE[1], (REFUSED, gzip.compress))


@dataclass(frozen=True)
class Tool:
    """A format: a good file, where the file of a model lies, and what lies beside it."""

    pattern: str
    place: str
    beside: tuple[str, ...] = ()
    changes: tuple[Change, ...] = _JSON
    good: Callable[[int], bytes] | None = None

    def write(self, folder: Path, number: int, change: Callable[[bytes], bytes]) -> Path:
        """The file of model `number`, changed, and those beside it."""
        path = folder / self.place.format(number=number)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.good is not None:
            path.write_bytes(change(self.good(number)))
            return path
        if self.pattern in BY_NAME:
            path.write_bytes(change(_renamed(BY_NAME[self.pattern].data, number)))
            return path
        good = sorted(FIXTURES.glob(self.pattern))[0]
        for name in self.beside:
            path.with_name(name).write_bytes(_renamed(good.with_name(name).read_bytes(), number))
        path.write_bytes(change(_renamed(good.read_bytes(), number)))
        return path


def _frames(number: int) -> dict[str, Any]:
    """The frames of one log of Inspect, of a model of its own."""
    frames = json.loads(members_of(BY_NAME["inspect frames"].data)["header.json"])
    log = next(row["log"] for row in frames["evals"] if row["status"] == "success")
    own = {kind: [row for row in rows if row["log"] == log] for kind, rows in frames.items()}
    for row in own["evals"]:
        row["model"] = f"org/model-{number}"
    return own


def _archive(number: int) -> bytes:
    return as_archive({"header.json": _frames(number)})


def _log(number: int) -> bytes:
    log = {"version": 2, "status": "success", "eval": _frames(number)}
    return json.dumps(log, indent=1).encode()


TOOLS: Final[Mapping[str, Tool]] = {
    "lm-eval": Tool(
        "lm_eval/v0.4.13/org-a*/results*", f"org__model-{{number}}/results_{_STAMP}.json"
    ),
    "lm-eval-samples": Tool(
        "lm_eval/v0.4.13/org-a*/samples_xnli_en*",
        f"org__model-{{number}}/samples_xnli_en_{_STAMP}.jsonl",
    ),
    "lighteval": Tool(
        "lighteval/results/org-a/small/*", f"org/model-{{number}}/results_{_STAMP}.json"
    ),
    "lighteval-details": Tool(
        "lighteval/details/org-a/small/*/*eng_Latn*",
        f"details/org/model-{{number}}/{_STAMP}/details_belebele_eng_Latn|5_{_STAMP}.parquet",
        changes=_BINARY,
    ),
    "euroeval": Tool("euroeval/v16*", "model-{number}/euroeval_benchmark_results.jsonl"),
    "every-eval": Tool("every_eval/*/org-a/small/*", "org/model-{number}/1.json"),
    "every-eval-samples": Tool(
        "every_eval_samples/xnli_sw/org-a/small/*_samples.jsonl",
        "org/model-{number}/00000001-0000-4000-8000-000000000002_samples.jsonl",
        ("00000001-0000-4000-8000-000000000002.json",),
    ),
    "mteb": Tool("mteb/org-a*/*/Massive*", "org__model-{number}/0/MassiveIntent.json"),
    "helm": Tool(
        "helm/v1/mgsm*en*a_small/stats.json", "v1/model-{number}/stats.json", ("run_spec.json",)
    ),
    "helm-instances": Tool(
        "helm_instances/v1/*en*a_small/per_instance_stats.json",
        "v1/model-{number}/per_instance_stats.json",
        ("run_spec.json",),
    ),
    "inspect": Tool("", f"{{number}}/{_STAMP}_model-{{number}}.json", good=_log, changes=_LOG),
    "inspect-samples": Tool("", "{number}/model-{number}.eval", good=_archive, changes=_BINARY),
    "euroeval-leaderboard": Tool("euroeval leaderboard", "model-{number}.csv", changes=_TABLE),
    "model-card": Tool(
        "model_cards/org-a*/README.md", "org__model-{number}/README.md", changes=(_CUT, *_TEXT)
    ),
    "simple-evals": Tool("simple-evals", "mgsm_model-{number}.json"),
}


def _renamed(data: bytes, number: int) -> bytes:
    if data.startswith(b"PAR1"):
        return data
    model = f"org/model-{number}".encode()
    return data.replace(_MODEL, model).replace(_MODEL.replace(b"/", b"_"), model)


def write_mixed(folder: Path, name: str, files: int) -> dict[Path, str]:
    """`files` files of a tool, every other one changed in some way; what each is to become."""
    tool = TOOLS[name]
    wanted = {}
    for number in range(files):
        kind, change = tool.changes[number // 2 % len(tool.changes)]
        if number % 2 == 0:
            kind, change = READ, bytes
        wanted[tool.write(folder, number, change)] = kind
    for extra, content in (("README.md", "# Results\n"), ("run.log", "done\n"), ("a.png", "\x89P")):
        (folder / extra).write_text(content, encoding="utf-8")
    return wanted


def fared(folder: Path, name: str, wanted: Mapping[Path, str]) -> dict[str, int]:
    """Numbers of files by what became of them; `not as wanted` should be none.

    `files` counts all of the folder, `in notes` those that the load report counts; `read`,
    `refused` and `other` are of the files of `wanted`.
    """
    detected = detect(folder, format=name)
    assert detected is not None
    with inspect_frames():
        reading = read_results(detected, Options())
    models = {
        str(table.columns["model"][row]) for table in reading.tables for row in range(len(table))
    }
    read = {found[0] for found in map(_NUMBERED.search, models) if found}
    became = {}
    for path in wanted:
        own = _NUMBERED.search(path.relative_to(folder).as_posix())
        was_read = own is not None and own[0] in read
        became[path] = READ if was_read else REFUSED if reading.refused.get(path) else OTHER
    return {
        "files": sum(path.is_file() for path in folder.rglob("*")),
        **{kind: list(became.values()).count(kind) for kind in (READ, REFUSED, OTHER)},
        "not as wanted": sum(became[path] != kind for path, kind in wanted.items()),
        "in notes": sum(map(_counted, map(str, reading.notes[:4]))),
    }


def _counted(note: str) -> int:
    """The number of files that a note counts: read, refused, or others."""
    found = _COUNTED.match(note)
    return int(found[1].replace(",", "")) if found else 0
