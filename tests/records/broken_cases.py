"""Broken inputs and what their one-line message has to say.

Every entry of ``tests/fixtures/broken`` has its case here (a test counts them), so
that the loader and the command line are held to the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BROKEN = Path(__file__).parents[1] / "fixtures" / "broken"


@dataclass(frozen=True)
class BrokenCase:
    """A file or folder under ``tests/fixtures/broken`` and phrases of its message."""

    file: str
    phrases: tuple[str, ...]

    @property
    def path(self) -> Path:
        return BROKEN / self.file


def _case(file: str, *phrases: str) -> BrokenCase:
    # The message names the file, whatever else it says.
    return BrokenCase(file, (file, *phrases))


CASES: list[BrokenCase] = [
    # Nothing there, or not a table.
    _case("empty.csv", "empty (0 bytes)"),
    _case("blank_lines.tsv", "nothing but blanks"),
    _case("header_only.csv", "header line and no data"),
    _case("empty_list.json", "list of records is empty"),
    _case("workbook.csv", "Excel workbook", "expected CSV"),
    _case("page.csv", "HTML"),
    _case("folder_without_tables", "holds no table", ".parquet"),
    # Not the text it should be.
    _case("latin1.csv", "line 6", "not UTF-8", "byte 0xe7 at position 107"),
    _case("bom_then_latin1.csv", "line 6", "not UTF-8", "byte 0xea at position 113"),
    _case("utf16.csv", "UTF-16", "save the file as UTF-8"),
    _case("nul_byte.csv", "line 2", "byte 0x00 at position 40"),
    # Broken structure.
    _case("ragged.csv", "line 4", "5 fields", "header has 4"),
    _case("open_quote.csv", "line 4", "quote opened here is never closed"),
    _case("one_column.csv", "the only column is", "commas, tabs or semicolons"),
    _case("truncated.json", "line 21, character 20", "ends too early"),
    # Python 3.13 points at the comma, older ones at the bracket behind it.
    _case("trailing_comma.json", ", line ", "not valid JSON"),
    _case("duplicate_key.json", "record 2", "key 'score' is given twice"),
    _case("nested_score.json", "record 3", "column 'score'", "nested value"),
    _case("by_model.json", "expected a list of records", "'gpt', 'bloom'"),
    _case("numbers.json", "record 1", "expected an object", "80.1"),
    _case("not_json.json", "not JSON", "'model,language"),
    _case("huge_integer.json", "too many digits"),
    _case("broken_line.jsonl", "line 3", "not valid JSON", "one whole object per line"),
    _case("garbage.parquet", "not a Parquet file"),
    _case("truncated.parquet", "damaged Parquet file"),
    # Columns.
    _case("duplicate_header.csv", "two columns are named 'score'", "columns 3 and 4"),
    _case("misspelt_header.csv", "no column for 'language'", "did you mean 'lnaguage'?"),
    _case("no_score.tsv", "no column for 'score'", "columns: model, language, task, comment"),
    _case("two_scores.csv", "'F1', 'acc'", "each be the score column; choose "),
    _case("two_languages.csv", "'lang', 'locale'", "each be the language column; choose "),
    _case("task_against_dataset.csv", "'task' and 'dataset'", "'nli' holds 'xnli' and 'indicxnli'"),
    _case("two_metrics.csv", "task 'xquad'", "'f1' and 'em'", "a task of its own with "),
    _case("colliding_setups.csv", "'qa:short:f1'", "'qa:short' + 'f1' and 'qa' + 'short:f1'"),
    # Scores.
    _case("word_score.csv", "line 3, column 'score'", "'n/a' is not a number", "2 such cells"),
    _case("decimal_comma.csv", "line 2, column 'score'", "'80,1'", "decimal comma", "4 such cells"),
    _case("percent.csv", "line 3, column 'score'", "'60.5%'", "percent sign"),
    _case("digit_groups.csv", "line 3, column 'score'", "'1_000' is not a number"),
    _case("overflow.csv", "line 3, column 'score'", "'1e400' is not finite"),
    _case("infinite.csv", "line 3, column 'score'", "'-inf' is not finite"),
    _case("infinite.parquet", "row 4, column 'score'", "inf is not finite"),
    _case("nan_score.json", "record 3, column 'score'", "nan is not finite"),
    _case("true_score.jsonl", "line 3, column 'score'", "True is a truth value"),
    _case("no_score_given.csv", "no record is left", "missing score: 3"),
    # Labels.
    _case("empty_language.csv", "line 4, column 'language'", "language is empty"),
    _case("broken_label.csv", "line 4, column 'model'", r"'blo\nom'", "U+000A"),
    _case("false_language.jsonl", "line 2, column 'language'", "False is not text"),
    # Cells and scales.
    _case("duplicates.csv", "line 6", "line 2", "'gpt'", "'en'", "'xnli'", "80.1 and 81"),
    _case("duplicate_seed.csv", "line 5", "line 4", "seed '0'", "48 and 49"),
    _case("folder_twice", "b.csv, line 2", "a.csv, line 3", "60.5 twice", "identical"),
    _case("half_a_seed.csv", "line 4, column 'seed'", "seed is empty"),
    _case("half_a_boot.csv", "line 4, column 'boot'", "boot is empty", "task 'xquad'"),
    _case("diverged_run.csv", "line 4, column 'score'", "score 0 looks like a diverged run"),
    _case("units_slip.csv", "line 4, column 'score'", "model bloom are all above 100", "95 times"),
    _case("mixed_scales.csv", "line 6, column 'score'", "mixes scales", "model mt5", "57.75"),
    _case("folder_two_scales", "b.csv, line 2", "mixes scales", "0.66"),
    _case("above_bound.csv", "line 3, column 'score'", "120 is above the declared bound 100"),
    _case("two_bounds.csv", "line 3, column 'scale_max'", "10 differs from 100", "'xnli'"),
    # Too little to compare.
    _case("one_model.csv", "only one model ('gpt')", "at least two"),
    _case("one_language.csv", "only one language ('en')", "not a language: 2"),
    _case("only_averages.csv", "no record is left", "not a language: 2"),
    # Counts and errors.
    _case("k_above_n.csv", "line 3, column 'k'", "k 600 is above n"),
    _case("negative_n.csv", "line 3, column 'n'", "n -100 is below 1"),
    _case("half_an_item.csv", "line 3, column 'n'", "99.5 is not a whole number"),
    _case("negative_se.csv", "line 3, column 'stderr'", "se -1.4 is below 0"),
    _case("tiny_se.csv", "line 3, column 'stderr'", "se 1e-300 is below 1e-100; write 0"),
    _case("huge_score.csv", "line 3, column 'score'", "score 1e+160 is beyond 1e+100"),
    # Cards.
    _case("folder_bad_card", "benchmark.yaml", "unknown key 'unit'", "did you mean 'units'?"),
    _case("folder_wrong_file", "'record.csv' is not a file in", "did you mean 'records.csv'?"),
    _case("folder_wrong_task", "no task 'xnlii'", "did you mean 'xnli'?"),
]
