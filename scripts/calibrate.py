"""`python scripts/calibrate.py ARGS` is `bayeseval calibrate ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("calibrate"))
