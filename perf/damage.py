"""Damage result folders in every way, and look at what commands say of them.

    python perf/damage.py [--kinds "edited table,..."]

A fit, a comparison and a calibration are made once. Each command then meets a copy with one
damage. It has to refuse it in one line with exit code 2, or to end with 0 or 3 where it does
not read what was damaged. A traceback, more lines, or no end after two minutes is a fault, and
so is a command that does not refuse an edited table, or refuses a copy without damage.
Damages "with its hash" write the new SHA-256 into `run.json`, as someone would who wants
to mislead. Writes ``results/damage.csv``, a row for each damage and command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from forked import ENVIRONMENT, Forked, prepare
from kill import write_table
from measure import ROOT, print_table, provenance, write_csv

_PATIENCE: Final = 120.0
_SHOWN: Final = 160


def _main_file(folder: Path) -> Path:
    posterior = folder / "posterior.nc"
    return posterior if posterior.is_file() else _table(folder)


def _table(folder: Path) -> Path:
    return max((folder / "tables").glob("*.csv"), key=lambda path: path.stat().st_size)


def _change(folder: Path, **new: Any) -> None:
    path = folder / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    run.pop("run_sha256", None)
    path.write_text(json.dumps({**run, **new}))


def _rehash(folder: Path, path: Path) -> None:
    known = json.loads((folder / "run.json").read_text(encoding="utf-8"))["sha256"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    _change(folder, sha256={**known, path.relative_to(folder).as_posix(): digest})


def _edit_table(folder: Path) -> None:
    path = _table(folder)
    path.write_text(path.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")


def _nan_table(folder: Path) -> None:
    import pandas as pd

    path = _table(folder)
    table = pd.read_csv(path)
    for name in table.select_dtypes("number"):
        table[name] = float("nan")
    table.to_csv(path, index=False)
    _rehash(folder, path)


def _halve(folder: Path) -> None:
    path = _main_file(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _halve_rehashed(folder: Path) -> None:
    _halve(folder)
    _rehash(folder, _main_file(folder))


def _nan_posterior(folder: Path) -> None:
    import h5py

    path = folder / "posterior.nc"
    if not path.is_file():
        return _nan_table(folder)
    with h5py.File(path, "a") as file:
        for name, values in file["posterior"].items():
            if values.dtype.kind == "f" and name not in ("chain", "draw"):
                values[...] = float("nan")
    return _rehash(folder, path)


def _flip(folder: Path) -> None:
    path = _main_file(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _link_out(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    shutil.rmtree(elsewhere, ignore_errors=True)
    (folder / "tables").rename(elsewhere)
    (folder / "tables").symlink_to(elsewhere)


def _text(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "run.json").write_text(text, encoding="utf-8")

    return write


def _shorten(folder: Path) -> None:
    path = folder / "run.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


_WHOLE: Final = "none"
KINDS: Final[dict[str, Callable[[Path], None]]] = {
    _WHOLE: lambda folder: None,
    "edited table": _edit_table,
    "table of NaN with its hash": _nan_table,
    "one byte flipped": _flip,
    "truncated": _halve,
    "truncated with its hash": _halve_rehashed,
    "NaN-filled with its hash": _nan_posterior,
    "main file missing": lambda folder: _main_file(folder).unlink(),
    "tables missing": lambda folder: shutil.rmtree(folder / "tables"),
    "tables is a link out": _link_out,
    "of a later version": lambda folder: _change(folder, versions={"bayeseval": "99.0"}),
    "run.json truncated": _shorten,
    "run.json is a list": _text("[1, 2]"),
    "run.json is deeply nested": _text('{"a":' * 100_000),
    "run.json without texts": lambda folder: _change(folder, benchmark=3, spec=4, pairs=5),
    "run.json of other types": lambda folder: _change(folder, files=1, sha256=[2], spec=None),
}
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("plan", "fit"),
    "forecast": ("forecast", "fit", "--no-check"),
    "next": ("next", "fit", "--languages", "hun", "--no-figures"),
    "predict": ("predict", "fit", "cells.csv", "--out", "predictions.csv", "--quiet"),
    "report": ("report", "fit"),
    "report --to latex": ("report", "fit", "--to", "latex"),
    "report --to csv": ("report", "fit", "--to", "csv"),
    "report --to json": ("report", "fit", "--to", "json"),
    "cite": ("cite", "fit"),
    "report of a comparison": ("report", "compare"),
    "compare": (
        *("compare", "--benchmark", "scores.csv", "--models", "additive,interaction"),
        *("--jobs", "1", "--no-figures", "--quiet", "--out", "compared"),
    ),
    "calibrate": (
        *("calibrate", "--model", "additive", "--like", "scores.csv", "--simulations", "3"),
        *("--jobs", "1", "--no-figures", "--quiet", "--out", "calibrate"),
    ),
}
_FIT: Final = Path("results", "scores", "additive-marginal-seed0")
# They read no table of a fit.
_WITHOUT_TABLES: Final = ("compare", "predict")
# The folder that a command reads, of which it gets a damaged copy.
_READS: Final = {
    "compare": _FIT,
    "calibrate": Path("calibrate"),
    "report of a comparison": Path("compare"),
}


def make(place: Path) -> None:
    """The results that are damaged, each by a command that is imported meanwhile."""
    write_table(place / "scores.csv")
    # One language more than the table has, for forecasts.
    alignment = {"deu": 0.9, "fra": 0.8, "spa": 0.7, "swe": 0.6, "fin": 0.5, "hun": 0.4}
    lines = [f"{language},{value}" for language, value in alignment.items()]
    (place / "alignment.csv").write_text("\n".join(["language,alignment", *lines, ""]))
    (place / "cells.csv").write_text("model,language,task\nm0,deu,t1\nm2,fin,t0\n")
    data = ("--benchmark", "scores.csv", "--no-figures", "--quiet")
    made = (
        # With a covariate, which forecasts need.
        ("fit", *data, "--model", "mexa", "--covariate", "alignment.csv", "--out", "fit"),
        ("fit", *data, "--model", "additive", "--no-checks", "--no-report"),
        (*COMMANDS["compare"][:-1], "compare"),
        (*COMMANDS["calibrate"][:6], "2", *COMMANDS["calibrate"][7:]),
    )
    for words in made:
        prepare(words, place)


def meet(command: str, place: Path) -> tuple[int | None, str]:
    """Exit code and stderr of a command; None if it had to be ended."""
    run = Forked(COMMANDS[command], place / "log")
    code = run.wait(_PATIENCE)
    if code is None:
        run.kill()
    return code, run.said().strip()


def judge(kind: str, command: str, code: int | None, said: str) -> str:
    """What is wrong with the end of a command; nothing if it is as it should be."""
    if kind == _WHOLE and code != 0:
        return "does not end with 0"
    if kind == "edited table" and command not in _WITHOUT_TABLES and code != 2:
        return "does not say so"
    if code is None:
        return "does not end"
    if code not in (0, 2, 3):
        return f"exit code {code}"
    if code == 2 and (said.count("\n") or not said.startswith("error: ")):
        return "not one line"
    return ""


def main(given: Sequence[str] | None = None) -> int:
    """Print a row for each damage and command; 1 where one ends in another way."""
    parser = argparse.ArgumentParser(description="Damage result folders.")
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args(given)
    said = provenance()
    os.environ.update(ENVIRONMENT)
    sys.path.insert(0, str(ROOT / "src"))
    rows, faults = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        before = Path.cwd()
        os.chdir(place)
        try:
            make(place)
            for kind in asked.kinds.split(","):
                for command in COMMANDS:
                    folder = place / _READS.get(command, Path("fit"))
                    whole = place / "whole"
                    shutil.copytree(folder, whole, symlinks=True)
                    KINDS[kind](folder)
                    code, text = meet(command, place)
                    shutil.rmtree(folder)
                    whole.rename(folder)
                    shutil.rmtree(place / "compared", ignore_errors=True)
                    wrong = judge(kind, command, code, text)
                    faults += bool(wrong)
                    line = (text.splitlines() or [""])[-1].replace(f"{place}/", "")
                    row = {"damage": kind, "met_by": command, "exit_code": code}
                    rows.append({**row, "fault": wrong, "said": line[:_SHOWN]})
                    print_table(rows[-1:])
        finally:
            os.chdir(before)
    write_csv("damage", rows, said)
    print(f"{len(rows)} damaged folders met, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
