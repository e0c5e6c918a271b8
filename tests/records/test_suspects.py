"""Diverged runs, single seeds and units slips: found, named by row, never averaged in."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.records import Records, load

# Three seeds for each of two models and languages; the line is the row in a frame.
GOOD = {
    ("gpt", "en"): [80.0, 81.0, 79.5],
    ("gpt", "sw"): [60.0, 61.5, 60.5],
    ("b", "en"): [70.0, 70.2, 71.0],
    ("b", "sw"): [3.0, 5.0, 2.0],
}


def _frame(cells: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"model": m, "language": lang, "task": "qa", "seed": s, "score": v}
            for (m, lang), values in cells.items()
            for s, v in enumerate(values)
        ]
    )


def _records(cells: dict[tuple[str, str], list[float]], **options: Any) -> Records:
    return Records.from_frame(_frame(cells), name="t", **options)


BAD = GOOD | {("gpt", "sw"): [60.0, 0.0, 60.5]}


def test_a_diverged_run_is_refused_with_its_row() -> None:
    with pytest.raises(InputError) as caught:
        _records(BAD)
    assert str(caught.value) == (
        "t, row 5, column 'score': score 0 looks like a diverged run: the other 2 seeds of this"
        " model, language and task scored 60.5, 60; correct it, or leave such runs out"
        " with diverged_runs='drop', or keep them with diverged_runs='allow'"
    )


def test_a_diverged_run_can_be_kept_or_dropped() -> None:
    kept = _records(BAD, diverged_runs="allow")
    assert len(kept) == 12
    assert [n for n in kept.report.notes if n.startswith("warning: t, row 5") and "kept" in n]
    dropped = _records(BAD, diverged_runs="drop")
    assert len(dropped) == dropped.report.n_records == 11
    assert dropped.report.n_rows_read == 12
    (group,) = dropped.report.dropped
    assert (group.reason, group.counts) == ("diverged run", (("gpt, sw, qa, 1", 1),))
    assert dropped.scores.min() == 2.0
    assert dropped.replicate_codes("seed").tolist().count(1) == 3


def test_many_diverged_runs_are_one_note_that_names_a_few() -> None:
    many = {
        ("gpt", f"l{i:02d}"): [60.0, 60.5, 61.0, 0.0 if i < 60 else 60.2] for i in range(70)
    } | GOOD
    for what, options in (
        ("kept", {"diverged_runs": "allow"}),
        ("dropped", {"diverged_runs": "drop"}),
    ):
        (note,) = [n for n in _records(many, **options).report.notes if "diverged" in n]
        assert note.count("looks like a diverged run") == 1
        assert (
            f"; 60 such runs were {what} (model, language, task, seed: score): gpt, l00, qa, 3: 0;"
            in note
        )
        assert note.endswith(" and 54 more")


def test_prompts_that_fail_are_no_diverged_runs() -> None:
    frame = _frame(BAD).rename(columns={"seed": "prompt"})
    records = Records.from_frame(frame, name="t", columns={"seed": "prompt"})
    assert len(records) == 12
    assert (
        "warning: 1 score far below the cell's others (column 'prompt') kept, because repetitions"
        " with different prompts may differ: gpt, sw, qa, 1: 0"
    ) in records.report.notes
    usual = _frame(GOOD | {("gpt", "sw"): [71.0, 63.8, 70.5]}).rename(columns={"seed": "prompt"})
    notes = Records.from_frame(usual, name="t", columns={"seed": "prompt"}).report.notes
    assert not [note for note in notes if "far below" in note]


def test_a_diverged_run_over_all_its_boots() -> None:
    frame = _frame(BAD)
    boots = pd.concat([frame.assign(boot=b, score=frame["score"] + 0.1 * b) for b in range(3)])
    with pytest.raises(InputError, match=r"row 5, .* score 0\.1 looks like a diverged run"):
        Records.from_frame(boots, name="t")
    assert len(Records.from_frame(boots, name="t", diverged_runs="drop")) == 33


@pytest.mark.parametrize(
    "cell",
    [
        [60.0, 55.0, 50.0],
        [60.0, 10.0, 40.0],  # wide apart, but so are the others
        [0.0, 0.0, 0.0],
        [60.0, 60.0, 90.0],  # high is not diverged
    ],
)
def test_a_bad_seed_is_no_diverged_run(cell: list[float]) -> None:
    assert len(_records(GOOD | {("gpt", "sw"): cell})) == 12


def test_two_seeds_are_judged_by_how_much_the_others_differ() -> None:
    with pytest.raises(InputError, match=r"row 5, .* the other 1 seed .* scored 60"):
        _records(GOOD | {("gpt", "sw"): [60.0, 0.5]})
    assert len(_records(GOOD | {("gpt", "sw"): [60.0, 52.0]})) == 11
    # Nothing to compare with: half of the only difference is the only spread.
    assert len(_records({("gpt", "en"): [60.0, 0.5], ("b", "sw"): [50.0]})) == 3


def test_a_mapping_file_decides(tmp_path: Path) -> None:
    _frame(BAD).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "m.yaml").write_text("diverged_runs: drop\n")
    assert len(load(tmp_path / "t.csv", mapping_file=tmp_path / "m.yaml")) == 11
    assert len(load(tmp_path / "t.csv", diverged_runs="allow")) == 12
    with pytest.raises(
        InputError, match="diverged_runs: expected 'refuse', 'allow' or 'drop', got 'ignore'"
    ):
        load(tmp_path / "t.csv", diverged_runs="ignore")  # type: ignore[arg-type]


def test_one_seed_teaches_nothing_about_seeds() -> None:
    one = _records({key: values[:1] for key, values in GOOD.items()})
    assert [n for n in one.report.notes if n.startswith("one seed per model and language in task")]
    some = _records(GOOD | {("gpt", "en"): [80.0]})
    assert [n for n in some.report.notes if n.startswith("one seed in 1 of 4 cells with seeds")]
    assert not [n for n in _records(GOOD).report.notes if "one seed" in n]
    frame = _frame({key: values[:1] for key, values in GOOD.items()}).drop(columns="seed")
    stated = Records.from_frame(frame.assign(n_seeds=1), name="t")
    assert [n for n in stated.report.notes if n.startswith("one seed per model and language")]
    stated = Records.from_frame(frame.assign(n_seeds=2), name="t")
    assert not [n for n in stated.report.notes if "one seed" in n]


SLIP = pd.DataFrame(
    {
        "model": ["aya"] * 3 + ["tower"] * 3 + ["clarus"] * 3,
        "language": ["de", "es", "ko"] * 3,
        "score": [59.2, 55.2, 25.9, 61.3, 57.2, 26.1, 5269.2, 4282.2, 1160.4],
    }
)


def test_a_units_slip_is_refused_with_its_row() -> None:
    with pytest.raises(InputError) as caught:
        Records.from_frame(SLIP, name="t")
    message = str(caught.value)
    assert message.startswith("t, row 7, column 'score': task 'score' mixes scales: the scores of")
    assert "model clarus are all above 100 (here 5269.2)" in message
    assert "about 76 times as high; convert the scores to one scale" in message
    allowed = Records.from_frame(SLIP, name="t", mixed_scales="allow")
    assert [n for n in allowed.report.notes if "mixes scales" in n]


@pytest.mark.parametrize(
    ("position", "score"),
    [
        (8, 26.0),  # one score of the model is like the others'
        (0, 101.0),  # the scale ends nowhere near 100
        (0, -5.0),
    ],
)
def test_scores_above_a_hundred_alone_are_no_slip(position: int, score: float) -> None:
    frame = SLIP.copy()
    frame.loc[position, "score"] = score
    assert len(Records.from_frame(frame, name="t")) == 9


def _two_tasks(scores: list[float]) -> pd.DataFrame:
    """Percentages of four models in two tasks; those of model d in task pos are given."""
    rows = [
        (model, language, "qa", 40.0 + 9 * i + 4 * j + i * j)
        for i, model in enumerate("abcd")
        for j, language in enumerate(("de", "es", "ko"))
    ]
    rows += [(m, lang, "pos", v + 25.0) for m, lang, _, v in rows if m != "d"]
    rows += [("d", lang, "pos", v) for lang, v in zip(("de", "es", "ko"), scores, strict=True)]
    return pd.DataFrame(rows, columns=["model", "language", "task", "score"])


def test_a_model_that_fails_on_one_task_is_not_in_fractions() -> None:
    records = Records.from_frame(_two_tasks([0.0, 0.08, 0.03]), name="t")
    (note,) = [note for note in records.report.notes if "within 0-1" in note]
    assert note == (
        "warning: task 'pos': the scores of model d are all within 0-1 (at most 0.08; median of"
        " the others 79), and count as percentages, as other scores of the model do"
    )
    # In fractions these would be scores like the others'.
    with pytest.raises(InputError, match="task 'pos' mixes scales: the scores of model d are all"):
        Records.from_frame(_two_tasks([0.71, 0.74, 0.8]), name="t")
    # A model without other scores may be in fractions throughout.
    alone = _two_tasks([0.0, 0.08, 0.03]).query("model != 'd' or task == 'pos'")
    with pytest.raises(InputError, match="task 'pos' mixes scales: the scores of model d are all"):
        Records.from_frame(alone, name="t")


@pytest.mark.parametrize("scores", [[0.6, 0.87, 0.7], [0.2, 0.3, 0.34], [0.01, 0.08, 0.33]])
def test_fractions_of_a_model_with_percentages_elsewhere_are_refused(scores: list[float]) -> None:
    """Scores a little below the others', as percentages, are more likely fractions."""
    with pytest.raises(InputError, match="task 'pos' mixes scales: the scores of model d are all"):
        Records.from_frame(_two_tasks(scores), name="t")
    allowed = Records.from_frame(_two_tasks(scores), name="t", mixed_scales="allow")
    assert len(allowed) == 24


