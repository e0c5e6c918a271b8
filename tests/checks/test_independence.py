"""Do residuals that share a cell have something in common: cells of two factors, and datasets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayeseval.checks import run_checks
from bayeseval.checks.independence import CELLS, cell_codes, independence_check
from bayeseval.design import build_design, restore_design
from bayeseval.engines import SamplerSettings, to_tree
from bayeseval.engines.marginal import sample
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

TERM = "model:language:dataset"


def fitted(drawn_from: str, fit_with: str, *, seed: int) -> xr.DataTree:
    """Two metrics for each of four datasets; posterior draws by the engine alone."""
    sds = {"sd_model_language_dataset": 8.0} if drawn_from == "dataset" else {}
    records = simulate(
        drawn_from, n_languages=12, n_tasks=8, n_models=5, n_metrics=2, seed=seed, sds=sds,
        observed_share=0.9,
    ).records  # fmt: skip
    design = build_design(records, load_spec(fit_with))
    settings = SamplerSettings(draws=60, chains=1, seed=seed)
    return to_tree(design, sample(design, settings), engine="marginal")


def check(tree: xr.DataTree) -> tuple[str, float, str]:
    row = run_checks(tree, None).table.set_index("check").loc["independence"]
    return row["status"], row["value"], row["sentence"]


def test_metrics_of_one_dataset_that_the_model_takes_for_independent() -> None:
    shared = fitted("dataset", "crossed", seed=1)
    status, value, sentence = check(shared)
    assert status == "fail"
    # Effects of sd 8 beside residuals of sd 6 make 64 / 100, of which other effects take a part.
    assert 0.3 < value < 0.64
    assert sentence.startswith("Residuals of the same model, language and dataset (0.")
    # With the term there is nothing left.
    assert check(fitted("dataset", "dataset", seed=1))[0] == "pass"


def test_tables_that_the_model_fits_rarely_warn() -> None:
    found = [check(fitted("crossed", "crossed", seed=seed)) for seed in range(12)]
    # Nominally 0.3 of 12; three or more have a probability of 0.3 %.
    assert sum(status != "pass" for status, _, _ in found) <= 2
    assert all("model, language and dataset" in sentence for _, _, sentence in found)


def test_the_datasets_are_part_of_a_result_and_of_the_restored_design() -> None:
    tree = fitted("crossed", "additive", seed=2)
    assert list(tree["constant_data"]["dataset"].values) == ["d0", "d1", "d2", "d3"]
    task = tree["constant_data"]["task"].values[tree["constant_data"]["task_index"].values]
    dataset = tree["constant_data"]["dataset"].values[tree["constant_data"]["dataset_index"].values]
    assert [t.split(":")[0] for t in task] == list(dataset)
    restored = restore_design(tree, load_spec("additive"))
    assert restored.coords["dataset"] == ("d0", "d1", "d2", "d3")
    # A result that does not know datasets is looked at without them.
    old = tree.copy()
    old["constant_data"] = old["constant_data"].to_dataset().drop_vars(["dataset_index", "dataset"])
    assert "dataset" not in check(old)[2]
    assert "dataset" not in restore_design(old, load_spec("additive")).coords
    # Where every dataset has one task there is nothing to look at.
    plain = build_design(simulate("additive", seed=2).records, load_spec("additive"))
    assert "dataset" not in plain.coords


def test_every_kind_of_cell_is_found_and_named() -> None:
    rng = np.random.default_rng(0)
    sizes = {"model": 6, "language": 8, "task": 6}
    grid = np.array(list(product(*(range(n) for n in sizes.values())))).T
    index = dict(zip(sizes, grid, strict=True)) | {"dataset": grid[2] // 2}
    levels = {f: tuple(f"{f}{i}" for i in range(n)) for f, n in (*sizes.items(), ("dataset", 3))}
    noise = rng.standard_normal((5, grid.shape[1]))
    status, alike = independence_check(noise, index, levels)
    assert (status.status, alike) == ("pass", ())
    for term in CELLS:
        codes = cell_codes(term, index, levels)
        assert len(np.unique(codes)) == np.prod([len(levels[f]) for f in term.split(":")])
        shared = rng.standard_normal(codes.max() + 1)[codes]
        found, alike = independence_check(noise + 1.5 * shared, index, levels)
        assert (found.status, alike[0]) == ("fail", term)
        *first, last = term.split(":")
        assert f"same {', '.join(first)} and {last} (0." in found.sentence
    # The smallest of four p-values, times four.
    group = cell_codes("model:task", index, levels)
    one = np.zeros((1, grid.shape[1]))
    one[0] = noise[0]
    p = [
        stats.f_oneway(*(one[0, codes == c] for c in np.unique(codes))).pvalue
        for codes in (cell_codes(term, index, levels) for term in CELLS)
    ]
    assert independence_check(one, index, levels)[0].p == pytest.approx(min(1.0, 4 * min(p)))
    assert len(group) == 288
