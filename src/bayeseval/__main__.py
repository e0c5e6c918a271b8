"""`python -m bayeseval` is `bayeseval`."""

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; Ctrl-C while it is imported is one line, too."""
    try:
        from bayeseval.cli import main as run
    except KeyboardInterrupt:
        print("error: interrupted; nothing was saved", file=sys.stderr)  # noqa: T201
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
