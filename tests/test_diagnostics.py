"""The gate passes clean draws and catches every kind of trouble, naming the quantity."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats

from bayeseval.fitting.gate import Gate, convergence_gate, format_gate

CHAINS, DRAWS = 4, 500


def clean_tree(seed: int = 0) -> xr.DataTree:
    rng = np.random.default_rng(seed)
    shape = (CHAINS, DRAWS)
    posterior = xr.Dataset(
        {
            "intercept": (("chain", "draw"), rng.normal(size=shape)),
            "language_effect": (("chain", "draw", "language"), rng.normal(size=(*shape, 3))),
            "task_effect": (("chain", "draw", "task"), np.zeros((*shape, 1))),
            "language_potential_rank": (("chain", "draw", "language"), np.ones((*shape, 3))),
        },
        coords={"language": ["de", "en", "fr"], "task": ["qa"]},
    )
    stats = xr.Dataset(
        {
            "diverging": (("chain", "draw"), np.zeros(shape, dtype=bool)),
            "energy": (("chain", "draw"), rng.normal(size=shape)),
        }
    )
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


def failed(gate: Gate) -> dict[str, str]:
    return {check.name: check.where for check in gate.checks if not check.passed}


def test_clean_draws_pass_and_constants_are_left_out() -> None:
    gate = convergence_gate(clean_tree())
    assert gate.status == "pass"
    assert gate.n_quantities == 4
    assert [check.name for check in gate.checks] == [
        "r_hat",
        "ess_bulk",
        "ess_tail",
        "divergences",
        "bfmi",
    ]
    assert gate.checks[1].limit == 400.0
    assert format_gate(gate).startswith("Convergence gate: passed, 4 quantities\n  worst R-hat 1.0")


def test_a_chain_that_sits_elsewhere_is_named() -> None:
    tree = clean_tree()
    tree["posterior"]["language_effect"].values[2, :, 1] += 1.0
    gate = convergence_gate(tree)
    assert gate.status == "fail"
    assert failed(gate)["r_hat"] == "language_effect[en]"
    assert "R-hat" in format_gate(gate)
    assert "language_effect[en]" in format_gate(gate)


def test_slow_mixing_fails_the_effective_sample_size() -> None:
    tree = clean_tree()
    rng = np.random.default_rng(1)
    slow = np.zeros((CHAINS, DRAWS))
    for t in range(1, DRAWS):
        slow[:, t] = 0.9 * slow[:, t - 1] + rng.normal(size=CHAINS)
    tree["posterior"]["intercept"].values[...] = slow
    assert failed(convergence_gate(tree))["ess_bulk"] == "intercept"


def test_heavy_disagreement_in_the_tails_fails_the_tail_check() -> None:
    tree = clean_tree()
    # Excursions come in one long run, so the 95 % quantile rests on few of them.
    values = tree["posterior"]["intercept"].values
    values[0, :100] = np.abs(values[0, :100]) + 3.0
    assert "ess_tail" in failed(convergence_gate(tree))


def test_the_tail_check_looks_at_the_ends_of_the_interval_not_at_its_middle() -> None:
    """Draws above the 95 % quantile come in runs of 25; between the quartiles all mixes."""
    tree = clean_tree()
    values = np.random.default_rng(3).uniform(-1.0, 1.0, size=(CHAINS, DRAWS))
    # One run a chain, so that 5 % of all draws lie in four runs.
    for chain, start in enumerate((10, 130, 250, 400)):
        values[chain, start : start + 25] = 3.0 + values[chain, start : start + 25]
    tree["posterior"]["intercept"].values[...] = values
    ends = [array_stats.ess(values, method="quantile", prob=p) for p in (0.05, 0.95)]
    quartiles = [array_stats.ess(values, method="quantile", prob=p) for p in (0.25, 0.75)]
    assert min(ends) < 200.0 < 400.0 < min(quartiles)
    check = next(c for c in convergence_gate(tree).checks if c.name == "ess_tail")
    assert (check.where, check.passed) == ("intercept", False)
    assert check.value == pytest.approx(min(ends))


def test_one_divergence_fails() -> None:
    tree = clean_tree()
    tree["sample_stats"]["diverging"].values[1, 7] = True
    gate = convergence_gate(tree)
    assert failed(gate) == {"divergences": "all chains"}
    assert "divergent transitions 1 " in format_gate(gate)


def test_energy_that_hardly_moves_fails_and_names_the_chain() -> None:
    tree = clean_tree()
    tree["sample_stats"]["energy"].values[3] = np.cumsum(
        np.random.default_rng(2).normal(size=DRAWS)
    )
    gate = convergence_gate(tree)
    assert failed(gate) == {"bfmi": "chain 3"}
    # Both moments are those of this chain alone.
    energy = tree["sample_stats"]["energy"].to_numpy()[3]
    (value,) = (check.value for check in gate.checks if check.name == "bfmi")
    assert value == pytest.approx((np.diff(energy) ** 2).mean() / energy.var(), rel=1e-12)


def test_a_few_withheld_draws_are_tolerated_and_a_withheld_quantity_is_left_out() -> None:
    tree = clean_tree()
    tree["posterior"]["language_effect"].values[0, :3, 0] = np.nan
    # Not the last level: those after it count.
    tree["posterior"]["language_effect"].values[..., 1] = np.nan
    gate = convergence_gate(tree)
    assert gate.status == "pass"
    assert gate.n_quantities == 3


def test_a_point_estimate_has_nothing_to_converge() -> None:
    tree = clean_tree().isel(chain=[0], draw=[0])
    gate = convergence_gate(tree)
    assert gate.status == "not applicable"
    assert gate.checks == ()


def test_a_gate_survives_json() -> None:
    gate = convergence_gate(clean_tree())
    assert Gate.from_dict(json.loads(json.dumps(gate.to_dict()))) == gate


@pytest.mark.parametrize("draws", [1, 3])
def test_too_few_draws_to_judge_fail_rather_than_pass(draws: int) -> None:
    gate = convergence_gate(clean_tree().isel(draw=slice(0, draws)))
    assert gate.status == "fail"


@pytest.mark.parametrize("stored", [float, repr], ids=["number", "text of earlier results"])
def test_importance_draws_are_judged_by_their_weights_too(
    stored: Callable[[float], float | str],
) -> None:
    tree = clean_tree()
    tree["posterior"].attrs.update(
        path="importance", k_hat=stored(0.3), importance_ess=stored(900.0)
    )
    gate = convergence_gate(tree)
    assert gate.status == "pass"
    assert [check.name for check in gate.checks][3:5] == ["k_hat", "importance_ess"]
    # Duplicates look independent to R-hat and ESS; the weights know better.
    tree["posterior"].attrs.update(importance_ess=stored(120.0))
    assert failed(convergence_gate(tree)) == {"importance_ess": "the importance weights"}
    tree["posterior"].attrs.update(importance_ess=stored(900.0), k_hat=stored(0.9))
    assert failed(convergence_gate(tree)) == {"k_hat": "the importance weights"}
    assert "Pareto k-hat 0.90" in format_gate(convergence_gate(tree))
