"""What the machine refuses: devices, memory, full disks, names that are no text. One line each."""

from __future__ import annotations

import errno
import io
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bayeseval as be
from bayeseval import cli
from bayeseval._special import refuse_special
from bayeseval._text import shell_quoted
from bayeseval.cli import main
from bayeseval.cli._faults import fault_text, prepare_streams
from bayeseval.cli._keeping import save_and_show
from bayeseval.cli._shared import echo_place
from bayeseval.errors import InputError, SpecError
from bayeseval.fitting.report import run_title
from bayeseval.output.store import results_saved
from bayeseval.output.text import terminal_width
from bayeseval.readers.base import Head, file_bytes, text_lines
from bayeseval.spec import load_spec

SCORES = "model,language,task,score\n" + "".join(
    f"{model},{language},{task},{50 + 10 * i + 3 * j + k * (i + 1)}\n"
    for i, model in enumerate("ab")
    for j, language in enumerate(("deu", "fra", "fin"))
    for k, task in enumerate(("t1", "t2"))
)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes to: opening it would wait forever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    "read",
    [
        be.load,
        lambda path: be.load("mega", mapping_file=path),
        file_bytes,
        Head.of,
        lambda path: list(text_lines(path)),
        lambda path: be.fit("mega", "mexa", covariate=path),
        lambda path: be.fit("mega", "additive", pairs=path),
    ],
)
def test_a_pipe_is_refused_before_it_is_opened(pipe: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(InputError) as caught:
        read(pipe)
    assert str(caught.value) == (
        f"{pipe} is a pipe, not a regular file; save its contents to a file and give that"
    )


def test_a_spec_from_a_device_is_refused() -> None:
    with pytest.raises(SpecError, match="^/dev/zero is a device, not a regular file; save"):
        load_spec("/dev/zero")
    # A file behind a link, a folder and a missing path are for whoever opens them.
    for path in (__file__, Path(__file__).parent, "no such path"):
        refuse_special(path)


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="a system without /proc")
def test_a_link_to_a_file_of_the_kernel_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "scores.csv"
    link.symlink_to("/proc/version")
    with pytest.raises(InputError) as caught:
        be.load(link)
    assert str(caught.value) == (
        f"{link} is made by the kernel while it is read, not a regular file; save its contents to"
        " a file and give that"
    )


def test_an_output_that_takes_nothing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True)
    monkeypatch.setattr(sys, "stdout", full)
    assert main(["list", "benchmarks"]) == 2
    assert capsys.readouterr().err == (
        "error: the output could not be written: No space left on device; free some space, or "
        "write to another disk\n"
    )
    # With an error that can be said nowhere, the exit code remains.
    monkeypatch.setattr(sys, "stderr", full)
    assert main(["validate", "no such table"]) == 2


def test_a_closed_output_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["list", "models"]) == 0
    # Tables ask for the width of a terminal.
    assert terminal_width() is None


