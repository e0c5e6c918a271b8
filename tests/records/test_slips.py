"""Placeholders are refused, doubtful scores warned of, and the advice works when followed."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeseval import load
from bayeseval.design import build_design
from bayeseval.errors import InputError, addressing_command_line
from bayeseval.fitting.report.terminal import format_preamble
from bayeseval.records import Records, Units
from bayeseval.records.doubts import constant_models
from bayeseval.records.validate import describe, format_description
from bayeseval.spec import load_spec

CELLS = list(product(("A", "B", "C"), ("de", "en", "hi", "sw"), ("qa", "nli")))


def frame(*, top: float = 90.0) -> pd.DataFrame:
    """Complete table of plausible scores between a fifth of `top` and `top`."""
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.2 * top, top, len(CELLS)).round(3)
    return pd.DataFrame(CELLS, columns=["model", "language", "task"]).assign(score=scores)


def changed(value: float, *, top: float = 90.0, first: int = 0, n: int = 1) -> pd.DataFrame:
    """The table with one value in rows `first` to `first + n`."""
    table = frame(top=top)
    table.loc[first : first + n - 1, "score"] = value
    return table


def read(table: pd.DataFrame, **options: Any) -> Records:
    return Records.from_frame(table, name="slips", **options)


def warnings(table: pd.DataFrame) -> list[str]:
    return list(read(table).report.warnings)


def followed(table: pd.DataFrame, folder: Path, mapping: str) -> Records:
    """The table read with a mapping file."""
    path, file = folder / "table.csv", folder / "mapping.yaml"
    table.to_csv(path, index=False)
    file.write_text(mapping, encoding="utf-8")
    return load(path, mapping_file=file)


# Placeholders


@pytest.mark.parametrize(
    ("table", "which"),
    [
        (changed(-1.0, n=8), r"row 1, column 'score': score -1 in 8 cells \(all scores of A\)"),
        (changed(-1.0, n=2), r"score -1 in 2 cells \(model A\)"),
        (changed(-1.0, top=0.9, n=8), "score -1 in 8 cells"),
        (changed(-99.0, n=16), r"score -99 in 16 cells \(all scores of A, B\)"),
        (changed(999.0, first=8, n=8), r"row 9, .*score 999 in 8 cells \(all scores of B\)"),
    ],
)
def test_a_number_in_the_place_of_missing_scores_is_refused(
    table: pd.DataFrame, which: str
) -> None:
    with pytest.raises(InputError, match=which) as caught:
        read(table)
    assert "\n" not in str(caught.value)


def test_negative_scores_are_no_placeholders() -> None:
    table = changed(-1.0, n=2)
    table.loc[5, "score"] = -3.2
    table.loc[6, "score"] = -0.4
    assert read(table).scores.min() == -3.2
    # Parts of one.
    assert read(changed(-0.5, n=2)).scores.min() == -0.5
    # A task with negative scores does not excuse another.
    both = changed(-1.0, n=8)
    both.loc[both["task"] == "nli", "score"] -= 60.0
    with pytest.raises(InputError, match="score -1 in 4 cells"):
        read(both)
    # Negative marks of single test items are scores.
    items = pd.concat([frame().assign(item=i, score=[1, 0, -1][i]) for i in range(3)])
    assert read(items).scores.min() == -1.0


def test_both_ways_to_say_what_a_placeholder_is_work(tmp_path: Path) -> None:
    table = changed(-1.0, n=8)
    with pytest.raises(
        InputError, match=r"with missing=-1, or, .* units=\(LOWER, UPPER\), with numbers"
    ):
        read(table)
    with addressing_command_line(), pytest.raises(InputError) as caught:
        read(table)
    text = str(caught.value)
    advice = re.findall(r"with '?((?:missing|units): .+?)'? in a --mapping file", text)
    assert advice == ["missing: -1", "units: {lower: LOWER, upper: UPPER}"]
    left = followed(table, tmp_path, advice[0])
    assert left.coords["model"] == ("B", "C")
    (dropped,) = left.report.dropped
    assert (dropped.reason, dropped.counts) == ("score -1, which means missing", (("A", 8),))
    assert "no score left for 1 model: A" in left.report.notes
    assert read(table, missing=-1).content_hash == left.content_hash
    kept = followed(table, tmp_path, advice[1].replace("LOWER", "-1").replace("UPPER", "100"))
    assert read(table, units=(-1, 100)).content_hash == kept.content_hash
    assert kept.coords["model"] == ("A", "B", "C")
    assert kept.units == {"qa": Units(-1, 100), "nli": Units(-1, 100)}
    # Records that were read are not asked about again, also not their parts.
    part = kept.subset(kept.codes("language") < 2, name="part")
    assert part.scores.min() == -1.0


def test_missing_takes_several_numbers_and_says_when_there_are_none(tmp_path: Path) -> None:
    table = changed(-1.0, n=2)
    table.loc[20:21, "score"] = 999.0
    records = followed(table, tmp_path, "missing: [-1, 999, -7]")
    assert len(records) == len(CELLS) - 4
    assert records.report.n_rows_read == len(CELLS)
    assert "no score is -7, so missing=-7 leaves nothing out" in records.report.notes
    same = Records.from_frame(table, name="slips", missing=[-1, 999])
    assert same.content_hash == records.content_hash


def test_levels_are_left_out_by_name(tmp_path: Path) -> None:
    records = followed(
        frame(),
        tmp_path,
        "drop: {model: C, language: [de, hi], task: [nli]}\n"
        "units: {lower: 0, upper: 100, tasks: {nli: {lower: 0, upper: 1}}}\n"
        "datasets: {nli: xnli}\nlikelihoods: {default: normal, nli: beta}",
    )
    assert records.coords == {"language": ("en", "sw"), "task": ("qa",), "model": ("A", "B")}
    assert [d.counts for d in records.report.dropped] == [
        (("C", 8),),
        (("de", 4), ("hi", 4)),
        (("nli", 4),),
    ]
    assert records.report.n_dropped == len(CELLS) - 4
    with pytest.raises(InputError, match="drop: no language 'swa'; did you mean 'sw'"):
        followed(frame(), tmp_path, "drop: {language: [swa]}")
    with pytest.raises(InputError, match="drop"):
        followed(frame(), tmp_path, "drop: {seed: [1]}")
    with pytest.raises(InputError, match=r"only one model \('A'\) after rows were dropped"):
        followed(frame(), tmp_path, "drop: {model: [B, C]}")


# Warnings


def test_a_plausible_table_has_no_warnings() -> None:
    assert warnings(frame()) == []
    assert warnings(frame(top=0.9)) == []
    rng = np.random.default_rng(2)
    heavy = frame().assign(score=lambda t: 50.0 + 10.0 * rng.standard_t(3, len(t)))
    assert warnings(heavy) == []
    hard = frame().assign(score=lambda t: (t["score"] / 30.0).round(2))
    assert warnings(hard) == []
    assert warnings(changed(0.0, n=3)) == []
    assert load("mega").report.warnings == ()


@pytest.mark.parametrize(
    ("value", "top"), [(1e6, 90.0), (480.0, 90.0), (1e6, 0.9), (-1.0, 90.0), (-1.0, 0.9)]
)
def test_a_score_far_from_the_others_is_named(value: float, top: float) -> None:
    (warning,) = warnings(changed(value, top=top, first=10))
    assert warning.startswith("warning: task 'qa': 1 score far from the others")
    assert f"{value:.10g} (slips, row 11, column 'score')" in warning


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (3, 1), (4, 0), (5, 0)])
def test_zeros_of_many_models_are_no_slips(n: int, expected: int) -> None:
    """In a task without known bounds, more than 20 typical deviations from the median."""
    table = frame().assign(score=lambda t: 500.0 + t.index % 7)
    table.loc[table.index[table["task"] == "qa"][: 2 * n : 2], "score"] = 0.0
    found = [one for one in warnings(table) if "far from the others" in one]
    assert len(found) == expected


@pytest.mark.parametrize(("n", "expected"), [(3, 3), (4, 1), (40, 1)])
def test_warnings_of_one_kind_on_many_tasks_are_one(n: int, expected: int) -> None:
    """366 of them hid all else that `validate` printed."""
    one = changed(1e6, first=10)
    parts = [one.assign(task=f"t{i:02d}-" + one["task"]) for i in range(n)]
    found = warnings(pd.concat(parts, ignore_index=True))
    assert len(found) == expected
    assert found[0].startswith("warning: task 't00-qa': 1 score far from the others")
    if n > 3:
        others = ", ".join(f"t{i:02d}-qa" for i in range(1, min(n, 9)))
        more = " and 31 more" if n == 40 else ""
        assert found[0].endswith(f"; the same is found in {n - 1} other tasks ({others}{more})")


def test_fractions_of_a_model_beside_its_percentages_are_named() -> None:
    """However many of the table's scores they are: 61.3 and three fractions of two models."""
    rows = [(m, lang, "qa") for m in "AB" for lang in ("de", "en", "hi", "sw")]
    table = pd.DataFrame(rows, columns=["model", "language", "task"])
    table["score"] = [61.3, 0.62, 0.64, 0.7, 42.0, 58.0, 71.0, 66.0]
    (text,) = warnings(table)
    assert text == (
        "warning: task 'qa': 3 scores between 0 and 1 among percentages (these start at 42):"
        " 0.62 (slips, row 2, column 'score'), 0.64 (slips, row 3, column 'score'),"
        " 0.7 (slips, row 4, column 'score'); multiply by 100 if they are fractions"
    )
    # A model that fails: between 1 and 10, or too low to be a fraction.
    for low in (3.1, 0.02):
        table.loc[2, "score"] = low
        assert warnings(table) == []


