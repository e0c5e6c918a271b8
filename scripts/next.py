"""`python scripts/next.py ARGS` is `bayeseval next ARGS`."""

import sys

from _command import run

if __name__ == "__main__":
    sys.exit(run("next"))
