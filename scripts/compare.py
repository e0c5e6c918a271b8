"""`python scripts/compare.py ARGS` is `bayeseval compare ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("compare"))