def with_errors(n: float, *, slip: float, top: float = 90.0) -> list[str]:
    """Warnings of scores with the errors of shares of n items, times `slip`."""
    table, scale = frame(top=top), 100.0 if top > 1.0 else 1.0
    share = table["score"] / scale
    return warnings(table.assign(se=slip * scale * (share * (1.0 - share) / n) ** 0.5))


@pytest.mark.parametrize("n", [40, 250, 1000, 20_000])
def test_standard_errors_in_another_unit_than_the_scores_are_warned_of(n: int) -> None:
    assert with_errors(n, slip=1.0) == with_errors(n, slip=1.0, top=0.9) == []
    (text,) = with_errors(n, slip=0.01)
    number = f"{10_000 * n:,}" if n > 250 else {40: "400,000", 250: "2,000,000"}[n]
    assert text.startswith("warning: the scores of tasks 'nli', 'qa' have a median standard error")
    assert text.endswith(
        f", as of about {number} test items; multiply se by 100 if it is on a scale from 0 to 1"
    )
    if n < 10_000:
        (text,) = with_errors(n, slip=100.0, top=0.9)
        assert text.endswith(
            ", more than a single test item has; divide se by 100 if it is on a scale from 0 to 100"
            ", and the scores are fractions"
        )


def test_standard_errors_of_zero_are_warned_of_where_all_are() -> None:
    table = frame().assign(se=0.0)
    (text,) = warnings(table)
    assert text == (
        "warning: se is 0 in all 24 records that have one, as if the scores were known exactly;"
        " correct the errors, or leave the column out with columns={'se': None}"
    )
    table.loc[3:, "se"] = 2.0
    assert warnings(table) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("error", "units", "said"),
    [
        (1.0, (-2e99, 2e99), None),
        (1.0, (-1e100, 1e100), None),
        (1e-100, (0, 100), "multiply se by 100"),
        (1e100, (0, 100), "divide se by 100"),
    ],
)
def test_standard_errors_and_scales_of_any_size_are_compared(
    error: float, units: tuple[float, float], said: str | None
) -> None:
    about = [w for w in read(frame().assign(se=error), units=units).report.warnings if "(se)" in w]
    assert [said in w for w in about if said] == [True] * (said is not None)


