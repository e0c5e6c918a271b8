"""The PyMC model itself, and one run of its own sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import sampled_variables
from bayeseval.errors import MissingDependencyError
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec


@pytest.fixture(scope="module")
def design() -> Design:
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    spec = {"name": "x", "residual_by": "task", "centring": {"task": "non_centred"}}
    return build_design(records, load_spec(spec))


def test_the_model_has_the_names_dims_and_coords_of_the_posterior(design: Design) -> None:
    model = pymc_engine.build(design)
    assert {v.name for v in model.free_RVs} == set(sampled_variables(design))
    assert {v.name for v in model.deterministics} == {"task_effect", "sd_residual_task"}
    assert [v.name for v in model.observed_RVs] == ["score"]
    for name, dims in design.dims().items():
        assert model.named_vars_to_dims[name] == dims
    for factor in ("language", "task", "model"):
        assert tuple(model.coords[factor]) == design.coords[factor]


def test_the_shipped_crossed_model_builds_on_mega() -> None:
    crossed = build_design(load("mega"), load_spec("crossed"))
    model = pymc_engine.build(crossed)
    assert model.named_vars_to_dims["language_task_effect"] == ("language_task",)
    assert tuple(model.coords["model_task"]) == crossed.coords["model_task"]


def test_a_run_repeats_and_is_complete(design: Design) -> None:
    settings = SamplerSettings(draws=12, tune=25, chains=2, seed=4)
    told: list[tuple[str, int, int, str]] = []
    first = load_engine("pymc")(design, settings, progress=lambda *step: told.append(step))
    again = load_engine("pymc")(design, settings)

    assert set(first.posterior) == {*design.priors, *design.dims()}
    for name, values in first.posterior.items():
        assert values.shape[:2] == (2, 12)
        assert np.array_equal(values, again.posterior[name]), name
    assert not np.array_equal(first.posterior["intercept"][0], first.posterior["intercept"][1])
    # Sums of five numbers of size ten, in float64.
    assert np.abs(first.posterior["language_effect"].sum(axis=-1)).max() < 1e-10
    assert told[0][0] == "compiling"
    assert told[-1][:3] == ("sampling", 24, 24)


def test_a_missing_sampler_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, design: Design
) -> None:
    def missing(package: str, extra: str) -> Any:
        raise MissingDependencyError(f"{package} comes with the extra {extra!r}")

    monkeypatch.setattr(pymc_engine, "require", missing)
    for nuts in ("nutpie", "blackjax"):
        with pytest.raises(MissingDependencyError, match=f"^{nuts} comes with the extra '{nuts}'$"):
            load_engine("pymc")(design, SamplerSettings(nuts_sampler=nuts))
