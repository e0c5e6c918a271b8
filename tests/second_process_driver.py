"""A second process from outside and from inside, and the same fit with and without one.

Run as ``python second_process_driver.py FOLDER``; prints one JSON object for the test. It is a
program of its own because a process of pytest has threads and may have loaded JAX: then there is
no second process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from bayeseval import _second_process
from bayeseval._second_process import begin, second_process
from bayeseval.cli import main

READY: list[int] = []


def prepare() -> None:
    READY.append(1)


def ask(size: int) -> tuple[int, int, int]:
    """Process, calls of :func:`prepare`, and a result that no pipe holds at once."""
    return os.getpid(), len(READY), len(bytes(size))


def ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def fail() -> None:
    raise ZeroDivisionError


def warn() -> int:
    warnings.warn("look here", UserWarning, stacklevel=1)
    return 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nap() -> str:
    # Until it is killed.
    time.sleep(3600)
    return "late"


def answers() -> dict[str, Any]:
    with second_process(prepare):
        # More than a pipe takes, before anything is taken out.
        first, other, failed, warned = (
            begin(partial(ask, 10)),
            begin(partial(len, bytes(5_000_000))),
            begin(fail),
            begin(warn),
        )
        interrupt, large = begin(partial(ignored, signal.SIGINT)), begin(partial(bytes, 5_000_000))
        last = begin(partial(ask, 7))
        ends = {
            "last": last()[1:],
            "large": len(large()),
            "interrupt is ignored": interrupt(),
            "warned": warned(),
            "failed": failed(),
            "length": other(),
            "first": first()[1:],
            "another process": first()[0] != os.getpid(),
        }
        begin(die)
        after = begin(partial(ask, 1))
        ends["after death"] = after()
    ends["after a late result"] = late()
    ends["outside"] = begin(partial(ask, 1))()
    ends["prepared here"] = len(READY)
    pause = threading.Event()
    thread = threading.Thread(target=pause.wait)
    thread.start()
    with second_process(prepare):
        ends["beside a thread"] = begin(partial(ask, 1))()
    pause.set()
    thread.join()
    return ends


def late() -> list[Any]:
    """Results of work that takes too long, and of the work behind it."""
    patience = _second_process._LONGEST
    with second_process(prepare):
        slow, behind = begin(nap), begin(partial(ask, 1))
        vars(_second_process).update(_LONGEST=0.05)
        too_late = slow()
        vars(_second_process).update(_LONGEST=patience)
        return [too_late, behind()]


def hashes(folder: Path) -> dict[str, str]:
    """Files that hold no time and no hash of another file.

    Matplotlib names the clip paths of an SVG by numbers that follow from places in memory.
    """
    return {
        str(path.relative_to(folder)): hashlib.sha256(
            re.sub(rb"\b[a-z][0-9a-f]{10}\b", b"", path.read_bytes())
            if path.suffix == ".svg"
            else path.read_bytes()
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".png", ".svg", ".csv", ".nc")
    }


def fits(folder: Path) -> dict[str, Any]:
    """The files of a fit whose figures this process draws, and of one where another does."""
    from bayeseval.fitting.report import folder as results

    draw, original = results.figure_writers, _second_process._can_be_copied
    drawn_here: list[str] = []
    made: dict[str, Any] = {}
    for where, allowed in (("here", False), ("elsewhere", True)):

        def noted(*args: Any, where: str = where, **kwargs: Any) -> Any:
            drawn_here.append(where)
            return draw(*args, **kwargs)

        vars(results).update(figure_writers=noted)
        vars(_second_process).update(
            _can_be_copied=lambda allowed=allowed: allowed and original(),
        )
        out = folder / where
        words = ["fit", "-b", str(folder / "table.csv"), "--out", str(out), "-q", "--no-report"]
        code = main([*words, "--figure-format", "png,svg"])
        made[where] = [code, hashes(out)]
    return {**made, "drawn here": drawn_here}


if __name__ == "__main__":
    # One core is enough for the same results.
    vars(_second_process).update(own_cores=lambda: 2)
    place = Path(sys.argv[1])
    found = {**answers(), **fits(place)}
    (place / "found.json").write_text(json.dumps(found))
