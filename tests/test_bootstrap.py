"""The virtual environment's bootstrap: one installation, none half done, nothing else deleted."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bootstrap.py"


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installs(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """What would have been installed; the network is not used. Environments are real."""
    calls: list[set[str]] = []

    def make(venv: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", venv], check=True)

    monkeypatch.setattr(bootstrap, "make_venv", make)
    monkeypatch.setattr(bootstrap, "has_pip", lambda venv: True)
    monkeypatch.setattr(bootstrap, "install", lambda venv, extras: calls.append(set(extras)))
    return calls


def test_installs_once(bootstrap: ModuleType, installs: list[set[str]], tmp_path: Path) -> None:
    for _ in range(2):
        bootstrap.bootstrap(tmp_path / "venv", set())
    assert installs == [set()]


def test_extras_add_up_and_stay(
    bootstrap: ModuleType, installs: list[set[str]], tmp_path: Path
) -> None:
    for extras in (set(), {"test"}, set(), {"docs"}, {"test", "docs"}):
        bootstrap.bootstrap(tmp_path / "venv", extras)
    assert installs == [set(), {"test"}, {"test", "docs"}]


def test_an_interrupted_installation_is_started_over(
    bootstrap: ModuleType,
    installs: list[set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    venv = tmp_path / "venv"
    bootstrap.bootstrap(venv, set())

    def interrupted(venv: Path, extras: set[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "install", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.bootstrap(venv, {"test"})
    assert not (venv / bootstrap.STAMP).exists()
    bootstrap.bootstrap(venv, set())
    assert installs == [set(), set()]


def test_changed_pins_install_again(
    bootstrap: ModuleType,
    installs: list[set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap.bootstrap(tmp_path / "venv", {"test"})
    pins = tmp_path / "pins.txt"
    pins.write_text("numpy==2.0\n", encoding="utf-8")
    monkeypatch.setattr(bootstrap, "constraints", lambda: pins)
    bootstrap.bootstrap(tmp_path / "venv", set())
    assert installs == [{"test"}, {"test"}]


def test_bytecode_is_kept_where_python_may_not_write_it(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "bytecode"))
    monkeypatch.setattr(bootstrap, "python_of", lambda venv: Path(sys.executable))
    words = ("-c", "import quopri")

    def kept() -> list[Path]:
        return list((tmp_path / "bytecode").rglob("quopri*.pyc"))

    # Negative control: Python alone obeys.
    subprocess.run([sys.executable, *words], check=True)
    assert kept() == []
    bootstrap.compile_modules(tmp_path, words)
    assert len(kept()) == 1
    with pytest.raises(bootstrap.BootstrapError, match="a first fit failed"):
        bootstrap.compile_modules(tmp_path, ("-c", "raise SystemExit(3)"))


def test_another_pythons_environment_is_made_anew(
    bootstrap: ModuleType,
    installs: list[set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    venv = tmp_path / "venv"
    bootstrap.bootstrap(venv, {"test"})
    (venv / "left-over").touch()
    monkeypatch.setattr(bootstrap, "version_of", lambda venv: "3.99.0")
    bootstrap.bootstrap(venv, set())
    assert installs == [{"test"}, set()]
    assert not (venv / "left-over").exists()


def test_version_of_an_environment_and_of_none(bootstrap: ModuleType, tmp_path: Path) -> None:
    assert bootstrap.version_of(Path(sys.prefix)) == platform.python_version()
    assert bootstrap.version_of(tmp_path) is None


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.tex").write_text("It was", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--venv", precious], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {precious} exists and is not a virtual environment")
    assert done.stderr.count("\n") == 1
    assert (precious / "chapter1.tex").read_text(encoding="utf-8") == "It was"


def test_a_broken_stamp_counts_as_none(bootstrap: ModuleType, tmp_path: Path) -> None:
    stamp = tmp_path / bootstrap.STAMP
    stamp.write_text("{half", encoding="utf-8")
    assert bootstrap.read_stamp(tmp_path) == {}
    bootstrap.write_stamp(tmp_path, {"extras": ["test"]})
    assert json.loads(stamp.read_text(encoding="utf-8")) == {"extras": ["test"]}
