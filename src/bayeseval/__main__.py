"""`python -m bayeseval` is `bayeseval`."""

import gc
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; Ctrl-C while it is imported is one line, too."""
    try:
        from bayeseval.cli import main as run
    except KeyboardInterrupt:
        print("error: interrupted; nothing was saved", file=sys.stderr)  # noqa: T201
        return 130
    code = run(arguments)
    # Python would look through all objects for circular garbage before it ends. DuckDB reports its
    # own as leaks if it does not.
    if "_duckdb" not in sys.modules:
        gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
