"""Kill processes while they save a fit, at several steps, and say what is left.

Run as ``python dying_driver.py FOLDER``; prints one JSON object: of every step the signal
that ended the process. The folders ``FOLDER/<step>`` stay for the test to look at. It is a
program of its own because a process that has loaded JAX must not be forked. The fit is made
up: nothing is sampled. One more process is stopped by a limit on the size of files, as by a
full disk; it has to say so and to end by itself.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from bayeseval import Fit
from bayeseval.errors import InputError
from bayeseval.fitting.report import folder as results
from tests.fitting.trees import random_tree

STEPS = ("tables", "checks", "figures")
FULL = "full disk"
# Less than the posterior takes.
LIMIT = 5_000
RUN: dict[str, Any] = {
    "benchmark": "made up",
    "data_hash": "d" * 64,
    "spec_hash": "s" * 64,
    "engine": "numpyro",
    "seed": 0,
    "spec": {"name": "additive"},
    "levels": {"language": 5, "task": 3, "model": 4},
    "n_records": 40,
    "language_names": {},
    "gate": {"status": "pass", "checks": [], "n_quantities": 1},
}


def made_up() -> Fit:
    """A fit of four models without any sampling."""
    return Fit(data=random_tree(), run=RUN)


def checked() -> Any:
    """What a fit's checks have that is saved."""
    table = pd.DataFrame({"check": ["normality"], "status": ["pass"], "sentence": ["Fine."]})
    return SimpleNamespace(table=table, details={})


def die(*_: object, **__: object) -> Any:
    """End without clean-up of any kind."""
    os.kill(os.getpid(), signal.SIGKILL)


def save_and_die(fit: Fit, folder: Path, step: str) -> None:
    if step == "tables":
        vars(results).update(write_csv=die)
    if step == "figures":
        vars(results).update(figure_writers=die)
    fit.save(folder, checks=die if step == "checks" else checked)


def save_to_full_disk(fit: Fit, folder: Path) -> None:
    """Leave with a code of 1 unless one line says what was in the way."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, most))
    try:
        fit.save(folder, figures=False)
    except InputError as error:
        os._exit(0 if str(error).startswith(f"{folder} could not be written") else 1)
    os._exit(1)


def main(folder: Path) -> dict[str, int]:
    fit, ends = made_up(), {}
    for step in (*STEPS, FULL):
        child = os.fork()
        if child == 0:
            if step == FULL:
                save_to_full_disk(fit, folder / step / "run")
            save_and_die(fit, folder / step / "run", step)
            os._exit(0)
        ends[step] = -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ends


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
