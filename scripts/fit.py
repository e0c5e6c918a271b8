"""`python scripts/fit.py ARGS` is `bayeseval fit ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("fit"))
