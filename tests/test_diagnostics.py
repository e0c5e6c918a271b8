"""The gate passes clean draws and catches every kind of trouble, naming the quantity."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats

from bayeseval._diagnostics import convergence, mean_mcse, smoothed_weights
from bayeseval.errors import ConvergenceWarning
from bayeseval.fitting.gate import (
    Check,
    Gate,
    _worst,
    convergence_gate,
    format_gate,
    warn_of_gates,
)

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


@pytest.mark.parametrize(
    ("chains", "draws"), [(4, 100), (4, 7), (1, 40), (3, 33), (2, 4), (5, 501)]
)
def test_diagnostics_of_many_quantities_are_those_of_arviz(chains: int, draws: int) -> None:
    noise = np.random.default_rng(6).normal(size=(40, chains, draws))
    kinds = {
        "independent": noise,
        "tied": np.round(noise, 1),
        "slow": np.cumsum(noise, axis=2),
        "antithetic": np.diff(noise, axis=2, prepend=0.0),
    }
    where = {"chain_axis": 1, "draw_axis": 2}
    for kind, values in kinds.items():
        made = convergence(values)
        # Not a digit differs: the same ranks, in the same order.
        np.testing.assert_array_equal(made.r_hat, array_stats.rhat(values, **where), kind)
        tail = {"method": "tail", "prob": (0.05, 0.95)}
        for ess, arguments in ((made.bulk, {"method": "bulk"}), (made.tail, tail)):
            expected = array_stats.ess(values, **arguments, **where)
            assert np.isfinite(expected).all()
            np.testing.assert_allclose(ess, expected, rtol=1e-10, err_msg=kind)


def test_a_quantity_has_the_same_diagnostics_wherever_it_stands() -> None:
    """The control of blocks: neighbours, constants and missing values change nothing of it."""
    values = np.random.default_rng(7).normal(size=(70, 4, 50))
    values[3], values[35, 1, 2], values[36, 0, 0] = 2.0, np.nan, np.inf
    made = np.stack(convergence(values))
    alone = np.concatenate([np.stack(convergence(values[i : i + 1])) for i in range(70)], axis=1)
    np.testing.assert_allclose(made, alone, rtol=1e-12)
    assert np.isnan(made[:, [35, 36]]).all()
    # As ArviZ: draws that do not vary have no R-hat, and all of them count.
    assert np.isnan(made[0, 3])
    np.testing.assert_array_equal(made[1:, 3], [200.0, 200.0])
    assert np.isfinite(np.delete(made, [3, 35, 36], axis=1)).all()
    assert np.isnan(np.stack(convergence(values[:, :, :3]))).all()
    assert np.stack(convergence(values[:0])).shape == (3, 0)


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
    # JSON has no NaN.
    stored = gate.to_dict()
    stored["checks"][1]["value"] = None
    restored = Gate.from_dict(stored)
    assert np.isnan(restored.checks[1].value)
    assert (restored.checks[0], *restored.checks[2:]) == (gate.checks[0], *gate.checks[2:])


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


# Exact values ----------------------------------------------------------------------------


def gate_of(**checks: tuple[float, float, bool]) -> Gate:
    """A gate of checks by name: value, limit, passed."""
    made = tuple(Check(name, *given[:2], "x", passed=given[2]) for name, given in checks.items())
    return Gate("pass" if all(check.passed for check in made) else "fail", made, 7)


def test_every_check_is_told_with_its_digits_and_its_limit() -> None:
    passed = gate_of(
        r_hat=(1.00449, 1.01, True),
        ess_bulk=(812.6, 400.0, True),
        ess_tail=(777.7, 400.0, True),
        divergences=(0.0, 0.0, True),
        bfmi=(0.876, 0.3, True),
        k_hat=(0.123, 0.7, True),
        importance_ess=(987.6, 400.0, True),
    )
    assert format_gate(passed) == (
        "Convergence gate: passed, 7 quantities\n"
        "  worst R-hat 1.004, bulk ESS 813, tail ESS 778, divergent transitions 0, BFMI 0.88, "
        "Pareto k-hat 0.12, importance ESS 988"
    )
    failed = gate_of(
        r_hat=(1.0251, 1.01, False),
        ess_bulk=(12.6, 400.0, False),
        ess_tail=(7.7, 400.0, False),
        divergences=(3.0, 0.0, False),
        bfmi=(0.123, 0.3, False),
        k_hat=(0.876, 0.7, False),
        importance_ess=(98.7, 400.0, False),
        draws=(3.0, 4.0, False),
    )
    assert format_gate(failed).splitlines() == [
        "Convergence gate: FAILED; do not rely on the results below",
        "  R-hat 1.025 at x (at most 1.01 is required)",
        "  bulk ESS 13 at x (at least 400 is required)",
        "  tail ESS 8 at x (at least 400 is required)",
        "  divergent transitions 3 at x (at most 0 is required)",
        "  BFMI 0.12 at x (at least 0.3 is required)",
        "  Pareto k-hat 0.88 at x (at most 0.7 is required)",
        "  importance ESS 99 at x (at least 400 is required)",
        "  draws per chain 3 at x (at least 4 is required)",
    ]


@pytest.mark.parametrize(
    ("n", "named"), [(3, "f0, f1, f2"), (4, "f0, f1, f2, and 1 more fit"),
                     (5, "f0, f1, f2, and 2 more fits")],
)  # fmt: skip
def test_a_warning_names_three_fits(n: int, named: str) -> None:
    gate = gate_of(draws=(3.0, 4.0, False))
    with pytest.warns(ConvergenceWarning) as told:
        warn_of_gates({f"f{i}": gate for i in range(n)}, stacklevel=1)
    text = str(told[0].message).partition(": ")[2].replace(
        ": draws per chain 3 at x (at least 4 is required)", ""
    )  # fmt: skip
    assert text == f"{named.replace(',', ';')}. Fit again with more draws, or with a simpler model."


def test_four_draws_of_a_chain_are_the_fewest_that_are_judged() -> None:
    three = convergence_gate(clean_tree().isel(draw=slice(0, 3)))
    assert three == Gate("fail", (Check("draws", 3.0, 4.0, "every chain", passed=False),), 0)
    four = convergence_gate(clean_tree().isel(draw=slice(0, 4)))
    assert [check.name for check in four.checks][:3] == ["r_hat", "ess_bulk", "ess_tail"]
    assert four.n_quantities == 4
    # One draw of each of several chains is no point estimate.
    one = convergence_gate(clean_tree().isel(draw=[0]))
    assert one.checks == (Check("draws", 1.0, 4.0, "every chain", passed=False),)
    point = convergence_gate(clean_tree().isel(chain=[0], draw=[0]))
    assert point == Gate("not applicable", (), 0)


def test_draws_that_do_not_vary_at_all_fail() -> None:
    tree = clean_tree()
    for variable in tree["posterior"].data_vars.values():
        variable.values[...] = 2.0
    del tree["sample_stats"]
    gate = convergence_gate(tree)
    assert (gate.status, gate.n_quantities) == ("fail", 0)
    for check, (name, limit) in zip(
        gate.checks, [("r_hat", 1.01), ("ess_bulk", 400.0), ("ess_tail", 400.0)], strict=True
    ):
        assert (check.name, check.limit, check.where) == (name, limit, "nothing varies")
        assert np.isnan(check.value)
        assert check.passed is False


def test_ranks_are_not_looked_at_wherever_they_stand() -> None:
    clean = clean_tree()
    stuck = np.repeat([1.0, 2.0, 1.0, 2.0], DRAWS).reshape(CHAINS, DRAWS)
    stuck[:, ::50] = 1.5
    ranks = xr.Dataset({"score_rank": (("chain", "draw"), stuck)})
    tree = xr.DataTree.from_dict(
        {
            "posterior": ranks.merge(clean["posterior"].to_dataset()),
            "sample_stats": clean["sample_stats"].to_dataset(),
        }
    )
    assert next(iter(tree["posterior"].data_vars)) == "score_rank"
    assert convergence_gate(tree) == convergence_gate(clean)
    # Negative control: under another name they are.
    tree["posterior"]["score_order"] = tree["posterior"]["score_rank"]
    other = convergence_gate(tree)
    assert failed(other)["r_hat"] == "score_order"


def test_withheld_draws_count_as_the_mean_of_the_others() -> None:
    tree = clean_tree()
    values = tree["posterior"]["intercept"].values
    values[...] += 50.0
    filled = values.copy()
    values[0, :3] = np.nan
    filled[0, :3] = values[np.isfinite(values)].mean()
    found = convergence_gate(tree)
    tree["posterior"]["intercept"].values[...] = filled
    assert found == convergence_gate(tree)


def test_values_at_their_limits_pass() -> None:
    tree = clean_tree()
    tree["posterior"].attrs.update(path="importance", k_hat=0.7, importance_ess=400.0)
    gate = convergence_gate(tree)
    assert gate.checks[3:5] == (
        Check("k_hat", 0.7, 0.7, "the importance weights", passed=True),
        Check("importance_ess", 400.0, 400.0, "the importance weights", passed=True),
    )
    assert gate.status == "pass"
    labels = ["a", "b", "c"]
    for name, at_most, values, where in (
        ("r_hat", True, [1.0, 1.01, 1.0], "b"),
        ("ess_bulk", False, [500.0, 410.0, 400.0], "c"),
    ):
        limit = 1.01 if at_most else 400.0
        found = _worst(name, np.array(values), labels, limit=limit, at_most=at_most)
        assert found == Check(name, limit, limit, where, passed=True)
        # What could not be computed is the worst of all.
        lost = _worst(name, np.array([9e9, np.nan, 0.1]), labels, limit=limit, at_most=at_most)
        assert (lost.where, lost.passed) == ("b", False)
        assert np.isnan(lost.value)


def test_energy_is_judged_by_the_worst_chain() -> None:
    tree = clean_tree()
    energy = tree["sample_stats"]["energy"].values
    # Deviations of one from a mean of zero; a step of two between every other pair of draws.
    energy[...] = np.tile([1.0, 1.0, -1.0, -1.0], DRAWS // 4)
    energy[1] = np.repeat([1.0, -1.0], DRAWS // 2)
    (found,) = (check for check in convergence_gate(tree).checks if check.name == "bfmi")
    # One step of 2 among 499.
    assert found == Check("bfmi", 4.0 / (DRAWS - 1), 0.3, "chain 1", passed=False)
    # A chain whose energy does not move at all has no fraction, and is worse.
    energy[2] = 1.0
    with np.errstate(invalid="ignore"):
        (lost,) = (check for check in convergence_gate(tree).checks if check.name == "bfmi")
    assert (lost.where, lost.passed) == ("chain 2", False)
    assert np.isnan(lost.value)


def test_divergences_are_counted() -> None:
    tree = clean_tree()
    tree["sample_stats"]["diverging"].values[1, 7:9] = True
    gate = convergence_gate(tree)
    assert gate.checks[3] == Check("divergences", 2.0, 0.0, "all chains", passed=False)
    del tree["sample_stats"]["diverging"]
    assert "divergences" not in [check.name for check in convergence_gate(tree).checks]


def test_errors_of_means_are_those_of_arviz() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(40, CHAINS, DRAWS + 1))
    # Autoregressive and antithetic draws.
    draws = noise.copy()
    for i in range(1, draws.shape[2]):
        draws[:, :, i] += np.linspace(-0.5, 0.9, 40)[:, None] * draws[:, :, i - 1]
    expected = array_stats.mcse(draws, method="mean", chain_axis=1, draw_axis=2)
    np.testing.assert_allclose(mean_mcse(draws), expected, rtol=1e-8)
    # Negative control: the error of independent draws is another one.
    independent = draws.reshape(40, -1).std(axis=1, ddof=1) / np.sqrt(draws[0].size)
    assert (np.abs(expected / independent - 1.0) > 0.1).mean() > 0.7
    assert np.isnan(mean_mcse(draws[:, :, :3])).all()


@pytest.mark.parametrize("n", [30, 200, 4096])
@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_smoothed_weights_are_those_of_arviz(n: int, spread: float) -> None:
    log_weights = spread * np.random.default_rng(n).standard_t(3, size=n)
    # It takes log likelihoods, whose negatives are the log weights.
    expected, k_hat = array_stats.psislw(-log_weights)
    found, shape = smoothed_weights(log_weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert shape == pytest.approx(float(k_hat), rel=1e-12)
    assert np.exp(found).sum() == pytest.approx(1.0)
    # Negative control: as they are, the weights differ.
    assert not np.allclose(log_weights - np.log(np.exp(log_weights).sum()), expected)


@pytest.mark.parametrize(
    ("log_weights", "problem"),
    [
        (np.arange(20.0), "20 draws have no tail"),
        (np.zeros(400), "weights of the tail are the same"),
    ],
)
def test_weights_without_a_tail_are_refused(log_weights: np.ndarray, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        smoothed_weights(log_weights)
