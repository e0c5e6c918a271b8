"""`python scripts/plan.py ARGS` is `bayeseval plan ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("plan"))
