"""Quantities of a fit in words: ``standardised_score_rank`` is the rank by score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bayeseval import names

__all__ = ["quantity_text"]

# One and several.
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    names.LANGUAGE_POTENTIAL: ("potential", "potentials"),
    names.STANDARDISED_SCORE: ("score", "scores"),
    names.GAP_SD: ("sd of gaps", "sds of gaps"),
}
_RANK: Final = names.rank_name("")
_SDS: Final[Mapping[str, str]] = {
    names.SD_RESIDUAL: "sd of the residual",
    **{names.sd_name(term): f"sd of {term}" for term in (*names.FACTORS, *names.INTERACTIONS)},
}


def quantity_text(quantity: str, number: int = 1) -> str:
    """A quantity in words, as many as there are.

    Parameters
    ----------
    quantity : str
        A variable of the posterior: ``language_potential``, ``sd_task``, or their ranks.
    number : int

    Examples
    --------
    >>> quantity_text("standardised_score_rank"), quantity_text("sd_model_task")
    ('rank by score', 'sd of model:task')
    """
    stem = quantity.removesuffix(_RANK)
    word = _WORDS.get(stem)
    if word is None:
        return _SDS.get(quantity, quantity.replace("_", " "))
    if stem == quantity:
        return word[number != 1]
    return f"rank{'' if number == 1 else 's'} by {word[0]}"
