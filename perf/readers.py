"""Seconds and peak memory of reading large inputs, beside plain pandas doing the same read.

    python perf/readers.py [--scale 1.0]

Four inputs are written to a temporary folder and read once each in a fresh process:
10^6 tidy rows as CSV and as Parquet, 10,000 results files of lm-evaluation-harness, and
300,000 test items in its samples. ``load`` recognises, checks and sorts; pandas only reads
the same columns into a frame, so it is the floor rather than a peer. Where orjson is installed,
it reads the JSON in place of the json module. Seconds are those of the
CPU, user and system, of all threads: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from measure import child, print_machine, print_table, reply, write_csv

LANGUAGES: Final = ("en", "sw", "de", "fr", "es", "zh", "ar", "hi", "ru", "th")
STAMP: Final = "2026-01-01T00-00-00.000000"


def write_tables(folder: Path, rows: int) -> None:
    """Tidy rows with test items, as CSV and Parquet."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    number = np.arange(rows)
    items = rows // 200
    cell = number // items
    frame = pd.DataFrame(
        {
            "model": np.char.add("model-", (cell % 20).astype(str)),
            "language": np.array(LANGUAGES)[cell // 20 % 10],
            "task": "xnli:acc",
            "score": rng.integers(0, 2, rows).astype(float),
            "item": number % items,
        }
    )
    frame.to_csv(folder / "tidy.csv", index=False)
    frame.to_parquet(folder / "tidy.parquet", index=False)


def write_results(folder: Path, files: int) -> None:
    """Results files of ten tasks each, with the configuration that the harness adds."""
    names = [f"xnli_{language}" for language in LANGUAGES]
    prompt = "Question: {{premise}} True, False or Neither? {{hypothesis}} " * 20
    config = {
        name: {
            "task": name,
            "dataset_path": "xnli",
            "doc_to_text": prompt,
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": 1.0},
        }
        for name in names
    }
    for number in range(files):
        run = folder / "results" / f"org__model-{number}"
        run.mkdir(parents=True)
        right = [1000 + (7 * number + 31 * i) % 1000 for i in range(len(names))]
        scores = [k / 2490 for k in right]
        document = {
            "results": {
                name: {
                    "alias": name,
                    "acc,none": p,
                    "acc_stderr,none": (p * (1 - p) / 2489) ** 0.5,
                    "acc_norm,none": p,
                    "acc_norm_stderr,none": "N/A",
                }
                for name, p in zip(names, scores, strict=True)
            },
            "group_subtasks": {name: [] for name in names},
            "configs": config,
            "n-samples": {name: {"original": 2490, "effective": 2490} for name in names},
            "higher_is_better": {name: {"acc": True, "acc_norm": True} for name in names},
            "model_name": f"org/model-{number}",
        }
        path = run / f"results_{STAMP}.json"
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")


def write_samples(folder: Path, items: int) -> None:
    """Samples of three models on ten languages."""
    each = items // 30
    document = {"premise": "lorem ipsum " * 30, "hypothesis": "dolor sit amet " * 10, "label": 1}
    for model in range(3):
        run = folder / "samples" / f"org__model-{model}"
        run.mkdir(parents=True)
        for language in LANGUAGES:
            with (run / f"samples_xnli_{language}_{STAMP}.jsonl").open("w") as file:
                for i in range(each):
                    line = {
                        "doc_id": i,
                        "doc": document,
                        "target": "1",
                        "arguments": {"gen_args_0": {"arg_0": document["premise"], "arg_1": " no"}},
                        "resps": [[["-1.5", "False"]]],
                        "filtered_resps": [["-1.5", "False"]],
                        "filter": "none",
                        "metrics": ["acc"],
                        "doc_hash": "0" * 64,
                        "acc": float((i * 7 + model) % 3 > 0),
                    }
                    file.write(json.dumps(line) + "\n")


def ours(folder: Path, what: str) -> int:
    """Records read by ``load``."""
    from bayeseval.records import load

    return len(load(folder / what))


def plain(folder: Path, what: str) -> int:
    """Rows read by pandas and the json module."""
    import pandas as pd

    if what == "results":
        rows = [
            {"model": path.parent.name, "task": task, **values}
            for path in sorted((folder / what).rglob("*.json"))
            for task, values in json.loads(path.read_text(encoding="utf-8"))["results"].items()
        ]
        return len(pd.DataFrame(rows))
    if what == "samples":
        frames = [
            pd.read_json(path, lines=True)[["doc_id", "filter", "acc"]].assign(file=path.name)
            for path in sorted((folder / what).rglob("*.jsonl"))
        ]
        return len(pd.concat(frames))
    path = folder / what
    return len(pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path))


def with_orjson(folder: Path, what: str) -> int:
    """Rows of JSON files read by pandas and orjson."""
    import pandas as pd

    orjson = import_module("orjson")
    if what == "results":
        rows = [
            {"model": path.parent.name, "task": task, **values}
            for path in sorted((folder / what).rglob("*.json"))
            for task, values in orjson.loads(path.read_bytes())["results"].items()
        ]
    else:
        rows = [
            {"doc_id": one["doc_id"], "filter": one["filter"], "acc": one["acc"], "file": path.name}
            for path in sorted((folder / what).rglob("*.jsonl"))
            for one in map(orjson.loads, path.read_bytes().splitlines())
        ]
    return len(pd.DataFrame(rows))


READERS: Final[dict[str, Callable[[Path, str], int]]] = {
    "load": ours,
    "pandas": plain,
    "pandas with orjson": with_orjson,
}
INPUTS: Final = {
    "tidy.csv": "tidy rows, CSV",
    "tidy.parquet": "tidy rows, Parquet",
    "results": "harness results files, ten tasks each",
    "samples": "harness test items in 30 samples files",
}


def written(folder: str, scale: float) -> dict[str, Any]:
    """Write the inputs."""
    write_tables(Path(folder), round(1_000_000 * scale))
    write_results(Path(folder), round(10_000 * scale))
    write_samples(Path(folder), round(300_000 * scale))
    return {}


def measured(folder: str, what: str, reader: str) -> dict[str, Any]:
    """One read in this process, imports apart."""
    import pandas  # noqa: F401
    import pyarrow.json  # noqa: F401

    import bayeseval.records  # noqa: F401

    begun = time.process_time()
    rows = READERS[reader](Path(folder), what)
    return {"rows": rows, "seconds": time.process_time() - begun}


def main() -> int:
    """Write the inputs, read each in both ways, print and store the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        settings = json.loads(asked.child)
        reply(written(**settings) if "scale" in settings else measured(**settings))
        return 0
    said = print_machine()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # In a process of its own: those started later take over their parent's peak memory.
        child(__file__, folder=temporary, scale=asked.scale)
        for what, title in INPUTS.items():
            size = sum(
                p.stat().st_size for p in folder.rglob("*") if what in p.parts and p.is_file()
            )
            is_json = (folder / what).is_dir() and find_spec("orjson") is not None
            answers = {
                reader: child(__file__, folder=temporary, what=what, reader=reader)
                for reader in READERS
                if is_json or reader != "pandas with orjson"
            }
            rows += [
                {
                    "input": title,
                    "MB": size / 1e6,
                    "reader": reader,
                    "rows": answer["rows"],
                    "CPU seconds": answer["seconds"],
                    "times pandas": answer["seconds"] / answers["pandas"]["seconds"],
                    "peak MiB": answer["memory_mib"],
                }
                for reader, answer in answers.items()
            ]
    print_table(rows)
    if asked.scale == 1.0:
        print(write_csv("readers", rows, said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
