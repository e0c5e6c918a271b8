"""Progress of long work on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

Report = Callable[[str, int, int, str], None]


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Report]:
    """Show ``progress(stage, done, total, remark)`` calls as bars on stderr.

    Parameters
    ----------
    quiet : bool
        Show nothing.

    Yields
    ------
    callable
        On a terminal every stage is a bar with the time that is left; in a log
        file every stage is one line when it ends.
    """
    if quiet:
        yield lambda stage, done, total, remark: None
        return
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _log_lines()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, object] = {}

        def report(stage: str, done: int, total: int, remark: str) -> None:
            if stage not in tasks or done == 0:
                tasks[stage] = bars.add_task(stage, total=total, remark=remark)
            bars.update(tasks[stage], completed=done, total=total, remark=remark)  # type: ignore[arg-type]

        yield report


def _log_lines() -> Report:
    def report(stage: str, done: int, total: int, remark: str) -> None:
        if done >= total or stage == "retry":
            print(f"{stage}: {remark or 'done'}", file=sys.stderr, flush=True)  # noqa: T201

    return report