def test_closed_descriptors_are_not_given_to_files(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def closed(descriptor: int) -> None:
        if descriptor == 1:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def note(path: str, flags: int) -> int:
        opened.append(flags)
        return 1

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", closed)
        patched.setattr(os, "open", note)
        prepare_streams()
    assert opened == [os.O_RDWR]


def test_a_file_name_that_is_no_text_is_printed_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / os.fsdecode(b"b\xff.csv")
    path.write_text(SCORES, encoding="utf-8")
    assert main(["validate", f"{path}x"]) == 2
    assert f"{path}x: no such file or folder; did you mean 'b\udcff.csv'?" in (
        capsys.readouterr().err.encode("utf-8", "backslashreplace").decode("unicode_escape")
    )
    # As a terminal of a usual locale, which refuses what it cannot encode.
    strict = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", strict)
    assert main(["validate", str(path)]) == 0
    strict.flush()
    assert strict.buffer.getvalue().startswith(rb"b\udcff: 12 records")


def test_a_path_with_line_feeds_is_printed_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\nerror: b"
    folder.mkdir()
    path, copy = folder / "t\nReady.csv", folder / "c\x1b[2J\n.csv"
    path.write_text(SCORES, encoding="utf-8")
    assert main(["validate", str(path), "--save-records", str(copy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = f"{tmp_path}/a\\nerror: b"
    assert lines[0].startswith("t\\nReady: 12 records")
    assert f"Table: {shown}/c\\x1b[2J\\n.csv" in lines
    assert f"Read 12 rows from {shown}/t\\nReady.csv" in lines
    assert sum(line.startswith(("Ready", "error")) for line in lines) == 1
    assert run_title({"benchmark": "a\nb", "spec": {"name": "s"}, "engine": "ml"}) == (
        "a\\nb, model s, engine ml"
    )
    echo_place("Results", folder)
    assert capsys.readouterr().out == f"Results: {shown}\n"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            MemoryError("Unable to allocate 5.00 GiB"),
            "not enough memory (Unable to allocate 5.00 GiB); close other programs",
        ),
        (MemoryError(), "not enough memory; close other programs, ask for fewer draws"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes"), "not enough memory"),
        (RuntimeError("can't start new thread"), "not enough memory (can't start new thread);"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory ([Errno 12]"),
        (RecursionError("maximum recursion depth exceeded"), "the input is nested too deeply"),
        (
            OSError(errno.EMFILE, "Too many open files", "a.csv"),
            "a.csv could not be used: Too many open files; raise the limit on open files",
        ),
    ],
)
def test_what_the_machine_lacks_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    text: str,
) -> None:
    def fail(arguments: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    assert main(["list", "models"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {text}")
    assert printed.count("\n") == 1


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: object) -> int:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "_run", fail)
    with pytest.raises(KeyError, match="a bug"):
        main(["list", "models"])


def test_a_lack_of_memory_after_saving_says_what_is_saved() -> None:
    with pytest.raises(MemoryError) as caught, results_saved(Path("run"), ["figures"], "redo"):
        raise MemoryError
    text = fault_text(caught.value)
    assert text is not None
    assert text.endswith("; the results are saved in run, without figures; redo")
    # Raised by a library from it, all the same.
    try:
        raise RuntimeError("the library failed") from MemoryError()
    except RuntimeError as error:
        assert str(fault_text(error)).startswith("not enough memory;")
    assert fault_text(RuntimeError("something else")) is None


def test_too_small_an_address_space_is_refused_before_libraries_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = [3_000_000_000]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit[0], -1))
    assert main(["fit", "--benchmark", "mega"]) == 2
    assert capsys.readouterr().err == (
        "error: the address space of a process is limited to 3.0 GB (ulimit -v, or the memory "
        "limit of a batch system); at least 4 GB are needed, most of which is reserved and never "
        "used: raise the limit\n"
    )
    assert main(["list", "models"]) == 0
    for limit[0] in (4_000_000_000, resource.RLIM_INFINITY):
        assert main(["validate", "no such table"]) == 2
        assert "no such file" in capsys.readouterr().err


@pytest.fixture
def undecodable(tmp_path: Path) -> Path | None:
    """A table whose name has a byte that is no UTF-8; None where the file system has no such."""
    path = tmp_path / os.fsdecode(b"scores\xff.csv")
    try:
        path.write_text(SCORES, encoding="utf-8")
    except OSError:
        return None
    return path


def test_a_name_that_is_not_utf8_is_no_obstacle(
    undecodable: Path | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commands that checks recommend quote it, and a shell reads the quoted name back."""
    if undecodable is None:
        return
    # One language is far better at one task than all others: the checks recommend what to do.
    rows = [
        f"{m},{code},t{t},{50 + 10 * m + 7 * t + (m * t * j) % 3 + 40 * (j == t == 0)}"
        for m in range(4)
        for j, code in enumerate(("deu", "fra", "fin", "swe", "nld"))
        for t in range(3)
    ]
    undecodable.write_text("\n".join(["model,language,task,score", *rows]), encoding="utf-8")
    out = tmp_path / "results"
    words = ["fit", "--benchmark", str(undecodable), "--model", "additive", "--out", str(out)]
    assert main([*words, "--no-figures", "--quiet"]) in {0, 3}
    advice = (out / "tables/checks.csv").read_text(encoding="utf-8")
    assert f"fit --benchmark {shell_quoted(str(undecodable))}" in advice
    capfd.readouterr()
    assert main(["validate", str(undecodable), "--memory", "1GB"]) == 2
    assert capfd.readouterr().err == (
        f"error: {tmp_path}/scores\\udcff.csv: DuckDB, which reduces rows while they are read, "
        "opens no file whose path is not UTF-8; rename it\n"
    )
    saved = undecodable.with_suffix(".parquet")
    assert main(["validate", str(undecodable), "--save-records", str(saved)]) == 0
    assert be.load(saved).scores.tolist() == be.load(undecodable).scores.tolist()


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "a b",
        "it's",
        "",
        "a\x1b[2J\n'b\\",
        "\udcff.csv",
        "\u202eé\u00a0$x`y`",
        "中\u3164文",
    ],
)
def test_a_shell_reads_the_quoted_name_back(name: str) -> None:
    word = shell_quoted(name)
    assert word.isprintable()
    command = f"printf %s {word}"
    said = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert os.fsdecode(said.stdout) == name


class _Closed(io.StringIO):
    """A pipe whose reader has ended, or a file on a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"), [(BrokenPipeError(), 0), (OSError(errno.ENOSPC, "No space left"), 2)]
)
def test_results_are_saved_before_they_are_shown(
    error: OSError, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out"
    table.write_text(SCORES, encoding="utf-8")
    words = ["compare", "--benchmark", str(table), "--models", "additive", "--no-figures"]
    monkeypatch.setattr(sys, "stdout", _Closed(error))
    assert main([*words, "--quiet", "--out", str(out)]) == code
    assert (out / "run.json").is_file()
    assert not (tmp_path / "out.unfinished").exists()


def test_results_that_cannot_be_saved_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def save() -> None:
        raise InputError("no space")

    def discard() -> None:
        raise AssertionError

    with pytest.raises(InputError, match="no space"):
        save_and_show("three models", tmp_path, save, discard)
    assert capsys.readouterr().out == "three models\n"
    # Where they cannot be shown either, the first error is what is said.
    monkeypatch.setattr(sys, "stdout", _Closed(BrokenPipeError()))
    with pytest.raises(InputError, match="no space"):
        save_and_show("three models", tmp_path, save, discard)