def test_validate_shows_the_range_of_the_standard_errors() -> None:
    errors = [None, 0.5, *np.linspace(1.0, 3.25, len(CELLS) - 2)]
    text = format_description(describe(read(frame().assign(se=errors))))
    assert "  standard errors (se): 0.5 to 3.25, median 2.07 (in 23 of 24 records)" in text
    assert "standard errors" not in format_description(describe(read(frame())))


def test_one_language_is_refused_with_a_way_to_compare_tasks_where_there_are_any() -> None:
    german = frame().query("language == 'de'").reset_index(drop=True)
    with pytest.raises(InputError) as caught:
        read(german)
    assert str(caught.value) == (
        "slips: only one language ('de'); a comparison needs at least two languages;"
        " columns={'language': 'task', 'task': 'language'} compares the models over tasks instead,"
        " with the tasks in the place of languages: the output calls them so, and short names that"
        " are codes of languages are taken for these"
    )
    # One task is nothing to compare over, and records cannot be read anew.
    with pytest.raises(InputError, match=r"at least two languages$"):
        read(german.query("task == 'qa'").reset_index(drop=True))
    with pytest.raises(InputError, match=r"at least two languages$"):
        read(frame()).subset(frame()["language"] == "de", name="part")


def test_bounds_that_contradict_the_counts_of_items_are_named() -> None:
    table = frame().assign(n=200)
    table["k"] = (table["score"] * 2).round()
    table["score"] = (table["k"] / 2).round(1)
    assert warnings(table) == []
    assert [str(n) for n in read(table, units=(0, 100)).report.warnings] == []
    (text,) = read(table, units={"qa": (0, 500), "nli": (0, 100)}).report.warnings
    assert text == (
        "warning: the scale of qa is 0 to 500, but the scores are 100 times k / n, the share of"
        " items that are right, which is from 0 to 100; correct the bounds, or leave n and k out"
    )
    # Scores that were corrected for chance are no shares.
    corrected = table.assign(score=lambda f: (f["score"] - 25.0) * 4.0 / 3.0)
    assert read(corrected, units=(-100, 100)).report.warnings == ()
    (text,) = read(table, units=(-100, 100)).report.warnings
    assert text.startswith("warning: the scale of nli, qa is -100 to 100, but the scores are 100")


