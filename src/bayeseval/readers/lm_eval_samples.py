"""Samples of lm-evaluation-harness: one test item per line, ``samples_<task>_<time>.jsonl``.

Each line is one item and one filter, with the score of the item under every metric. The
task is in the name of the file, the model in the results of that time beside it, else in
the name of its folder; ``.jsonl.gz`` is read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayeseval._text import Note, show
from bayeseval.errors import InputError
from bayeseval.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    as_list,
    as_number,
    json_lines,
    unpacked,
)
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lm_eval import (
    ModelName,
    common_folder,
    folder_notes,
    model_name,
    models_of_runs,
    name_notes,
)
from bayeseval.readers.raw import object_array
from bayeseval.readers.scores import Score
from bayeseval.readers.task_names import read_task_names

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LM_EVAL_SAMPLES"]

_NAME: Final = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.\-+:]+)\.jsonl")


# Above this, a file is read line by line rather than held as a whole.
_MAX_IN_MEMORY: Final = 1 << 29


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has("doc_id", "doc", "target", "filtered_resps")


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    stems = dict(options.attempts(paths, _task_and_time))
    named = names.parse_all((task for task, _ in stems.values()), source)
    split: list[Note] = []
    models_in_results = models_of_runs(
        ((path.parent, time) for path, (_, time) in stems.items()), options, split
    )
    models: dict[Path, ModelName] = {}
    read: dict[str, dict[str, Items]] = {}
    heads: list[Score] = []
    wanted = [path for path, (task, _) in stems.items() if named[task]]
    for path, items in options.attempts(options.each(wanted), _items_of):
        task, time = stems[path]
        name = named[task]
        if name is None:
            continue
        name_in_results = models_in_results.get((path.parent, time))
        models[path] = model_name(name_in_results, None, {}, path)
        read[str(path)] = items
        heads += [
            Score(
                model=models[path].label,
                dataset=name.dataset,
                language=name.language,
                metric=key.partition(",")[0],
                selector=key.partition(",")[2],
                value=None,
                where=str(path),
                run=time,
            )
            for key in read[str(path)]
        ]
    notes = [*name_notes(named), *folder_notes(models), *split]
    return settle_items(heads, read, source=source, options=options, place="line", notes=notes)


def _task_and_time(path: Path) -> tuple[str, str]:
    """Task and time of ``samples_xnli_sw_2026-03-01T10-00-00.000000.jsonl``."""
    name = path.name.removesuffix(".gz")
    match = _NAME.fullmatch(name)
    if match is not None:
        return match["task"], match["time"]
    if name.endswith(".jsonl") and name.startswith("samples_"):
        return name.removeprefix("samples_").removesuffix(".jsonl"), ""
    raise InputError(
        f"{path}: only the name of a file of samples gives the task; expected"
        " samples_TASK_TIME.jsonl, as the harness names it"
    )


def _items_of(path: Path) -> dict[str, Items]:
    return _read_with_arrow(path) or _read_by_line(path)


def _read_with_arrow(path: Path) -> dict[str, Items] | None:
    """Only the columns that are needed, by pyarrow; None for what has to be explained.

    That is also the case when lines have other metrics than the first, or one of these
    columns twice, which pyarrow refuses.
    """
    import pyarrow as pa
    import pyarrow.json as pj

    data = unpacked(path, limit=_MAX_IN_MEMORY)
    if data is None:
        return None
    first, _, _ = data.partition(b"\n")
    try:
        names = json.loads(first)["metrics"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    fields = [("doc_id", pa.int64()), ("filter", pa.string()), ("metrics", pa.list_(pa.string()))]
    fields += [(name, pa.float64()) for name in dict.fromkeys(names)]
    if len({name for name, _ in fields}) < len(fields) or b"\n\n" in data:
        return None
    options = pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    # A block has to hold the longest line.
    blocks = pj.ReadOptions(block_size=min(max(1 << 22, 2 * len(first)), 1 << 28))
    try:
        table = pj.read_json(pa.BufferReader(data), read_options=blocks, parse_options=options)
    except (pa.ArrowException, ValueError):
        return None
    if table.num_columns != len(fields) or table["doc_id"].null_count or not table.num_rows:
        return None
    if not _all_equal(table["metrics"], names):
        return None
    filters = table["filter"].fill_null("none").to_pandas().to_numpy()
    filters = np.where(filters == "", "none", filters)
    items = table["doc_id"].to_numpy()
    by_key = {}
    for selector in dict.fromkeys(filters):
        rows = np.flatnonzero(filters == selector)
        for name in dict.fromkeys(names):
            values = table[name].to_numpy()[rows]
            if np.isnan(values).any() or np.isinf(values).any():
                return None
            by_key[_key(name, selector)] = Items(
                rows + 1,
                object_array(map(str, items[rows].tolist())),
                object_array(values.tolist()),
            )
    return by_key


def _all_equal(cells: pa.ChunkedArray, names: Sequence[str]) -> bool:
    """Whether all cells of a column hold these names."""
    import pyarrow.compute as pc

    # Missing cells count as true.
    if (
        not names
        or cells.null_count
        or not pc.all(pc.equal(pc.list_value_length(cells), len(names))).as_py()
    ):
        return False
    cell_names = pc.list_flatten(cells).to_numpy().reshape(-1, len(names))
    return bool((cell_names == np.array(names, dtype=object)).all())


def _read_by_line(path: Path) -> dict[str, Items]:
    """Line by line, with a message for the first that is not as it should be."""
    rows: dict[str, list[tuple[int, Any, float | None]]] = {}
    for number, record in json_lines(path):
        where = f"{path}, line {number}"
        if "doc_id" not in record or "metrics" not in record:
            raise InputError(f"{where}: expected a sample with the keys doc_id and metrics")
        item = record["doc_id"]
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InputError(f"{where}: doc_id: expected a number or text, got {show(item)}")
        selector = record.get("filter") or "none"
        if not isinstance(selector, str):
            raise InputError(f"{where}: filter: expected text, got {show(selector)}")
        for name in as_list(record["metrics"], f"{where}: metrics"):
            if not isinstance(name, str):
                raise InputError(f"{where}: metrics: expected names, got {show(name)}")
            value = record.get(name)
            if isinstance(value, dict | list):
                # What a metric over the whole corpus is computed from, such as the texts of BLEU.
                continue
            value = float(value) if isinstance(value, bool) else value
            row = (number, str(item), as_number(value, f"{where}: {name}"))
            rows.setdefault(_key(name, selector), []).append(row)
    if not rows:
        raise InputError(f"{path}: no item has a score of its own")
    return {key: Items.of(kept) for key, kept in rows.items()}


def _key(metric: str, selector: str) -> str:
    return metric if selector == "none" else f"{metric},{selector}"


LM_EVAL_SAMPLES: Final = Reader(
    "lm-eval-samples",
    "lm-evaluation-harness samples",
    _sniff,
    _read,
    details_of=("lm-eval",),
)
