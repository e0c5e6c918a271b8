"""`python -m bayeseval.cli`."""

import sys

from bayeseval.__main__ import main

sys.exit(main())
