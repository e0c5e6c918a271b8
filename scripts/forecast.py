"""`python scripts/forecast.py ARGS` is `bayeseval forecast ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("forecast"))
