"""The public surface, and what importing it costs: nothing heavy, nothing shadowed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import bayeseval

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = [
    "BayesevalError",
    "Costs",
    "Covariate",
    "Fit",
    "ModelSpec",
    "Records",
    "calibrate",
    "cite",
    "compare",
    "fit",
    "forecast",
    "list_benchmarks",
    "list_models",
    "load",
    "next_cells",
    "plan",
    "pymc_model",
    "sensitivity",
    "simulate",
]
HEAVY = {
    *("arviz", "arviz_base", "arviz_plots", "arviz_stats", "blackjax", "jax", "matplotlib"),
    *("jinja2", "markupsafe", "numpyro", "nutpie", "pymc", "pytensor", "statsmodels", "torch"),
    *("dask", "distributed", "ibis", "psycopg", "transformers", "vl_convert"),
}


def run(code: str) -> str:
    """Standard output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    """Top-level packages that a statement brings into a fresh interpreter."""
    listing = "import sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    return set(json.loads(run(f"{statement}\n{listing}").splitlines()[-1]))


def test_import_loads_no_ppl_no_torch_not_even_pandas() -> None:
    loaded = loaded_by("import bayeseval")
    assert "bayeseval" in loaded
    assert loaded & (HEAVY | {"pandas", "numpy", "scipy", "xarray", "pydantic"}) == set()


NAMING = (
    "import bayeseval as be; be.Fit, be.ModelSpec, be.Records, be.fit, be.load",
    "import bayeseval.engines, bayeseval.estimands, bayeseval.output, bayeseval.cli",
    "import bayeseval.simulation",
    "import bayeseval.mexa.run",
    "import bayeseval as be; be.load('mega')",
    "from bayeseval.cli import main; main(['--help'])",
    "from bayeseval.cli import main; main(['validate', 'mega'])",
)


def heavy_of_each(statements: Sequence[str]) -> list[list[str]]:
    """Heavy packages that each of the statements adds, one after the other in one interpreter."""
    code = f"""
import json, sys
loaded, added = set(), []
for statement in {list(statements)!r}:
    exec(statement, {{}})
    now = {{m.split('.')[0] for m in sys.modules}} & {HEAVY!r}
    added.append(sorted(now - loaded))
    loaded |= now
print(json.dumps(added))
"""
    return list(json.loads(run(code).splitlines()[-1]))


def test_naming_things_loads_no_ppl() -> None:
    assert dict(zip(NAMING, heavy_of_each(NAMING), strict=True)) == {one: [] for one in NAMING}


def test_what_each_statement_loads_is_told() -> None:
    statements = ["import bayeseval", "import bayeseval, jinja2", "import jinja2", "import dask"]
    assert heavy_of_each(statements) == [[], ["jinja2", "markupsafe"], [], ["dask"]]


def test_the_check_sees_a_heavy_import() -> None:
    assert "matplotlib" in loaded_by("import bayeseval, matplotlib")


def test_public_surface() -> None:
    assert bayeseval.__all__ == PUBLIC
    assert dir(bayeseval) == sorted([*PUBLIC, "__version__"])
    for name in PUBLIC:
        assert getattr(bayeseval, name).__name__ == name
        assert getattr(bayeseval, name).__module__.startswith("bayeseval.")


def test_dir_lists_the_surface_before_anything_is_loaded() -> None:
    shown = run("import bayeseval as be; print(*[n for n in dir(be) if n in be.__all__])")
    assert shown.split() == PUBLIC


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'bayeseval' has no attribute 'fitt'"):
        bayeseval.fitt  # noqa: B018 - reading it is the test


def test_functions_are_functions_whatever_was_imported_before() -> None:
    code = """
import types
import bayeseval.fitting, bayeseval.comparison.run, bayeseval.planning, bayeseval
from bayeseval.fitting import fit
assert bayeseval.fit is fit
for name in ("calibrate", "compare", "fit", "forecast", "load", "plan", "sensitivity"):
    assert isinstance(getattr(bayeseval, name), types.FunctionType), name
assert isinstance(bayeseval.fitting, types.ModuleType)
"""
    run(code)


def test_other_submodules_are_bound_as_usual() -> None:
    code = "import bayeseval.names; assert bayeseval.names.LANGUAGE == 'language'"
    run(code)


def test_a_public_name_can_be_replaced_in_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bayeseval, "fit", "stand-in")
    assert bayeseval.fit == "stand-in"
    monkeypatch.undo()
    assert callable(bayeseval.fit)


def test_one_version_everywhere() -> None:
    said = bayeseval.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", said)
    assert f"version: {said}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{said}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        installed = version("bayeseval")
    except PackageNotFoundError:
        return  # run from a source tree: there is no second number to compare
    assert installed == said


# Tools that are run, plug-ins that are found by their names, and types for mypy.
NOT_IMPORTED = {
    *("accelerate", "blackjax", "h5netcdf", "nutpie", "typst"),
    *("build", "hatchling", "mypy", "pandas-stubs", "pytest-xdist", "ruff", "types-pyyaml"),
    *("ipykernel", "jupyter-cache", "myst-nb", "pydata-sphinx-theme", "sphinx"),
}
# What a distribution is imported as, where it has another name.
MODULES = {
    "axe-playwright-python": "axe_playwright_python",
    "ibis-framework": "ibis",
    "jinja2": "jinja2",
    "python-bidi": "bidi",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
    "vl-convert-python": "vl_convert",
}


def test_extras_within_extras_have_no_marker() -> None:
    """Hatchling would leave it out: Python 3.13 installed 5 GB of CUDA for tests it skips."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    nested = [one for texts in extras.values() for one in texts if one.startswith("bayeseval[")]
    assert nested
    assert not [one for one in nested if ";" in one]
    mexa = {one for one in extras["test"] if one.partition(";")[0] in extras["mexa"]}
    assert len(mexa) == len(extras["mexa"])
    assert {one.partition("; ")[2] for one in mexa} == {"python_version < '3.12'"}


def test_every_dependency_is_imported_somewhere() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].values()
    texts = [*project["dependencies"], *(text for extra in extras for text in extra)]
    asked = {re.match(r"[\w-]+", text)[0].lower() for text in texts} - {"bayeseval"}  # type: ignore[index]
    files = [
        path
        for folder in ("src", "tests", "perf", "docs", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md") and "_build" not in path.parts
    ]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    imported |= set(re.findall(r"(?:require|importorskip|find_spec)\(\s*\"(\w+)", code))
    lacking = {one for one in asked if MODULES.get(one, one.replace("-", "_")) not in imported}
    assert lacking <= NOT_IMPORTED
    # Those have to be asked for all the same.
    assert asked >= NOT_IMPORTED
