"""`python -m bayeseval.cli`."""

import sys

from bayeseval.cli import main

sys.exit(main())
