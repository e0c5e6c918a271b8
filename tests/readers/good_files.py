"""Good files of every format that is read, whole; tests/records/malformed.py breaks them."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd

from bayeseval._optional import require
from bayeseval.mexa.covariate import load_covariate
from bayeseval.mexa.tables import AlignmentTable, read_alignment
from bayeseval.records import Covariate, Records, load

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
RECORDS_JSON = json.dumps([json.loads(line) for line in JSONL.splitlines()], indent=1)
TASK_NAMES = "task,dataset,language\nxnli_{language},,\nmgsm_direct_{language},mgsm,\nbelebele*,,\n"
ALIGNMENT = (
    "model,language,layer,alignment,n\na,eng_Latn,0,1,99\na,swh_Latn,0,0.25,99\n"
    "b,eng_Latn,0,1,99\nb,swh_Latn,0,0.75,99\n"
)
COVARIATE = "language,n,mexa\nen,99,1\nsw,99,0.25\nde,99,0.75\n"
LAYERS = '{"0": 0.125, "1": 0.5, "2": 0.25}'
REUBEN = {
    "rounding": 2,
    "score_col": "score",
    "model_col": "model",
    "task_col": "language",
    "seed_idx_col": "seed",
}
REUBEN_TABLE = "".join(
    json.dumps({"model": m, "language": language, "seed": s, "score": 50 + s}) + "\n"
    for m in "ab"
    for language in ("en", "sw")
    for s in range(2)
)
SIMPLE = json.dumps(
    {"en": 0.5, "en:std": 0.5, "sw": 0.25, "sw:std": 0.4, "group_latin": 0.375}
    | {"group_latin:std": 0.5, "score": 0.375, "score:std": 0.5},
    indent=2,
)
_TASK_LINK = "<a href='https://euroeval.com/tasks/knowledge/'>Knowledge</a>"
_SET_LINK = "<a href='https://euroeval.com/datasets/danish#tests-da'>tests-da</a>"
LEADERBOARD = (
    f"<span>Task Type</span>,,{_TASK_LINK},\nModel,Type,{_SET_LINK},tests_da_version\n"
    "<a href='https://hf.co/org-a/small'>org-a/small</a>,T,"
    "57.04 ± 1.20 / 64.31 ± 0.64@@57.04,16.7.0@@160700\n"
)
MAPPING = {
    "columns": {"score": "score", "task": None},
    "constants": {"dataset": "xquad"},
    "units": {"lower": 0, "upper": 100, "tasks": {"xquad": {"lower": 0, "upper": 50}}},
    "language_names": {"sw": "Swahili"},
    "mixed_scales": "allow",
    "likelihoods": {"default": "normal"},
}
CARD = {
    "name": "own",
    "title": "A table",
    "files": ["t.csv"],
    "units": {"lower": 0, "upper": 100},
    "covariates": {"mexa": "c.csv"},
    "likelihoods": {"default": "normal"},
}
GRID = [["model", "en", "sw", "de"], ["A", 1.5, "2 ± 0.1", None], ["B", 3, 4, 5]]
# Rows and columns of the frames that Inspect makes of logs.
_FRAMES = {
    "evals": (
        4,
        [
            *("log", "task_name", "model", "epochs", "status", "total_samples"),
            *("score_headline_name", "score_headline_metric"),
            *("score_match_accuracy", "score_match_stderr"),
        ],
    ),
    "samples": (40, ["log", "id", "epoch", "metadata_language", "score_match", "error"]),
}


def identity(found: object) -> str:
    """A text that is the same for the same content, wherever it was read from."""
    if isinstance(found, tuple):
        return " ".join(map(identity, found))
    if isinstance(found, AlignmentTable):
        return repr((found.models, found.labels, found.values.tolist(), found.notes))
    assert isinstance(found, Records | Covariate)
    return found.content_hash


def _read_config(path: Path) -> object:
    return load(path.with_name("t.jsonl"), mapping_file=path)


def _read_card(path: Path) -> object:
    records = load(path.parent)
    return (records, *(load_covariate(f, records) for f in records.covariate_files.values()))


def _read_task_names(path: Path) -> object:
    return load(_first("lm_eval/v0.4.13/org-a*/results*"), task_names=path)


def _read_layers(path: Path) -> object:
    return read_alignment(path.parent)


@lru_cache(maxsize=1)
def _three_languages() -> Records:
    rows = [(m, language, 50.0) for m in "ab" for language in ("en", "sw", "de")]
    return Records.from_frame(
        pd.DataFrame(rows, columns=["model", "language", "score"]), name="three"
    )


def _read_covariate(path: Path) -> object:
    return load_covariate(path, _three_languages())


@contextmanager
def inspect_frames() -> Iterator[None]:
    """Inspect, stood in for: a log's header holds the frames that it would make of it."""

    def frame(kind: str, logs: list[str]) -> pd.DataFrame:
        frames = []
        for log in logs:
            if zipfile.is_zipfile(log):
                with zipfile.ZipFile(log) as archive:
                    header = json.loads(archive.read("header.json"))
            else:
                header = json.loads(Path(log).read_bytes())["eval"]
            made = pd.DataFrame(header[kind])
            # A file with frames of several logs names them; others are named after their file.
            several = made["log"].nunique() > 1
            frames.append(made if several else made.assign(log=log))
        return pd.concat(frames, ignore_index=True)

    analysis = mock.Mock(
        evals_df=lambda logs, quiet: frame("evals", logs),
        samples_df=lambda logs, quiet: frame("samples", logs),
    )
    stand_in = {"inspect_ai": mock.Mock(), "inspect_ai.analysis": analysis}
    before = {name: sys.modules[name] for name in stand_in if name in sys.modules}
    # mock.patch.dict would take out what is imported meanwhile too.
    sys.modules.update(stand_in)
    try:
        yield
    finally:
        for name in stand_in:
            del sys.modules[name]
        sys.modules.update(before)