def test_fractions_among_percentages_are_named() -> None:
    table = changed(0.62, first=3)
    table.loc[9, "score"] = 0.41
    (warning,) = warnings(table)
    assert warning.startswith("warning: task 'nli': 2 scores between 0 and 1 among percentages")
    assert "0.62 (slips, row 4, column 'score'), 0.41 (slips, row 10" in warning
    # Low scores beside other low scores are what they are.
    table.loc[1, "score"] = 2.5
    assert warnings(table) == []


def test_models_with_one_score_and_models_with_the_same_scores_are_named() -> None:
    (warning,) = warnings(changed(0.0, n=8))
    assert warning == (
        "warning: one score throughout for model A (8 times 0); leave the model out if it was not"
        " run or its outputs could not be scored"
    )
    # Where all scores are equal, no model is named, and three equal scores may be chance.
    score = np.array([5.0] * 5 + [7.0] * 3 + [8.0, 9.0])
    model = np.array([1] * 5 + [0] * 3 + [2] * 2)
    assert constant_models(score, model, ("A", "B", "C")) == ("B",)
    assert constant_models(np.full(10, 5.0), model, ("A", "B", "C")) == ()
    equal = warnings(frame().assign(score=5.0))
    assert equal and not any("one score throughout" in one or "same scores" in one for one in equal)
    table = frame()
    table.loc[table["model"] == "C", "score"] = table.loc[table["model"] == "A", "score"].to_numpy()
    (warning,) = warnings(table)
    assert warning.startswith("warning: models A, C have exactly the same scores")


def test_tasks_at_a_bound_and_tasks_with_one_score_are_named() -> None:
    table = frame()
    at = table.index[table["task"] == "qa"]
    table.loc[at[:5], "score"] = 0.0
    (warning,) = warnings(table)
    assert warning == (
        "warning: task 'qa': 42 % of the scores (5 of 12) are 0, the lowest possible score: models"
        " with normal residuals predict scores beyond it, and larger differences between models"
        " than the scale allows; fit 'counts' if the numbers of items (column n) are known"
        " ('bounded' stays within the scale too, but its intervals are not reliable where many"
        " scores are at a bound), or leave the task out (drop={'task': ['qa']})"
    )
    table.loc[at, "score"] = 100.0
    (warning,) = warnings(table)
    assert warning == (
        "warning: task 'qa': all 12 scores are 100, so it tells no models or languages apart;"
        " models with normal residuals nevertheless predict different scores for it; leave the task"
        " out (drop={'task': ['qa']})"
    )
    with addressing_command_line():
        assert warnings(table)[0].endswith('out (drop: {task: ["qa"]} in a --mapping file)')
    table.loc[at[0], "score"] = 60.0
    (warning,) = warnings(table)
    assert "92 % of the scores (11 of 12) are 100, the highest possible score:" in warning


