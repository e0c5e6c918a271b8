"""Create or update the virtual environment that the Makefile uses.

    python3 scripts/bootstrap.py --venv .venv [--extra test ...]

The script runs before anything is installed, so it needs the standard library only.
A stamp file inside the environment records what was installed, from which files and by
which Python. It is written last, so an interrupted installation is repeated and a
finished one is not.
"""

import argparse
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LEAST = (3, 11)
if sys.version_info < LEAST:
    # Before the first function, because an older Python cannot read the types of its signature.
    sys.exit(
        f"error: bayeseval needs Python {LEAST[0]}.{LEAST[1]} or later and {sys.executable} is "
        f"{platform.python_version()}; choose another one, for example: make fit PYTHON=python3.13"
    )

ROOT = Path(__file__).resolve().parent.parent
STAMP = ".bayeseval-install.json"
# Imports what most commands need, and shows that the installation works.
FIRST_FIT = ("-m", "bayeseval", "fit", "--benchmark", "mega", "--model", "additive", "--quiet")


class BootstrapError(Exception):
    """The reason why the script stops, in one line."""


def main() -> None:
    """Parse the arguments and bootstrap; a failure is reported in one line."""
    parser = argparse.ArgumentParser(description="Create or update the virtual environment.")
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--extra", action="append", default=[], help="may be given several times")
    arguments = parser.parse_args()
    try:
        bootstrap(arguments.venv, set(arguments.extra))
    except BootstrapError as problem:
        sys.exit(f"error: {problem}")


def bootstrap(venv: Path, extras: set[str]) -> None:
    """Install this checkout and at least `extras` in `venv`, creating it if needed.

    Raises
    ------
    BootstrapError
        If Python cannot create environments, `venv` is not an environment, or the
        installation fails.
    """
    wanted = fingerprint()
    stamp = read_stamp(venv)
    usable = version_of(venv) == platform.python_version()
    if usable and stamp.get("fingerprint") == wanted and extras <= set(stamp.get("extras", [])):
        return
    (venv / STAMP).unlink(missing_ok=True)
    if not usable or not has_pip(venv):
        make_venv(venv)
        stamp = {}
    # Extras that were installed before remain: `make fit` after `make test` keeps the tests' tools.
    extras = extras | set(stamp.get("extras", []))
    install(venv, extras)
    write_stamp(venv, {"fingerprint": wanted, "extras": sorted(extras)})


def constraints() -> Path:
    """Return the file of tested versions for this Python."""
    return ROOT / "constraints" / ("3.11.txt" if sys.version_info < (3, 12) else "3.12.txt")


def fingerprint() -> str:
    """Hash of everything that determines what is installed."""
    digest = hashlib.sha256(f"{platform.python_version()} {ROOT}".encode())
    for path in (ROOT / "pyproject.toml", constraints()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp(venv: Path) -> dict[str, Any]:
    """Return the content of the stamp; an empty dict if there is none."""
    try:
        return dict(json.loads((venv / STAMP).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def write_stamp(venv: Path, content: dict[str, Any]) -> None:
    """Write the stamp in one step."""
    part = venv / (STAMP + ".part")
    part.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(part, venv / STAMP)  # noqa: PTH105 - Path.replace is the same call


def python_of(venv: Path) -> Path:
    """Path of the interpreter of an environment."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def version_of(venv: Path) -> str | None:
    """Python version of an environment, or None if its interpreter does not run."""
    code = "import platform; print(platform.python_version())"
    return output_of([str(python_of(venv)), "-c", code])


def has_pip(venv: Path) -> bool:
    """Whether pip runs; after an interrupted `python -m venv` it is missing."""
    return output_of([str(python_of(venv)), "-m", "pip", "--version"]) is not None


def output_of(command: list[str]) -> str | None:
    """Standard output of a command, or None if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def make_venv(venv: Path) -> None:
    """Create `venv`; an environment of another Python is replaced."""
    missing = [name for name in ("venv", "ensurepip") if find_spec(name) is None]
    if missing:
        raise BootstrapError(
            f"{sys.executable} lacks the module {missing[0]!r}, which virtual environments need; "
            f"install it (on Debian and Ubuntu: apt install python3-venv), or choose another "
            f"Python: make PYTHON=..."
        )
    if venv.exists():
        if not (venv / "pyvenv.cfg").is_file() and (not venv.is_dir() or any(venv.iterdir())):
            raise BootstrapError(
                f"{venv} exists and is not a virtual environment; move it, or choose "
                f"another folder: make VENV=..."
            )
        say(f"{venv} is incomplete or belongs to another Python: creating it again")
    say(f"creating {venv} with Python {platform.python_version()}")
    run([sys.executable, "-m", "venv", "--clear", str(venv)], "creating the environment failed")


def install(venv: Path, extras: set[str]) -> None:
    """Install this checkout in editable mode, with the tested versions of its dependencies."""
    what = str(ROOT) + (f"[{','.join(sorted(extras))}]" if extras else "")
    shown = "bayeseval" + (f"[{','.join(sorted(extras))}]" if extras else "")
    pins = constraints()
    say(f"installing {shown} with the versions of {pins.relative_to(ROOT)} (a minute or two)")
    begun = time.monotonic()
    run(
        [
            *(str(python_of(venv)), "-m", "pip", "install", "-qq", "--no-input"),
            "--disable-pip-version-check",
            # Of the modules that are used bytecode is compiled below.
            "--no-compile",
            *("--constraint", str(pins), "--editable", what),
        ],
        "the installation failed; the reason is above",
    )
    with tempfile.TemporaryDirectory() as scratch:
        compile_modules(venv, (*FIRST_FIT, "--out", str(Path(scratch) / "fit")))
    say(f"installed in {time.monotonic() - begun:.0f} s")


def compile_modules(venv: Path, words: Sequence[str]) -> None:
    """Run Python once so that it keeps the bytecode of what it imports.

    With ``PYTHONDONTWRITEBYTECODE``, as in many containers, every command would compile two
    thousand modules again, which takes a third of the time of a fit.
    """
    allowed = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [str(python_of(venv)), *words]
    if subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=allowed
    ).returncode:
        raise BootstrapError(f"a first fit failed; run it to see why: {shlex.join(command)}")


def run(command: list[str], problem: str) -> None:
    """Run a command and show its output."""
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
        raise BootstrapError(problem)


def say(line: str) -> None:
    """Print a line on stderr."""
    print(f"bayeseval: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
