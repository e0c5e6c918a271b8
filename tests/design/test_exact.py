"""Tables that the terms reproduce exactly have no posterior, and are refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.design.exact import is_reproduced, residual_vanishes
from bayeseval.design.outcome import largest_rounding
from bayeseval.errors import DesignError
from bayeseval.records import Records
from bayeseval.spec import load_spec

CELLS = list(product(("A", "B", "C", "D"), ("de", "en", "hi", "sw", "yo"), ("qa", "nli", "ner")))


def additive(*, noise: float = 0.0, **columns: float) -> pd.DataFrame:
    """Scores that are sums of an effect of the model, the language and the task, and noise."""
    frame = pd.DataFrame(CELLS, columns=["model", "language", "task"])
    rng = np.random.default_rng(3)
    score = np.full(len(frame), 55.0)
    for factor in ("model", "language", "task"):
        codes, labels = pd.factorize(frame[factor])
        score += rng.normal(0.0, 6.0, len(labels))[codes]
    score += noise * rng.normal(size=len(frame))
    return frame.assign(score=score, **columns)


def records(frame: pd.DataFrame) -> Records:
    return Records.from_frame(frame, name="exact", units=(0.0, 100.0))


def two_metrics(*, noise: float = 0.0) -> pd.DataFrame:
    """F1 is EM and a constant, which effects of models, languages and datasets reproduce."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(CELLS, columns=["model", "language", "dataset"])
    em = rng.uniform(20.0, 80.0, len(frame))
    f1 = em + 7.5 + noise * rng.normal(size=len(frame))
    return pd.concat([frame.assign(metric="em", score=em), frame.assign(metric="f1", score=f1)])


def design_of(frame: pd.DataFrame, spec: str | dict[str, str] = "additive") -> Design:
    return build_design(records(frame), load_spec(spec))


def test_an_additive_table_is_refused_and_one_with_noise_is_not() -> None:
    with pytest.raises(DesignError, match=r"exact: intercept \+ language \+ task \+ model") as one:
        design_of(additive())
    assert "reproduces all 60 scores exactly" in str(one.value)
    assert "\n" not in str(one.value)
    design_of(additive(noise=0.01))


@pytest.mark.parametrize(
    ("decimals", "how"),
    [
        (0, None),
        # Rounding to one decimal is 0.002 of the scores' sd, more than a thousandth.
        (1, None),
        (2, "to the printed digits, so only rounding is left"),
        (4, "to the printed digits, so only rounding is left"),
        # Below a millionth of the sd, whatever the digits.
        (6, "exactly, so nothing is left"),
    ],
)
def test_printed_sums_are_refused_where_only_rounding_is_left(
    decimals: int, how: str | None
) -> None:
    frame = additive().round({"score": decimals})
    if how is None:
        design_of(frame)
        return
    with pytest.raises(DesignError, match=f"reproduces all 60 scores {how}"):
        design_of(frame)
    # The same table in shares: digits count, not units.
    shares = frame.assign(score=frame["score"] / 100.0)
    with pytest.raises(DesignError, match=f"reproduces all 60 scores {how}"):
        build_design(Records.from_frame(shares, name="s", units=(0, 1)), load_spec("additive"))


@pytest.mark.parametrize("decimals", [0, 1, 2, 4])
def test_printed_scores_with_noise_are_not_refused(decimals: int) -> None:
    for noise in (0.1, 1.0, 4.0):
        design_of(additive(noise=noise).round({"score": decimals}))
    # Noise just beyond rounding, though below a thousandth of the scores' sd.
    design_of(additive(noise=0.012).round({"score": 2}))
    # Few and coarse scores, with one degree of freedom left for the residual.
    square = pd.DataFrame(
        {
            "model": ["A", "A", "B", "B"],
            "language": ["de", "en", "de", "en"],
            "task": ["qa"] * 4,
            "score": np.round([10.0, 35.0, 80.0, 90.0], decimals),
        }
    )
    design_of(square)
    design_of(square.assign(score=[0.0, 0.0, 0.0, 1.0]))


def test_printed_sums_of_logits_are_refused_under_the_logit_link() -> None:
    frame = additive()
    frame["score"] = (100.0 / (1.0 + np.exp(-(frame["score"] - 55.0) / 10.0))).round(3)
    with pytest.raises(DesignError, match="reproduces all 60 scores to the printed digits"):
        design_of(frame, "logit")
    # Sums of logits are no sums of scores.
    design_of(frame, "additive")


def test_rounding_is_that_of_each_task_on_the_scale_of_the_linear_predictor() -> None:
    frame = additive(noise=2.0)
    printed = frame["score"].where(frame["task"] != "qa", frame["score"].round(1))
    frame["score"] = printed.where(frame["task"] != "ner", frame["score"].round(3))
    for spec, slope in (("additive", 1.0), ("logit", None)):
        design = design_of(frame, spec)
        task = design.factor_index["task"]
        found = largest_rounding(design.outcome, design.score, task)
        half = np.array([{"qa": 0.05, "ner": 0.0005}.get(t, 0.0) for t in design.coords["task"]])
        p = design.score / 100.0
        per_unit = slope or 1.0 / (100.0 * p * (1.0 - p))
        np.testing.assert_allclose(found, half[task] * per_unit, rtol=1e-9)


