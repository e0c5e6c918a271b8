"""Covariates of languages: what is refused, what is looked up, what identifies them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.records import Covariate

LANGUAGE = Covariate(
    name="mexa",
    by="language",
    labels=("en", "sw", "ace_Latn"),
    models=(),
    values=np.array([1.0, np.nan, 0.3]),
    se=np.array([0.0, np.nan, 0.05]),
    source="table",
    matched={"en": "eng_Latn", "sw": "swh_Latn"},
)
BOTH = Covariate(
    name="mexa",
    by="model:language",
    labels=("en", "sw", "de"),
    models=("b", "a"),
    values=np.array([[1.0, 0.2, np.nan], [0.9, 0.1, np.nan]]),
)


def test_values_and_errors_by_label() -> None:
    values, se = LANGUAGE.at(["ace_Latn", "fr", "en", "sw"])
    np.testing.assert_array_equal(values, [0.3, np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(se, [0.05, np.nan, 0.0, np.nan])
    values, se = BOTH.at(["sw", "en", "fr"], ["a", "c", "b"])
    np.testing.assert_array_equal(values, [[0.1, 0.9, np.nan], [np.nan] * 3, [0.2, 1.0, np.nan]])
    np.testing.assert_array_equal(se, np.where(np.isnan(values), np.nan, 0.0))
    assert LANGUAGE.missing(["sw", "en", "fr"]) == ("sw", "fr")
    assert BOTH.missing(["de", "sw"]) == ("de",)


def test_it_cannot_be_changed() -> None:
    values = np.array([0.1, 0.2])
    covariate = Covariate("x", "language", ("a", "b"), (), values)
    values[0] = 7.0
    assert covariate.values[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        covariate.values[0] = 7.0
    with pytest.raises(TypeError):
        covariate.matched["a"] = "b"  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": "Mexa score"}, "a name is a lower-case letter"),
        ({"by": "task"}, "by must be one of language, model:language"),
        ({"labels": ("en", "en", "sw")}, "the language 'en' is given twice"),
        ({"models": ("gpt",)}, "by language has no models"),
        ({"by": "model:language"}, "a covariate by model and language needs models"),
        ({"matched": {"swa": "swh_Latn"}}, "'swa' is matched, but .*did you mean 'sw'"),
        ({"values": np.ones(2)}, r"values have the shape \(2,\), expected \(3,\) by the labels"),
        ({"values": np.array([np.inf, 0.0, 1.0])}, "must be numbers from"),
        ({"values": np.array([np.nan, np.nan, 1.0])}, "fewer than two values"),
        ({"se": np.array([0.0, np.nan, -0.1])}, "a standard error is negative"),
        ({"se": np.array([np.nan, 0.1, 0.1])}, "a value has no standard error"),
    ],
)
def test_what_is_refused(change: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        replace(LANGUAGE, **change)


def test_the_hash_is_of_the_content() -> None:
    shuffled = Covariate(
        name="mexa",
        by="model:language",
        labels=("de", "sw", "en"),
        models=("a", "b"),
        values=np.array([[np.nan, 0.1, 0.9], [np.nan, 0.2, 1.0]]),
        source="elsewhere",
        notes=("as before",),
    )
    assert shuffled.content_hash == BOTH.content_hash
    others = [
        replace(BOTH, name="other"),
        replace(BOTH, models=("a", "b")),
        replace(BOTH, values=BOTH.values + 1e-12),
        replace(BOTH, se=np.zeros((2, 3))),
    ]
    assert len({c.content_hash for c in [BOTH, LANGUAGE, *others]}) == 6
