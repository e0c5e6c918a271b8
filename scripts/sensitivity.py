"""`python scripts/sensitivity.py ARGS` is `bayeseval sensitivity ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("sensitivity"))
