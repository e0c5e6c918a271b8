"""Runs of `bayeseval` as forks of this process, which has imported everything already.

A run costs its own work only, not the seconds of the imports. A forked process is safe as
long as this one has a single thread and has computed nothing: it imports, and
:func:`prepare` refuses to go on if a library has started a thread meanwhile.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["ENVIRONMENT", "Forked", "prepare"]

Main = Callable[[Sequence[str]], int]

# Before anything is imported: threads do not survive a fork.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Otherwise the memory pool of pyarrow has a thread in the background.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_CONTEXT: Final = multiprocessing.get_context("fork")


def _bayeseval(words: Sequence[str]) -> int:
    from bayeseval.cli import main

    return main(words)


class Forked:
    """One run, in a session of its own, so that a kill reaches all its processes.

    Parameters
    ----------
    words : sequence of str
        Arguments of `bayeseval`.
    log : Path
        File for what it says on stderr.
    modules : Path, optional
        File for the names of the modules that it has imported in the end.
    main : callable
        Takes the arguments and returns the exit code.
    """

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        *,
        modules: Path | None = None,
        main: Main = _bayeseval,
    ) -> None:
        self._log = log
        self._process = _CONTEXT.Process(target=_run, args=(list(words), log, modules, main))
        self._process.start()

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None if it is still running after so many seconds."""
        self._process.join(seconds)
        return self._process.exitcode

    def kill(self) -> None:
        """End it and all processes that it has started."""
        try:
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        except ProcessLookupError:
            # Not yet in a session of its own, so it has started no other process.
            self._process.kill()
        self._process.join()

    def said(self) -> str:
        """What it said on stderr."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def _run(words: Sequence[str], log: Path, modules: Path | None, main: Main) -> None:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    complaints = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, target in ((nowhere, 0), (nowhere, 1), (complaints, 2)):
        os.dup2(descriptor, target)
    code = main(words)
    if modules is not None:
        names = [name for name, module in list(sys.modules.items()) if _has_file(module)]
        modules.write_text(json.dumps(names), encoding="utf-8")
    sys.exit(code)


def _has_file(module: object) -> bool:
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    return isinstance(origin, str) and Path(origin).is_absolute()


def prepare(words: Sequence[str], scratch: Path) -> None:
    """Run a command to its end and import what it has imported.

    Raises
    ------
    SystemExit
        If the command fails, or an import has started a thread.
    """
    names = scratch / "modules.json"
    run = Forked(words, scratch / "log", modules=names)
    if run.wait() not in (0, 3):
        raise SystemExit(f"{' '.join(words)}: {run.said()}")
    for name in json.loads(names.read_text(encoding="utf-8")):
        if name not in sys.modules and not name.startswith("__"):
            importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1 or threading.active_count() > 1:
        raise SystemExit(f"the imports of {words[0]} have started {threads - 1} threads")
