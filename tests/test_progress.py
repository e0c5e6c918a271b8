"""Progress in a log file: a line when a stage ends, and now and then before."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import types
import weakref

import pytest

from bayeseval import __main__, cli
from bayeseval._progress import _log_lines, interruptible, progress_bar


def test_long_work_says_that_it_is_alive(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = _log_lines("Two hundred languages", clock=lambda: now[0])
    report("model", 0, 1, "")
    report("model", 1, 1, "llama on cpu")
    # Resumed with 20 done; ten seconds each, and a beat within every one.
    report("languages", 20, 200, "continued")
    for done in range(21, 201):
        now[0] += 5.0
        report("languages", done - 1, 200, "swh_Latn")
        now[0] += 5.0
        report("languages", done, 200, "" if done == 200 else "swh_Latn")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == [
        "Two hundred languages",
        "model: llama on cpu",
        "languages: 23 of 200, about 30 min left",
        "languages: 26 of 200, about 29 min left",
    ]
    assert lines[-1] == "languages: done"
    # Every third of the 180, the end among them, and the first two.
    assert len(lines) == 60 + 2


def test_short_stages_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = _log_lines("", clock=lambda: now[0])
    for stage in ("warm-up", "sampling", "warm-up"):
        for done in range(5):
            now[0] += 5.0
            report(stage, done, 4, "")
    assert capsys.readouterr().err.splitlines() == [
        "warm-up: done", "sampling: done", "warm-up: done",
    ]  # fmt: skip
    # Hours of one piece without an end give no line: there is nothing new to tell.
    report("refits", 0, 20, "")
    now[0] += 9000.0
    report("refits", 0, 20, "sampling")
    assert capsys.readouterr().err == ""
    report("refits", 1, 20, "")
    assert capsys.readouterr().err == "refits: 1 of 20, about 47.5 h left\n"


def test_models_that_were_fitted_say_no_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight seconds were left after two fits of seconds, before one by NUTS of minutes."""
    now = [0.0]
    report = _log_lines("", clock=lambda: now[0])
    for stage in ("fitting models", "refitting"):
        for done in range(3):
            report(stage, done, 4, "")
            now[0] += 31.0
    assert capsys.readouterr().err.splitlines() == [
        "fitting models: 1 of 4",
        "fitting models: 2 of 4",
        "refitting: 1 of 4, about 2 min left",
        "refitting: 2 of 4, about 1 min left",
    ]
    # On a terminal the time behind that which has passed.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    shown = {}
    for stage in ("fitting models", "refitting"):
        with progress_bar() as report:
            for done in range(3):
                report(stage, done, 3, "finding the mode")
        printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
        last = [line for line in re.split(r"[\r\n]+", printed) if "2/3" in line][-1]
        shown[stage] = re.split(r"2/3 \d:\d\d:\d\d", last)[1].split()
    assert shown["fitting models"] == ["finding", "the", "mode"]
    assert shown["refitting"][1:] == ["finding", "the", "mode"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_callback_has_forgotten_stops_the_next_report() -> None:
    class Object:
        pass

    reported = []
    watched = Object()
    reference = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
    with interruptible():
        # Raised within the callback, and forgotten there.
        del watched
        assert reference() is None
        with pytest.raises(KeyboardInterrupt), progress_bar(quiet=True) as report:
            reported.append("started")
            report("sampling", 0, 1, "")
            reported.append("went on")
    assert reported == ["started"]
    # The next command starts afresh.
    with interruptible(), progress_bar(quiet=True) as report:
        report("sampling", 0, 1, "")


def test_an_interrupt_that_no_report_follows_stops_the_next_work() -> None:
    reached = []
    with interruptible():
        with progress_bar(quiet=True):
            signal.raise_signal(signal.SIGINT)
            reached.append("the table is read")
        with pytest.raises(KeyboardInterrupt), progress_bar(quiet=True) as report:
            reached.append("the fit begins")
            report("sampling", 0, 1, "")
            reached.append("the fit goes on")
    assert reached == ["the table is read", "the fit begins"]
    # Negative control: without an interrupt nothing is raised.
    with interruptible(), progress_bar(quiet=True):
        pass
    with progress_bar(quiet=True) as report:
        report("sampling", 0, 1, "")


def test_an_interrupt_while_modules_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "bayeseval.cli", Interrupted("bayeseval.cli"))
    assert __main__.main() == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was saved\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_a_log_on_a_full_disk_does_not_end_the_work(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Log(io.StringIO):
        def flush(self) -> None:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(sys, "stderr", Log())
    with progress_bar("a fit") as report:
        if code == errno.ENOSPC:
            report("languages", 1, 1, "")
            return
        with pytest.raises(OSError, match=re.escape(os.strerror(code))):
            report("languages", 1, 1, "")


def test_lines_of_progress_that_nothing_takes_do_not_fail_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with io.TextIOWrapper(io.BytesIO(), errors="backslashreplace") as full:
        monkeypatch.setattr(sys, "stderr", full)
        flushed = []

        def flush() -> None:
            flushed.append("tried")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(full, "flush", flush)
            patched.setattr(cli, "drop_unwritable", lambda: flushed.append("dropped"))
            assert cli.main(["list", "models"]) == 0
        assert flushed == ["tried", "dropped"]


def test_a_name_with_a_line_feed_makes_no_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_bar() as report:
        report("writing results", 1, 1, "out\nerror: lost")
    assert capsys.readouterr().err == "writing results: out\\nerror: lost\n"
