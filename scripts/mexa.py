"""`python scripts/mexa.py ARGS` is `bayeseval mexa ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("mexa"))