@pytest.mark.parametrize("factor", [0.1, 10.0, 0.0125])
def test_only_percentages_elsewhere_show_that_a_model_fails(factor: float) -> None:
    """Marks out of 10, scores out of 1000 and fractions beside one above 1 are no percentages."""
    frame = _two_tasks([0.0, 0.08, 0.03])
    other = frame["task"] == "qa"
    frame.loc[other, "score"] *= factor
    with pytest.raises(InputError, match="task 'pos' mixes scales: the scores of model d are all"):
        Records.from_frame(frame, name="t")


def test_a_file_in_fractions_is_refused_though_its_model_fails(tmp_path: Path) -> None:
    frame = _two_tasks([0.0, 0.08, 0.03])
    own = frame["model"] == "d"
    for name, rows in (("a.csv", frame[~own]), ("b.csv", frame[own])):
        frame.loc[rows.index].to_csv(tmp_path / name, index=False)
    # A file with percentages of that model: one warning, for the model.
    (note,) = [note for note in load(tmp_path).report.notes if "within 0-1" in note]
    assert "the scores of model d" in note
    apart = own & (frame["task"] == "pos")
    frame[~apart].to_csv(tmp_path / "a.csv", index=False)
    frame[apart].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(
        InputError, match=r"'pos' mixes scales: the scores of file .*b\.csv are all"
    ):
        load(tmp_path)


