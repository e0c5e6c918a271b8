"""The wheel: what is in it, and that it works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parent.parent


def clean_environment() -> dict[str, str]:
    """The environment of a user: nothing points Python at this checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "COV"))}
    return kept | {"JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg"}


def call(*command: str | Path, cwd: Path, allowed: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in allowed, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from the sdist, as a release would."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment that holds the wheel; returns its `bin`.

    Third-party packages come from the running environment: its site-packages are
    appended by a .pth file. They stand after the wheel on the path, and the .pth
    files inside them (the one of an editable bayeseval) are not read.
    """
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=False)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / Path(sys.executable).name
    (wheel,) = dist.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    call(*pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=dist)
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(call(python, "-c", find, cwd=dist).strip())
    outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "zz_third_party.pth").write_text("\n".join(sorted(outer)) + "\n", encoding="utf-8")
    return scripts


def test_wheel_holds_the_package_and_the_shipped_files_only(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        extra = set(archive.namelist()) - files
    package = ROOT / "src" / "bayeseval"
    code = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    data = [
        path
        for kind in ("benchmarks", "models")
        for path in (ROOT / kind).rglob("*")
        if path.is_file()
    ]
    expected = {f"bayeseval/{p.relative_to(package).as_posix()}" for p in code}
    expected |= {f"bayeseval/_data/{p.relative_to(ROOT).as_posix()}" for p in data}
    assert files == expected
    assert "bayeseval/_data/benchmarks/mega/records.csv" in files
    assert "bayeseval/_data/models/additive.yaml" in files
    assert "bayeseval/py.typed" in files
    assert any(name.endswith("licenses/LICENSE") for name in extra)


def test_sdist_holds_what_is_needed_to_test_it(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        *("pyproject.toml", "Makefile", "LICENSE", "README.md", "ARCHITECTURE.md"),
        *("constraints/3.11.txt", "constraints/3.12.txt", "scripts/bootstrap.py"),
        *("tests/conftest.py", "tests/test_wheel.py", "benchmarks/mega/benchmark.yaml"),
    }
    assert sorted(needed - files) == []
    assert not [name for name in files if "__pycache__" in name or name.startswith(".venv")]


def test_the_wheel_is_what_gets_imported(installed: Path, tmp_path: Path) -> None:
    code = "import bayeseval, pandas; print(bayeseval.__file__); print(pandas.__file__)"
    ours, theirs = call(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(ours).is_relative_to(installed.parent)
    assert not Path(theirs).is_relative_to(installed.parent)


def test_resources_of_the_wheel_equal_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "from bayeseval._resources import resource_names\n"
        "for kind in ('benchmarks', 'models'):\n"
        "    for name, path in resource_names(kind).items(): print(kind, name, path, sep='|')"
    )
    rows = [r.split("|") for r in call(installed / "python", "-c", code, cwd=tmp_path).splitlines()]
    assert ["benchmarks", "mega"] in [row[:2] for row in rows]
    assert {row[1] for row in rows if row[0] == "models"} == {
        path.stem for path in (ROOT / "models").glob("*.yaml")
    }
    for _, _, path in rows:
        inside = Path(path)
        assert inside.is_relative_to(installed.parent)
        within = inside.parts[inside.parts.index("_data") + 1 :]
        assert inside.read_bytes() == ROOT.joinpath(*within).read_bytes()


def test_fit_from_the_wheel_in_another_folder(installed: Path, tmp_path: Path) -> None:
    command = (installed / "bayeseval", "fit", "--benchmark", "mega", "-m", "additive")
    call(
        *command,
        "--draws",
        "300",
        "--out",
        "out",
        "--no-figures",
        "--quiet",
        cwd=tmp_path,
        allowed=(0, 3),
    )
    out = tmp_path / "out"
    potential = pd.read_csv(out / "tables" / "language_potential.csv")
    disparity = pd.read_csv(out / "tables" / "model_disparity.csv")
    assert potential["language"].nunique() == len(potential) == 53
    assert disparity["model"].nunique() == 13
    assert potential["potential_mean"].between(0, 100).all()
    assert (out / "posterior.nc").stat().st_size > 0
    assert (out / "run.json").stat().st_size > 0
    assert not list(out.glob("figures/*"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
