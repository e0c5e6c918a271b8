"""Scores as the likelihoods need them: bounds, counts, floors, edges, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.special import logit

from bayeseval.design import build_design, restore_design
from bayeseval.errors import DesignError, InputError, addressing_command_line
from bayeseval.records import Records
from bayeseval.spec import load_spec
from tests.bounded_tables import design, frame, records


def test_scores_at_the_bounds_are_moved_to_the_edge_and_said() -> None:
    outcome = design(likelihood="beta", edge=0.01).outcome
    shares = frame()["score"] / 100.0
    assert shares[0] == 0.0
    np.testing.assert_allclose(outcome.share, shares.clip(0.01, 0.99), rtol=1e-15)
    assert "1 of 27 scores closer to a bound than 1 % of the range" in outcome.notes[0]
    # Counts reach their bounds.
    assert design(likelihood="binomial").outcome.k[0] == 0.0


def test_priors_scale_with_the_empirical_logits() -> None:
    table = frame()
    built = design(likelihood="beta_binomial")
    logits = logit((table["k"] + 0.5) / (table["n"] + 1.0))
    np.testing.assert_allclose(built.outcome.linear, logits, rtol=1e-12)
    prior = built.priors["intercept"]
    assert (prior.loc, prior.scale) == pytest.approx((logits.mean(), 2.5 * logits.std(ddof=1)))
    assert built.priors["sd_model"].scale == pytest.approx(logits.std(ddof=1))
    assert built.priors["dispersion_beta_binomial"].scale == 0.5
    assert "sd_residual" not in built.priors
    # The residual of a normal task beside it is in score units.
    mixed = design(likelihood={"t0": "normal", "default": "beta"})
    own = table.loc[table["task"] == "t0", "score"]
    assert mixed.priors["sd_residual"].scale == pytest.approx(own.std(ddof=1))


def test_chance_levels_are_shares_of_the_range_and_missing_ones_said() -> None:
    outcome = design(likelihood="binomial", chance=True).outcome
    assert outcome.chance.tolist() == [0.25, 0.1, 0.0]
    assert outcome.notes == ("no chance level, so expected scores go down to the lower bound: t2",)
    assert design(likelihood="binomial").outcome.chance is None


def test_counts_are_read_off_the_scores_where_k_is_not_given() -> None:
    table = frame()
    rounded = table.assign(score=table["score"].round(1)).drop(columns="k")
    np.testing.assert_array_equal(design(rounded, likelihood="binomial").outcome.k, table["k"])


@pytest.mark.parametrize(
    ("spec", "change", "phrases"),
    [
        (
            {"likelihood": "binomial"},
            {"n": None, "k": None},
            ("number of items", "27 records", "fit the model bounded or logit"),
        ),
        (
            {"likelihood": "binomial"},
            {"first score": 7.123456, "k": None},
            ("model m0", "items, not a", "fit the model bounded to other scores"),
        ),
        (
            {"likelihood": "binomial"},
            {"first score": 50.0},
            ("language l0, task t0, model m0", "k = 0"),
        ),
        ({"likelihood": "binomial"}, {"se": 1.0}, ("'t0'", "counted twice")),
        ({"likelihood": "beta"}, {"se": 1.0}, ("'t0'", "beta does not take errors")),
        (
            {"likelihood": "beta", "chance": True},
            {"chance": None},
            ("chance: true", "has no chance levels"),
        ),
        ({"likelihood": "beta", "chance": True}, {"chance": 100.0}, ("100 of task 't0'",)),
        ({"likelihood": {"t9": "beta"}}, {}, ("'t9'", "tasks: t0, t1, t2")),
        ({"likelihood": {"t1": "beta"}}, {}, ("no likelihood for the task 't0'", "default")),
        ({"likelihood": "card"}, {}, ("card", "has none")),
        (
            {"likelihood": "beta", "edge": 0.3},
            {"score": [75.0, 80.0, 85.0] * 9},
            ("27 scores lie within 30 %",),
        ),
        (
            {"likelihood": {"t0": "normal", "default": "beta"}},
            {"score": [40.0, 30.0, 20.0] * 9},
            ("the 9 scores with the likelihood normal", "another likelihood"),
        ),
        (
            {"likelihood": {"default": "binomial", "x": "beta"}, "residual_by": "task"},
            {},
            ("'x'",),
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_one_line(
    spec: dict[str, Any], change: dict[str, Any], phrases: tuple[str, ...]
) -> None:
    table = frame()
    for column, value in change.items():
        if column == "first score":
            table.loc[0, "score"] = value
            continue
        table = table.drop(columns=column) if value is None else table.assign(**{column: value})
    with pytest.raises(DesignError) as caught:
        design(table, **spec)
    assert "\n" not in str(caught.value)
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_scores_without_bounds_have_no_logit_link() -> None:
    table = Records.from_frame(frame(), name="small", units=(0, None))
    with pytest.raises(DesignError, match="bounds of the scores of task 't0' are not known"):
        build_design(table, load_spec({"name": "x", "likelihood": "beta"}))
    build_design(table, load_spec({"name": "x", "likelihood": "student_t"}))


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        ((0.2, 0.9), "units: {lower: 0, upper: 1}"),
        ((3.0, 71.5), "units: {lower: 0, upper: 100}"),
        # The largest score says nothing about the largest possible one.
        ((12.0, 534.0), "units: {lower: LOWER, upper: UPPER}"),
        ((-0.4, 0.7), "units: {lower: LOWER, upper: UPPER}"),
    ],
)
def test_the_refusal_of_a_table_without_bounds_has_the_line_to_copy(
    scores: tuple[float, float], line: str
) -> None:
    table = frame().drop(columns=["n", "k"])
    table["score"] = np.linspace(*scores, len(table))
    unbounded = Records.from_frame(table, name="small", units=(None, None))
    with pytest.raises(DesignError, match=r"possible score with units=\("):
        build_design(unbounded, load_spec({"name": "x", "likelihood": "beta"}))
    with addressing_command_line(), pytest.raises(DesignError) as caught:
        build_design(unbounded, load_spec({"name": "x", "likelihood": "beta"}))
    blank = "LOWER" in line
    said = ", with numbers for LOWER and UPPER" if blank else ""
    assert str(caught.value).endswith(f"score with '{line}' in a --mapping file{said}")
    # What is to be copied is accepted.
    upper = "1" if scores[1] < 1.0 else "600"
    own = yaml.safe_load(line.replace("LOWER", "-1").replace("UPPER", upper))["units"]
    declared = Records.from_frame(table, name="small", units=(own["lower"], own["upper"]))
    build_design(declared, load_spec({"name": "x", "likelihood": "beta"}))


def test_seeds_need_normal_scores() -> None:
    table = pd.concat(
        [frame().assign(seed=s, score=lambda t, s=s: t["score"] / 2 + s) for s in (1, 2)]
    )
    with pytest.raises(DesignError, match="replicates need the likelihood normal, not beta"):
        design(table.drop(columns=["n", "k"]), likelihood="beta")


def test_an_effect_of_every_record_is_told_from_binomial_noise_only() -> None:
    built = design(likelihood="binomial", interactions=["model:language:task"])
    assert built.term("model:language:task").n_levels == 27
    with pytest.raises(DesignError, match="is confounded with the residual"):
        design(likelihood="beta_binomial", interactions=["model:language:task"])


def test_the_card_has_likelihoods_that_a_spec_can_take() -> None:
    said = {"t1": "binomial", "default": "beta"}
    built = build_design(records(likelihoods=said), load_spec({"name": "x", "likelihood": "card"}))
    assert built.outcome.task_likelihoods == ("beta", "binomial", "beta")
    # What was fitted stands in the spec, so that results with other cards differ.
    assert built.spec.likelihood == said
    with pytest.raises(InputError, match="no task 't8' .*t0, t1, t2, default"):
        records(likelihoods={"t8": "beta"})


@pytest.mark.parametrize(
    "spec",
    [
        {"likelihood": {"t0": "student_t", "default": "beta_binomial"}, "chance": True},
        {"likelihood": "beta", "edge": 0.02},
        {"likelihood": {"t0": "student_t", "default": "normal"}},
    ],
    ids=str,
)
def test_a_saved_design_comes_back(spec: dict[str, Any]) -> None:
    import xarray as xr

    built = design(**spec)
    groups = {"observed_data": built.observed_data(), "constant_data": built.constant_data()}
    again = restore_design(xr.DataTree.from_dict(groups), built.spec)
    assert again.outcome.families == built.outcome.families
    assert again.priors == built.priors
    for name in ("share", "linear", "log_units", "family", "chance", "n", "k"):
        ours, theirs = getattr(built.outcome, name), getattr(again.outcome, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-14, err_msg=name)
