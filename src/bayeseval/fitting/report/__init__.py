"""The report of one fit: folder, tables, figures and what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["run_title"]


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
    return f"{run['benchmark']}, model {run['spec']['name']}, engine {run['engine']}"