@pytest.mark.parametrize("spec", ["interaction", "crossed", "paper", "robust", "logit"])
def test_larger_models_reproduce_an_additive_table_as_well(spec: str) -> None:
    frame = additive()
    if spec == "logit":
        # Sums on the scale of the linear predictor.
        frame["score"] = 100.0 / (1.0 + np.exp(-(frame["score"] - 55.0) / 10.0))
    with pytest.raises(DesignError, match="reproduces all 60 scores exactly"):
        design_of(frame, spec)


def test_a_metric_computed_from_another_is_refused_where_a_term_shares_it() -> None:
    with pytest.raises(DesignError, match="model:language:dataset reproduces all 120 scores"):
        design_of(two_metrics(), "dataset")
    design_of(two_metrics(), "additive")
    design_of(two_metrics(noise=0.01), "dataset")
    # Both metrics printed, each with rounding of its own.
    printed = two_metrics()
    printed.loc[printed["metric"] == "f1", "score"] += 1.0 / 3.0
    with pytest.raises(DesignError, match="reproduces all 120 scores to the printed digits"):
        design_of(printed.round({"score": 2}), "dataset")
    design_of(printed.round({"score": 1}), "dataset")


def test_the_advice_works_when_followed() -> None:
    with pytest.raises(
        DesignError, match=r"drop one of the two metrics \(drop=.*auto'\), or check"
    ):
        design_of(two_metrics(), "dataset")
    frame = two_metrics()
    design_of(frame, "additive")
    design_of(frame[frame["metric"] == "em"], "additive")
    # Fewer terms do not help where main effects are enough.
    with pytest.raises(DesignError, match="; check whether scores were computed"):
        design_of(additive(), "crossed")


def test_known_noise_leaves_a_posterior() -> None:
    design_of(additive(se=1.5))
    some = additive().assign(se=np.where(np.arange(len(CELLS)) < 20, 1.5, 0.0))
    with pytest.raises(DesignError, match="all 40 scores exactly that have no standard error, so"):
        design_of(some)
    counts = additive()
    counts["n"] = 1000.0
    counts["k"] = (counts["score"] * 10.0).round()
    counts["score"] = counts["k"] / 10.0
    design_of(counts, "counts")


def test_replicates_are_noise_of_their_own() -> None:
    seeds = [additive().assign(seed=seed) for seed in (1, 2, 3)]
    rng = np.random.default_rng(5)
    shifts = rng.normal(size=(3, len(CELLS)))
    shifts -= shifts.mean(axis=0)
    frames = [
        frame.assign(score=frame["score"] + s) for frame, s in zip(seeds, shifts, strict=True)
    ]
    design_of(pd.concat(frames), "replicates")


def test_one_level_with_a_residual_of_its_own_is_named() -> None:
    frame = additive(noise=3.0)
    frame.loc[frame["task"] == "nli", "score"] = additive()["score"]
    by_task = {"name": "by_task", "residual_by": "task"}
    with pytest.raises(DesignError, match=r"reproduces all 20 scores of task 'nli' exactly"):
        design_of(frame, by_task)
    design_of(frame, "additive")
    design_of(additive(noise=3.0), by_task)


def test_as_many_directions_as_scores_is_no_exact_table() -> None:
    # Three scores fix the intercept and two effects, whatever they are.
    frame = pd.DataFrame(
        {
            "model": ["A", "A", "B"],
            "language": ["de", "en", "en"],
            "task": ["qa"] * 3,
            "score": [10.0, 35.0, 80.0],
        }
    )
    design = design_of(frame)
    everything = np.ones(design.n_records, dtype=np.bool_)
    assert not is_reproduced(design.score, design.terms, (), everything)
    # Negative control: by the residual alone the table would be refused.
    assert residual_vanishes(design.score, design.terms, (), everything)


def test_rank_and_residual_agree_with_dense_linear_algebra() -> None:
    records = load("mega")
    rng = np.random.default_rng(6)
    for spec in ("additive", "interaction", "crossed", "dataset"):
        design = build_design(records, load_spec(spec))
        blocks = [np.ones((design.n_records, 1))]
        blocks += [np.eye(term.n_levels)[term.index] for term in design.terms]
        some = np.zeros(design.n_records, dtype=np.bool_)
        some[rng.choice(design.n_records, 300, replace=False)] = True
        x = np.concatenate(blocks, axis=1)
        for rows in (some, np.ones_like(some)):
            below = np.linalg.matrix_rank(x[rows]) < rows.sum()
            fitted = x @ rng.normal(size=x.shape[1])
            assert is_reproduced(fitted, design.terms, (), rows) == below
            nearly = fitted + 1e-4 * fitted.std() * rng.normal(size=len(fitted))
            assert not is_reproduced(nearly, design.terms, (), rows)
