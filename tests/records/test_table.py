"""``Records``: canonical order, hash, frozenness, and files that read back to themselves."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval.errors import InputError
from bayeseval.records import Records, Units, load

FRAME = pd.DataFrame(
    {
        "model": ["b", "a", "a", "b"],
        "language": ["sw", "en", "sw", "en"],
        "dataset": ["x", "x", "y", "x"],
        "metric": ["f1", "f1", "em", "f1"],
        "score": [0.5, 0.25, 0.125, 0.75],
    }
)


def _records(frame: pd.DataFrame = FRAME, **options: object) -> Records:
    return Records.from_frame(frame, name="frame", **options)  # type: ignore[arg-type]


def test_the_table_is_sorted_and_labelled() -> None:
    records = _records()
    assert records.table.to_dict("list") == {
        "model": ["a", "a", "b", "b"],
        "language": ["en", "sw", "en", "sw"],
        "task": ["x:f1", "y:em", "x:f1", "x:f1"],
        "score": [0.25, 0.125, 0.75, 0.5],
        "dataset": ["x", "y", "x", "x"],
        "metric": ["f1", "em", "f1", "f1"],
    }
    assert list(records.table.index) == [0, 1, 2, 3]
    assert records.coords == {
        "language": ("en", "sw"),
        "task": ("x:f1", "y:em"),
        "model": ("a", "b"),
    }
    assert records.codes("model").tolist() == [0, 0, 1, 1]
    assert records.codes("language").tolist() == [0, 1, 0, 1]
    assert records.codes("task").tolist() == [0, 1, 0, 0]
    assert records.codes("task").dtype == np.int64
    assert records.scores.tolist() == [0.25, 0.125, 0.75, 0.5]
    assert repr(records) == "<Records 'frame': 4 records, 2 models, 2 languages, 2 tasks>"


def test_codes_of_an_unknown_factor() -> None:
    with pytest.raises(InputError, match="did you mean 'model'"):
        _records().codes("modle")  # type: ignore[arg-type]


def test_nobody_can_change_the_records() -> None:
    given_frame = FRAME.copy()
    records = _records(given_frame)
    before = records.content_hash
    pd.testing.assert_frame_equal(given_frame, FRAME)
    given_frame.loc[0, "score"] = 99.0
    table = records.table
    table.loc[0, "score"] = 99.0
    table["score"] = 1.0
    records.coords["model"] = ("z",)
    records.units.clear()
    assert _records().content_hash == before
    assert records.table["score"].tolist() == [0.25, 0.125, 0.75, 0.5]
    assert records.coords["model"] == ("a", "b")
    assert records.units == {"x:f1": Units(0, 1), "y:em": Units(0, 1)}
    with pytest.raises(ValueError, match="read-only"):
        records.scores[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        records.codes("model")[0] = 1
    with pytest.raises(FrozenInstanceError):
        records.name = "other"  # type: ignore[misc]


def test_records_travel_between_processes() -> None:
    records = _records()
    again = pickle.loads(pickle.dumps(records))
    assert again.content_hash == records.content_hash
    assert again.units == records.units
    assert again.report == records.report


def test_the_hash_is_what_it_says() -> None:
    """The definition, written out once more without pandas."""
    import hashlib
    import struct

    def texts(*items: str) -> bytes:
        encoded = [item.encode() for item in items]
        return struct.pack("<q", len(items)) + b"".join(
            struct.pack("<q", len(item)) + item for item in encoded
        )

    rows = _records().table.to_dict("list")
    expected = hashlib.sha256(b"bayeseval-records-1")
    for column in ("dataset", "language", "metric", "model", "score", "task"):
        expected.update(texts(column))
        if column == "score":
            expected.update(texts("numbers") + struct.pack("<4d", *rows["score"]))
        else:
            levels = list(dict.fromkeys(rows[column]))
            expected.update(texts("labels") + texts(*levels))
            expected.update(struct.pack("<4q", *(levels.index(label) for label in rows[column])))
    for task in ("x:f1", "y:em"):
        expected.update(texts(task, "0.0", "1.0"))
    assert _records().content_hash == expected.hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(score=[0.5, 0.25, 0.125, np.nextafter(0.75, 1)]),
        lambda frame: frame.assign(score=[0.25, 0.5, 0.125, 0.75]),
        lambda frame: frame.assign(model=["b", "a", "a", "c"]),
        lambda frame: frame.assign(metric=["f1", "f1", "acc", "f1"]),
        lambda frame: frame.assign(n=[10, 10, 10, 10]),
        lambda frame: frame.assign(task=["x:f1", "x:f1", "yem", "x:f1"]),
        lambda frame: frame.drop(index=3),
    ],
)
def test_any_change_of_content_changes_the_hash(change: object) -> None:
    changed = _records(change(FRAME))  # type: ignore[operator]
    assert changed.content_hash != _records().content_hash


def test_units_are_content_and_names_are_not() -> None:
    plain = _records()
    assert _records(units=(0, 1)).content_hash == plain.content_hash
    assert _records(units=(0, 2)).content_hash != plain.content_hash
    assert _records(units=(None, 1)).content_hash != plain.content_hash
    renamed = Records.from_frame(FRAME, name="other", language_names={"en": "the English one"})
    assert renamed.content_hash == plain.content_hash
    # Codes that are not named have the name of the registry.
    assert renamed.language_names == {"en": "the English one", "sw": "Swahili"}


def test_minus_zero_is_zero() -> None:
    zero, minus = (_records(FRAME.assign(score=[0.5, s, 0.1, 0.7])) for s in (0.0, -0.0))
    assert zero.content_hash == minus.content_hash


def test_kinds_of_missing_cells_in_a_frame() -> None:
    frame = FRAME.assign(score=[0.5, np.nan, 0.125, 0.75], n=pd.array([1, None, 3, 4], "Int64"))
    records = _records(frame)
    assert records.report.dropped[0].counts == (("a, en, x:f1", 1),)
    assert records.table["n"].tolist() == [3.0, 4.0, 1.0]
    objects = FRAME.astype(object)
    objects.loc[1, "score"] = None
    assert len(_records(objects)) == 3


def test_numpy_scalars_and_numbered_labels_in_a_frame() -> None:
    frame = FRAME.drop(columns=["dataset", "metric"]).assign(task=[1, 1, 2, 1])
    frame["model"] = pd.Series([np.int64(2), np.int64(1), np.int64(1), np.int64(2)], dtype=object)
    records = _records(frame)
    assert records.coords["model"] == ("1", "2")
    assert records.coords["task"] == ("1", "2")


@pytest.mark.parametrize(
    ("frame", "phrase"),
    [
        (pd.DataFrame(), "the frame is empty"),
        ([1, 2], "expected a pandas DataFrame, got list"),
        (FRAME.assign(model=[["b"], "a", "a", "b"]), "row 1, column 'model': model is a nested"),
        (
            FRAME.assign(model=[True, "a", "a", "b"]),
            "row 1, column 'model': model True",
        ),
        (FRAME.assign(model=[1.5, "a", "a", "b"]), "row 1, column 'model': model 1.5 is not text"),
        (FRAME.assign(model=["b", "a", None, "b"]), "row 3, column 'model': model is missing"),
        (FRAME.assign(score=["x", 1, 2, 3]), "row 1, column 'score': score 'x' is not a number"),
        (FRAME.assign(score=[np.inf, 1, 2, 3]), "row 1, column 'score': score inf is not finite"),
        (pd.concat([FRAME, FRAME["score"]], axis=1), "two columns are named 'score'"),
    ],
)
def test_a_broken_frame_is_refused_with_its_row(frame: pd.DataFrame, phrase: str) -> None:
    with pytest.raises(InputError) as caught:
        _records(frame)
    assert phrase in str(caught.value)
    assert str(caught.value).startswith("frame")


# Labels with everything a CSV writer may stumble over, but no control characters,
# which are refused. The trailing letter keeps blanks at the ends away.
_LABELS = st.text(
    st.characters(blacklist_categories=["Cc", "Cs"]) | st.sampled_from(list(",;\"'|\t \u2028é")),
    max_size=6,
).map(lambda text: text.replace("\t", "") + "x")


def _no_placeholder(score: float) -> float:
    """-1 or 999 in several cells would be refused as a placeholder for a missing score."""
    is_one = score in (999, 9999, 99999, 999999) or (-999999 <= score < 0 and score.is_integer())
    return score + 0.5 if is_one else score


_ERRORS = st.sampled_from([0.0, np.nan]) | st.floats(1e-100, 1e3)


@st.composite
def _frames(draw: st.DrawFn) -> pd.DataFrame:
    import unicodedata

    def levels(prefix: str, at_least: int) -> list[str]:
        labels = st.lists(_LABELS, min_size=at_least, max_size=4, unique_by=lambda t: t)
        # Unique also after normalisation; the prefix keeps "avg" away.
        return sorted({unicodedata.normalize("NFC", prefix + text) for text in draw(labels)})

    models, languages, tasks = levels("m", 3), levels("l", 3), levels("t", 1)
    cells = [(m, lang, t) for m in models for lang in languages for t in tasks]
    chosen = draw(st.lists(st.sampled_from(cells), min_size=2, max_size=20, unique=True))
    # Corners make sure of two models and two languages.
    corners = [(models[0], languages[0], tasks[0]), (models[-1], languages[-1], tasks[0])]
    rows = list(dict.fromkeys([*corners, *chosen]))
    frame = pd.DataFrame(rows, columns=["model", "language", "task"])
    frame["score"] = draw(
        st.lists(
            st.floats(-1e99, 1e99, allow_nan=False).map(_no_placeholder),
            min_size=len(rows),
            max_size=len(rows),
        )
    )
    if draw(st.booleans()):
        frame["seed"] = draw(st.lists(st.integers(0, 20), min_size=len(rows), max_size=len(rows)))
        frame["se"] = draw(st.lists(_ERRORS, min_size=len(rows), max_size=len(rows)))
    return frame


def _allowing(frame: pd.DataFrame) -> Records:
    return Records.from_frame(frame, name="drawn", mixed_scales="allow")


@given(_frames(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_never_matters(frame: pd.DataFrame, random: object) -> None:
    rows, columns = list(range(len(frame))), list(frame.columns)
    random.shuffle(rows)  # type: ignore[attr-defined]
    random.shuffle(columns)  # type: ignore[attr-defined]
    records, shuffled = _allowing(frame), _allowing(frame.iloc[rows][columns])
    assert records.content_hash == shuffled.content_hash
    pd.testing.assert_frame_equal(records.table, shuffled.table)
    for factor in ("model", "language", "task"):
        labels = np.array(records.coords[factor], dtype=object)[records.codes(factor)]
        assert labels.tolist() == records.table[factor].tolist()
        assert list(records.coords[factor]) == sorted(set(frame[factor]))


@given(_frames(), st.data())
def test_changing_one_score_changes_the_hash(frame: pd.DataFrame, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(frame) - 1))
    changed = frame.copy()
    changed.loc[row, "score"] = np.nextafter(frame["score"].iloc[row], np.inf)
    # Bounds are guessed from the scores; pinned here, so that only the score differs.
    hashes = {
        Records.from_frame(f, name="x", units=(None, None), mixed_scales="allow").content_hash
        for f in (frame, changed)
    }
    assert len(hashes) == 2


@settings(max_examples=40)  # each example writes and reads two files
@given(_frames(), st.sampled_from([None, (None, None), (-2e99, 2e99), (None, 2e99)]))
def test_files_read_back_to_the_same_records(
    frame: pd.DataFrame, units: tuple[float | None, float | None] | None
) -> None:
    records = Records.from_frame(frame, name="x", units=units, mixed_scales="allow")
    with tempfile.TemporaryDirectory() as folder:
        for file, write in (("a.csv", records.to_csv), ("a.parquet", records.to_parquet)):
            path = Path(folder) / file
            write(path)
            again = load(path, mixed_scales="allow")
            assert again.content_hash == records.content_hash
            assert again.units == records.units
            pd.testing.assert_frame_equal(again.table, records.table)
            assert again.report.dropped == ()


def test_a_whole_table_with_every_column_reads_back(tmp_path: Path) -> None:
    frame = FRAME.assign(
        n=[10, 20, 30, 40],
        k=[5, 5, np.nan, 30],
        se=0.01,
        seed=[0, 1, 0, 1],
        boot=["b1", "b2", "b1", "b2"],
        item=["q,1", 'q"2', "q3", "q4"],
        seed_sd=0.1,
        boot_sd=0.2,
        n_seeds=5,
        n_boot=100,
        chance=[0.2, 0.2, 0.3, 0.2],
    )
    records = _records(frame, units={"x:f1": (0, 1), "y:em": (None, 2)})
    for file, write in (("a.csv", records.to_csv), ("a.parquet", records.to_parquet)):
        write(tmp_path / file)
        again = load(tmp_path / file)
        pd.testing.assert_frame_equal(again.table, records.table)
        assert again.content_hash == records.content_hash
    assert list(records.table.columns) == [
        *("model", "language", "task", "score", "dataset", "metric", "n", "k", "se"),
        *("seed", "boot", "seed_sd", "boot_sd", "n_seeds", "n_boot", "item", "chance"),
    ]


def test_a_subset_keeps_what_was_said_of_the_whole() -> None:
    records = _records(
        units={"x:f1": (0.0, 100.0), "y:em": (0.0, 2.0)},
        language_names={"sw": "Swahili"},
        datasets={"y:em": "x"},
        likelihoods={"default": "beta", "y:em": "normal"},
    )
    kept = records.subset(records.codes("task") == 0, name="some")
    assert kept.table["score"].tolist() == [0.25, 0.75, 0.5]
    assert kept.name == "some"
    assert kept.units == {"x:f1": Units(0.0, 100.0)}
    assert kept.language_names == {"en": "English", "sw": "Swahili"}
    assert kept.datasets == {"x:f1": "x"}
    assert kept.likelihoods == {"default": "beta"}
    whole = records.subset(np.ones(4, dtype=bool), name="frame")
    assert (whole.content_hash, whole.likelihoods, whole.datasets) == (
        records.content_hash,
        records.likelihoods,
        records.datasets,
    )
    with pytest.raises(InputError, match="an array of 4 booleans, one for each record"):
        records.subset([0, 1], name="some")
    with pytest.raises(InputError, match="no record is left"):
        records.subset([False] * 4, name="some")


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("the previous table", encoding="utf-8")

    def killed(self: pd.DataFrame, target: Path, **options: object) -> None:
        Path(target).write_text("half a tab", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", killed)
    with pytest.raises(KeyboardInterrupt):
        _records().to_csv(path)
    assert path.read_text(encoding="utf-8") == "the previous table"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.csv"]


def test_a_folder_that_is_not_there_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        _records().to_csv(tmp_path / "nowhere" / "scores.csv")
