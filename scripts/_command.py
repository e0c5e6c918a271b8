"""Shared by the scripts: run a command of the package, or explain how to install it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["run"]


def run(command: str) -> int:
    """Run `bayeseval command ARGS`; return 2 if the package is not installed."""
    if find_spec("bayeseval") is None:
        print(
            "error: bayeseval is not installed for this Python; run `make fit`, "
            "or `pip install -e .` first",
            file=sys.stderr,
        )
        return 2
    from bayeseval.__main__ import main

    return main([command, *sys.argv[1:]])