def _read_frames(path: Path) -> object:
    """An archive whose header holds the frames that Inspect would make of it."""
    with inspect_frames():
        return _read_log(path)


def _read_log(path: Path) -> object:
    return load(path), load(path, format="inspect-samples")


def as_parquet(rows: Any) -> bytes:
    """A Parquet file with these rows; columns that Arrow has no type for as text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    rows = rows if whole else [{"value": rows}]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(cells)
        except (pa.ArrowException, OverflowError):
            columns[name] = pa.array([json.dumps(cell) for cell in cells])
    target = io.BytesIO()
    try:
        pq.write_table(pa.table(columns), target)
    except pa.ArrowException:
        # A struct without fields.
        pq.write_table(pa.table({n: [str(c) for c in v] for n, v in columns.items()}), target)
    return target.getvalue()


def as_archive(members: Any) -> bytes:
    """A ZIP archive with these members, text as it is and anything else as JSON."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items() if isinstance(members, dict) else ():
            text = content if isinstance(content, str) else json.dumps(content)
            archive.writestr(zipfile.ZipInfo(name), text.encode("utf-8", errors="replace"))
    return target.getvalue()


def as_workbook(rows: Any) -> bytes:
    """An Excel workbook with one sheet."""
    book = require("openpyxl", "excel").Workbook()
    for row in rows if isinstance(rows, list) else [rows]:
        cells = row if isinstance(row, list) else [row]
        flat = (bool, int, float, type(None))
        book.active.append([c if isinstance(c, flat) else _sayable(str(c)) for c in cells])
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _sayable(text: str) -> str:
    """Without the characters that XML has no place for."""
    return "".join(c for c in text if c.isprintable())


