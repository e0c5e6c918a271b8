"""Quantities in words: no name of a variable is shown to a reader."""

from __future__ import annotations

import pytest

from bayeseval.output.quantities import quantity_text


@pytest.mark.parametrize(
    ("quantity", "number", "text"),
    [
        ("language_potential", 1, "potential"),
        ("language_potential_rank", 2, "ranks by potential"),
        ("standardised_score", 3, "scores"),
        ("standardised_score_rank", 1, "rank by score"),
        ("gap_sd_languages_rank", 1, "rank by sd of gaps"),
        ("sd_task", 1, "sd of task"),
        ("sd_model_language_dataset", 1, "sd of model:language:dataset"),
        ("sd_residual", 1, "sd of the residual"),
        # Not the sd of an interaction.
        ("sd_seed_model", 1, "sd seed model"),
        ("intercept", 1, "intercept"),
    ],
)
def test_words(quantity: str, number: int, text: str) -> None:
    assert quantity_text(quantity, number) == text
