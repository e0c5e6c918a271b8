"""Progress of long work on stderr."""

from __future__ import annotations

import errno
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from bayeseval._text import for_terminal, one_line
from bayeseval._typing import Progress
from bayeseval.errors import InputError

__all__ = ["MODELS", "interruptible", "notice", "progress_bar", "reporting"]

#: Ends the name of a stage whose pieces are models. One model may take a hundred times as long as
#: the next, so that none says how much time is left.
MODELS: Final = "models"

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Seconds between two lines of one stage in a log file.
_LOG_INTERVAL: Final = 30.0


@contextmanager
def progress_bar(preamble: str = "", *, quiet: bool = False) -> Iterator[Progress]:
    """Show ``progress(stage, done, total, remark)`` calls as bars on stderr.

    Parameters
    ----------
    preamble : str
        Printed before the first report, so that an error before any work is the only
        line.
    quiet : bool
        Show nothing.

    Yields
    ------
    callable
        On a terminal every stage is a bar with the time that is left; in a log
        file every stage is one line when it ends, and one every half minute before.
    """
    with _deferred_interrupt() as interrupted, _reporter(preamble, quiet=quiet) as show:

        def report(stage: str, done: int, total: int, remark: str) -> None:
            if interrupted():
                raise KeyboardInterrupt
            show(stage, done, total, remark)

        yield report


def notice(text: str) -> None:
    """Print lines on stderr at once, above the bars if there are any.

    A log on a full disk does not end the work: its lines are lost, unless there is room later. The
    reader of a pipe who has seen enough does end it.
    """
    try:
        print(for_terminal(text), file=sys.stderr, flush=True)  # noqa: T201
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise


@contextmanager
def reporting(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """The callback for the argument ``progress=`` of a public function.

    Parameters
    ----------
    progress : bool, callable or None
        True shows bars on stderr (lines in a notebook or a log file), False and None show
        nothing, a callable is used as it is.

    Yields
    ------
    callable or None
        To be called as ``progress(stage, done, total, remark)``.

    Raises
    ------
    InputError
        If it is anything else.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with progress_bar() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise InputError(
            "progress must be True, False or a function progress(stage, done, total, remark), got "
            f"{type(progress).__name__}"
        )


class _Interrupt:
    """Handler of Ctrl-C that raises at once, and knows that it was called."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Stop at Ctrl-C at once, or at the next report of progress if that was forgotten.

    Python prints and forgets KeyboardInterrupt in callbacks, for example of weak references
    while modules are imported. SIGTERM and SIGHUP do the same as Ctrl-C unless they are ignored,
    as by nohup: processes that work for this one would otherwise stay for minutes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _Interrupt())
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ending = [one for one in known if signal.getsignal(one) == signal.SIG_DFL]
    for one in ending:
        signal.signal(one, _as_interrupt)
    try:
        yield
    finally:
        for one in ending:
            signal.signal(one, signal.SIG_DFL)
        signal.signal(signal.SIGINT, before)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Remember Ctrl-C until the next report; pressed again, it stops at once.

    Python raises KeyboardInterrupt wherever the main thread happens to be. In a
    callback of the garbage collector, such as JAX installs, it is printed and
    forgotten, and the run would go on.
    """
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    if isinstance(before, _Interrupt) and before.pressed:
        pressed.append(signal.SIGINT)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
    # Where no report followed, as while a table is read, the next piece of work stops.
    if pressed and isinstance(before, _Interrupt):
        before.pressed = True


@contextmanager
def _reporter(preamble: str, *, quiet: bool) -> Iterator[Progress]:
    if quiet:
        yield lambda stage, done, total, remark: None
        return
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _log_lines(preamble)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Task,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        """No time where the pieces are unlike."""

        def render(self, task: Task) -> Text:
            return Text() if _are_unlike(task.description) else super().render(task)

    columns = (
        TextColumn("{task.description:>19}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeft(),
        # A name in brackets is no style.
        TextColumn("{task.fields[remark]}", markup=False),
    )
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int, remark: str) -> None:
            if not tasks and preamble:
                console.print(for_terminal(preamble), highlight=False, markup=False)
            remark = one_line(remark)
            # A stage that starts again gets a new bar, unless its bar has not moved yet.
            if stage not in tasks or (done == 0 and bars.tasks[tasks[stage]].completed > 0):
                tasks[stage] = bars.add_task(stage, total=total, remark=remark)
            bars.update(tasks[stage], completed=done, total=total, remark=remark)

        yield report


def _log_lines(preamble: str, clock: Callable[[], float] = time.monotonic) -> Progress:
    opening = [preamble] if preamble else []
    # Time and count at the start of each stage: a resumed run starts in the middle.
    started: dict[str, tuple[float, int]] = {}
    last_printed = [clock()]

    def print_line(text: str) -> None:
        notice(text)
        last_printed[0] = clock()

    def report(stage: str, done: int, total: int, remark: str) -> None:
        while opening:
            print_line(opening.pop())
        if done >= total or stage == "retry":
            print_line(f"{stage}: {one_line(remark) or 'done'}")
            started.pop(stage, None)
            return
        start, done_at_start = started.setdefault(stage, (clock(), done))
        if done > done_at_start and clock() - last_printed[0] >= _LOG_INTERVAL:
            remaining = (clock() - start) * (total - done) / (done - done_at_start)
            left = "" if _are_unlike(stage) else f", about {_duration(remaining)} left"
            print_line(f"{stage}: {done} of {total}{left}")

    return report


def _are_unlike(stage: str) -> bool:
    return stage.split()[-1:] == [MODELS]


def _duration(seconds: float) -> str:
    if seconds < _HOUR:
        return f"{max(1, round(seconds / _MINUTE))} min"
    return f"{seconds / _HOUR:.1f} h"
