"""Tasks whose scores cannot be added up are refused; what is of one scale is not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval import load
from bayeseval.design import build_design, narrow_tasks
from bayeseval.errors import DesignError, addressing_command_line
from bayeseval.records import Records, Units
from bayeseval.spec import load_spec


def frame(**ranges: tuple[float, float]) -> pd.DataFrame:
    """Scores of each task that fill its range."""
    rng = np.random.default_rng(0)
    parts = []
    for task, (lowest, highest) in ranges.items():
        cells = list(product(("A", "B", "C"), ("de", "en", "sw"), (task,)))
        share = rng.permutation(np.linspace(0.0, 1.0, len(cells)))
        scores = (lowest + (highest - lowest) * share).round(4)
        parts.append(
            pd.DataFrame(cells, columns=["model", "language", "task"]).assign(score=scores)
        )
    return pd.concat(parts, ignore_index=True)


def check(table: pd.DataFrame, units: dict[str, tuple[float, float]] | None = None) -> Records:
    records = Records.from_frame(table, name="ranges", units=units)
    build_design(records, load_spec("additive"))
    return records


@pytest.mark.parametrize(
    "ranges",
    [
        {"qa": (5.0, 95.0), "points": (100.0, 580.0)},
        {"qa": (0.1, 0.9), "nli": (20.0, 95.0)},
        {"qa": (0.1, 0.9), "rating": (1.0, 5.0)},
        {"bleu": (10.0, 60.0), "comet": (-0.5, 0.9)},
        {"qa": (0.1, 0.9), "logprob": (-7.0, -1.0)},
        {"bleu": (2.0, 18.0), "points": (100.0, 580.0)},
    ],
)
def test_unlike_ranges_are_refused(ranges: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(DesignError, match="cannot be added up or averaged") as caught:
        check(frame(**ranges))
    assert all(f" {task} " in str(caught.value) for task in ranges)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "ranges",
    [
        {"acc": (30.0, 95.0), "chrf": (20.0, 70.0), "bleu": (2.0, 18.0)},
        {"acc": (30.0, 95.0), "mcc": (-30.0, 80.0)},
        {"easy": (-60.0, -10.0), "hard": (-100.0, -97.0)},
        {"easy": (-80.0, -30.0), "hard": (-3.0, -0.1)},
        {"acc": (0.3, 0.95), "noisy": (-0.1, 1.04)},
        {"acc": (60.0, 99.0), "noisy": (70.0, 108.0)},
        {"acc": (30.0, 95.0), "unsolved": (0.0, 0.0)},
        {"acc": (0.3, 0.95), "unsolved": (0.0, 0.0)},
    ],
)
def test_tasks_of_one_scale_are_not(ranges: dict[str, tuple[float, float]]) -> None:
    check(frame(**ranges))


def test_a_task_that_nobody_solves_is_on_the_scale_of_the_others() -> None:
    records = check(frame(acc=(30.0, 95.0), unsolved=(0.0, 0.0)))
    assert records.units["unsolved"] == Units(0.0, 100.0)
    # With nothing to go by it has no scale.
    alone = Records.from_frame(frame(unsolved=(0.0, 0.0)), name="zeros")
    assert alone.units["unsolved"] == Units()


def test_one_wrong_score_is_no_range() -> None:
    table = frame(acc=(30.0, 95.0), f1=(20.0, 90.0))
    table.loc[3, "score"] = 1e6
    (warning,) = check(table).report.warnings
    assert "1000000 (ranges, row 4" in warning


def test_declared_ranges_count_and_not_the_scores() -> None:
    table = frame(qa=(0.1, 0.9), nli=(20.0, 95.0))
    check(table, {"*": (0.0, 100.0)})
    with pytest.raises(DesignError, match="qa has the range 0 to 100 and nli the range 0 to 600"):
        check(table, {"qa": (0.0, 100.0), "nli": (0.0, 600.0)})
    # A factor of two is allowed, a little more is not.
    check(table, {"qa": (-100.0, 100.0), "nli": (0.0, 100.0)})
    with pytest.raises(DesignError, match="at most 2 times the smaller"):
        check(table, {"qa": (-100.0, 101.0), "nli": (0.0, 100.0)})


def test_the_tasks_of_the_rarer_scale_are_proposed_to_be_left_out() -> None:
    table = frame(
        qa=(0.1, 0.9), bleu=(20.0, 95.0), nli=(0.2, 0.8), chrf=(5.0, 80.0), ner=(0.05, 0.7)
    )
    with pytest.raises(DesignError) as caught:
        check(table)
    assert str(caught.value).endswith(
        """; drop={'task': ["bleu", "chrf"]} keeps 3 of 5 tasks, which have one scale"""
    )
    check(table[~table["task"].isin(["bleu", "chrf"])])


def test_a_usual_scale_of_both_tasks_is_proposed() -> None:
    with pytest.raises(DesignError, match=r"declare it with units=\(0, 100\)"):
        check(frame(hard=(0.1, 0.9), qa=(20.0, 93.7)))
    with pytest.raises(DesignError, match=r"units=\(LOWER, UPPER\), with numbers for LOWER and"):
        check(frame(hard=(0.1, 0.9), qa=(20.0, 107.3)))


def test_the_advice_works_when_followed(tmp_path: Path) -> None:
    table = frame(hard=(0.1, 0.9), points=(100.0, 580.0))
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    with addressing_command_line(), pytest.raises(DesignError) as caught:
        build_design(load(path), load_spec("additive"))
    text = str(caught.value)
    mapping = tmp_path / "mapping.yaml"
    # Up to 580, which is no scale that anybody uses: the bounds are for the user to say.
    said = text[text.index("'units") + 1 : text.index("' in a --mapping")]
    assert said == "units: {lower: LOWER, upper: UPPER}"
    assert "in a --mapping file, with numbers for LOWER and UPPER" in text
    mapping.write_text(said.replace("LOWER", "0").replace("UPPER", "600"))
    build_design(load(path, mapping_file=mapping), load_spec("additive"))
    table.loc[table["task"] == "points", "score"] /= 600.0
    check(table)


def test_a_task_near_a_bound_decides_no_model_with_residual_sds_by_task_unnoticed() -> None:
    """Its residual sd is the smallest, and its effects are compressed."""
    assert _cautions(hard=(0.0, 4.0)) == [
        "warning: the scores of task 'hard' vary less than half as much as those of other tasks, "
        "as they do near a bound or near chance level, and so do the differences between "
        "models and languages there; with residual sds by task these scores have the largest "
        "weight, and all differences, sds of gaps and variance components come out too small: "
        "leave them out (drop={'task': ['hard']}), or fit a model with one residual sd"
    ]
    # One residual sd gives every score the same weight.
    assert _cautions("crossed", hard=(0.0, 4.0)) == []


@pytest.mark.parametrize(("upper", "warned"), [(26.9, True), (28.1, False), (60.0, False)])
def test_a_task_may_vary_half_as_much_as_the_others(upper: float, warned: bool) -> None:
    # The ranges of the others are 60, 60 and 50: the median of all four is 55.
    assert bool(_cautions(hard=(0.0, upper))) == warned


@pytest.mark.parametrize(("n", "found"), [(8, ("hard",)), (7, ())])
def test_a_few_scores_may_be_alike_by_chance(n: int, found: tuple[str, ...]) -> None:
    scores = np.concatenate([np.linspace(0.0, 90.0, 20), np.linspace(0.0, 9.0, n)])
    task = np.repeat([0, 1], [20, n])
    assert narrow_tasks(scores, task, ("qa", "hard")) == found


def test_tasks_of_one_score_have_no_sd() -> None:
    scores = np.concatenate([np.linspace(0.0, 90.0, 20), np.linspace(0.0, 9.0, 20), [1.0, 2.0]])
    task = np.repeat([0, 1, 2, 3], [20, 20, 1, 1])
    assert narrow_tasks(scores, task, ("qa", "hard", "one", "two")) == ("hard",)
    assert narrow_tasks(scores[:2], np.arange(2), ("one", "two")) == ()


def test_tasks_far_from_a_bound_are_not_warned_of_in_mega_but_summaries_in_euroeval() -> None:
    narrow = {}
    for name in ("mega", "euroeval"):
        table = load(name).table
        task, tasks = pd.factorize(table["task"])
        narrow[name] = narrow_tasks(table["score"].to_numpy(), task, list(tasks))
    assert narrow == {"mega": (), "euroeval": ("summarization:chr_f3pp",)}


def _cautions(model: str = "by_task", **task: tuple[float, float]) -> list[str]:
    table = frame(qa=(30.0, 90.0), nli=(20.0, 80.0), mt=(10.0, 60.0), **task)
    records = Records.from_frame(table, name="t", units=(0, 100))
    notes = build_design(records, load_spec(model)).notes
    return [str(note) for note in notes if "vary less" in str(note)]