def test_tasks_at_the_same_bound_have_one_warning() -> None:
    parts = [frame().assign(task=f"t{i}-" + frame()["task"]) for i in range(3)]
    table = pd.concat(parts, ignore_index=True)
    for i, n in enumerate((5, 6, 7)):
        table.loc[table.index[table["task"] == f"t{i}-qa"][:n], "score"] = 0.0
    table.loc[table.index[table["task"] == "t0-nli"][:5], "score"] = 100.0
    first, other = warnings(table)
    assert first.startswith("warning: task 't0-qa': 42 % of the scores (5 of 12) are 0, the lowest")
    assert first.endswith("; the same is found in 2 other tasks (t1-qa 50 %, t2-qa 58 %)")
    assert "task 't0-nli': 42 % of the scores (5 of 12) are 100, the highest" in other
    for i, value in enumerate((40.0, 50.0, 60.0)):
        table.loc[table["task"] == f"t{i}-qa", "score"] = value
    first, other = warnings(table)
    assert first.startswith("warning: task 't0-qa': all 12 scores are 40, so it tells")
    assert first.endswith("; the same is found in 2 other tasks (t1-qa 50, t2-qa 60)")


def test_what_is_said_of_normal_residuals_is_not_said_of_models_with_bounds() -> None:
    table = frame()
    table.loc[table.index[table["task"] == "qa"][:5], "score"] = 0.0
    records = Records.from_frame(table, name="t", units=(0, 100))
    for likelihood, said in (("normal", True), ("beta", False), ("logit_normal", False)):
        design = build_design(records, load_spec({"name": "x", "likelihood": likelihood}))
        notes = [
            str(note) for note in records.report.remarks_for(with_bounds=design.outcome.has_bounds)
        ]
        assert any("models with normal residuals" in note for note in notes) is said
        assert len(notes) == len(records.report.remarks) - (not said)
        text = format_preamble(records, design, engine="marginal")
        assert ("models with normal residuals" in text) is said


def test_a_few_scores_at_a_bound_and_one_failing_model_are_no_task_at_a_bound() -> None:
    table = frame()
    at = table.index[table["task"] == "qa"]
    # Two of twelve, and all four of one model.
    table.loc[at[[0, 6]], "score"] = 0.0
    assert warnings(table) == []
    table = frame()
    table.loc[at[:4], "score"] = 0.0
    assert warnings(table) == []
    # The commonest score of a scale without bounds is none of its bounds.
    table.loc[at[4:10], "score"] = 240.0
    assert not any("possible score" in text for text in warnings(table))


def test_the_advice_on_tasks_at_a_bound_works(tmp_path: Path) -> None:
    table = frame()
    table.loc[table.index[table["task"] == "qa"], "score"] = 0.0
    with addressing_command_line():
        (warning,) = warnings(table)
    found = re.search(r"drop: \{.*\}", warning)
    assert found is not None
    records = followed(table, tmp_path, found[0])
    assert (records.coords["task"], records.report.warnings) == (("nli",), ())


# Labels of languages


def renamed(**labels: str) -> pd.DataFrame:
    return frame().replace({"language": labels})


def test_two_labels_of_one_language_become_one() -> None:
    table = frame()
    table.loc[(table["language"] == "en") & (table["task"] == "qa"), "language"] = "English"
    table.loc[0, "language"] = "deu_Latn"
    records = read(table)
    assert records.coords["language"] == ("de", "en", "hi", "sw")
    assert len(records) == len(CELLS)
    assert (
        "language labels 'English', 'en' mean the same language: all are called 'en'"
        in records.report.notes
    )
    assert read(frame()).content_hash == records.content_hash


