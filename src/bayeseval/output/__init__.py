"""Results: atomic folders, CSV tables, figures and what the terminal shows.

`store` knows files only; `tables` asks `estimands`; `figures` draws those tables;
`results` puts a result folder together. Names are imported from their module when
they are first used, so that nothing heavy is loaded before it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeseval.output.comparison import format_comparison, write_comparison
    from bayeseval.output.progress import progress_bar
    from bayeseval.output.results import (
        default_folder,
        read_results,
        run_identity,
        write_results,
    )
    from bayeseval.output.sensitivity import (
        format_sensitivity,
        sensitivity_sentences,
        write_sensitivity,
    )
    from bayeseval.output.store import check_additions, check_target
    from bayeseval.output.terminal import format_listing, format_preamble, format_results

__all__ = [
    "check_additions",
    "check_target",
    "default_folder",
    "format_comparison",
    "format_listing",
    "format_preamble",
    "format_results",
    "format_sensitivity",
    "progress_bar",
    "read_results",
    "run_identity",
    "sensitivity_sentences",
    "write_comparison",
    "write_results",
    "write_sensitivity",
]

_HOME = {
    "check_additions": "store",
    "check_target": "store",
    "default_folder": "results",
    "format_comparison": "comparison",
    "format_listing": "terminal",
    "format_preamble": "terminal",
    "format_results": "terminal",
    "format_sensitivity": "sensitivity",
    "progress_bar": "progress",
    "read_results": "results",
    "run_identity": "results",
    "sensitivity_sentences": "sensitivity",
    "write_comparison": "comparison",
    "write_results": "results",
    "write_sensitivity": "sensitivity",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
