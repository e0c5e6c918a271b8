"""The report of one fit: folder, tables, figures and what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayeseval import names
from bayeseval._text import counted, one_line

__all__ = ["run_data", "run_title"]


def run_title(run: Mapping[str, Any]) -> str:
    """Name a fit in figures, texts and headings: benchmark, model and engine.

    Parameters
    ----------
    run : mapping
        Its provenance, as in ``run.json``.

    Examples
    --------
    >>> run_title({"benchmark": "mega", "spec": {"name": "additive"}, "engine": "marginal"})
    'mega, model additive, engine marginal'
    """
    return one_line(f"{run['benchmark']}, model {run['spec']['name']}, engine {run['engine']}")


def run_data(run: Mapping[str, Any]) -> str:
    """Say which table was fitted and how large it is, for the captions of figures.

    Parameters
    ----------
    run : mapping
        Its provenance, as in ``run.json``. Results of early versions have no counts.

    Examples
    --------
    >>> levels = {"model": 2, "language": 3, "task": 1}
    >>> run_data({"benchmark": "mini", "levels": levels, "n_records": 5})
    'Data: mini, 2 models, 3 languages, 1 task, 5 records.'
    """
    levels = run.get("levels") or {}
    factors = (names.MODEL, names.LANGUAGE, names.TASK)
    counts = [counted(levels[factor], factor) for factor in factors if factor in levels]
    counts += [counted(run["n_records"], "record")] if "n_records" in run else []
    return f"Data: {', '.join([str(run['benchmark']), *counts])}."
