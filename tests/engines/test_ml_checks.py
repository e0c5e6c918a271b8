"""The published procedure: what it refuses, and how it finds out a wrong maximum."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.tools.sm_exceptions import ConvergenceWarning

import bayeseval as be
from bayeseval.design import Design, build_design
from bayeseval.engines import Draws, SamplerSettings, ml
from bayeseval.errors import EngineError
from bayeseval.records import Records, load
from bayeseval.spec import load_spec
from tests.engines.exact_ml import (
    assert_agrees,
    crossed,
    design_of,
    expected_scores,
    point,
    solve_exactly,
)


@pytest.fixture(scope="module")
def mega() -> Records:
    return load("mega")


@pytest.fixture(scope="module")
def design(mega: Records) -> Design:
    return build_design(mega, load_spec("paper"))


@pytest.fixture(scope="module")
def draws(design: Design) -> Draws:
    return ml.sample(design, SamplerSettings())


# What it refuses


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"effects": {"task": "fixed"}}, "pooled language effects"),
        ({"effects": {"language": "fixed"}}, "pooled task effects"),
        (
            {"effects": {"language": "fixed", "task": "fixed", "model": "fixed"}},
            "fixed model effects",
        ),
        ({"population": "observed"}, "population 'observed'"),
        ({"interactions": ["model:task"]}, "the interaction model:task"),
        ({"likelihood": "student_t"}, "the likelihood student_t"),
        ({"residual_by": "language"}, "residual sds by language"),
    ],
)
def test_other_specs_are_refused(mega: Records, change: dict[str, object], said: str) -> None:
    spec = load_spec({**load_spec("paper").to_dict(), "name": "mine", **change})
    with pytest.raises(EngineError) as caught:
        ml.sample(build_design(mega, spec), SamplerSettings())
    message = str(caught.value)
    assert said in message
    # Nothing but the difference is blamed.
    assert message.count(",") == 1
    assert "'mine'" in message
    assert message.endswith("use the model paper")
    assert "\n" not in message


def test_priors_of_the_spec_play_no_part(mega: Records, draws: Draws) -> None:
    text = {
        **load_spec("paper").to_dict(),
        "fixed_scale": 0.01,
        "priors": {"sd_model": {"dist": "half_normal", "scale": 0.001}},
    }
    result = ml.sample(build_design(mega, load_spec(text)), SamplerSettings())
    for name, value in draws.posterior.items():
        np.testing.assert_array_equal(result.posterior[name], value)


@pytest.mark.parametrize(
    "setting",
    [
        {"draws": 10},
        {"tune": 10},
        {"chains": 2},
        {"target_accept": 0.9},
        {"nuts_sampler": "pymc"},
    ],
)
def test_sampler_settings_are_refused(design: Design, setting: dict[str, int]) -> None:
    (name,) = setting
    with pytest.raises(EngineError, match=f"engine ml does not take {name} "):
        ml.sample(design, SamplerSettings(**setting))


def test_known_standard_errors_are_refused(design: Design) -> None:
    with pytest.raises(EngineError, match="known standard errors; ignore the column se"):
        ml.sample(replace(design, se=np.ones(design.n_records)), SamplerSettings())


def test_noise_of_replicates_is_refused_before_the_fit() -> None:
    table = be.simulate("additive", n_languages=4, n_tasks=2, n_models=4, n_seeds=3, seed=1)
    replicated = build_design(table.records, load_spec("paper"))
    with pytest.raises(EngineError, match=r"no noise of seed; take a spec with sources: \[\]"):
        ml.sample(replicated, SamplerSettings())


def test_a_design_without_models_is_refused(design: Design) -> None:
    alone = replace(design, terms=tuple(t for t in design.terms if t.name != "model"))
    with pytest.raises(EngineError, match="at least two models"):
        ml.sample(alone, SamplerSettings())


# What it checks


@pytest.fixture(scope="module")
def rogue(mega: Records) -> Design:
    """MEGA with averages over languages left in as one more language.

    The label is one that the loader does not know for an aggregate.
    """
    frame = mega.table[["model", "language", "task", "score"]]
    averages = frame.groupby(["model", "task"], as_index=False)["score"].mean()
    return design_of(pd.concat([frame, averages.assign(language="zz overall row")]))


def test_a_rogue_level_is_solved(rogue: Design, design: Design, draws: Draws) -> None:
    # One of statsmodels' optimisers returns var(model) = 0 and potentials 48 points
    # off on this table, with warnings and no error.
    assert len(rogue.coords["language"]) == 54
    result = ml.sample(rogue, SamplerSettings())
    exact = solve_exactly(rogue)
    assert_agrees(result, exact)
    assert exact.var_model > 100.0
    difference = expected_scores(point(result))[:-1] - expected_scores(point(draws))
    assert np.abs(difference).max() < 10.0


def test_a_failing_optimiser_is_not_believed(
    rogue: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twice the same optimiser: agreement alone would not save the result.
    monkeypatch.setattr(ml, "_OPTIMISERS", (("lbfgs", {}), ("lbfgs", {})))
    exact = solve_exactly(rogue)
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        try:
            result = ml.sample(rogue, SamplerSettings())
        except EngineError as error:
            message = str(error)
            assert "no two optimisers agree (lbfgs: " in message
            assert "model paper" in message
            assert "\n" not in message
        else:  # a release of statsmodels in which lbfgs works; its tolerance is its own
            assert point(result)["sd_model"] ** 2 == pytest.approx(exact.var_model, rel=1e-2)
    assert not [w for w in leaked if "statsmodels" in w.filename or "bayeseval" in w.filename]


def test_a_warning_is_a_failure(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MixedLM.fit

    def doubtful(self: MixedLM, **options: object) -> object:
        result = honest(self, **options)
        warnings.warn("this is doubtful\nand goes on", ConvergenceWarning, stacklevel=2)
        return result

    monkeypatch.setattr(MixedLM, "fit", doubtful)
    with pytest.raises(EngineError, match=r"\(bfgs: this is doubtful; powell: ") as caught:
        ml.sample(design, SamplerSettings())
    assert "\n" not in str(caught.value)


def test_one_optimiser_is_not_enough(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ml, "_OPTIMISERS", ml._OPTIMISERS[:1])
    with pytest.raises(EngineError, match=r"no two optimisers agree \(bfgs: log likelihood"):
        ml.sample(design, SamplerSettings())


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        # Far away: caught by the curve. Near by: caught by the slope alone.
        (lambda ratio: ratio / 1e6, "stopped early: at var"),
        (lambda ratio: ratio * 100.0, "stopped early: at var"),
        (lambda ratio: ratio * 1.001, "stopped early: the log likelihood still changes"),
        (lambda ratio: ratio, None),
    ],
)
def test_a_wrong_maximum_is_found_out(
    design: Design,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[float], float],
    said: str | None,
) -> None:
    honest = ml._fit

    def spoilt(mixed, method, options):  # type: ignore[no-untyped-def]
        estimate = honest(mixed, method, options)
        ratio = spoil(estimate.ratio)
        value = float(mixed.loglike(np.array([np.sqrt(ratio)])))
        return replace(estimate, ratio=ratio, log_likelihood=value)

    monkeypatch.setattr(ml, "_fit", spoilt)
    if said is None:  # the control: the harness itself does not cause a refusal
        ml.sample(design, SamplerSettings())
        return
    with pytest.raises(EngineError, match=said) as caught:
        ml.sample(design, SamplerSettings())
    assert "\n" not in str(caught.value)


def test_models_that_do_not_differ_are_refused() -> None:
    frame = crossed()
    noise = pd.Series(np.random.default_rng(4).normal(size=len(frame)))
    same = frame.assign(score=50.0 + noise - noise.groupby(frame["model"]).transform("mean"))
    with pytest.raises(EngineError, match="estimate of var\\(model\\) is zero"):
        ml.sample(design_of(same), SamplerSettings())
    # Negative control: the same table with models that do differ.
    steps = frame["model"].map({f"model {i}": float(i) for i in range(5)})
    result = ml.sample(design_of(same.assign(score=same["score"] + steps)), SamplerSettings())
    # Steps of one have a standard deviation of sqrt(2), less what noise takes.
    assert 1.0 < point(result)["sd_model"] < np.sqrt(2.0) + 0.01


def test_scores_without_a_residual_are_refused() -> None:
    frame = crossed()
    parts = {
        "model": [0.0, 3.0, 5.0, -2.0, 1.0],
        "language": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "task": [0.0, 7.0, 9.0],
    }
    design = design_of(frame.assign(score=np.random.default_rng(4).normal(size=len(frame))))
    score = sum(np.array(values)[design.factor_index[factor]] for factor, values in parts.items())
    # Building the design would refuse the table as well.
    exact = replace(design, score=score)
    with pytest.raises(EngineError, match="var\\(residual\\) goes to zero"):
        ml.sample(exact, SamplerSettings())
