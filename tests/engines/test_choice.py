"""Which engine `auto` is, and what it says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.engines import ENGINES, Choice, SamplerSettings, choose_engine, marginal
from bayeseval.errors import EngineError
from bayeseval.spec import load_spec


def design(spec: str) -> Design:
    return build_design(load("mega"), load_spec(spec))


@pytest.mark.parametrize("spec", ["additive", "interaction", "crossed", "paper"])
def test_auto_is_marginal_where_it_is_exact(spec: str) -> None:
    chosen = choose_engine("auto", design(spec))
    assert chosen == Choice("marginal", "all effects can be integrated out exactly")
    assert str(chosen) == "marginal (auto: all effects can be integrated out exactly)"


def test_auto_is_numpyro_elsewhere_and_says_why() -> None:
    chosen = choose_engine("auto", design("robust"))
    assert chosen.name == "numpyro"
    assert "normal likelihood, not of student_t" in chosen.reason


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (SamplerSettings(tune=10), "tune is a setting of NUTS"),
        (SamplerSettings(target_accept=0.9), "target_accept is a setting of NUTS"),
        (
            SamplerSettings(tune=10, target_accept=0.9),
            "tune and target_accept are settings of NUTS",
        ),
    ],
)
def test_settings_of_nuts_are_never_ignored(settings: SamplerSettings, reason: str) -> None:
    assert choose_engine("auto", design("additive"), settings) == Choice("numpyro", reason)


def test_settings_that_both_have_change_nothing() -> None:
    settings = SamplerSettings(draws=10, chains=2, seed=5)
    assert choose_engine("auto", design("additive"), settings).name == "marginal"


def test_a_nuts_sampler_needs_its_engine() -> None:
    settings = SamplerSettings(nuts_sampler="nutpie")
    with pytest.raises(EngineError, match=r"nutpie needs the engine pymc; set engine='pymc'$"):
        choose_engine("auto", design("additive"), settings)
    assert choose_engine("pymc", design("additive"), settings) == Choice("pymc")


@pytest.mark.parametrize("name", ENGINES)
def test_a_name_is_taken_at_its_word(name: str) -> None:
    chosen = choose_engine(name, design("additive"), SamplerSettings(tune=10))
    assert chosen == Choice(name)
    assert str(chosen) == name


def test_parameters_that_marginal_does_not_know_are_refused() -> None:
    plain = design("additive")
    priors = {**plain.priors, "theta": plain.priors["intercept"]}
    reason = marginal.why_not(replace(plain, priors=priors))
    assert reason == "it does not support theta"
    assert choose_engine("auto", replace(plain, priors=priors)).name == "numpyro"
