# ruff: noqa: T201
"""Print how fits to the XQuAD table of arXiv:2509.22612 compare with plain sds and resampling.

    BAYESEVAL_CACHE=DIR python -m tests.reference.check_xquad

The benchmark is fetched once into the user's cache; it is not part of the tests. The
same checks run on a simulated table in `tests/test_replicates.py`.
"""

from __future__ import annotations

import sys

import bayeseval
from tests.replicate_checks import between, outside, p_above, resampled, shrunken

PAIR = ("Clarus-7B-v0.3", "gemma-2-9b")


def main() -> int:
    records = bayeseval.load("xquad")
    table = records.table
    pooled = bayeseval.fit(records, "replicates", engine="numpyro")
    gaps = between(pooled, table)
    print(gaps.round(3).to_string())
    cells = shrunken(pooled, table)
    # Monte-Carlo errors of two posterior means whose sds are near 0.15.
    strays = outside(cells, slack=0.005)
    print(f"{len(strays)} of {len(cells)} shrunken seed sds are not between raw sd and average")
    print(strays.round(4).to_string())
    alone = bayeseval.fit(
        records, {"name": "alone", "replicates": {"pool": False}}, engine="marginal", draws=10_000
    )
    ours, theirs = p_above(alone, PAIR), resampled(table, PAIR)
    for name, p in ours.items():
        print(f"P({PAIR[0]} above {PAIR[1]}), {name}: {p:.3f}; resampled: {theirs[name]:.3f}")
    apart = max(abs(p - theirs[name]) for name, p in ours.items())
    failed = gaps["gap"].abs().max() > 0.15 or len(strays) > 0 or apart > 0.02
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
