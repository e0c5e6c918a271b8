"""Noise of prompts in the design: what cells share, and what differences are charged with."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval import names
from bayeseval.design import Design
from bayeseval.records import Records
from bayeseval.spec import load_spec
from tests import prompt_tables as tables


def test_levels_of_shared_effects() -> None:
    source = tables.source(tables.design())
    sizes = {one.name: one.n_levels for one in source.shared}
    # p was not tested with p2, so it has no effect of its own there.
    assert sizes == {"prompt:task": 6, "prompt:language:task": 18, "prompt:model:task": 22}
    assert source.by_cell is not None
    assert sorted(set(source.by_cell.count)) == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(source.share, 1.0 / source.by_cell.count)
    np.testing.assert_allclose((source.by_cell.deviation).sum(axis=1), 0.0, atol=1e-9)
    assert np.isnan(source.raw_sd).tolist() == (source.by_cell.count == 1.0).tolist()


def test_effects_that_cannot_be_told_apart_are_left_out() -> None:
    """Where models share no prompt, what one does to a model is a part of what it does at all."""
    frame = tables.frame(complete=True)
    own = frame.assign(prompt=frame["model"] + frame["prompt"])
    source = tables.source(tables.design(Records.from_frame(own)))
    assert [one.name for one in source.shared] == ["prompt:task"]
    each = frame.assign(prompt=frame["model"] + frame["language"] + frame["prompt"])
    source = tables.source(tables.design(Records.from_frame(each)))
    assert source.shared == ()


def test_tasks_without_prompts_have_no_such_noise() -> None:
    frame = tables.frame(complete=True)
    single = frame[(frame["task"] == "qa") | (frame["prompt"] == "p1")]
    design = tables.design(Records.from_frame(single))
    task = np.array(design.coords["task"])[design.factor_index["task"]]
    assert set(task[tables.source(design).share > 0.0]) == {"qa"}


def test_notes_tell_of_cells_of_a_single_prompt() -> None:
    assert "1 cell of a single prompt takes the sd between prompts from the other cells" in (
        tables.design().notes
    )


def test_without_pooling_the_sd_of_each_cell_is_known() -> None:
    design = tables.design(replicates={"pool": False})
    assert design.sources == ()
    cell = tables.frame().query("model == 'm' and language == 'en' and task == 'qa'")["score"]
    i = int(
        np.flatnonzero(
            (np.array(design.coords["model"])[design.factor_index["model"]] == "m")
            & (np.array(design.coords["language"])[design.factor_index["language"]] == "en")
            & (np.array(design.coords["task"])[design.factor_index["task"]] == "qa")
        )[0]
    )
    assert design.known_sds["prompt"][i] == pytest.approx(cell.std(ddof=1), rel=1e-12)
    assert design.se is not None
    assert design.se[i] == pytest.approx(cell.std(ddof=1) / np.sqrt(3.0), rel=1e-12)


def test_hashes_of_models_without_priors_of_prompts_stay_the_same() -> None:
    """Those of earlier fits are compared with them."""
    assert load_spec("additive").content_hash == (
        "a73d020e8f1bec1d0cb2c2bfa846b149268cb9b48f9a5c902d5d897000bb8971"
    )
    prior = {"sd_prompt_model_task": {"dist": "half_normal", "scale": 2.0}}
    changed = load_spec({"name": "additive", "priors": prior})
    assert changed.content_hash != load_spec({"name": "additive"}).content_hash


def _true_sd_of_difference() -> float:
    """Sd of the difference between the means of m and n, from the covariance of all scores."""
    frame = tables.frame(complete=True)
    model = frame["model"].to_numpy()
    weight = (model == "m") / (model == "m").sum() - (model == "n") / (model == "n").sum()

    def alike(*factors: str) -> np.ndarray:
        group = frame.groupby(list(factors)).ngroup().to_numpy()
        return np.equal.outer(group, group)

    covariance = 9.0 * alike("task", "prompt") + alike("model", "task", "prompt")
    covariance = covariance + 0.25 * np.eye(len(frame))
    return float(np.sqrt(weight @ covariance @ weight))


def _sd_of_difference(design: Design, sds: dict[str, float], own: float) -> float:
    """Sd of the difference between the means of m and n that the design's noise implies."""
    source = design.sources[0]
    model = np.array(design.coords["model"])[design.factor_index["model"]]
    weight = (model == "m") / (model == "m").sum() - (model == "n") / (model == "n").sum()
    variance = float((weight**2 * source.share).sum()) * own**2
    for one in source.shared:
        assert source.by_cell is not None
        means = np.zeros((len(model), one.n_levels))
        cell, place = np.nonzero(source.by_cell.there)
        np.add.at(means, (cell, one.level[cell, place]), 1.0 / source.by_cell.count[cell])
        variance += sds[one.name] ** 2 * float(((weight @ means[source.of_record]) ** 2).sum())
    return float(np.sqrt(variance))


def test_differences_between_models_are_not_charged_with_what_they_share() -> None:
    """Read as seeds, prompts make the difference of two models far too uncertain."""
    true = _true_sd_of_difference()
    frame = tables.frame(complete=True)
    sds = {"prompt:task": 3.0, "prompt:language:task": 0.0, "prompt:model:task": 1.0}
    ours = _sd_of_difference(tables.design(Records.from_frame(frame)), sds, 0.5)
    assert ours == pytest.approx(true, rel=1e-12)
    seeds = tables.design(Records.from_frame(frame, columns={"seed": "prompt"}))
    # The sd within a cell that seeds would have.
    assert _sd_of_difference(seeds, {}, np.sqrt(9.0 + 1.0 + 0.25)) > 1.5 * true


def test_parameters_have_the_names_of_the_docs() -> None:
    design = tables.design()
    shared = [names.sd_name(name) for name in names.shared_by("prompt")]
    assert shared == ["sd_prompt_task", "sd_prompt_language_task", "sd_prompt_model_task"]
    assert list(design.priors)[-5:] == ["sd_prompt_model", "sd_log_prompt", *shared]
    assert design.dims()["prompt_model_task_effect"] == ("prompt_model_task",)
    assert design.coords["prompt_task"][0] == "p0|nli"