def test_an_unknown_label_means_the_language_that_its_name_says() -> None:
    table = renamed(de="français")
    table.loc[(table["language"] == "français") & (table["task"] == "qa"), "language"] = "French"
    assert len(read(table).coords["language"]) == 5
    records = Records.from_frame(table, language_names={"français": "fr"})
    assert records.coords["language"] == ("French", "en", "hi", "sw")
    assert (
        "language labels 'French', 'français' mean the same language: all are called 'French'"
        in records.report.notes
    )


def test_of_merged_labels_the_one_that_a_registry_knows_is_kept() -> None:
    table = renamed(de="français")
    table.loc[(table["language"] == "français") & (table["model"] == "A"), "language"] = "fra"
    table = table[(table["language"] != "fra") | (table["task"] == "qa")]
    records = Records.from_frame(table, language_names={"français": "fr"})
    assert records.coords["language"] == ("en", "fra", "hi", "sw")
    drop = {"language": ["français"]}
    with pytest.raises(InputError, match=r"no language 'français', which is called 'fra' here"):
        Records.from_frame(table, language_names={"français": "fr"}, drop=drop)


def test_names_may_be_codes_which_begin_with_a_small_letter() -> None:
    # ga is Irish, and Ga another language.
    table = renamed(de="español", hi="accra", sw="ga")
    records = Records.from_frame(table, language_names={"accra": "Ga", "español": "es"})
    assert records.coords["language"] == ("accra", "en", "español", "ga")
    assert list(records.language_names.items()) == [
        *(("en", "English"), ("ga", "Irish")),
        *(("accra", "Ga"), ("español", "Spanish")),
    ]


def test_an_accuracy_above_100_is_warned_of() -> None:
    table = frame().assign(task="qa:accuracy")
    table = table.drop_duplicates(["model", "language"])
    table.loc[0, "score"] = 103.4
    (warning,) = warnings(table)
    assert "task 'qa:accuracy': 1 score below 0 or above 100: 103.4 (" in warning
    assert "row 1" in warning
    assert warnings(table.assign(task="qa:rating")) == []


def test_marks_beside_percentages_are_warned_of() -> None:
    marks = frame().assign(score=lambda t: t["score"].where(t["task"] == "qa", t["score"] / 10))
    (warning,) = warnings(marks)
    assert "scale unknown for task nli" in warning
    assert "other tasks are on 0-100, and means are those of the scores as they are" in warning
    assert warnings(marks[marks["task"] == "nli"]) == []
    low = marks.assign(score=lambda t: t["score"].where(t["task"] == "qa", t["score"] - 1.5))
    assert warnings(low) == []


def test_one_name_of_two_languages_is_warned_of() -> None:
    own = {"de": "dialect", "hi": "dialect", "en": "another"}
    records = Records.from_frame(frame(), language_names=own)
    assert records.coords["language"] == ("de", "en", "hi", "sw")
    (warning,) = records.report.warnings
    assert "language labels 'de', 'hi' have one name ('dialect') and were kept apart" in warning
    assert Records.from_frame(frame(), language_names={**own, "hi": "x"}).report.warnings == ()


def test_two_scores_under_two_labels_of_one_language_are_a_duplicate() -> None:
    extra = pd.DataFrame([("A", "English", "qa", 33.0)], columns=list(frame().columns))
    with pytest.raises(InputError, match="duplicate of") as caught:
        read(pd.concat([frame(), extra]))
    assert "language 'en'" in str(caught.value)
    assert "(written 'en' and 'English')" in str(caught.value)
    assert "rename one of the two labels" in str(caught.value)


def test_varieties_scripts_and_territories_stay_apart() -> None:
    records = read(renamed(de="zh-TW", en="zh", hi="zho_Hant"))
    assert records.coords["language"] == ("sw", "zh", "zh-TW", "zho_Hant")
    assert records.report.warnings == ()
    (warning,) = warnings(renamed(hi="swh"))
    assert "'sw', 'swh' may mean the same language" in warning
    assert len(read(renamed(hi="swh")).coords["language"]) == 4


