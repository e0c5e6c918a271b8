"""Small files that ask for much: refused in one line, with the reason, at a bounded cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.output.store import read_json, read_tree
from bayeseval.readers.tabular import read_table
from bayeseval.records import load
from tests.records import hostile

ROOT = Path(__file__).parents[2]


def refusal(folder: Path, write: hostile.Write) -> str:
    path = write(folder)
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 2000
    return message.removeprefix(f"{path}")


def test_the_corpus_has_a_thousand_files() -> None:
    names = [(kind, name) for kind, cases in hostile.CLASSES.items() for name, _ in cases(1e-3)]
    assert len(names) >= 4000
    assert len(hostile.CLASSES) == 34
    assert not {*hostile.COMMANDS} - {*hostile.CLASSES}


def test_a_small_corpus_has_no_fault() -> None:
    """What perf/hostile.py runs whole: no traceback, no control character, nothing written."""
    kinds = ["latex_unclosed", "workbooks", "other_places"]
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "perf" / "hostile.py"),
            "--scale",
            "0.005",
            "--every",
            "30",
            *kinds,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(" files, 0 with faults")


def test_columns_of_macros(tmp_path: Path) -> None:
    rows = "\\multicolumn{9999}{c}{x} & " * 100 + "y \\\\\n"
    write = hostile.text("t.tex", hostile._tabular(rows))
    assert refusal(tmp_path, write) == (
        ", line 3: a row has 17,000 columns; at most 16,384 are read"
    )


def test_environments_that_do_not_end(tmp_path: Path) -> None:
    """The first end of a kind closes the first beginning; what is between is its body."""
    from bayeseval.readers.grids import _tabulars

    text = r"\begin{array}\begin{tabular}a\end{tabular}\begin{tabular*}\end{longtable}"
    assert [(one, text[a:b]) for one, a, b in _tabulars(text)] == [("tabular", "a")]
    nested = r"\begin{tabular}a\begin{tabular}b\end{tabular}c\end{tabular}"
    assert [nested[a:b] for _, a, b in _tabulars(nested)] == [r"a\begin{tabular}b"]
    write = hostile.text("t.tex", "\\begin{tabular}{l} a & b \\\\ " * 10_000)
    assert "holds no table" in refusal(tmp_path, write)


def test_rows_that_nothing_fills(tmp_path: Path) -> None:
    rows = "model,en,sw\n" + "A,1,2\n" * 50_000
    write = hostile.text("t.csv", rows + "," * 100_000 + "x\nA,1,2\n")
    assert refusal(tmp_path, write).startswith(
        ", line 50002: 100,001 cells; with as many in each of 50,003 rows the table has"
        " 5,000,350,003, 150,007 filled;"
    )


def test_keys_that_records_do_not_share(tmp_path: Path) -> None:
    import json

    records = [{"model": "a", "language": "en", "score": 1, f"k{i}": 1} for i in range(15_000)]
    assert refusal(tmp_path, hostile.text("t.json", json.dumps(records))) == (
        ": 15,000 records with 15,003 different keys; the records of a table have the same keys"
    )


def test_rows_that_take_no_place(tmp_path: Path) -> None:
    cases = dict(hostile.parquet_rows(0.2))
    message = refusal(tmp_path, cases["2000000 x 1"])
    assert message.startswith(": 2,000,000 rows in ")
    assert message.endswith("the same few rows again and again; write each score once")


def test_a_long_text_in_every_row_is_held_once(tmp_path: Path) -> None:
    cases = dict(hostile.parquet_rows(0.01))
    # Ten gigabytes, if every row had its own.
    assert "a label of 100,000 characters" in refusal(tmp_path, cases["100000 letters, 100000"])


def test_many_configurations_beside_a_table(tmp_path: Path) -> None:
    cases = dict(hostile.crowded_folders(0.025))
    (tmp_path / "yaml").mkdir()
    assert load(cases["YAML 100"](tmp_path / "yaml")).scores.tolist() == [1.5, 2.5, 3.5, 4.75]
    (tmp_path / "reuben").mkdir()
    notes = load(cases["reuben 100"](tmp_path / "reuben")).report.notes
    assert [note for note in notes if "reuben" in note] == [
        "100 YAML files that may be reuben configurations; choose one with mapping_file"
    ]


def test_arrays_that_are_not_there(tmp_path: Path) -> None:
    import h5py
    import numpy as np

    def refused(change: object) -> str:
        with h5py.File(tmp_path / "posterior.nc", "w") as file:
            change(file)  # type: ignore[operator]
        with pytest.raises(InputError) as caught:
            read_tree(tmp_path / "posterior.nc")
        return str(caught.value).removeprefix(f"{tmp_path / 'posterior.nc'} is not read: ")

    def loop(file: h5py.File) -> None:
        file.create_group("a")
        file["a/b"] = file["/"]

    def elsewhere(file: h5py.File) -> None:
        file["a"] = h5py.ExternalLink("/etc/passwd", "/")

    def huge(file: h5py.File) -> None:
        file.create_dataset("x", shape=(10**11,), dtype="f8", chunks=(10**6,))

    def raw(file: h5py.File) -> None:
        file.create_dataset("x", shape=(10,), dtype="u1", external=[("/etc/passwd", 0, 10)])

    assert refused(loop) == "'b' is linked twice"
    assert refused(elsewhere) == "'a' is a link to another place"
    assert refused(huge).startswith("with 'x' its arrays have 800000000000 bytes, more than")
    assert refused(raw) == "the array 'x' is in other files"

    def texts(file: h5py.File) -> None:
        # A place of each takes 16 bytes in the file, and more in memory.
        file.create_dataset("x", shape=(10**7,), dtype=h5py.string_dtype(), chunks=(10**6,))

    def crumbs(file: h5py.File) -> None:
        # Two million chunks, for which HDF5 takes twelve gigabytes.
        file.create_dataset("x", shape=(2 * 10**6,), dtype="f8", chunks=(1,))

    def lists(file: h5py.File) -> None:
        file.create_dataset("x", shape=(3,), dtype=h5py.vlen_dtype(np.float64))

    def records(file: h5py.File) -> None:
        file.create_dataset("x", data=np.zeros(3, dtype=[("a", "f8")]))

    def named(file: h5py.File) -> None:
        file["x"] = np.dtype("f8")

    assert refused(texts).startswith("with 'x' its arrays have 720000000 bytes, more than")
    assert refused(crumbs) == "the array 'x' is in 2000000 chunks, which are too small"
    for change in (lists, records):
        assert refused(change) == "the array 'x' holds neither numbers nor texts"
    assert refused(named) == "'x' is neither a group nor an array"

    def deep(file: h5py.File) -> None:
        group = file
        for _ in range(150):
            group = group.create_group("g")

    def crowd(file: h5py.File) -> None:
        for number in range(2100):
            file[f"x{number}"] = 1.0

    def no_references(file: h5py.File) -> None:
        # HDF5 follows what is no reference, and ends the process.
        file["x"] = np.zeros(3)
        file["x"].attrs["DIMENSION_LIST"] = np.arange(3)

    def no_list(file: h5py.File) -> None:
        file["x"] = np.zeros(3)
        file["x"].attrs["REFERENCE_LIST"] = np.zeros(2, dtype=[("a", "f8")])

    def odd(file: h5py.File) -> None:
        file.attrs["a"] = np.zeros(2, dtype=[("a", "f8")])

    assert refused(deep) == "it has more than 100 groups"
    assert refused(crowd) == "it has more than 2000 groups and arrays"
    other = "is of another type than netCDF gives it"
    assert refused(no_references) == f"the attribute 'DIMENSION_LIST' of 'x' {other}"
    assert refused(no_list) == f"the attribute 'REFERENCE_LIST' of 'x' {other}"
    assert refused(odd) == f"the attribute 'a' of '/' {other}"
    # The control: an array within the limits passes this check.
    with h5py.File(tmp_path / "fine.nc", "w") as file:
        file.create_dataset("x", data=np.arange(3.0))
    from bayeseval.output.store import refuse_unbounded

    refuse_unbounded(tmp_path / "fine.nc")


def test_attributes_that_h5netcdf_does_not_expect(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "posterior.nc", "w") as file:
        made = file.create_dataset("x", data=[1.0, 2.0])
        made.make_scale("x")
        made.attrs["_Netcdf4Dimid"] = h5py.Empty("f8")
        made.attrs["scale_factor"] = "no number"
        other = file.create_dataset("y", data=[1.0, 2.0])
        other.dims[0].attach_scale(made)
    with pytest.raises(InputError, match="is not a readable netCDF file"):
        read_tree(tmp_path / "posterior.nc")


def test_run_files_of_other_types(tmp_path: Path) -> None:
    from bayeseval.output._run_file import check_fit_run, check_run

    good = {
        "benchmark": "own\udcff",
        "engine": "marginal",
        "seed": 3,
        "spec": {"name": "additive", "likelihood": {"a": "normal"}, "more": [1]},
        "gate": {"status": "pass", "checks": []},
        "language_names": {"sw": "Swahili"},
        "n_records": 7,
        "bounds": {"qa": [0, None]},
        "of a later version": object(),
    }
    path = tmp_path / "run.json"
    check_fit_run(path, good)
    for change, problem in {
        "seed": ("x", "seed: expected"),
        "covariates": (True, "covariates: expected keys and values, got True"),
        "gate": ({"status": None}, "gate.status: expected text, got None"),
        "levels": ({"language": -1}, "levels.language: expected a number greater than or equal"),
        "bounds": ({"qa": [0]}, "bounds.qa.1"),
        "benchmark": ("x" * 20_000, "benchmark: expected at most 10,000 characters, got 'xx"),
        "ci_prob": (2, "ci_prob: expected a number less than 1, got 2"),
        "files": (["tables/../../x"], "files.0: expected the name of a file inside the folder"),
        "settings": ({"draws": "x" * 99}, "settings.draws: expected"),
        "sha256": ({"/etc/passwd": ""}, "sha256"),
    }.items():
        value, text = problem
        for check in (check_run, check_fit_run):
            with pytest.raises(InputError) as caught:
                check(path, {**good, change: value})
            assert str(caught.value).startswith(f"{path} is damaged"), str(caught.value)
            assert text in str(caught.value)
    for name in ("", ".", "..", "/etc/passwd", "../x", "a\0b"):
        with pytest.raises(InputError, match="expected the name of a file inside the folder"):
            check_run(path, {"files": ["tables/x.csv", name]})
    with pytest.raises(InputError, match="key 'spec.name' is missing"):
        check_fit_run(path, {**good, "spec": {}})
    with pytest.raises(InputError, match="or not that of a fit: key 'engine' is missing"):
        check_fit_run(path, {key: value for key, value in good.items() if key != "engine"})
    # The control: what other results lack.
    check_run(path, {})


def test_positions_far_away(tmp_path: Path) -> None:
    """Counts by position would be as long as the largest one."""
    import h5py
    import numpy as np

    from bayeseval.reporting.observed import read_observed

    with h5py.File(tmp_path / "posterior.nc", "w") as file:
        file["observed_data/score"] = [1.0, 2.0]
        file["constant_data/language"] = np.array([b"en", b"sw"])
        file["constant_data/task"] = np.array([b"t"])
        file["constant_data/model"] = np.array([b"a", b"b"])
        file["constant_data/language_index"] = [0, 1]
        file["constant_data/task_index"] = [0, 0]
        file["constant_data/model_index"] = [1, 0]
    observed = read_observed(tmp_path)
    assert observed is not None
    assert observed.average.to_dict() == {"en": 1.0, "sw": 2.0}
    for number in (np.nan, np.inf):
        with h5py.File(tmp_path / "posterior.nc", "r+") as file:
            file["observed_data/score"][0] = number
        with pytest.raises(InputError, match="a score is no finite number"):
            read_observed(tmp_path)
    with h5py.File(tmp_path / "posterior.nc", "r+") as file:
        file["observed_data/score"][0] = 1.0
    for positions, problem in (
        ([0, 10**9], "outside the 2 levels"),
        ([0.0, 1.0], "one position for each score"),
        ([0], "one position for each score"),
    ):
        with h5py.File(tmp_path / "posterior.nc", "r+") as file:
            del file["constant_data/language_index"]
            file["constant_data/language_index"] = positions
        with pytest.raises(InputError, match=problem):
            read_observed(tmp_path)


def test_a_long_number_that_is_none(tmp_path: Path) -> None:
    """Patterns look at each character once: a million squared would not end."""
    table = hostile.TIDY + f"c,en,t,{'1' * 10**6}x\n"
    assert "is not a number" in refusal(tmp_path, hostile.text("t.csv", table))


@pytest.mark.parametrize("parts", [("", "<row/>", ""), ("<row>", "<c/>", "</row>")])
def test_a_workbook_of_nothing(tmp_path: Path, parts: tuple[str, str, str]) -> None:
    start, empty, end = parts
    said = refusal(tmp_path, hostile.workbook(start + empty * 2 * 10**6 + end))
    assert "MB, more than 100 times as much as the file itself; it consists of the same" in said
    # Spreadsheets leave some empty rows and cells.
    few = refusal(tmp_path, hostile.workbook(start + empty * 1000 + end))
    assert "more than 100 times" not in few


def test_deep_and_long_provenance(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"a":' * 100_000)
    with pytest.raises(InputError, match="is damaged: nested too deeply"):
        read_json(path)
    with path.open("wb") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(InputError, match="at most 67108864 are read"):
        read_json(path)


def test_names_do_not_reach_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bayeseval.cli import main

    table = hostile.TIDY.replace("b,", "b\u202ecba,").replace("sw", "s\u200bw")
    path = tmp_path / "t\x1b[2J\x07.csv"
    path.write_text(table, encoding="utf-8")
    assert main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    assert "b\\u202ecba" in said.out
    assert "s\\u200bw" in said.out
    assert not set("\x1b\x07\u202e\u200b") & set(said.out + said.err)
    path.write_text("a,b\n1\n", encoding="utf-8")
    assert main(["validate", str(path)]) == 2
    said = capsys.readouterr()
    assert "t\\x1b[2J\\x07.csv" in said.err + said.out
    assert not set("\x1b\x07") & set(said.out + said.err)


def test_twins_are_shown_with_what_is_not_seen(tmp_path: Path) -> None:
    table = hostile.TIDY + "a\u200b,en,t,9\nAa,en,t,8\naa,en,t,7\n"
    (tmp_path / "t.csv").write_text(table, encoding="utf-8")
    warned = [note for note in load(tmp_path / "t.csv").report.warnings if "look alike" in note]
    assert warned == [
        "warning: model labels that look alike were kept apart: Aa, aa",
        "warning: model labels that look alike were kept apart: a, a\\u200b",
    ]


def test_letters_of_other_scripts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bayeseval.cli import main

    table = hostile.TIDY.replace("b,", "gpt-4,") + "g\u0440t-4,en,t,9\n\u0391,en,t,8\nA,en,t,7\n"
    (tmp_path / "t.csv").write_text(table, encoding="utf-8")
    warned = [note for note in load(tmp_path / "t.csv").report.warnings if "look alike" in note]
    assert warned == [
        "warning: model labels that look alike were kept apart: A, a, \u0391"
        " (with U+0391 GREEK CAPITAL LETTER ALPHA)",
        "warning: model labels that look alike were kept apart: gpt-4, g\u0440t-4"
        " (with U+0440 CYRILLIC SMALL LETTER ER)",
    ]
    assert main(["validate", str(tmp_path / "t.csv")]) == 0
    assert "U+0440" in capsys.readouterr().out


def test_names_in_one_script_are_not_look_alikes() -> None:
    from bayeseval.records.look_alikes import look_alikes

    names = "en ru Русский Українська Српски Қазақ Тоҷикӣ Башҡорт Сахалыы со оса ора рос хор сор"
    names += " 中文 日本語 العربية اردو فارسی Ελληνικά Λόγος λόγου Հայերեն हिन्दी 한국어 ไทย"
    names += " co-op e-1 e-l"
    assert look_alikes(names.split()) == ()


def test_progress_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    from bayeseval._progress import progress_bar

    with progress_bar("start \x1b[31m") as report:
        report("reading files", 1, 1, "t\x07.csv")
    assert capsys.readouterr().err == "start \\x1b[31m\nreading files: t\\x07.csv\n"


def test_labels_of_cells_are_different() -> None:
    from bayeseval.names import cell_label, cell_levels

    assert cell_label("en", "xnli:accuracy") == "en|xnli:accuracy"
    cells = [("a|b", "c"), ("a", "b|c"), ("a\\", "b|c"), ("a\\|b", "c"), ("a", "b", "c")]
    assert len({cell_label(*cell) for cell in cells}) == len(cells)
    assert [tuple(cell_levels(cell_label(*cell))) for cell in cells] == cells


@pytest.mark.parametrize(
    "twin",
    [
        *("gpt-4\u115f", "gpt\ufe0f-4", "gpt-4\U000e0101", "gpt-4\u2800", "gpt\u3164-4"),
        *("gpt\u20104", "gpt\u20114", "gpt\u20134", "gpt\u20144", "gpt\u22124", "gpt\uff0d4"),
        *("GPT -4", "\uff27\uff30\uff34-4", "G\u0420T-4", "g\u0440t-4"),
    ],
)
def test_what_is_hardly_seen_makes_twins(twin: str) -> None:
    from bayeseval.records.look_alikes import look_alikes

    assert look_alikes(["gpt-4", twin, "gpt-40"]) == (("gpt-4", twin),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("Llama's", "Llama\u2019s"), ("Llama's", "Llama`s"), ('"A"', "\u201cA\u201d")),
        *(("YI", "\u0423\u0406"), ("YI", "\u04ae\u04c0"), ("G2", "\u050c2"), ("v2", "\u04752")),
        *(("YX", "\u03a5X"), ("\u0641\u0627\u0631\u0633\u064a", "\u0641\u0627\u0631\u0633\u06cc")),
        ("\u0643\u062a", "\u06a9\u062a"),
    ],
)
def test_letters_and_marks_that_look_alike(first: str, second: str) -> None:
    from bayeseval.records.look_alikes import look_alikes

    assert look_alikes([first, second]) == ((first, second),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("Ma\u00dfe", "Masse"), ("x\u00b2", "x2"), ("Model 1 1", "Model 11"), ("v\u2460", "v1")),
        *(("\u041d\u0430\u043d", "\u04bb\u0430\u043d"), ("\u04ae\u0448", "\u0423\u0448")),
    ],
)
def test_names_that_look_different_are_no_twins(first: str, second: str) -> None:
    from bayeseval.records.look_alikes import look_alikes

    assert look_alikes([first, second]) == ()


def test_what_is_not_seen_is_escaped_and_emoji_stay() -> None:
    from bayeseval._text import for_terminal, one_line, plain

    for (
        hidden
    ) in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\ufe0f\uffa0\U000e0100\U000e0041":
        assert for_terminal(f"a{hidden}b") == f"a{ascii(hidden)[1:-1]}b"
        assert plain(f"a{hidden}b") == f"a{ascii(hidden)[1:-1]}b"
    seen = "\u2764\ufe0f 1\ufe0f\u20e3 \u845b\U000e0100 \u1820\u180b \u06cc\u200c\u0647"
    assert for_terminal(seen) == seen
    # Two of them say nothing more than one.
    assert for_terminal("\u2764\ufe0f\ufe0f") == "\u2764\ufe0f\\ufe0f"
    assert one_line("a\nb\u2764\ufe0f") == "a\\nb\u2764\ufe0f"


def test_a_score_that_is_a_far_date_is_one_line(tmp_path: Path) -> None:
    """Python has no year 294247; the engine that scans rows has."""
    path = tmp_path / "rows.parquet"
    row = "'a' AS model, 'en' AS language, 't' AS task, TIMESTAMP '294247-01-10' AS score"
    duckdb.sql(f"COPY (SELECT {row}) TO '{path}' (FORMAT parquet)")
    with pytest.raises(InputError, match=r"row 1, column 'score': score '.*' is not a num"):
        load(path, memory="1GB")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_more_columns_than_a_spreadsheet_has(suffix: str, tmp_path: Path) -> None:
    """Every column takes its time, however few rows there are."""
    row = {"model": "a", "language": "de", "task": "t", "score": 50.0}
    wide = {f"x{i}": 1 for i in range(16_381)}
    for extra, refused in ((wide, True), (dict(list(wide.items())[1:]), False)):
        path = tmp_path / f"{refused}{suffix}"
        table = pd.DataFrame([row | extra])
        if suffix == ".parquet":
            table.to_parquet(path)
        elif suffix == ".csv":
            table.to_csv(path, index=False)
        else:
            lines = suffix == ".jsonl"
            table.to_json(path, orient="records", lines=lines)
        if not refused:
            assert len(read_table(path).columns) == 16_384
            continue
        what = "different keys" if "json" in suffix else "columns"
        with pytest.raises(InputError) as caught:
            read_table(path)
        assert str(caught.value) == f"{path}: more than 16,384 {what}, and no more are read"
