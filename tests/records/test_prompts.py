"""Columns of prompts and judges: when they are read, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.records import Records, load, reduce_replicates
from tests import prompt_tables as tables
from tests import replicate_tables

NOTE = "whose effects models share"


def _notes(records: Records) -> list[str]:
    return [note for note in records.report.notes if "prompt" in note or "judge" in note]


@pytest.mark.parametrize(
    ("column", "source"),
    [("prompt", "prompt"), ("Prompt ID", "prompt"), ("template", "prompt"), ("judge", "judge")],
)
def test_a_column_that_tells_scores_apart_is_read(column: str, source: str) -> None:
    records = tables.records(column=column)
    assert records.replicate_columns == (source,)
    (note,) = _notes(records)
    assert note.startswith(f"column {column!r} read as 3 {source}s, {NOTE}")
    assert set(records.table[source]) == set(tables.PROMPTS)


def test_the_user_may_read_it_in_another_way_or_leave_it_out() -> None:
    frame = tables.frame()
    as_seeds = Records.from_frame(frame, columns={"seed": "prompt"})
    assert as_seeds.replicate_columns == ("seed",)
    assert reduce_replicates(as_seeds).by_prompt is None
    other = frame.rename(columns={"prompt": "wording"})
    assert Records.from_frame(other, columns={"prompt": "wording"}).replicate_columns == ("prompt",)
    with pytest.raises(InputError, match="has two scores"):
        Records.from_frame(frame, columns={"prompt": None})


def test_a_column_of_whole_texts_stays_unread() -> None:
    """One text for each item tells no scores apart; it may be longer than a label can be."""
    rows = [
        (m, lang, f"i{i}", f"{'Is it so? ' * 200}{i}", float((i + len(m)) % 2))
        for m in ("a", "bb")
        for lang in ("de", "en")
        for i in range(4)
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "item", "prompt", "score"])
    records = Records.from_frame(frame)
    assert records.replicate_columns == ("item",)
    assert any("column 'prompt' is not needed" in note for note in _notes(records))


def test_tables_are_read_back(tmp_path: Path) -> None:
    records = tables.records()
    records.to_csv(tmp_path / "t.csv")
    assert load(tmp_path / "t.csv", name="prompts").content_hash == records.content_hash
    shuffled = Records.from_frame(tables.frame().sample(frac=1.0, random_state=1), name="prompts")
    assert shuffled.content_hash == records.content_hash
    without = records.subset(np.asarray(records.table["language"] != "de"), name="t")
    assert without.replicate_columns == ("prompt",)


def test_a_record_is_the_mean_over_prompts() -> None:
    records = tables.records()
    cells = reduce_replicates(records)
    by_hand = records.table.groupby(["model", "language", "task"], observed=True)["score"]
    table = by_hand.agg(["mean", "size"]).reset_index()
    keys = [
        tuple(records.coords[f][cells.codes[f][i]] for f in ("model", "language", "task"))
        for i in range(len(cells))
    ]
    table = table.set_index(["model", "language", "task"]).loc[keys]
    np.testing.assert_allclose(cells.mean, table["mean"], rtol=1e-14)
    assert cells.n_prompts.tolist() == table["size"].tolist()
    assert set(cells.n_prompts) == {1.0, 2.0, 3.0}
    assert cells.has_replicates
    assert not (cells.seed.df > 0).any()


def test_seeds_and_bootstraps_are_those_of_the_averages_over_prompts() -> None:
    """Also items: a cell's prompts have the same ones."""
    for kind in ("crossed", "unbalanced"):
        one = replicate_tables.frame(kind)
        rng = np.random.default_rng(2)
        shifts = rng.normal(0.0, 1.0, (2, len(one)))
        both = [one.assign(prompt=f"p{i}", score=one["score"] + shifts[i]) for i in (0, 1)]
        cells = reduce_replicates(Records.from_frame(pd.concat(both)))
        average = one.assign(score=one["score"] + shifts.mean(axis=0))
        wanted = reduce_replicates(Records.from_frame(average))
        for name in ("seed", "boot", "cross"):
            found, plain = getattr(cells, name), getattr(wanted, name)
            np.testing.assert_allclose(found.mean_square, plain.mean_square, rtol=1e-9)
            np.testing.assert_array_equal(found.df, plain.df)
        np.testing.assert_allclose(cells.mean, wanted.mean, rtol=1e-12)
        assert wanted.by_prompt is None
        assert cells.by_prompt is not None
        # In incomplete cells the mean gives all seeds the same weight.
        if kind == "crossed":
            means = np.bincount(cells.by_prompt.cell, cells.by_prompt.score) / 2.0
            np.testing.assert_allclose(means, cells.mean, rtol=1e-12)


def test_prompts_with_other_seeds_are_refused() -> None:
    one = replicate_tables.frame("seeds")
    rows = pd.concat([one.assign(prompt=p) for p in ("p0", "p1")], ignore_index=True)
    records = Records.from_frame(rows.drop(index=len(rows) - 1), name="t")
    with pytest.raises(InputError, match=r"t: language .* model .*: its prompts have not the same"):
        reduce_replicates(records)


def test_prompts_and_judges_together_are_refused() -> None:
    frame = tables.frame(complete=True)
    both = pd.concat([frame.assign(judge=j, score=frame["score"] + i) for i, j in enumerate("ab")])
    records = Records.from_frame(both, name="t")
    assert records.replicate_columns == ("prompt", "judge")
    with pytest.raises(InputError, match="t: prompt and judge columns: the noise of one of them"):
        reduce_replicates(records)