def test_codes_have_names_and_given_names_win() -> None:
    records = read(renamed(de="zho_Hans", en="zho_Hant", hi="ar+en"))
    assert records.language_names == {
        "ar+en": "Arabic + English",
        "sw": "Swahili",
        "zho_Hans": "Chinese (Simplified)",
        "zho_Hant": "Chinese (Traditional)",
    }
    given = Records.from_frame(frame(), name="slips", language_names={"de": "Deutsch", "xx": "X"})
    assert given.language_names == {
        "de": "Deutsch",
        "en": "English",
        "hi": "Hindi",
        "sw": "Swahili",
    }
    # Names that could be either of two languages are none.
    assert "sw" not in read(renamed(hi="swh")).language_names
    assert read(renamed(sw="Swahili")).language_names.keys() == {"de", "en", "hi"}


def test_labels_that_no_registry_knows_are_named(tmp_path: Path) -> None:
    table = renamed(sw="Swahilli", hi="xx-klingon")
    (warning,) = warnings(table)
    assert warning.startswith(
        "warning: language labels that no registry knows: 'Swahilli' (did you mean Swahili (sw)?),"
        " 'xx-klingon'; correct or name them with language_names"
    )
    # Both pieces of advice.
    assert warnings(renamed(sw="Swahili", hi="tlh")) == []
    named = followed(table, tmp_path, "language_names: {Swahilli: Swahili, xx-klingon: Klingon}")
    assert named.report.warnings == ()
    # Own labels throughout are meant; misspelt names throughout are not.
    own = read(renamed(de="L1", en="L2", hi="L3", sw="L4"))
    assert own.report.warnings == ()
    assert any("no language label is in the registry" in note for note in own.report.notes)
    (warning,) = warnings(renamed(de="Germann", en="Englsh", hi="Hindii", sw="Swahilli"))
    assert "did you mean English (en)?" in warning
    many = {label: f"x{label}x" for label in ("de", "en", "hi")}
    (warning,) = warnings(renamed(**many))
    assert "\n" not in warning


def test_only_choices_that_work_are_proposed_for_tasks_of_two_columns() -> None:
    """With either of them, every cell had two scores, which was the next refusal."""
    table = pd.concat(
        [frame().assign(dataset=name, score=frame()["score"] + i) for i, name in enumerate("xy")]
    )
    with pytest.raises(InputError) as caught:
        read(table)
    assert str(caught.value).endswith(
        "name different tasks ('x' is in task 'qa' and 'nli'); columns={'split': 'dataset'} makes"
        " tasks of both, such as 'qa (x)'"
    )
    both = ("nli (x)", "nli (y)", "qa (x)", "qa (y)")
    assert read(table, columns={"split": "dataset"}).coords["task"] == both
    # With a split that is read, or a metric, no choice of columns is enough.
    for column, values in (("split", ("dev", "test")), ("metric", ("f1", "em"))):
        parts = [
            table.assign(**{column: v}, score=table["score"] + i) for i, v in enumerate(values)
        ]
        with pytest.raises(InputError) as caught:
            read(pd.concat(parts))
        assert str(caught.value).endswith(
            "neither tells all scores apart, so name the task of each score in one column 'task',"
            f" such as 'qa x{':f1' if column == 'metric' else ''}', and leave 'dataset' out"
        )
    followed = table.assign(task=table["task"] + " " + table["dataset"]).drop(columns="dataset")
    assert read(followed).coords["task"] == ("nli x", "nli y", "qa x", "qa y")
    # Here the data set tells all scores apart, and the task does not.
    finer = table.assign(dataset=table["task"] + table["dataset"])
    with pytest.raises(InputError, match=r"choose columns={'dataset': 'dataset'}$"):
        read(finer)
    assert len(read(finer, columns={"dataset": "dataset"}).coords["task"]) == 4
    with pytest.raises(
        InputError, match=r"'dataset' tells them apart: columns={'split': 'dataset'} makes tasks"
    ):
        read(finer, columns={"task": "task"})
    assert len(read(finer, columns={"task": "task", "split": "dataset"}).coords["task"]) == 4
