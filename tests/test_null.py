"""The first table on simulated truths: equal models, drawn models, equal evenness.

Limits are those of the design page; `python -m tests.null_tables 300` prints the numbers for
300 tables. The published means are the negative control: they are seen to fail each time.
"""

from __future__ import annotations

import pytest

from tests.null_tables import drawn_models, equal_evenness, equal_models, one_set_of_outputs


@pytest.mark.parametrize(("spec", "n_tables"), [("additive", 60), ("auto", 30)])
def test_equal_models_are_not_told_apart(spec: str, n_tables: int) -> None:
    found = equal_models(n_tables, spec)
    assert found["called"] <= 0.05
    assert found["single ranks"] <= 0.05
    # Means of observed scores that are taken as exact call nearly every pair.
    assert found["called by the published means"] > 0.8


def test_models_drawn_from_a_population_are_ranked_as_often_right_as_promised() -> None:
    found = drawn_models(80, "additive")
    assert found["pairs called"] > 100
    assert found["wrong of the called"] <= 0.04
    assert 0.92 <= found["score covered"] <= 0.98
    assert found["rank covered"] >= 0.93
    assert found["all ranks covered"] >= 0.93
    assert found["covered by the published means"] < 0.85


def test_equally_even_models_at_different_levels_are_not_told_apart() -> None:
    found = equal_evenness(25, "auto")
    assert found["called by the sd of gaps"] <= 0.05
    # The coefficient of variation follows the level.
    assert found["called by CV-PRR over languages"] > 0.3


def test_noise_that_metrics_of_the_same_outputs_share_does_not_order_models() -> None:
    found = one_set_of_outputs(8)
    assert found["called"] <= 0.05
    assert found["score covered"] >= 0.9
    # The same draws with the shared effect counted as performance call most pairs.
    assert found["called where the shared effect is performance"] > 0.4
