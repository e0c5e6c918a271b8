"""Logs of Inspect, through data frames that Inspect made of its mock model's logs."""

from __future__ import annotations

import os
import re
import sys
import tracemalloc
import zipfile
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError, MissingDependencyError
from bayeseval.readers import Options, detect, read_results
from bayeseval.records import load

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers" / "inspect"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Archives with the names that a log has; what is in them, the frames say."""
    for number in range(4):
        with zipfile.ZipFile(tmp_path / f"log{number}.eval", "w") as archive:
            archive.writestr("header.json", "{}")
    return tmp_path


@pytest.fixture
def inspect(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for inspect_ai.analysis that returns the stored frames."""
    package, analysis = ModuleType("inspect_ai"), ModuleType("inspect_ai.analysis")

    def stored(name: str) -> pd.DataFrame:
        return pd.read_parquet(FIXTURES / name, dtype_backend="pyarrow")

    vars(analysis)["evals_df"] = lambda logs, quiet: stored("evals.parquet")
    vars(analysis)["samples_df"] = lambda logs, quiet: stored("samples.parquet")
    monkeypatch.setitem(sys.modules, "inspect_ai", package)
    monkeypatch.setitem(sys.modules, "inspect_ai.analysis", analysis)
    return analysis


def test_metrics_of_logs(logs: Path, inspect: ModuleType) -> None:
    table = load(logs).table
    # evals.parquet: two models, two languages, five items twice; the scorer of the headline.
    assert table[["model", "language", "task", "score", "n"]].to_numpy().tolist() == [
        ["mockllm/model-a", "en", "xnli:accuracy,match", 0.4, 5.0],
        ["mockllm/model-a", "sw", "xnli:accuracy,match", 0.4, 5.0],
        ["mockllm/model-b", "en", "xnli:accuracy,match", 0.6, 5.0],
        ["mockllm/model-b", "sw", "xnli:accuracy,match", 0.5, 5.0],
    ]
    assert table["se"].tolist() == pytest.approx([0.2449489743] * 2 + [0.1, 0.1581138830])
    report = load(logs, metric="accuracy,includes").report
    assert report.dropped[0].reason == "log that did not end with success"


def test_logs_without_a_number_of_samples_are_read(
    logs: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inspect reads logs of its first version with 0 samples, which ended the command."""

    def without(logs: object, quiet: bool) -> pd.DataFrame:
        frame = pd.read_parquet(FIXTURES / "evals.parquet", dtype_backend="pyarrow")
        return frame.assign(total_samples=frame["total_samples"].where(frame.index != 0, 0))

    monkeypatch.setitem(vars(inspect), "evals_df", without)
    table = load(logs).table
    assert table["score"].tolist() == [0.4, 0.4, 0.6, 0.5]
    # Here the score and its standard error leave no other number.
    assert table["n"].tolist() == [5.0, 5.0, 5.0, 5.0]


def test_samples_are_items_and_epochs_are_seeds(logs: Path, inspect: ModuleType) -> None:
    records = load(logs, format="inspect-samples")
    assert records.replicate_columns == ("seed", "item")
    assert len(records) == 4 * 5 * 2
    means = records.table.groupby(["model", "language"])["score"].mean().to_dict()
    assert means == pytest.approx(
        {
            ("mockllm/model-a", "en"): 0.4,
            ("mockllm/model-a", "sw"): 0.4,
            ("mockllm/model-b", "en"): 0.6,
            ("mockllm/model-b", "sw"): 0.5,
        }
    )


def test_of_two_logs_of_a_cell_the_newer_counts(
    logs: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_older(name: str) -> pd.DataFrame:
        frame = pd.read_parquet(FIXTURES / name, dtype_backend="pyarrow")
        again = frame[frame["log"] == log].assign(log="older.eval")
        if name == "evals.parquet":
            frame = frame.assign(created=pd.Timestamp("2026-03-01T10:00Z"))
            again = again.assign(created=pd.Timestamp("2026-02-28T23:00Z"))
        return pd.concat([frame, again], ignore_index=True)

    evals = pd.read_parquet(FIXTURES / "evals.parquet")
    log = evals.loc[evals["status"] == "success", "log"].iloc[0]
    want = {name: load(logs, format=name).content_hash for name in ("inspect", "inspect-samples")}
    monkeypatch.setattr(inspect, "evals_df", lambda logs, quiet: with_older("evals.parquet"))
    monkeypatch.setattr(inspect, "samples_df", lambda logs, quiet: with_older("samples.parquet"))
    for name, rows in (("inspect", 1), ("inspect-samples", 10)):
        records = load(logs, format=name)
        assert records.content_hash == want[name]
        older = [g for g in records.report.dropped if g.reason == "older run of the same cell"]
        assert [group.n_rows for group in older] == [rows]


def test_logs_of_a_cell_with_other_arguments_are_no_older_runs(
    logs: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments of the task make tasks, settings of the model models; what goes with the
    language (a path of the data), and the number of connections, tell nothing apart."""

    def several(name: str) -> pd.DataFrame:
        frame = pd.read_parquet(FIXTURES / name, dtype_backend="pyarrow")
        if name == "samples.parquet":
            again = [frame.assign(log=[f"{more}{log}" for log in frame["log"]]) for more in "ce"]
            return pd.concat([frame, *again], ignore_index=True)
        language = frame["task_name"].str.removeprefix("xnli_")
        frame = frame[frame["status"] == "success"].assign(
            created=pd.Timestamp("2026-03-01T10:00Z"),
            task_arg_path="data/" + language,
            task_arg_shots=5,
            task_arg_cot=False,
            model_generate_config='{"reasoning_effort": "low", "max_connections": 10}',
        )
        cot = frame.assign(log="c" + frame["log"], task_arg_cot=True)
        effort = frame.assign(
            log="e" + frame["log"],
            model_generate_config='{"reasoning_effort": "high", "max_connections": 20}',
        )
        effort = effort[effort["model"] == "mockllm/model-b"]
        return pd.concat([frame, cot, effort], ignore_index=True)

    monkeypatch.setattr(inspect, "evals_df", lambda logs, quiet: several("evals.parquet"))
    monkeypatch.setattr(inspect, "samples_df", lambda logs, quiet: several("samples.parquet"))
    models = (
        "mockllm/model-a",
        *(f"mockllm/model-b (reasoning_effort={e})" for e in ("high", "low")),
    )
    for name, metric in (("inspect", "accuracy,match"), ("inspect-samples", "match")):
        records = load(logs, format=name)
        assert records.coords["model"] == models
        assert records.coords["language"] == ("en", "sw")
        assert records.coords["task"] == (f"xnli (cot=false):{metric}", f"xnli (cot=true):{metric}")
        assert not [g for g in records.report.dropped if g.reason.startswith("older")]
        said = "\n".join(records.report.notes)
        assert "differ in task arguments are read as separate tasks: xnli (cot)" in said
        assert "are read as separate models: mockllm/model-b (reasoning_effort)" in said
    # Without a difference within a cell, nothing is named after arguments.
    one = several("evals.parquet")
    one = one[~one["log"].str.startswith(("c", "e"))]
    monkeypatch.setattr(inspect, "evals_df", lambda logs, quiet: one)
    assert load(logs).coords["task"] == ("xnli:accuracy,match",)


def test_without_inspect_the_extra_is_named(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MissingDependencyError, match=r"bayeseval\[inspect\]"):
        load(logs)
    assert main(["validate", str(logs)]) == 2
    assert capsys.readouterr().out == "Ready to fit: no, because the table cannot be read\n"


def test_what_inspect_cannot_read_is_one_line(
    logs: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(logs: list[str], quiet: bool) -> pd.DataFrame:
        raise RuntimeError("no header\nTraceback")

    monkeypatch.setattr(inspect, "evals_df", broken)
    with pytest.raises(InputError, match="Inspect cannot read the log: no header") as caught:
        load(logs)
    assert len(str(caught.value).splitlines()) == 1


def test_a_bomb_is_not_unpacked(tmp_path: Path, inspect: ModuleType) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/0_epoch_1.json", b"0")
    data = bytearray(path.read_bytes())
    # The size in the central directory: what an honest 3 GB entry says.
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (3_000_000_000).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"the unpacked file has 3\.0 GB; at most 1\.1 GB"):
        load(path)


def test_an_entry_that_says_less_than_it_is(tmp_path: Path, inspect: ModuleType) -> None:
    """Inspect reads on past the stated size, so that is proven first, in little memory."""
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b"{" + b" " * (30 << 20) + b"}")
    assert len(load(path)) == 4
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (100).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"damaged ZIP archive: the size of header.json is not"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_a_log_that_inspect_wrote(tmp_path: Path, inspect: ModuleType) -> None:
    """Packed with zstd, which zipfile does not know; what it says of itself is proven too."""
    good = FIXTURES / "log.eval"
    assert len(load(good)) == 4
    data = bytearray(good.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    assert data[at + 46 :].startswith(b"header.json")
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path = tmp_path / "bomb.eval"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"damaged ZIP archive: the size of header.json is not"):
        load(path)
    data = bytearray(good.read_bytes())
    data[100:110] = b"x" * 10
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged ZIP archive"):
        load(path)


def test_a_log_of_two_gigabytes_is_not_read(tmp_path: Path, inspect: ModuleType) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"version": 2, "status": "success", "eval": {}}', encoding="utf-8")
    os.truncate(path, 2 << 30)
    with pytest.raises(InputError, match=r"the log is larger than 1\.1 GB"):
        load(path)


def test_logs_that_inspect_cannot_read_are_named_and_the_others_read(
    logs: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.read_parquet(FIXTURES / "evals.parquet", dtype_backend="pyarrow")
    frame = frame[frame["status"] == "success"].reset_index(drop=True)

    def evals(logs: list[str], quiet: bool) -> pd.DataFrame:
        if any("log2" in log for log in logs):
            raise ValueError("Unable to read log file") from ValueError("version 4 of log format.")
        # It says nothing of those that it does not take for logs.
        kept = [log for log in logs if "log3" not in log]
        return frame.iloc[[int(Path(log).stem[-1]) for log in kept]].assign(log=kept)

    monkeypatch.setattr(inspect, "evals_df", evals)
    report = load(logs).report
    assert (report.n_records, report.warnings[0]) == (
        2,
        "warning: 2 files of 4 cannot be read, and scores that only they hold are missing: log2."
        "eval (Inspect cannot read the log: version 4 of log format.); log3.eval (Inspect cannot "
        "read the log: Inspect does not recognise this file as a log); restore them, or take them "
        "out of the folder",
    )
    for log in logs.glob("log[01].eval"):
        log.unlink()
    with pytest.raises(
        InputError, match=r"none of 2 files of Inspect logs can be read: log2\.eval"
    ):
        load(logs)


@pytest.mark.parametrize("name", ["log_formats.json", "log.txt", "2026-03-01T10-00-00_log.json"])
def test_json_logs_have_any_name(
    tmp_path: Path, inspect: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Inspect reads those only that begin with a time, or end in .eval."""
    frame = pd.read_parquet(FIXTURES / "evals.parquet", dtype_backend="pyarrow").iloc[:1]
    given = []

    def evals(logs: list[str], quiet: bool) -> pd.DataFrame:
        given.extend(Path(log).read_text(encoding="utf-8") for log in logs)
        assert all(re.match(r"\d{4}-\d\d-\d\dT.*\.json$", Path(log).name) for log in logs)
        return frame.assign(log=logs)

    monkeypatch.setattr(inspect, "evals_df", evals)
    text = '{"version": 2, "status": "success", "eval": {}}'
    (tmp_path / name).write_text(text, encoding="utf-8")
    # Inspect writes it beside them; it is no table.
    (tmp_path / "logs.json").write_text('{"a.json": {"version": 2}}')
    detected = detect(tmp_path)
    assert detected is not None
    assert read_results(detected, Options()).tables[0].where[0].startswith(f"{name}, ")
    assert given == [text]
