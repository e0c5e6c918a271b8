"""What a refusal or a note proposes works when it is pasted, and no proposal is without a test."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from bayeseval.cli import main

SOURCE = Path(__file__).parents[1] / "src" / "bayeseval"
READERS = Path(__file__).parent / "fixtures" / "readers"

_OPTION = re.compile(r"--(columns|format|metric|task-names) ('[^']*'|[^\s,;()']+)")
_MAPPING = re.compile(
    r"'?((?:drop|units|missing|mixed_scales|diverged_runs): (?:\{.*?\}+|[^\s{']+))'?"
    r" in a (?:--mapping file|YAML file passed as --mapping)"
)


def grid(*tasks: str, seeds: int = 0, **constant: object) -> pd.DataFrame:
    """Scores between 40 and 70 that no sum of effects reproduces."""
    rows = [
        {"model": m, "language": lang, "task": task}
        | ({"seed": s} if seeds else {})
        | {"score": 41.0 + 6 * i + 3 * j + 2 * k + (i * j * 7 + j * k * 5 + i * k * 11) % 13 + s}
        for (i, m), (j, lang), (k, task), s in product(
            enumerate("ABC"), enumerate(("de", "en", "sw")), enumerate(tasks), range(seeds or 1)
        )
    ]
    return pd.DataFrame(rows).assign(**constant)


def _twice(column: str, *values: object) -> pd.DataFrame:
    """The grid once for each value of a column."""
    parts = [
        grid("qa", "nli").assign(**{column: value}).assign(score=lambda f, k=k: f["score"] + k)
        for k, value in enumerate(values)
    ]
    return pd.concat(parts, ignore_index=True)


def _with(frame: pd.DataFrame, where: str, column: str, value: object) -> pd.DataFrame:
    changed = frame.astype({column: object})
    changed.loc[changed.eval(where), column] = value
    return changed


def _own_tasks() -> pd.DataFrame:
    aside = grid("mlqa_de").query("language == 'de'")
    return pd.concat([grid("qa").query("language != 'de'"), aside])


def _two_metrics() -> pd.DataFrame:
    return pd.concat([grid("qa", metric="f1"), grid("qa", metric="em").assign(score=31.5)])


@dataclass(frozen=True)
class _Case:
    """A table, what is said of it, and how to fill what the message leaves open."""

    said: str
    files: Mapping[str, pd.DataFrame | str] = field(default_factory=dict)
    fixture: str = ""
    options: tuple[str, ...] = ()
    fill: Mapping[str, str] = field(default_factory=dict)
    n: int = 1
    then: str = "Ready to fit: yes"


_RESULTS = json.dumps(
    {
        "results": {
            f"xnli_{lang}": {
                "acc,none": 0.5 + i / 9,
                "acc_stderr,none": "N/A",
                "word_perplexity,none": 7.5 + i,
            }
            for i, lang in enumerate(("de", "en", "sw"))
        },
        "configs": {},
        "versions": {},
        "model_name": "org/a",
        "higher_is_better": {},
    }
)


def _samples(model: str, language: str) -> str:
    """Test items of lm-evaluation-harness with two metrics."""
    sample = {"doc": {}, "target": "1", "arguments": [], "resps": [], "filtered_resps": []}
    metrics = {"filter": "none", "metrics": ["acc", "word_perplexity"], "doc_hash": "0"}
    lines = [
        {"doc_id": i, **sample, **metrics, "acc": float((i + len(language)) % 3 > (model == "a"))}
        | {"word_perplexity": 5.0 + i}
        for i in range(6)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


_SCALE = {"t.csv": _with(grid("qa", "nli"), "task == 'nli'", "score", 150.0)}
_SCALES = pd.concat([grid("qa"), grid("nli").assign(score=lambda f: f["score"] / 100)])
CASES: dict[str, _Case] = {
    "score": _Case(
        "could each be the score column",
        {
            "t.csv": grid("qa")
            .assign(f1=lambda f: f["score"], acc=lambda f: f["score"] / 2)
            .drop(columns="score")
        },
        n=2,
    ),
    "an average among models": _Case(
        "model 'Mean Teacher' is named as an average may be, and counts as a model",
        {
            "t.csv": _with(
                grid("qa", scale_min=0, scale_max=100), "model == 'C'", "model", "Mean Teacher"
            )
        },
    ),
    "errors of zero": _Case(
        "se is 0 in all 9 records that have one",
        {"t.csv": grid("qa", scale_min=0, scale_max=100, se=0)},
    ),
    "averages": _Case(
        "these are the averages of 'mmlu', 'arc', which would not be read",
        {
            "t.csv": grid("qa")
            .drop(columns="task")
            .assign(mmlu=lambda f: f["score"] + f.index, arc=lambda f: f["score"] - f.index)
            .rename(columns={"score": "Mean"})
        },
    ),
    "language": _Case(
        "no column for 'language'",
        {"t.csv": grid("qa").rename(columns={"language": "idiom"})},
    ),
    "models of a wide table": _Case(
        "no column is known to name the models",
        {
            "t.csv": grid("qa")
            .pivot(index="model", columns="language", values="score")
            .assign(**{"license": ["mit", "apache", "bsd"], "organization": ["O", "P", "Q"]})
            .reset_index(drop=True)
        },
        n=2,
    ),
    "task or dataset": _Case(
        "name different tasks",
        # The Swahili files have the names of the two sets swapped.
        {
            "t.csv": grid("qa", "nli").assign(
                dataset=lambda f: ((f["task"] == "qa") != (f["language"] == "sw")).astype(str)
            )
        },
        n=2,
    ),
    "task and dataset": _Case(
        "name different tasks", {"t.csv": _twice("dataset", "news", "web").assign(remark="")}
    ),
    "settings that are numbers": _Case(
        "tells the rows of a model apart",
        {
            "t.csv": _twice("temperature", 0.2, 0.7)
            .query("task == 'qa'")
            .pivot(index=["model", "temperature"], columns="language", values="score")
            .reset_index()
        },
    ),
    "metrics": _Case("has scores of two metrics", {"t.csv": _two_metrics()}),
    "half a seed": _Case(
        "no seed column, but",
        {
            "a.csv": grid("qa", seeds=1).query("model != 'A'"),
            "b.csv": grid("qa").query("model == 'A'"),
        },
    ),
    "no task": _Case(
        "the table has no task column",
        # Fractions are no names of tests by themselves.
        {
            "t.csv": grid("qa", "nli")
            .assign(level=lambda f: f["task"].map({"qa": 0.5, "nli": 1.5}))
            .drop(columns="task")
        },
        fill={"NAME": "level"},
    ),
    "run": _Case("tells them apart", {"t.csv": _twice("run", "p1", "p2")}),
    "prompt": _Case("whose effects models share", {"t.csv": _twice("prompt", "p1", "p2")}),
    "prompts and judges": _Case(
        "the noise of one of them is modelled at a time",
        {
            "t.csv": pd.concat(
                [
                    _twice("prompt", "p1", "p2").assign(judge="a"),
                    _twice("prompt", "p1", "p2").assign(
                        judge="b", score=lambda f: f["score"] + 1.0
                    ),
                ]
            )
        },
    ),
    "variant": _Case(
        "tells them apart",
        {"t.csv": _twice("variant", "direct", "cot").query("task == 'qa'").assign(task="qa")},
        n=2,
    ),
    "setting": _Case("tells them apart", {"t.csv": _twice("setting", "0-shot", "5-shot")}, n=2),
    "settings of a wide table": _Case(
        "tells them apart",
        {
            "t.csv": _twice("setting", "0-shot", "5-shot")
            .query("task == 'qa'")
            .pivot(index=["model", "setting"], columns="language", values="score")
            .reset_index()
        },
        n=2,
    ),
    "split": _Case("are kept apart as tasks", {"t.csv": _twice("split", "dev", "test")}),
    "mixed": _Case(
        "mixes scales",
        {"t.csv": _with(grid("qa"), "model == 'A'", "score", 0.5)},
    ),
    "diverged": _Case(
        "looks like a diverged run",
        {
            "t.csv": _with(
                grid("qa", seeds=3), "model == 'A' and language == 'de' and seed == 1", "score", 0
            )
        },
        n=2,
    ),
    "placeholder": _Case(
        "placeholder for a missing score",
        {"t.csv": _with(grid("qa", "nli"), "model == 'A' and language == 'de'", "score", -1)},
        fill={"LOWER": "-1", "UPPER": "100"},
        n=2,
    ),
    "guessed": _Case("scale guessed 0-100", {"t.csv": grid("qa", "nli")}),
    "guessed for many": _Case(
        "scale guessed 0-100 for 6 tasks",
        {
            "t.csv": pd.concat(
                [
                    grid("a", "b", "c", "d", "e", "f"),
                    grid("z").assign(score=lambda f: f["score"] - 45.5),
                ]
            )
        },
    ),
    "unknown": _Case(
        "scale unknown for",
        {"t.csv": grid("qa").assign(score=lambda f: f["score"] - 45.5)},
        fill={"LOWER": "-100", "UPPER": "100"},
    ),
    "unknown for two of three": _Case(
        "scale unknown for 2 tasks",
        {
            "t.csv": pd.concat(
                [
                    grid("qa"),
                    grid("rare:em", "z").assign(score=lambda f: f["score"] / 20 - f["score"].min()),
                ]
            )
        },
        fill={"LOWER": "-100", "UPPER": "100"},
    ),
    "ranges": _Case("cannot be added up or averaged", {"t.csv": _SCALES}, n=2),
    "together": _Case("always occur together", {"t.csv": _own_tasks()}),
    "all equal": _Case(
        "so nothing can be compared",
        {"t.csv": grid("qa").assign(points=lambda f: f["score"], score=5.0)},
        fill={"NAME": "points"},
    ),
    "tool or table": _Case(
        "the folder holds", {"t.csv": grid("qa")}, fixture="lm_eval/v0.4.13", n=2
    ),
    "details": _Case(
        "reads them instead",
        fixture="lm_eval/v0.4.13",
        then="read as lm-evaluation-harness samples",
    ),
    "not needed": _Case(
        "is not needed",
        {"t.csv": grid("qa", "nli").assign(prompt=lambda f: f["task"].map({"qa": 1, "nli": 2}))},
    ),
    "no such metric": _Case(
        "has no metric 'bleu'",
        fixture="lm_eval/v0.4.13",
        options=("--metric", "bleu"),
        fill={"METRIC": "acc"},
    ),
    "lower is better": _Case(
        "cannot be turned round without bounds",
        {"r/results_2026-03-01T10-00-00.000000.json": _RESULTS},
        options=("--metric", "word_perplexity"),
        fill={"DATASET": "xnli", "METRIC": "acc"},
        then="1 task: xnli:acc",
    ),
    "lower is better, items": _Case(
        "lower is better for",
        {
            f"org__{m}/samples_xnli_{lang}_2026-03-01T10-00-00.000000.jsonl": _samples(m, lang)
            for m in "ab"
            for lang in ("en", "sw")
        },
        options=("--metric", "word_perplexity"),
        fill={"DATASET": "xnli", "METRIC": "acc"},
        then="1 task: xnli:acc",
    ),
}


def _run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    main(["validate", *options])
    out, err = capsys.readouterr()
    return " ".join(f"{out}\n{err}".split())


def _pasted(text: str, fill: Mapping[str, str], mapping: Path) -> list[list[str]]:
    """Options of all proposals in a message, one after the other."""
    ways = []
    for option, value in dict.fromkeys(_OPTION.findall(text)):
        for blank, filled in fill.items():
            value = value.replace(blank, filled)
        ways.append([f"--{option}", *shlex.split(value)])
    for number, entry in enumerate(dict.fromkeys(_MAPPING.findall(text))):
        for blank, filled in fill.items():
            entry = entry.replace(blank, filled)
        path = mapping.with_suffix(f".{number}.yaml")
        path.write_text(entry, encoding="utf-8")
        ways.append(["--mapping", str(path)])
    return ways


def _sentence(text: str, said: str) -> str:
    """The note or refusal that says so, up to the next one."""
    at = text.index(said)
    begin = max(text.rfind(" note: ", 0, at), text.rfind("Ready to fit: no", 0, at), 0)
    rest = text[begin:]
    end = re.search(r" (?:note: |Levels, |warning: |Observed )", rest[at - begin :])
    return rest if end is None else rest[: at - begin + end.start()]


@pytest.mark.parametrize("name", CASES)
def test_what_is_proposed_works_when_pasted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    folder = tmp_path / "data"
    if case.fixture:
        shutil.copytree(READERS / case.fixture, folder)
    folder.mkdir(exist_ok=True)
    for file, table in case.files.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        if isinstance(table, str):
            path.write_text(table, encoding="utf-8")
        else:
            table.to_csv(path, index=False)
    text = _run(capsys, str(folder), *case.options)
    message = _sentence(text, case.said)
    ways = _pasted(message, case.fill, tmp_path / "m")
    assert len(ways) == case.n, message
    assert [blank for blank in case.fill if blank not in message] == []
    for way in ways:
        after = _run(capsys, str(folder), *way)
        assert case.then in after, (way, after[-600:])
        if "Ready to fit: yes" in text:
            assert case.said not in after, (way, message)


_OF_LANGUAGES = {
    "de": (51.0, 44.0, 40.5),
    "en": (63.0, 61.5, 50.0),
    "sw": (21.0, 18.5, 19.0),
    "zh": (47.0, 55.0, 39.5),
}


def _says(text: str) -> str:
    (line,) = re.findall("Ready to fit: no, because (no column.*|.*: no column.*?)(?: Try|$)", text)
    return str(line)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (
            {"model": "who's", "language": "my idiom", "score": "points"},
            "no column for 'model', 'language' and 'score' (columns: who's, my idiom, task,"
            """ points); name them with --columns model='who'"'"'s' --columns language='my idiom'"""
            " --columns score=points",
        ),
        (
            {"model": "x", "language": "y"},
            "no column for 'model' and 'language' (columns: x, y, task, score); name them with"
            " --columns model=x --columns language=y",
        ),
        (
            {"model": "mdoel", "language": "langauge", "task": "tsk", "score": "scroe"},
            "no column for 'model', 'language' and 'score'; did you mean 'mdoel'? (columns: mdoel,"
            " langauge, tsk, scroe); name them with --columns model=mdoel"
            " --columns language=langauge --columns score=scroe --columns task=tsk",
        ),
    ],
)
def test_all_columns_that_are_missing_are_named_at_once(
    names: dict[str, str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    grid("qa", "nli").rename(columns=names).to_csv(path, index=False)
    said = _says(_run(capsys, str(path)))
    assert said == f"{path}: {line}"
    options = shlex.split(said.partition(" name them with ")[2])
    assert "Ready to fit: yes" in _run(capsys, str(path), *options)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("test_set", (1, 2), "each metric and each value of 'test_set' a task of its own with"),
        ("run", (1, 2), "each metric a task of its own with"),
        # Read without being named.
        ("prompt", ("p", "q"), "each metric a task of its own with"),
    ],
)
def test_all_columns_that_two_metrics_need_are_named_at_once(
    column: str,
    values: tuple[object, object],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The column of test sets was named in the next refusal only."""
    path = tmp_path / "t.csv"
    parts = [
        _two_metrics().assign(**{column: value}, score=lambda f, k=k: f["score"] + k * len(f) % 7)
        for k, value in enumerate(values)
    ]
    pd.concat(parts).to_csv(path, index=False)
    text = _run(capsys, str(path))
    assert said in text
    options = shlex.split(text.rpartition(" a task of its own with ")[2])
    assert options.count("--columns") == (1 if column == "prompt" else 2)
    assert "Ready to fit: yes" in _run(capsys, str(path), *options)


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (("subject", "setting"), "--columns task=subject --columns split=setting"),
        (("task", "setting", "run"), "--columns seed=run --columns split=setting"),
    ],
)
def test_two_columns_that_tell_scores_apart_are_named_at_once(
    columns: tuple[str, ...], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    first, *others = columns
    table = grid("qa", "nli").rename(columns={"task": first})
    for name in others:
        parts = [table.assign(**{name: x}, score=table["score"] + k) for k, x in enumerate("ab")]
        table = pd.concat(parts)
    table.to_csv(path, index=False)
    text = _run(capsys, str(path))
    assert f"tell them apart: {line} reads both;" in text
    assert "Ready to fit: yes" in _run(capsys, str(path), *shlex.split(line))


def test_models_of_one_language_are_compared_over_tasks_as_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    grid("qa", "nli", "ner").query("language == 'de'").to_csv(path, index=False)
    said = _run(capsys, str(path))
    options = shlex.split(said.partition(" languages; ")[2].partition(" compares ")[0])
    text = _run(capsys, str(path), *options)
    assert "3 models, 3 languages, 1 task " in text
    assert " 1 task: de 9 " in text
    assert "Ready to fit: yes" in text


def test_facts_about_models_are_proposed_for_no_other_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The licence "mit" is the code of a language, and a rank a number like a score."""
    path = tmp_path / "t.csv"
    facts = {"Hub License": "mit", "Model size": 7, "Rank": 1}
    named = grid("qa", "nli").rename(columns={"language": "Tongue", "score": "Points"})
    named.assign(**facts).to_csv(path, index=False)
    said = _says(_run(capsys, str(path)))
    assert said.endswith("; name them with --columns language=Tongue --columns score=Points")
    options = shlex.split(said.partition(" name them with ")[2])
    assert "Ready to fit: yes" in _run(capsys, str(path), *options)


def test_a_summary_of_opencompass_is_read_when_it_is_written_as_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "summary_20260301_100000.csv"
    rows = [
        *((f"mgsm_{x}", "d1af1d", "accuracy", "gen", *y) for x, y in _OF_LANGUAGES.items()),
        ("mgsm", "-", "naive_average", "gen", 42.0, 38.0, 33.0),
        ("winogrande", "b36770", "accuracy", "ppl", 61.0, "-", "-"),
    ]
    index = ["dataset", "version", "metric", "mode"]
    table = pd.DataFrame(rows, columns=[*index, "A", "B", "C"])
    table.to_csv(path, index=False)
    said = _run(capsys, str(tmp_path))
    assert (
        "a summary of OpenCompass, with a column for each model behind 'mode'; write one row per"
        " score, with the columns model, dataset, metric and score, without the rows whose version"
        " is '-' (averages): languages are taken from the names of datasets"
    ) in said
    long = table.query("version != '-'").melt(index, var_name="model", value_name="score")
    long.query("score != '-'").to_csv(path, index=False)
    text = _run(capsys, str(path))
    assert "no language is known for 1 task: winogrande;" in text
    names = tmp_path / "names.csv"
    _run(capsys, str(path), "--propose-task-names", str(names))
    text = _run(capsys, str(path), "--task-names", str(names))
    assert "12 records of 3 models, 4 languages, 1 task" in text
    assert "Ready to fit: yes" in text


def test_what_no_column_can_be_is_to_be_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Naming a column is no advice to a table all of whose columns are something else."""
    path, names = tmp_path / "t.csv", tmp_path / "names.csv"
    languages = {"qa": "de", "nli": "sw", "sum": "en", "ner": "fr"}
    grid(*languages).drop_duplicates(["model", "task"]).drop(columns="language").to_csv(
        path, index=False
    )
    said = _says(_run(capsys, str(path)))
    assert said == (
        f"{path}: no column for 'language' (columns: model, task, score); add the column"
        " 'language', or name the language of every task in a CSV file with the columns"
        " task,dataset,language, given as --task-names; 'bayeseval validate ..."
        " --propose-task-names FILE' writes one to edit"
    )
    header = re.search(r"with the columns (\S+),", said)
    assert header is not None
    lines = [header[1], *(f"{task},quiz,{code}" for task, code in languages.items())]
    names.write_text("\n".join(lines), encoding="utf-8")
    assert "4 languages" in _run(capsys, str(path), "--task-names", str(names))
    path.write_text("who,score\na,1\nb,2\n", encoding="utf-8")
    assert _says(_run(capsys, str(path))) == (
        f"{path}: no column for 'model' and 'language' (columns: who, score); name 'model' with"
        " --columns model=who, and add the column 'language'"
    )


# No place without a test ----------------------------------------------------------------------

#: Functions that put an option into a message, and the cases above that paste it.
PASTED: dict[str, tuple[str, ...]] = {
    "design/build.py:_outcome_and_noise": ("all equal",),
    "design/identify.py:_advice_to_drop": ("together",),
    "design/ranges.py:_advice_to_drop": ("ranges",),
    "readers/columns.py:_match_column": ("score",),
    "readers/columns.py:missing_columns": ("language",),
    "readers/columns.py:columns_argument": ("score", "variant"),
    "readers/columns.py:columns_together": ("score", "variant"),
    "readers/detect.py:_format_argument": ("tool or table",),
    "readers/detect.py:read_results": ("details",),
    "readers/items.py:settle_items": ("lower is better, items",),
    "readers/wide.py:_readable": ("models of a wide table", "settings that are numbers"),
    "readers/scores.py:_mirror_lower_is_better": ("lower is better",),
    "readers/scores.py:_requested_metric": ("no such metric",),
    "readers/scores.py:metric_argument": ("no such metric", "lower is better"),
    "readers/detect.py:_refuse_mixture": ("tool or table",),
    "records/unread_averages.py:_problem": ("averages",),
    "records/build.py:_check_scores": ("mixed",),
    "records/duplicates.py:refuse_many_metrics": ("metrics",),
    "records/build.py:_ways_out": ("half a seed",),
    "records/duplicates.py:_way_out": ("no task",),
    "records/duplicates.py:_telling_apart": (
        "run",
        "variant",
        "setting",
        "settings of a wide table",
    ),
    "records/with_prompts.py:scores_by_prompt": ("prompts and judges",),
    "records/duplicates.py:read_shared_columns": ("prompt",),
    "records/duplicates.py:unread_repeats": ("not needed",),
    "records/left_out.py:leave_out_levels": ("an average among models",),
    "records/number_columns.py:_doubts_of_errors": ("errors of zero",),
    "records/parts.py:_task_conflict": ("task or dataset", "task and dataset"),
    "records/placeholders.py:_missing": ("placeholder",),
    "records/scales.py:declare_units": (
        "ranges",
        "placeholder",
        "guessed",
        "guessed for many",
        "unknown",
        "unknown for two of three",
    ),
    "records/splits.py:_note": ("split",),
    "records/suspects.py:replicate_suspects": ("diverged",),
}
#: The same of ``test_pasted_commands.py``, by the name of its case or test.
COMMANDS: dict[str, tuple[str, ...]] = {
    "design/share_errors.py:check_errors": ("errors of items",),
    "design/covariates.py:_how_to_give": ("no covariate",),
    "calibration/run.py:prepare_calibration": ("calibration of auto",),
    "comparison/scores.py:_other_records": ("unreliable records",),
    "comparison/scores.py:check_cost": ("refits",),
    "design/exact.py:_advice": ("fewer terms", "copied metric"),
    "design/share_errors.py:_how_to_ignore_n": ("shares of items",),
    "engines/marginal.py:check_design": ("marginal engine",),
    "mexa/extract.py:embed": ("mexa",),
    "mexa/extract.py:load_encoder": ("mexa",),
    "mexa/measure.py:_notes": ("mexa",),
    "mexa/parallel.py:_files": ("mexa",),
    "mexa/parallel.py:_refuse_blank": ("mexa",),
    "mexa/parallel.py:read_parallel": ("mexa",),
    "output/_places.py:check_place": ("folder of another run",),
    "output/_places.py:way_out": ("folder of another run",),
    "records/language_names.py:tasks_of_languages": ("tasks of languages",),
    "records/pairs.py:warn_of_sole_pairs": ("pairs of one model",),
    "records/scales.py:declare_units": ("bounds",),
    "engines/__init__.py:choose_engine": ("sampler",),
    "comparison/holdout.py:_check_population": ("fixed levels",),
    "comparison/models.py:_check": ("no model",),
    "comparison/models.py:check_asked": ("no share",),
    "comparison/splits.py:_too_many": ("too large a share",),
    "comparison/run.py:prepare_comparison": ("one level",),
    "records/pairs.py:choose_pairs": ("no shared pair",),
    "checks/situation.py:Situation._written": ("whole commands",),
    "checks/situation.py:Situation.compare": ("whole commands",),
    "checks/situation.py:Situation.fit": ("whole commands",),
    "checks/situation.py:Situation.sensitivity": ("whole commands",),
    "fitting/gate.py:_other_engine": ("failed gate",),
    "fitting/gate.py:gate_advice": ("failed gate",),
    "forecasting/run.py:_fit_with_covariate": ("whole commands",),
    "readers/task_names.py:UnknownTasksError.__init__": ("unknown tasks",),
}
#: Those that are not pasted here: a file whose tests raise the message, or the reason.
_OWN_VALUE = "refuses a value of the option that it names"
_WITHOUT_VALUE = "names an option without a value"
OTHERS: dict[str, str] = {
    "_cluster.py:_checked": "tests/test_cluster.py",
    "_processes.py:sensible_jobs": _OWN_VALUE,
    "calibration/draw.py:_places": _WITHOUT_VALUE,
    "calibration/parts.py:check_number": "tests/test_calibrate.py",
    "checks/situation.py:Situation.own_spec": "tests/checks/test_advice.py",
    "checks/situation.py:Situation.scales": "tests/checks/test_advice.py",
    "comparison/holdout.py:_prepared": _WITHOUT_VALUE,
    "comparison/moved.py:Moved.sentence": "tests/test_compare_moved.py",
    "comparison/sentences.py:unreliable": _WITHOUT_VALUE,
    "comparison/holdout.py:prepare_holdout": _OWN_VALUE,
    "comparison/models.py:prepare_models": _WITHOUT_VALUE,
    "design/covariates.py:_slope": "tests/test_model_covariates.py",
    "design/relations.py:_families": "tests/test_model_families.py",
    "engines/base.py:SamplerSettings.__post_init__": _OWN_VALUE,
    "engines/marginal.py:_Run._nuts": "tests/engines/test_marginal_nuts.py",
    "estimands/arrays.py:as_ci_prob": _OWN_VALUE,
    "fitting/covariates.py:_models_of": "tests/test_model_covariates.py",
    "fitting/covariates.py:stored_covariate": _WITHOUT_VALUE,
    "forecasting/run.py:_refuse_unknown_languages": _WITHOUT_VALUE,
    "forecasting/words.py:unclear_slopes": "tests/forecasting/test_unclear_slopes.py",
    "fitting/predictions.py:_labels": "tests/test_predict.py",
    "fitting/predictions.py:prepare_predictions": _OWN_VALUE,
    "fitting/prepared.py:_refuse_more_than_memory": _WITHOUT_VALUE,
    "fitting/prepared.py:prepare": _OWN_VALUE,
    "fitting/report/predictions.py:format_predictions": "tests/test_predict.py",
    "fitting/report/model_tables.py:_no_margin": _WITHOUT_VALUE,
    "languages/labels.py:_names_argument": "tests/records/test_slips.py",
    "mexa/covariate.py:_raw": "tests/mexa/test_covariate.py",
    "mexa/extract.py:_try_forward": _WITHOUT_VALUE,
    "mexa/run.py:_check_model": "tests/mexa/test_extract.py",
    "mexa/run.py:align": "tests/mexa/test_extract.py",
    "mexa/tables.py:_tidy": "tests/mexa/test_covariate.py",
    "output/_integrity.py:again": "tests/test_calibrate.py",
    "output/_kept.py:work_folder": _WITHOUT_VALUE,
    "output/_locks.py:alone_in": _WITHOUT_VALUE,
    "planning/candidates.py:_given_cells": "tests/test_next.py",
    "planning/candidates.py:_given_costs": _OWN_VALUE,
    "planning/candidates.py:_with_languages": "tests/test_next.py",
    "planning/candidates.py:read_candidates": "tests/test_next.py",
    "planning/choosing.py:choose": _OWN_VALUE,
    "planning/next_run.py:_check_costs": _OWN_VALUE,
    "planning/next_run.py:_notes": "tests/test_next.py",
    "planning/next_run.py:_target": "tests/test_next.py",
    "planning/next_run.py:next_cells": "tests/test_next.py",
    "planning/run.py:read_costs": _OWN_VALUE,
    "planning/run.py:_facets": _OWN_VALUE,
    "planning/grid.py:read_levels": _OWN_VALUE,
    "planning/run.py:number_between": _OWN_VALUE,
    "readers/helm.py:_read.scores_of": _WITHOUT_VALUE,
    "readers/helm_instances.py:_read": _WITHOUT_VALUE,
    "readers/installed.py:_refusal": _WITHOUT_VALUE,
    "readers/scans.py:_link": _WITHOUT_VALUE,
    "readers/scans.py:_scan": _WITHOUT_VALUE,
    "readers/engine_errors.py:explained": _OWN_VALUE,
    "readers/lm_eval.py:_distinct_labels": _WITHOUT_VALUE,
    "readers/lm_eval.py:name_notes": _WITHOUT_VALUE,
    "readers/model_cards.py:_read": _WITHOUT_VALUE,
    "readers/mteb.py:_read": _WITHOUT_VALUE,
    "readers/scores.py:_bring_to_one_scale": _WITHOUT_VALUE,
    "readers/scores.py:_chosen_metric": "tests/test_cli_readers.py",
    "readers/tabular.py:read_table": "tests/readers/test_wide.py",
    "readers/wide.py:_read": _OWN_VALUE,
    "readers/wide.py:read_wide_frame": "tests/readers/test_wide.py",
    "readers/unclear.py:refuse_metrics": "tests/readers/test_unclear.py",
    "records/database_rows.py:_fetch": _WITHOUT_VALUE,
    "records/databases.py:_whole": _WITHOUT_VALUE,
    "records/left_out.py:leave_out": _OWN_VALUE,
    "records/load.py:_load_database": _OWN_VALUE,
    "records/duplicates.py:_two_telling_apart": "tests/test_pasted_advice.py",
    "records/too_few.py:_tasks_instead": "tests/test_pasted_advice.py",
    "records/load.py:_refuse_tools": "tests/records/test_out_of_core.py",
    "records/load.py:_refuse_tool_options": _OWN_VALUE,
    "records/out_of_core.py:as_memory": _OWN_VALUE,
    "records/out_of_core.py:refuse_large": "tests/records/test_out_of_core.py",
    "records/row_groups.py:_unit_of": "tests/records/test_out_of_core.py",
    "records/row_tables.py:put_together": _WITHOUT_VALUE,
    "records/row_sums.py:_unit_sums": _WITHOUT_VALUE,
    "records/row_sums.py:_item_sets": _WITHOUT_VALUE,
    "records/merge.py:_covariate_files": _WITHOUT_VALUE,
    "records/registry.py:find_mapping": "tests/records/test_reuben.py",
}
_WORDS = (
    *("wording", "setting", "argument", "by_option"),
    *("columns_argument", "columns_together", "metric_argument", "_format_argument"),
)
_NAMED = re.compile(r"(?<![\w-])--[a-z]{2}")


def _places(source: str) -> set[str]:
    """Functions and methods of a module that put an option into a message."""
    found = set()

    def look(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            by_word = isinstance(child, ast.Call) and (
                isinstance(child.func, ast.Name) and child.func.id in _WORDS
            )
            by_text = isinstance(child, ast.Constant) and (
                isinstance(child.value, str) and _NAMED.search(child.value)
            )
            if by_word or by_text:
                found.add(name)
            look(child, inner)

    look(ast.parse(source), "")
    return found


def test_no_message_with_an_option_is_without_a_test() -> None:
    """A new place is listed here, with a case that pastes it or the reason why none does."""
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{name}"
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "cli" and path.name != "errors.py"
        for name in _places(path.read_text(encoding="utf-8"))
    }
    assert found == {*PASTED, *COMMANDS, *OTHERS}
    # A declaration of bounds is pasted for `validate`, and for a fit.
    assert PASTED.keys() & COMMANDS.keys() == {"records/scales.py:declare_units"}
    assert not OTHERS.keys() & (PASTED.keys() | COMMANDS.keys())
    assert {case for cases in PASTED.values() for case in cases} == CASES.keys()
    files = {text for text in OTHERS.values() if text.startswith("tests/")}
    assert [file for file in files if not (SOURCE.parents[1] / file).is_file()] == []


def test_a_new_option_in_a_message_is_found() -> None:
    source = '''
def quiet():
    """Not of ``--this``."""
class Kind:
    def says(self):
        raise InputError(f"choose {self.name} with --columns score=F1")
def words():
    return wording("a", "b")
'''
    assert _places(source) == {"Kind.says", "words"}
