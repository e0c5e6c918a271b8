"""The rules of the test session itself: no unexplained skip in CI, no stray state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST

CONFTEST = Path(__file__).with_name("conftest.py")

ALLOWED = """
def test_passes(): pass

def test_accelerator():
    pytest.skip("needs an accelerator")

def test_other_python():
    pytest.skip("needs Python 3.12")

@pytest.mark.xfail(strict=True)
def test_expected_failure():
    assert False
"""
REFUSED = """
def test_slow():
    pytest.skip("too slow today")

def test_missing_package():
    pytest.importorskip("no_such_package")
"""
WHOLE_MODULE = """
pytest.importorskip("no_such_package")
"""
STRAY = """
import numpy as np

seen = []

def test_figure():
    import matplotlib.pyplot as plt
    plt.figure()

@pytest.mark.parametrize("again", [False, True])
def test_global_generator(again):
    seen.append(np.random.normal())
    assert len(set(seen)) == 1
"""


def session(folder: Path, *options: str, ci: bool, **files: str) -> tuple[int, str]:
    """Exit code and output of a small session under this project's conftest."""
    shutil.copy(CONFTEST, folder / "conftest.py")
    for name, source in files.items():
        (folder / f"test_{name}.py").write_text(f"import pytest\n{source}", encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS")}
    environment |= {"CI": "true"} if ci else {}
    # Other plugins that happen to be installed take longer to import than the session takes.
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider"]
    command += ["--rootdir", "."]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


# The reports reach the session by another way when workers run the tests.
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_ci_fails_on_unexplained_skips_only(tmp_path: Path, workers: tuple[str, ...]) -> None:
    files = {"allowed": ALLOWED, "refused": REFUSED, "module": WHOLE_MODULE}
    code, output = session(tmp_path, *workers, ci=True, **files)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    listed = output.partition("skips that are not allowed here")[2]
    # pytest's own "-ra" lines do not begin with the name of a test file.
    names = re.findall(r"^(test_\w+\.py(?:::\w+)?):", listed, flags=re.MULTILINE)
    expected = {"test_module.py", "test_refused.py::test_missing_package"}
    assert set(names) == expected | {"test_refused.py::test_slow"}


def test_ci_passes_with_explained_skips(tmp_path: Path) -> None:
    code, output = session(tmp_path, ci=True, allowed=ALLOWED)
    assert code == 0, output
    assert "skips that are not allowed here" not in output


def test_at_home_a_skip_is_a_skip(tmp_path: Path) -> None:
    assert session(tmp_path, ci=False, refused=REFUSED)[0] == 0


def test_a_file_divided_among_workers_fails(tmp_path: Path) -> None:
    # A scheduler that has lost the files, as `loadgroup` once lost its groups.
    (tmp_path / "lost.py").write_text(
        "from xdist.scheduler import LoadFileScheduling\n"
        "LoadFileScheduling._split_scope = lambda self, nodeid: nodeid\n"
    )
    files = {"a": "@pytest.mark.parametrize('i', range(4))\ndef test(i): pass"}
    code, output = session(tmp_path, "-n", "2", "--dist=loadfile", "-p", "lost", ci=False, **files)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "4 passed" in output
    assert "test_a.py" in output.partition("files that several workers ran")[2]


def test_the_longest_files_start_first(tmp_path: Path) -> None:
    root = CONFTEST.parents[1]
    assert [file for file in LONGEST if not (root / file).is_file()] == []
    folder = tmp_path / "tests"
    (folder / "engines").mkdir(parents=True)
    late, early = LONGEST[0], LONGEST[1]
    assert sorted([late, early]) == [early, late]
    for file in (late, early, "tests/test_a.py"):
        (tmp_path / file).write_text("def test_first(): pass\ndef test_second(): pass\n")
    options = ["--collect-only", "--import-mode=importlib"]
    code, output = session(tmp_path, *options, ci=False)
    assert code == 0, output
    found = [line for line in output.splitlines() if "::" in line]
    files = (late, early, "tests/test_a.py")
    assert found == [f"{file}::test_{name}" for file in files for name in ("first", "second")]


def test_stray_state_fails_the_test_or_is_undone(tmp_path: Path) -> None:
    code, output = session(tmp_path, ci=False, stray=STRAY)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "figures left open" in output
    assert "3 passed, 1 error" in output
