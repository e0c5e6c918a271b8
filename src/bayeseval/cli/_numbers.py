"""Numbers in options: lists with commas, and ranges."""

from __future__ import annotations

from bayeseval.errors import InputError

__all__ = ["parse_numbers", "parse_whole_numbers"]


def parse_numbers(option: str, text: str | None) -> list[float] | None:
    """Numbers separated by commas; None stays None."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"{option} takes numbers separated by commas, as in 0.5,1,2; got {text!r}"
        ) from error


def parse_whole_numbers(option: str, text: str | None) -> list[int] | None:
    """Whole numbers with commas, and ranges such as 3-6; None stays None."""
    if text is None:
        return None
    values: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            values += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError as error:
        raise InputError(
            f"{option} takes whole numbers, as in 1,2,5 or 3-6; got {text!r}"
        ) from error
    return values
