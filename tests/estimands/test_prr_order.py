"""PRR has no pairs of its own: the refusal names the quantity with the same order."""

from __future__ import annotations

import pytest

from bayeseval.errors import InputError
from bayeseval.estimands import pairwise_table
from tests.estimands.trees import make_tree


def test_pairs_of_prr_are_those_of_scores() -> None:
    with pytest.raises(InputError, match="same order in it as in standardised_score; use that"):
        pairwise_table(make_tree(), ["prr"])
