"""Result folders are read as they were written, and damaged ones are refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.output._integrity import again
from bayeseval.reporting import SavedResults, read_saved
from bayeseval.reporting.page import write_page
from bayeseval.reporting.summary import sampling_sentences

# Labels that a CSV reader takes for something else.
NAMES = {"m1": "007", "m2": "NA", "m3": "True"}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    simulated = be.simulate("additive", n_languages=5, n_tasks=2, n_models=4, seed=3)
    table = simulated.records.table
    return table.assign(model=table["model"].astype(str).replace(NAMES))


@pytest.fixture(scope="module")
def fit(table: pd.DataFrame) -> be.Fit:
    return be.fit(table, "additive", engine="marginal", draws=100, chains=2)


@pytest.fixture(scope="module")
def folder(fit: be.Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit.save(tmp_path_factory.mktemp("fit") / "result", figures=False, checks=fit.checks)


def assert_same(found: Mapping[str, pd.DataFrame], made: Mapping[str, pd.DataFrame]) -> None:
    """Same tables, labels as text and numbers to the last digit."""
    for name, table in made.items():
        read = found[name]
        assert list(read.columns) == list(table.columns), name
        for column in table:
            values = table[column]
            if values.dtype.kind in "fib":
                assert np.array_equal(
                    read[column].to_numpy(dtype=float),
                    values.to_numpy(dtype=float),
                    equal_nan=True,
                ), (name, column)
            else:
                texts = ["" if pd.isna(value) else str(value) for value in values]
                assert list(read[column]) == texts, (name, column)


def test_a_fit_is_read_as_it_was_written(fit: be.Fit, folder: Path) -> None:
    saved = read_saved(folder)
    assert saved.path == folder
    assert saved.kind == "fit"
    assert saved.run["data_hash"] == fit.run["data_hash"]
    assert saved.run["ci_prob"] == 0.95
    assert set(fit.tables) | {"checks", "calibration"} <= set(saved.tables)
    assert_same(saved.tables, fit.tables)
    assert_same(saved.tables, {"checks": fit.checks().table})
    assert {"007", "NA", "True"} < set(saved.tables["model_ranking"]["model"])


def test_plan_is_read_with_its_fit(folder: Path, tmp_path: Path) -> None:
    planned = Path(shutil.copytree(folder, tmp_path / "planned"))
    plan = be.plan(be.Fit.open(planned), languages=[5, 10])
    plan.save(planned, figures=False)
    assert_same(read_saved(planned).tables, {"plan": plan.table})
    assert read_saved(planned).kind == "fit"


def test_a_comparison_is_read(table: pd.DataFrame, fit: be.Fit, tmp_path: Path) -> None:
    comparison = be.compare(table, ["additive"], fits={"additive": fit}, engine="marginal")
    comparison.save(tmp_path / "compared", figures=False)
    saved = read_saved(tmp_path / "compared")
    assert saved.kind == "comparison"
    assert saved.run["by"] == "record"
    assert_same(saved.tables, comparison.tables)
    with pytest.raises(InputError, match="has no tables/model_ranking.csv: it is the result of a"):
        saved.table("model_ranking")


def test_a_sensitivity_analysis_is_read(table: pd.DataFrame, tmp_path: Path) -> None:
    sensitivity = be.sensitivity(
        table, "additive", drop=(), groups={"first two": ["l1", "l2"]}, engine="marginal"
    )
    sensitivity.save(tmp_path / "refits", figures=False)
    saved = read_saved(tmp_path / "refits")
    assert saved.kind == "sensitivity"
    assert_same(saved.tables, sensitivity.tables)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def edit_run(folder: Path, **changes: object) -> None:
    path = folder / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    # Without its own hash, as someone would who wants to mislead.
    run.pop("run_sha256", None)
    path.write_text(json.dumps({**run, **changes}), encoding="utf-8")


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as error:
        read_saved(folder)
    message = str(error.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_a_folder_that_is_not_there_or_not_ours(tmp_path: Path) -> None:
    assert "no such result folder" in refused(tmp_path / "nowhere")
    assert "holds no run.json, so it is not a result folder" in refused(tmp_path)


def test_a_folder_of_another_command(copy: Path) -> None:
    edit_run(copy, files=["alignment.csv", "run.json"])
    assert refused(copy).endswith(
        "is not a result of fit, compare or sensitivity: it has no table named model_ranking, "
        "comparison, sensitivity"
    )


def test_a_calibration_is_sent_to_what_reads_it(copy: Path) -> None:
    edit_run(copy, command="calibrate")
    assert refused(copy) == (
        f"{copy} is a calibration, not a result of fit, compare or sensitivity; its results are in "
        f"{copy / 'tables' / 'calibration.csv'}, and bayeseval.calibration.Calibration.open reads "
        "the folder"
    )


def test_a_link_in_the_place_of_the_tables_is_named(copy: Path) -> None:
    elsewhere = copy.parent / "elsewhere"
    elsewhere.mkdir()
    (copy / "tables").rename(copy.parent / "own")
    (copy / "tables").symlink_to(elsewhere)
    assert refused(copy) == (
        f"{copy / 'tables'} is a link out of the result folder, to {elsewhere}; put a folder with "
        "the files in its place"
    )


def test_a_listed_table_that_is_not_there_is_named(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_saved(copy)
    assert capsys.readouterr().err == ""
    path = copy / "tables" / "checks.csv"
    path.unlink()
    assert "checks" not in read_saved(copy).tables
    assert capsys.readouterr().err == (
        f"{path} is listed in run.json, but not there: it was removed, or the run was stopped "
        "before it was written; to have it in the results, run bayeseval fit again\n"
    )


@pytest.mark.parametrize(
    ("engine", "command"),
    [
        ("marginal", "run bayeseval fit again"),
        ("compare", "run bayeseval compare again"),
        ("mexa weighted mean", "run bayeseval mexa again"),
        ("calibrate", "run bayeseval calibrate again with force"),
        ("", "run the command that wrote the folder again"),
    ],
)
def test_the_command_that_wrote_a_folder_is_named(engine: str, command: str) -> None:
    assert again({"engine": engine}) == command


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (None, "no list of files; run bayeseval fit again"),
        ("all", "files: expected a list, got 'all'; restore the file, or run bayeseval fit again"),
        ([1, 2], "files.0: expected text, got 1; restore the file, or run bayeseval fit again"),
    ],
)
def test_a_run_file_without_its_list_of_files(copy: Path, files: object, problem: str) -> None:
    edit_run(copy, files=files)
    assert refused(copy) == f"{copy / 'run.json'} is damaged: {problem}"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("sampling", {"path": "nuts"}, "expected a text under path_reason, because path is there"),
        (
            "samplers",
            {"a": {"path_reason": "k"}},
            "expected a text under path, because path_reason",
        ),
        (
            "gate",
            {"status": "fail", "checks": [{"name": "r_hat", "value": 2, "limit": None}]},
            "gate.checks.0.limit",
        ),
    ],
)
def test_a_run_file_that_lacks_a_part(copy: Path, key: str, value: object, problem: str) -> None:
    edit_run(copy, **{key: value})
    said = refused(copy)
    assert problem in said
    assert said.endswith("; restore the file, or run bayeseval fit again")


def test_a_gate_without_its_checks_is_read(copy: Path) -> None:
    edit_run(copy, gate={"status": "fail"})
    assert sampling_sentences(read_saved(copy))[0].startswith("Do not rely on these results")


def test_a_run_file_that_is_not_json(copy: Path) -> None:
    (copy / "run.json").write_text("{", encoding="utf-8")
    said = refused(copy)
    assert "is damaged: not JSON" in said
    assert said.endswith("; restore the file, or run the command that wrote the folder again")
    # Python's parser ends such a text with its limit on recursion.
    (copy / "run.json").write_text("[" * 100_000, encoding="utf-8")
    assert "run.json is damaged: nested too deeply; " in refused(copy)
    assert "recursion" not in refused(copy)


@pytest.mark.parametrize(
    "name",
    [
        *("model_ranking", "language_potential", "model_language", "model_disparity"),
        *("variance_components", "pairwise_models", "rank_probabilities"),
    ],
)
def test_a_table_of_every_fit_is_missing(copy: Path, name: str) -> None:
    path = copy / "tables" / f"{name}.csv"
    path.unlink()
    said = f"{path} is missing, or run.json does not list it; restore the file, or run the command"
    assert refused(copy) == f"{said} that wrote the folder again"


@pytest.mark.parametrize("name", ["model_ranking", "checks"])
def test_a_pipe_in_the_place_of_a_table_is_named(copy: Path, name: str) -> None:
    path = copy / "tables" / f"{name}.csv"
    path.unlink()
    os.mkfifo(path)
    again = "restore the file, or run the command that wrote the folder again"
    assert refused(copy) == f"{path} is a pipe, not a regular file; {again}"


def test_a_table_that_a_run_file_does_not_list_is_missing(copy: Path) -> None:
    files = json.loads((copy / "run.json").read_text(encoding="utf-8"))["files"]
    edit_run(copy, files=[name for name in files if name != "tables/pairwise_models.csv"])
    assert "pairwise_models.csv is missing, or run.json does not list it;" in refused(copy)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b'a,b\n"1,2\n3', b"a,b\n\xff\xfe,1\n", b"a\n1,2\n3,4,5\n"),
        *(b"a,b\n1\0,2\n", b"," * 1000 + b"\n1\n", b"a\n" + b"x" * 10_001 + b"\n"),
        *(b"a" * 10_001 + b"\n", b"a\n" * 500_002, b"\n" * ((1 << 26) + 1)),
    ],
)
def test_a_table_that_is_damaged(copy: Path, content: bytes) -> None:
    (copy / "tables" / "language_potential.csv").write_bytes(content)
    said = refused(copy)
    assert "language_potential.csv is damaged: not a table" in said
    assert said.endswith("; restore the file, or run the command that wrote the folder again")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("model_ranking", "rank_set_lower"),
        ("language_potential", "n_tasks"),
        ("variance_components", "finite_sd_mean"),
    ],
)
def test_a_table_of_an_earlier_version(copy: Path, name: str, column: str) -> None:
    path = copy / "tables" / f"{name}.csv"
    pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=column).to_csv(
        path, index=False
    )
    assert f"{name}.csv has no column {column}: it was edited or is of an earlier" in refused(copy)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("forecast", "language,language_name\nl1,l1\n", "has no column observed: it was edited"),
        ("forecast_check", "language,with_covariate\nl1,True\n", "has no column covered_95:"),
        (
            "forecast_check",
            "language,with_covariate,covered_95,error\nl1,True,often,1\n",
            "is damaged: column covered_95: not a number: 'often';",
        ),
        ("aggregates", "aggregate,population,of,note\nmean,a,b,\n", "has no column value_mean:"),
        ("sensitivity", "drop,without,status\nmodel,a,fitted\n", "has no column reason:"),
        ("covariates", "covariate,by\nmexa,language\n", "has no column slope_lower:"),
    ],
)
def test_a_table_beside_those_of_the_fit_has_its_columns(
    copy: Path, name: str, content: str, problem: str
) -> None:
    path = copy / "tables" / f"{name}.csv"
    path.write_text(content, encoding="utf-8")
    files = json.loads((copy / "run.json").read_text(encoding="utf-8"))["files"]
    edit_run(copy, files=[*files, f"tables/{name}.csv"])
    assert refused(copy).startswith(f"{path} {problem}")


def edit_table(folder: Path, name: str, old: str, new: str) -> str:
    """Edit the text of a table, and return why the folder is refused."""
    path = folder / "tables" / f"{name}.csv"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    said = refused(folder)
    path.write_text(text, encoding="utf-8")
    return said.removeprefix(f"{path} is damaged: ")


def test_tables_that_do_not_go_together(copy: Path) -> None:
    edit_run(copy, sha256={})
    ranking = (copy / "tables" / "model_ranking.csv").read_text(encoding="utf-8")
    first, second = (line.split(",")[0] for line in ranking.splitlines()[1:3])
    assert edit_table(copy, "model_ranking", f"\n{second},", f"\n{first},") == (
        f"not a table (two rows for {first!r}); restore the file, or "
        "run the command that wrote the folder again"
    )
    assert edit_table(copy, "model_disparity", f"\n{first},", "\nother,") == (
        "model 'other' is not in model_ranking.csv; restore the file, or "
        "run the command that wrote the folder again"
    )
    assert edit_table(copy, "model_language", ",l1,", ",l99,").startswith(
        "language 'l99' is not in language_potential.csv;"
    )
    of_models, of_languages = "standardised_score,", "language_potential,"
    assert edit_table(
        copy, "rank_probabilities", f"{of_models}{first},", f"{of_models}x,"
    ).startswith("model 'x' is not in model_ranking.csv;")
    assert edit_table(
        copy, "rank_probabilities", f"{of_languages}l1,", f"{of_languages}x,"
    ).startswith("language 'x' is not in language_potential.csv;")
    header, row = ranking.splitlines()[:2]
    assert "not a table (no rows)" in edit_table(copy, "model_ranking", ranking, f"{header}\n")
    # Every row has cells in excess: pandas takes the first ones for an index.
    for excess in (",", ",,"):
        wide = f"{header}\n{row}{excess}\n"
        said = edit_table(copy, "model_ranking", ranking, wide)
        assert said.startswith("not a table (a row has more cells than the header);")
    share = row.split(",")[header.split(",").index("share_predicted")]
    said = edit_table(copy, "model_ranking", row, row.replace(f",{share},", ",1e999,", 1))
    assert "an infinite number" in said


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("score_mean", "61.2x", "not a number: '61.2x'"),
        ("share_predicted", "1e308", "not between 0 and 1"),
        ("p_best", "2", "not between 0 and 1"),
    ],
)
def test_a_number_that_is_damaged(copy: Path, column: str, cell: str, problem: str) -> None:
    path = copy / "tables" / "model_ranking.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[1, column] = cell
    table.to_csv(path, index=False)
    assert f"is damaged: column {column}: {problem}; restore" in refused(copy)


@pytest.mark.parametrize(
    ("run", "gates", "failed"),
    [
        ({"gate": {"status": "fail"}}, {"": "fail"}, True),
        ({"gate": {"status": "not applicable"}}, {"": "not applicable"}, False),
        ({"gates": {"a": "pass", "b": "fail"}}, {"a": "pass", "b": "fail"}, True),
        ({"gates": {"a": "pass"}}, {"a": "pass"}, False),
        ({}, {}, False),
    ],
)
def test_gates_of_a_fit_and_of_several(
    run: dict[str, object], gates: dict[str, str], failed: bool
) -> None:
    saved = SavedResults(Path("x"), run, {})
    assert saved.gates == gates
    assert saved.gate_failed is failed


def test_samplers_of_a_fit_and_of_several() -> None:
    nuts = {"path": "nuts", "path_reason": "k-hat 0.90 is above 0.7"}
    one = SavedResults(Path("x"), {"sampling": nuts | {"k_hat": 0.9}}, {})
    assert one.samplers == {"": nuts}
    assert sampling_sentences(one) == ["The sds were drawn by NUTS: k-hat 0.90 is above 0.7."]
    by_importance = {"path": "importance", "path_reason": "k-hat 0.10 is at most 0.7"}
    samplers = {"all records": by_importance, "without hi": nuts, "without ar": nuts}
    several = SavedResults(Path("x"), {"samplers": samplers, "gate": {}}, {})
    assert sampling_sentences(several) == [
        "The sds of without hi and without ar were drawn by NUTS: the importance weights were not "
        "reliable."
    ]
    assert SavedResults(Path("x"), {"sampling": {}}, {}).samplers == {}


def test_a_table_that_was_being_added_is_left_out(copy: Path) -> None:
    (copy / "tables" / "checks.csv").unlink()
    (copy / "tables" / "mine.csv").write_text("x\n1\n", encoding="utf-8")
    saved = read_saved(copy)
    assert "checks" not in saved.tables
    assert "mine" not in saved.tables, "a table of the user's is not ours to read"


def test_an_edited_table_is_refused_where_it_is_read(copy: Path, fit: be.Fit) -> None:
    path = copy / "tables" / "model_ranking.csv"
    original = path.read_bytes()
    path.write_bytes(original.replace(b"007", b"008"))
    assert refused(copy) == (
        f"{path} was edited or is damaged: its SHA-256 is not the one that run.json lists; put "
        "the original back, or run bayeseval fit again"
    )
    # The posterior is another file, and what is read of it is as it was.
    assert be.Fit.open(copy).ranking().equals(fit.ranking())
    path.write_bytes(original)
    assert list(read_saved(copy).tables["model_ranking"]["model"]).count("007") == 1


def test_a_link_for_the_page_is_replaced_not_followed(copy: Path) -> None:
    """A folder that somebody sent must not overwrite files elsewhere."""
    victim = copy.parent / "victim.html"
    victim.write_text("mine", encoding="utf-8")
    page = copy / "report.html"
    page.unlink(missing_ok=True)
    page.symlink_to(Path("..") / victim.name)
    write_page(read_saved(copy), page)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not page.is_symlink()
    assert "<!doctype html>" in page.read_text(encoding="utf-8")[:20].lower()
    # The run file lists the page, so it is one of the folder's own.
    assert json.loads((copy / "run.json").read_text(encoding="utf-8"))["sha256"]["report.html"]


def test_results_are_not_written_over(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy.parent)
    copy.rename("run")
    # What a command may write there, it may write again; the gate of this fit has failed.
    assert [main(["report", "run"]) for _ in range(2)] == [3, 3]
    board = "report run --to csv --out run/board.csv"
    assert [main(board.split()) for _ in range(2)] == [3, 3]
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    capsys.readouterr()
    for command in (
        "report run --out run/run.json",
        "report run --out run/posterior.nc",
        "report run --to csv --out run/tables/model_ranking.csv",
        "report run --to csv --out run/report.html",
        "report run --against run --out run/posterior.nc",
        "cite run --out run/posterior.nc",
    ):
        assert main(command.split()) == 2
        assert capsys.readouterr().err == (
            f"error: {command.split()[-1]} is part of the results in run; write to another file\n"
        )
    shutil.copytree("run", "other")
    assert main(["report", "run", "--to", "csv", "--out", "other/tables/model_ranking.csv"]) == 2
    said = "other/tables/model_ranking.csv is part of the results in "
    assert capsys.readouterr().err.startswith(f"error: {said}")
    # A run.json of others is none of ours.
    Path("other/run.json").write_text("[]", encoding="utf-8")
    assert main(["report", "run", "--to", "csv", "--out", "other/tables/model_ranking.csv"]) == 3
    after = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    assert after == before


def test_an_edited_posterior_is_refused(copy: Path) -> None:
    path = copy / "posterior.nc"
    whole = path.read_bytes()
    with h5py.File(path, "r+") as file:
        file["posterior"]["sd_residual"][...] = np.nan
    expected = f"{path} was edited or is damaged: its SHA-256 is not the one that run.json lists;"
    with pytest.raises(InputError) as caught:
        be.Fit.open(copy)
    assert str(caught.value).startswith(expected)
    with pytest.raises(InputError) as caught:
        write_page(read_saved(copy), copy / "report.html")
    assert str(caught.value).startswith(expected)
    path.write_bytes(whole[:-100])
    with pytest.raises(InputError) as caught:
        be.Fit.open(copy)
    assert str(caught.value).startswith(expected)
    # Citations need neither.
    assert read_saved(copy).kind == "fit"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["intercept", "sd_residual", "language_effect"])
def test_draws_that_are_no_numbers_are_refused(copy: Path, name: str, value: float) -> None:
    path = copy / "posterior.nc"
    with h5py.File(path, "r+") as file:
        file["posterior"][name][0, -1] = value
    # As someone who changes the hash, too.
    edit_run(copy, sha256={})
    with pytest.raises(InputError) as caught:
        be.Fit.open(copy)
    assert str(caught.value) == (
        f"{path} is damaged: {name} has draws that are no finite numbers; restore the file, or "
        "run bayeseval fit again"
    )
    with h5py.File(path, "r+") as file:
        file["posterior"][name][0, -1] = 1.0
        # What a table does not identify is NaN by design.
        file["posterior"]["gap_sd_languages"][...] = np.nan
    assert be.Fit.open(copy).spec.name == "additive"


def test_a_result_of_a_later_version_is_refused(copy: Path, fit: be.Fit) -> None:
    ours = str(fit.run["versions"]["bayeseval"])
    edit_run(copy, versions={"bayeseval": "12.3.4"})
    assert refused(copy) == (
        f"{copy} was written by bayeseval 12.3.4, which is later than this one, {ours}; update "
        "it: pip install -U bayeseval"
    )
    with pytest.raises(InputError, match=r"was written by bayeseval 12\.3\.4"):
        be.Fit.open(copy)
    for versions in ({"bayeseval": ours}, {"bayeseval": "0.0.1"}, {}, None):
        edit_run(copy, versions=versions)
        assert read_saved(copy).kind == "fit"
    edit_run(copy, versions="unknown")
    assert "versions: expected keys and values, got 'unknown'" in refused(copy)


@pytest.mark.parametrize("key", ["gate", "spec"])
def test_a_run_file_without_what_a_fit_has(copy: Path, key: str) -> None:
    edit_run(copy, **{key: None})
    with pytest.raises(InputError, match=f"damaged, or not that of a fit: it has no {key!r}; give"):
        be.Fit.open(copy)


def test_a_link_out_of_the_folder_is_not_followed(copy: Path, tmp_path: Path) -> None:
    outside = (copy / "tables").rename(tmp_path / "outside")
    (copy / "tables").symlink_to(outside)
    before = sorted(path.name for path in outside.iterdir())
    expected = f"{copy / 'tables'} is a link out of the result folder, to {outside}; put a folder"
    assert refused(copy).startswith(expected)
    with pytest.raises(InputError) as caught:
        be.plan(be.Fit.open(copy), languages=[5]).save(copy, figures=False)
    assert str(caught.value).startswith(expected)
    assert sorted(path.name for path in outside.iterdir()) == before


def test_hashes_are_those_of_the_files(copy: Path) -> None:
    be.plan(be.Fit.open(copy), languages=[5]).save(copy, figures=False)
    run = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    assert set(run["sha256"]) == set(run["files"]) - {"run.json"}
    for name, found in run["sha256"].items():
        assert hashlib.sha256((copy / name).read_bytes()).hexdigest() == found