def fractions_with(high: dict[int, float]) -> pd.DataFrame:
    """Fractions from 0.3 to 0.8 of 4 models, 6 languages and 2 tasks; some scores are others."""
    rows = list(product("abcd", ("de", "en", "fi", "hi", "sw", "tr"), ("nli", "qa")))
    table = pd.DataFrame(rows, columns=["model", "language", "task"])
    table["score"] = np.random.default_rng(2).uniform(0.3, 0.8, len(table)).round(3)
    for row, score in high.items():
        table.loc[row, "score"] = score
    return table


@pytest.mark.parametrize(
    ("high", "message"),
    [
        ({6: 41.9}, "t, row 7, column 'score': task 'nli' mixes scales: one score is 41.9, and the "
                    "other 23 are within 0-1"),
        ({5: 96.0}, "t, row 6, column 'score': task 'qa' mixes scales: one score is 96, and the "),
        ({2: 42.0, 20: 61.5, 30: 79.0}, "t, row 3, column 'score': task 'nli' mixes scales: 3 "
                                        "scores are from 42 to 79, and the other 21 are within"),
    ],
)  # fmt: skip
def test_single_percentages_among_fractions_are_refused(
    high: dict[int, float], message: str
) -> None:
    table = fractions_with(high)
    with pytest.raises(InputError) as caught:
        Records.from_frame(table, name="t")
    assert str(caught.value).startswith(message)
    allowed = Records.from_frame(table, name="t", mixed_scales="allow")
    assert [n for n in allowed.report.notes if "mixes scales" in n]
    # The scale that the table states makes the others low scores.
    stated = Records.from_frame(table.assign(scale_min=0, scale_max=100), name="t")
    (warning,) = [n for n in stated.report.warnings if "mixes scales" in n]
    assert warning.endswith("they are kept, because the table states the scale 0 to 100")


@pytest.mark.parametrize(
    "high",
    [
        # Between fractions and percentages: the scale goes on.
        {6: 41.9, 8: 3.5},
        # More than any fraction of these tasks would be as a percentage.
        {6: 3.0},
    ],
)
def test_low_percentages_are_no_fractions(high: dict[int, float]) -> None:
    table = fractions_with(high)
    table = table[table["task"] == "nli"]
    assert not [n for n in Records.from_frame(table, name="t").report.notes if "mixes" in n]
    # A hard task, on which most models are near zero.
    hard = fractions_with({6: 41.9, 8: 12.0})
    hard["score"] = hard["score"].where(hard["score"] > 1, hard["score"] / 5)
    assert not [n for n in Records.from_frame(hard, name="t", units=(0, 100)).report.notes
                if "mixes" in n]  # fmt: skip
