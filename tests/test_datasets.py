"""Several metrics of the same outputs: the term model:language:dataset, from card to ranks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval as be
from bayeseval._typing import Floats
from bayeseval.design import Design, build_design, restore_design
from bayeseval.engines import SamplerSettings, to_tree
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.engines.marginal import sample
from bayeseval.errors import DesignError, InputError
from bayeseval.estimands import expected_score, read_arrays
from bayeseval.estimands.completion import CompletedTerm, language_scores
from bayeseval.estimands.plan_variances import read_plan_variances
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec
from tests.engines.exact_gaussian import random_sds, write_out

TERM = "model:language:dataset"
SPEC = load_spec({"name": "metrics", "interactions": ["model:language", TERM]})
PLAIN = load_spec({"name": "plain", "interactions": ["model:language"]})


def table(tasks: tuple[str, ...], **options: dict[str, str]) -> Records:
    frame = pd.DataFrame(
        product(("de", "en", "sw"), tasks, ("A", "B", "C")), columns=["language", "task", "model"]
    )
    frame["score"] = np.random.default_rng(0).uniform(20.0, 90.0, len(frame))
    return Records.from_frame(frame, name="small", **options)


@pytest.fixture(scope="module")
def design() -> Design:
    records = simulate(SPEC, n_languages=5, n_tasks=5, n_models=4, n_metrics=2, seed=3).records
    return build_design(records, SPEC)


@pytest.fixture(scope="module")
def tree(design: Design) -> xr.DataTree:
    settings = SamplerSettings(draws=400, chains=1)
    return to_tree(design, sample(design, settings), engine="marginal")


def test_the_dataset_is_what_stands_before_the_colon_unless_the_card_says_otherwise(
    tmp_path: Path,
) -> None:
    plain = table(("qa:f1", "qa:em", "nli"))
    assert plain.datasets == {"qa:f1": "qa", "qa:em": "qa", "nli": "nli"}
    told = table(("qa:f1", "qa:em", "nli"), datasets={"nli": "qa"})
    assert told.datasets == {"qa:f1": "qa", "qa:em": "qa", "nli": "qa"}
    assert told.content_hash != plain.content_hash
    assert table(("qa:f1", "qa:em"), datasets={"qa:f1": "qa"}).content_hash == (
        table(("qa:f1", "qa:em")).content_hash
    )
    with pytest.raises(InputError, match="task 'nlii'.*did you mean 'nli'"):
        table(("qa:f1", "nli"), datasets={"nlii": "qa"})
    plain.to_csv(tmp_path / "scores.csv")
    card = "name: t\ntitle: t\nfiles: [scores.csv]\ndatasets: {nli: qa}\n"
    (tmp_path / "benchmark.yaml").write_text(card)
    assert be.load(tmp_path).datasets == told.datasets


def test_mega_has_eleven_datasets_and_says_how_many_cells_tell() -> None:
    records = be.load("mega")
    assert len(set(records.datasets.values())) == 11
    assert records.datasets["xquad:exact_match"] == records.datasets["xquad:f1"] == "xquad"
    built = build_design(records, load_spec("dataset"))
    cells = records.table.groupby(["model", "language", "dataset"], observed=True).size()
    assert built.term(TERM).n_levels == len(cells) == 1097
    assert int((cells > 1).sum()) == 267
    assert any("267 of 1097 cells have two tasks or more" in note for note in built.notes)
    # The largest term is the one that is eliminated first.
    assert build_marginal(built).statistics.eliminated.name == TERM


@pytest.mark.parametrize(
    ("tasks", "line"),
    [
        (("qa:f1", "nli:acc", "sum:rouge"), "has one task in each of its 27 cells"),
        (("qa:f1", "qa:em"), "needs at least two levels of each factor, and dataset has one"),
    ],
)
def test_a_table_that_cannot_tell_is_refused(tasks: tuple[str, ...], line: str) -> None:
    with pytest.raises(DesignError, match=line):
        build_design(table(tasks), SPEC)


def test_restored_from_a_result_it_is_the_same(design: Design, tree: xr.DataTree) -> None:
    restored = restore_design(tree, SPEC)
    assert restored.coords == design.coords
    np.testing.assert_array_equal(restored.term(TERM).index, design.term(TERM).index)


def test_effects_are_integrated_out_and_records_left_out_exactly(design: Design) -> None:
    rng, dense, marginal = np.random.default_rng(1), write_out(design), build_marginal(design)
    for sds in (random_sds(design, rng), random_sds(design, rng)):
        points = np.array([[sds[name] for name in marginal.scales.names]])
        found = marginal.log_likelihood(marginal.scales.unconstrained(points))[0]
        assert found == pytest.approx(dense.log_marginal(sds), rel=1e-10)
        posterior = {name: np.array([value]) for name, value in sds.items()}
        left_out = leave_out_log_density(design, posterior)[0]
        for i in range(0, design.n_records, 7):
            rest = np.arange(design.n_records) != i
            expected = dense.log_marginal(sds) - dense.log_marginal(sds, rest)
            assert left_out[i] == pytest.approx(expected, rel=1e-8)
        without = replace(design, terms=tuple(t for t in design.terms if t.name != TERM))
        assert write_out(without).log_marginal(sds) != pytest.approx(found, rel=1e-4)


def test_expected_scores_have_the_effect_of_their_dataset(
    design: Design, tree: xr.DataTree
) -> None:
    one = tree["posterior"].to_dataset().isel(chain=0, draw=7)
    found = expected_score(read_arrays(tree))[7]
    dataset_of = {task: task.partition(":")[0] for task in design.coords["task"]}
    for i in range(design.n_records):
        at = {f: design.coords[f][design.factor_index[f][i]] for f in ("language", "task", "model")}
        cell = f"{at['model']}|{at['language']}|{dataset_of[at['task']]}"
        expected = (
            one["intercept"]
            + sum(one[f"{f}_effect"].sel({f: level}) for f, level in at.items())
            + one["model_language_effect"].sel(model_language=f"{at['model']}|{at['language']}")
            + one["model_language_dataset_effect"].sel(model_language_dataset=cell)
        )
        assert found[i] == pytest.approx(float(expected), rel=1e-12)


def test_unobserved_cells_are_drawn_once_for_all_metrics(tree: xr.DataTree) -> None:
    arrays = read_arrays(tree)
    cells = arrays.term(TERM)
    assert cells is not None
    completed = CompletedTerm(arrays, cells)
    place = completed.keys(arrays.pairs.language, arrays.pairs.task)
    n_new = 0
    for model in range(len(arrays.levels["model"])):
        values = completed.effect(model, slice(None), np.random.default_rng(model))[:, place]
        keys = list(zip(arrays.pairs.language, arrays.pairs.levels["dataset"], strict=True))
        own = set(zip(*(cells.members[f] for f in ("model", "language", "dataset")), strict=True))
        for pair, key in enumerate(keys):
            same = keys.index(key)
            np.testing.assert_array_equal(values[:, pair], values[:, same])
            if (model, *key) not in own:
                n_new += 1
                # 400 standard normal numbers: five standard errors of their mean square.
                ratio = float(np.mean((values[:, pair] / cells.sd) ** 2))
                assert ratio == pytest.approx(1.0, abs=5 * np.sqrt(2 / 400))
    assert n_new > 0


def test_expected_means_of_languages_leave_out_what_metrics_share(tree: xr.DataTree) -> None:
    """Where a model has all pairs of a language, its mean is that over its records."""
    arrays = read_arrays(tree)
    cells = arrays.term(TERM)
    assert cells is not None
    means = np.random.default_rng(2).normal(50.0, 5.0, (arrays.n_samples, len(arrays.score)))
    found = language_scores(arrays, means, seed=0, expected=True)
    with_all = language_scores(arrays, means, seed=0)
    compared = 0
    for model, language in product(range(4), range(5)):
        own = (arrays.index["model"] == model) & (arrays.index["language"] == language)
        if own.sum() < (arrays.pairs.language == language).sum():
            continue
        compared += 1
        shared = cells.effect[:, cells.of_record[own]].mean(axis=1)
        np.testing.assert_allclose(with_all[:, model, language], means[:, own].mean(axis=1))
        np.testing.assert_allclose(
            found[:, model, language], means[:, own].mean(axis=1) - shared, atol=1e-9
        )
    assert compared > 3


def test_more_metrics_do_not_average_out_what_they_share(tree: xr.DataTree) -> None:
    """Datasets of 2, 2 and 1 of the 5 tasks: the variance of a mean is that of 9 / 25 effects."""
    arrays, variances = read_arrays(tree), read_plan_variances(tree)
    cells = arrays.term(TERM)
    assert cells is not None
    of_the_effect = variances.noise[:, 0] - arrays.residual_sd[:, 0] ** 2
    np.testing.assert_allclose(of_the_effect / 5, cells.sd**2 * 9 / 25)
    # Effects of single tasks would average out over five.
    assert (of_the_effect / 5 > 1.5 * cells.sd**2 / 5).all()
    assert variances.three_way.max() == 0.0


def _noise_of_plan(tasks: tuple[str, ...], spec: ModelSpec) -> tuple[Floats, xr.DataTree]:
    """Noise of a plan beyond the residual, in one draw for every draw."""
    design = build_design(table(tasks), spec)
    tree = to_tree(design, sample(design, SamplerSettings(draws=50, chains=1)), engine="marginal")
    return read_plan_variances(tree).noise[:, 0] - read_arrays(tree).residual_sd[:, 0] ** 2, tree


def test_the_factor_follows_the_sizes_of_the_datasets() -> None:
    """Datasets of 4 and 1 of 5 tasks: 17 / 25 effects; none where the model has no such term."""
    tasks = ("qa:f1", "qa:em", "qa:a", "qa:b", "nli:acc")
    noise, tree = _noise_of_plan(tasks, SPEC)
    cells = read_arrays(tree).term(TERM)
    assert cells is not None
    np.testing.assert_allclose(noise / 5, cells.sd**2 * 17 / 25)
    without, tree = _noise_of_plan(tasks, PLAIN)
    assert read_arrays(tree).term(TERM) is None
    np.testing.assert_allclose(without, 0.0, atol=1e-9)