def _as_text(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", errors="replace")


def members_of(data: bytes) -> dict[str, str]:
    """Members of an archive as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


@dataclass(frozen=True)
class Good:
    """A file that is read, and the files that have to lie beside it.

    Parameters
    ----------
    name, file : str
        What the format is called, and the file.
    data : bytes
        The file.
    beside : tuple of (str, bytes)
        Names and contents of the others.
    document : object
        What is in the file as a JSON tree, where it is no JSON itself.
    pack : callable
        From such a tree to a file.
    reader : callable
        Reads a path.
    """

    name: str
    file: str
    data: bytes
    beside: tuple[tuple[str, bytes], ...] = ()
    document: Any = None
    pack: Callable[[Any], bytes] = _as_text
    reader: Callable[[Path], object] = load

    @property
    def is_text(self) -> bool:
        """Whether the file is text, rather than Parquet or an archive."""
        return not self.data.startswith((b"PAR1", b"PK"))

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.data.decode("utf-8")

    @property
    def is_json(self) -> bool:
        """Whether the file is one JSON document or one per line."""
        return self.is_text and self.text.lstrip().startswith(("{", "["))

    def write(self, folder: Path, data: bytes) -> Path:
        """The file with other content; the others as they are."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.beside:
            (folder / name).write_bytes(content)
        path = folder / self.file
        path.write_bytes(data)
        return path


def _first(pattern: str) -> Path:
    return sorted(FIXTURES.glob(pattern))[0]


def _fixture(name: str, pattern: str, *beside: str) -> Good:
    path = _first(pattern)
    others = tuple((other, path.with_name(other).read_bytes()) for other in beside)
    return Good(name, path.name, path.read_bytes(), others)


def _packed(
    name: str,
    file: str,
    tree: Any,
    pack: Callable[[Any], bytes],
    reader: Callable[[Path], object] = load,
) -> Good:
    return Good(name, file, pack(tree), document=tree, pack=pack, reader=reader)


def _yaml(
    name: str,
    file: str,
    tree: dict[str, Any],
    reader: Callable[[Path], object],
    *beside: tuple[str, str],
) -> Good:
    import yaml

    others = tuple((name, text.encode()) for name, text in beside)
    return Good(name, file, yaml.safe_dump(tree).encode(), others, document=tree, reader=reader)


def _goods() -> Iterator[Good]:
    import pyarrow.parquet as pq

    yield _fixture("lm-eval", "lm_eval/v0.4.13/org-a*/results*")
    yield _fixture("lm-eval old", "lm_eval/v0.3.0/*.json")
    yield _fixture("lm-eval samples", "lm_eval/v0.4.13/org-a*/samples_xnli_en*")
    yield _fixture("lighteval", "lighteval/results/org-a/small/*")
    details = _first("lighteval/details/org-a/small/*/*eng_Latn*")
    rows = pq.ParquetFile(details).read().to_pylist()[:4]
    yield _packed("lighteval details", details.name, rows, as_parquet)
    yield _fixture("euroeval", "euroeval/issues*")
    yield _fixture("euroeval records", "euroeval/every*")
    yield _fixture("every-eval", "every_eval/*/org-a/small/*")
    yield _fixture(
        "every-eval samples",
        "every_eval_samples/xnli_sw/org-a/small/*_samples.jsonl",
        "00000001-0000-4000-8000-000000000002.json",
    )
    yield _fixture("model card", "model_cards/org-a*/README.md")
    yield _fixture("eval results", "model_cards/org-b*/.eval_results/*.yaml")
    yield Good("euroeval leaderboard", "danish_all.csv", LEADERBOARD.encode())
    yield Good("simple-evals", "mgsm_a.json", SIMPLE.encode())
    yield _fixture("mteb", "mteb/org-a*/*/Massive*", "model_meta.json")
    yield _fixture("helm", "helm/v1/mgsm*en*a_small/stats.json", "run_spec.json")
    yield _fixture(
        "helm instances", "helm_instances/v1/*en*a_small/per_instance_stats.json", "run_spec.json"
    )
    yield _fixture(
        "helm display",
        "helm_instances/v1/*en*a_small/display_predictions.json",
        "run_spec.json",
        "instances.json",
    )
    frames = {
        kind: json.loads(
            pd.read_parquet(FIXTURES / "inspect" / f"{kind}.parquet", columns=columns)
            .head(rows)
            .to_json(orient="records")
        )
        for kind, (rows, columns) in _FRAMES.items()
    }
    yield _packed("inspect frames", "log.eval", {"header.json": frames}, as_archive, _read_frames)
    yield Good("csv", "t.csv", CSV.encode())
    yield Good("wide", "w.csv", WIDE.encode())
    yield Good("markdown", "w.md", MARKDOWN.encode())
    yield Good("latex", "w.tex", LATEX.encode())
    yield _packed("excel", "w.xlsx", GRID, as_workbook)
    yield _packed("excel members", "w.xlsx", members_of(as_workbook(GRID)), as_archive)
    yield Good("jsonl", "t.jsonl", JSONL.encode())
    yield Good("json", "t.json", RECORDS_JSON.encode())
    yield _packed("parquet", "t.parquet", json.loads(RECORDS_JSON), as_parquet)
    yield Good("task names", "names.csv", TASK_NAMES.encode(), reader=_read_task_names)
    yield Good("alignment", "alignment.csv", ALIGNMENT.encode(), reader=read_alignment)
    yield Good(
        "alignment layers",
        "swh_Latn.json",
        LAYERS.encode(),
        (("eng_Latn.json", LAYERS.encode()),),
        reader=_read_layers,
    )
    yield Good("covariate", "c.csv", COVARIATE.encode(), reader=_read_covariate)
    yield _yaml("reuben", "config.yaml", REUBEN, _read_config, ("t.jsonl", REUBEN_TABLE))
    yield _yaml("mapping", "m.yaml", MAPPING, _read_config, ("t.jsonl", JSONL))
    yield _yaml("card", "benchmark.yaml", CARD, _read_card, ("t.csv", CSV), ("c.csv", COVARIATE))


def inspect_logs() -> tuple[Good, ...]:
    """Logs of Inspect, where Inspect is installed to read them."""
    log = FIXTURES / "inspect" / "log.eval"
    if find_spec("inspect_ai") is None or not log.is_file():
        return ()
    logs = import_module("inspect_ai.log")
    # Inspect writes the same log as one JSON document too.
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "log.json"
        logs.write_eval_log(logs.read_eval_log(str(log)), str(written), format="json")
        tree = json.loads(written.read_text(encoding="utf-8"))
    return (
        _packed("inspect", "2026-03-01T10-00-00_log_a.json", tree, _as_text, _read_log),
        Good("inspect archive", "log.eval", log.read_bytes(), reader=_read_log),
    )


GOOD = tuple(_goods())
BY_NAME = {good.name: good for good in GOOD}
