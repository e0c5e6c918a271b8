"""`python scripts/compare.py ARGS` is `bayeseval compare ARGS`."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> int:
    """Run the command, or say in one line how to install what it needs."""
    if find_spec("bayeseval") is None:
        print(
            "error: bayeseval is not installed for this Python; run `make fit`, "
            "or `pip install -e .` first",
            file=sys.stderr,
        )
        return 2
    from bayeseval.cli import main as bayeseval

    return bayeseval(["compare", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
