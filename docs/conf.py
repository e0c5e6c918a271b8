"""Sphinx configuration of the pages; CONTRIBUTING.md says how pages that run are written."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache.cache.db import create_db

import bayeseval

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "bayeseval"
author = "bayeseval contributors"
copyright = "bayeseval contributors"
release = version = bayeseval.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3  # links such as model.md#priors
exclude_patterns = ["_build"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"bayeseval {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "bayeseval"},
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc", "download-notebook"],
    "article_header_start": ["breadcrumbs"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

autodoc_typehints = "none"  # numpydoc docstrings say the types
numpydoc_show_class_members = False

# Changed by any of these, a page runs again. jupyter-cache itself compares code cells only and
# would show the numbers of an older bayeseval.
_INPUTS = ("src/bayeseval", "benchmarks", "models", "perf/results", "constraints")


def _digest_of_inputs() -> str:
    digest = hashlib.sha256(platform.python_version().encode())
    for folder in _INPUTS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in {".pyc", ".pyo"}:
                digest.update(str(path.relative_to(ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / ".jupyter_cache" / _digest_of_inputs())
nb_execution_in_temp = True  # what a cell writes is not left among the pages
nb_execution_timeout = 600  # seconds for one cell, on a busy machine
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_output_stderr = "warn"  # a warning or a progress bar in an output fails the build
nb_merge_streams = True

# A profile of its own: nothing of the author's IPython runs in the pages.
_PROFILE = DOCS / "_build" / "ipython" / "profile_default"
_PROFILE.mkdir(parents=True, exist_ok=True)
(_PROFILE / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n", "utf-8")

# Kernels inherit these. Cells may run the command bayeseval.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["IPYTHONDIR"] = str(_PROFILE.parent)
os.environ["BAYESEVAL_CHECKOUT"] = str(ROOT)  # for pages that read perf/results
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TQDM_DISABLE"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # of tqdm, without ipywidgets


def _spread_notebooks(app: Any, env: Any, docnames: list[str]) -> None:
    """Put other pages between the notebooks: processes read pages in runs of neighbours."""
    runs, others = [], []
    for name in docnames:
        text = Path(env.doc2path(name)).read_text("utf-8")
        (runs if "{code-cell}" in text else others).append(name)
    if runs:
        # Processes that found no database would create its tables at the same time.
        Path(nb_execution_cache_path).mkdir(parents=True, exist_ok=True)
        create_db(nb_execution_cache_path).dispose()
        share = -(-len(others) // len(runs))
        docnames[:] = [
            name
            for at, run in enumerate(runs)
            for name in (run, *others[at * share : (at + 1) * share])
        ]


def _offer_notebook(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the notebook of a page beside it, and name it to the template.

    Without outputs: of a page that comes from the cache, myst-nb writes none.
    """
    notebook = Path(app.outdir).parent / "jupyter_execute" / f"{pagename}.ipynb"
    if doctree is None or not notebook.is_file():
        return
    target = Path(app.outdir) / f"{pagename}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = nbformat.read(notebook, as_version=4)
    for cell in content.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(content, target)
    context["notebook"] = target.name


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-before-read-docs", _spread_notebooks)
    app.connect("html-page-context", _offer_notebook)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
