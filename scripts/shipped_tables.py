"""Write the tables of the shipped benchmarks `mmmlu` and `euroeval` from their published files.

git clone https://github.com/openai/simple-evals
python scripts/shipped_tables.py mmmlu simple-evals > benchmarks/mmmlu/records.csv

git clone https://github.com/EuroEval/leaderboards
git -C leaderboards checkout 1a77f1d2f8ba1ba05ab73287fb090d76bf41b2e0
python scripts/shipped_tables.py euroeval leaderboards > benchmarks/euroeval/records.csv
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

__all__ = ["EUROEVAL_MODELS", "euroeval", "mmmlu"]

_CODES = {
    **{"albanian": "sq", "arabic": "ar", "bengali": "bn", "bosnian": "bs", "bulgarian": "bg"},
    **{"catalan": "ca", "chinese (simplified)": "zh", "croatian": "hr", "czech": "cs"},
    **{"danish": "da", "dutch": "nl", "english": "en", "estonian": "et", "faroese": "fo"},
    **{"finnish": "fi", "french": "fr", "german": "de", "greek": "el", "hindi": "hi"},
    **{"hungarian": "hu", "icelandic": "is", "indonesian": "id", "italian": "it"},
    **{"japanese": "ja", "korean": "ko", "latvian": "lv", "lithuanian": "lt"},
    **{"norwegian": "no", "polish": "pl", "portuguese": "pt", "portuguese (brazil)": "pt"},
    **{"romanian": "ro", "serbian": "sr", "slovak": "sk", "slovene": "sl", "spanish": "es"},
    **{"swahili": "sw", "swedish": "sv", "ukrainian": "uk", "yoruba": "yo"},
}
# Generative models that people know, all evaluated on test splits, with examples in the
# prompt. The first sixteen were tested on 29 or 30 languages, the others on 9 to 13.
EUROEVAL_MODELS = (
    *("google/gemma-3-4b-it", "google/gemma-3-12b-it", "google/gemma-3-27b-it"),
    *("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
    *("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "Qwen/Qwen2.5-72B-Instruct"),
    *("Qwen/Qwen3-8B#no-thinking", "Qwen/Qwen3-32B#no-thinking", "openai/gpt-oss-20b#medium"),
    *("utter-project/EuroLLM-9B-Instruct", "utter-project/EuroLLM-22B-Instruct-2512"),
    *("swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-70B-Instruct-2509"),
    *("BSC-LT/salamandra-7b-instruct", "allenai/Olmo-3-7B-Instruct"),
    *("meta-llama/Llama-3.1-405B-Instruct-FP8", "google/gemma-2-27b-it"),
    *("CohereForAI/aya-expanse-32b", "microsoft/phi-4", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    "openGPT-X/Teuken-7B-instruct-commercial-v0.4",
)
# Tasks that most languages have; `simplification` exists in Dutch only, and
# `european-values` is no measure of quality.
_EUROEVAL_TASKS = (
    *("sentiment-classification", "named-entity-recognition", "linguistic-acceptability"),
    *("reading-comprehension", "summarization", "knowledge", "common-sense-reasoning"),
)
_ITERATIONS = 10
_SCORE = re.compile(r"(-?[\d.,]+) ± ([\d.,]+)")
_TAG = re.compile(r"<[^>]*>")


def mmmlu(checkout: Path) -> str:
    """Return the table of `multilingual_mmlu_benchmark_results.md` as CSV, one score per row.

    Languages get their ISO 639-1 code; the row of averages and the bold type are left out.
    """
    page = (checkout / "multilingual_mmlu_benchmark_results.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    (_, *models), _, *rows = cells
    return _as_csv(
        ["model", "language", "accuracy"],
        [
            (model, _CODES[language.lower()], score)
            for language, *scores in rows
            if language != "Average"
            for model, score in zip(models, scores, strict=True)
        ],
    )


def euroeval(checkout: Path) -> str:
    """Return the scores of `EUROEVAL_MODELS` on the leaderboards of single languages as CSV.

    The score is the first of the two metrics that a leaderboard shows, the task's primary
    one. A leaderboard prints 1.96 sd / sqrt(10), where sd is that of ten bootstraps of the test
    set. The mean of the ten has the standard error sd sqrt(1 + 1/10) over test sets, which is
    `se` (docs/replicates.md); where 0.00 is printed, it is left empty. If a task has several
    data sets in a language, the first one of its configuration is used.
    """
    tasks = _read_yaml(checkout / "task_config.yaml")
    overall = _read_yaml(checkout / "leaderboard_configs" / "european.yaml")
    rows = []
    for language in overall["languages"]:
        datasets = _read_yaml(checkout / "leaderboard_configs" / f"{language}.yaml")
        board = dict(_models(checkout / "leaderboards" / f"{language}_all.csv"))
        for model in EUROEVAL_MODELS:
            for task in _EUROEVAL_TASKS:
                name = datasets.get(task, [""])[0]
                cell = _SCORE.match(board.get(model, {}).get(name.replace("-", "_"), ""))
                if cell is not None:
                    score, half_interval = (float(one.replace(",", "")) for one in cell.groups())
                    se = half_interval / 1.96 * math.sqrt(_ITERATIONS + 1)
                    metric = tasks[task]["primary_metric"]
                    identity = (model, _CODES[language], task, metric, name)
                    rows.append((*identity, f"{score:.2f}", f"{se:.2f}" if se else ""))
    header = ["model", "language", "dataset", "metric", "source_dataset", "score", "se"]
    return _as_csv(header, rows)


def _models(board: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The models of one leaderboard with their cells by data set, as printed."""
    with board.open(encoding="utf-8", newline="") as file:
        _, header, *rows = csv.reader(file)
    names = [_TAG.sub("", name).strip() for name in header]
    for row in rows:
        yield _TAG.sub("", row[0]).strip(), dict(zip(names, row, strict=True))


def _read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _as_csv(header: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *sorted(rows)])
    return text.getvalue()


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    sys.stdout.write({"mmmlu": mmmlu, "euroeval": euroeval}[name](Path(folder)))
