"""Routes of a comparison's elpds, exactly: draws and densities are given, results are by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from bayeseval import names
from bayeseval.comparison.bridge import bridge
from bayeseval.comparison.refits import refit_units
from bayeseval.comparison.scores import check_cost, exact_elpd, score
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines._evidence import GroupDensities
from bayeseval.engines._leave_out import leave_out_tree
from bayeseval.engines.base import Draws, pointwise_log_likelihood, to_tree
from bayeseval.errors import InputError
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests import bounded_tables

# `bayeseval.compare` is the function; its modules are reached by import.
refits = import_module("bayeseval.comparison.refits")
scores = import_module("bayeseval.comparison.scores")

CHAINS, DRAWS = 4, 500


def gaussian(**spec: Any) -> Design:
    table = simulate("additive", n_languages=4, n_tasks=3, n_models=3, seed=2).records
    return build_design(table, load_spec({"name": "mine", **spec}))


def counts() -> Design:
    return bounded_tables.design(likelihood="binomial")


def heavy() -> Design:
    return gaussian(likelihood="student_t")


def posterior(design: Design, *, draws: int = DRAWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws of all variables of a design, independent and alike in all chains."""
    rng = np.random.default_rng(seed)
    drawn = {name: np.exp(rng.normal(0.0, 0.1, (CHAINS, draws))) for name in design.priors}
    for name, dims in design.dims().items():
        shape = (CHAINS, draws, *(len(design.coords[dim]) for dim in dims))
        drawn[name] = rng.normal(0.0, 0.2, shape)
    center = float(design.outcome.linear.mean())
    drawn[names.INTERCEPT] = center + rng.normal(0.0, 0.2, (CHAINS, draws))
    if design.outcome.link == "identity":
        drawn[names.SD_RESIDUAL] = 5.0 * drawn[names.SD_RESIDUAL]
        for name in drawn:
            if name.startswith(f"{names.SD_RESIDUAL}_"):
                drawn[name] = 5.0 * np.exp(drawn[name])
    if names.NU in drawn:
        drawn[names.NU] = drawn[names.NU] + 4.0
    return drawn


def flat(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values.reshape(-1, *values.shape[2:]) for name, values in drawn.items()}


def log_mean_exp(values: np.ndarray) -> np.ndarray:
    return np.log(np.exp(values).mean(axis=0))


@dataclass
class Drawn:
    """Stands for NUTS: the same draws for every refit, and what was asked for."""

    posterior: dict[str, np.ndarray]
    lp: np.ndarray = field(
        default_factory=lambda: np.random.default_rng(9).normal(size=(CHAINS, DRAWS))
    )
    asked: list[tuple[str, Design, SamplerSettings]] = field(default_factory=list)

    def __call__(self, engine: str) -> Any:
        def sample(design: Design, settings: SamplerSettings, *, progress: Any = None) -> Draws:
            self.asked.append((engine, design, settings))
            return Draws(self.posterior, {"lp": self.lp}, settings)

        return sample


def silent(stage: str, done: int, total: int, remark: str) -> None: ...


# Refits -----------------------------------------------------------------------------------


def test_a_refit_without_a_record_is_the_mean_of_its_density_over_the_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    design = counts()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    told: list[tuple[str, int, int, str]] = []
    elpd, k_hat = refit_units(
        design, "record", [5, 2], seed=9, jobs=1, progress=lambda *now: told.append(now)
    )
    density = pointwise_log_likelihood(design, flat(drawn.posterior))
    np.testing.assert_allclose(elpd, log_mean_exp(density)[[5, 2]], rtol=1e-12)
    # A plain mean has no weights to judge.
    assert np.isnan(k_hat).all()
    assert {stage for stage, *_ in told} == {"x: refits without each record"}
    for (engine, fitted, settings), unit in zip(drawn.asked, (5, 2), strict=True):
        assert engine == "numpyro"
        assert fitted.score.tolist() == np.delete(design.score, unit).tolist()
        # Independent of the order of the refits and of how many there are.
        own = int(np.random.SeedSequence([9, unit]).generate_state(1)[0])
        assert settings == SamplerSettings(draws=500, tune=500, chains=4, seed=own)


def _moved(what: str, drawn: Drawn) -> None:
    """Move one of the chains by two sds in one of the quantities that are looked at."""
    if what == "the log density":
        drawn.lp[2] += 2.0
    elif what == "a constant log density":
        drawn.lp[...] = 1.0
    elif what == "an sd":
        values = drawn.posterior[names.sd_name("language")]
        values[2] += 2.0 * values.std()
    else:
        # Of all models alike: only the mean expected score tells.
        drawn.posterior[names.effect_name("model")][2] += 1.0


@pytest.mark.parametrize(
    "what", ["the log density", "a constant log density", "an sd", "expected scores"]
)
def test_refits_whose_chains_disagree_are_unreliable(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = counts()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    _moved(what, drawn)
    # The R-hat of what does not vary is 0 / 0.
    with np.errstate(invalid="ignore"):
        elpd, k_hat = refit_units(design, "record", [5], seed=9, jobs=1, progress=silent)
    density = pointwise_log_likelihood(design, flat(drawn.posterior))
    np.testing.assert_allclose(elpd, log_mean_exp(density)[[5]], rtol=1e-12)
    assert k_hat.tolist() == [np.inf]


def _joint(design: Design, drawn: dict[str, np.ndarray], level: int) -> np.ndarray:
    """Log likelihood of a language's records on (chain, draw)."""
    density = pointwise_log_likelihood(design, flat(drawn)).reshape(CHAINS, DRAWS, -1)
    return density[..., design.factor_index["language"] == level].sum(axis=-1)


def test_groups_without_a_mixture_are_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    design = counts()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    fitted = posterior(design, seed=1)
    units = [2, 0]
    whole = np.stack([_joint(design, fitted, unit) for unit in units])
    # No overlap with the draws without the group.
    whole[1] += 100.0
    elpd, k_hat = refit_units(
        design, "language", units, seed=9, jobs=1, progress=silent, whole=whole
    )
    good, bad = (
        bridge(joint, _joint(design, drawn.posterior, unit))
        for joint, unit in zip(whole, units, strict=True)
    )
    assert (good.is_good, bad.is_good) == (True, False)
    assert elpd.tolist() == [good.value, bad.value]
    assert np.isnan(k_hat[0])
    assert k_hat[1] == np.inf
    alone, judged = refit_units(design, "language", [2], seed=9, jobs=1, progress=silent)
    assert np.isnan(alone[0])
    assert judged.tolist() == [np.inf]


@pytest.mark.parametrize(
    ("k_hat", "shift", "bridged"),
    [(0.7, 0.0, False), (0.71, 0.0, True), (0.71, 100.0, False), (0.71, None, False)],
)
def test_groups_are_bridged_where_the_weights_of_the_mixture_are_bad(
    k_hat: float, shift: float | None, bridged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = heavy()
    drawn = Drawn(posterior(design))
    monkeypatch.setattr(refits, "load_engine", drawn)
    asked: dict[str, Any] = {}

    def mixture(own: Design, some: dict[str, np.ndarray], **more: Any) -> tuple[float, float]:
        assert own is design
        asked.update(more, some=some)
        return -7.0, k_hat

    monkeypatch.setattr(refits, "group_log_density", mixture)
    joint = _joint(design, posterior(design, seed=1), 3)
    whole = None if shift is None else joint[None] + shift
    elpd, judged = refit_units(
        design, "language", [3], seed=9, jobs=1, progress=silent, whole=whole
    )
    if bridged:
        assert elpd.tolist() == [bridge(joint, _joint(design, drawn.posterior, 3)).value]
        assert np.isnan(judged).all()
    else:
        assert (elpd.tolist(), judged.tolist()) == ([-7.0], [k_hat])
    own = int(np.random.SeedSequence([9, 3]).generate_state(1)[0])
    assert (asked["by"], asked["level"], asked["seed"]) == ("language", 3, own)
    # Every fourth of 2000 draws, with both ends.
    whole_chain = drawn.posterior[names.INTERCEPT].ravel()
    kept = asked["some"][names.INTERCEPT]
    assert len(kept) == 500
    assert (kept[0], kept[1], kept[-1]) == (whole_chain[0], whole_chain[4], whole_chain[-1])


# Routes -----------------------------------------------------------------------------------


def fitted_to(design: Design, **more: Any) -> Any:
    """What `score` reads of a fit."""
    settings = SamplerSettings(draws=DRAWS, chains=CHAINS)
    tree = to_tree(design, Draws(posterior(design), {}, settings), engine="marginal")
    return SimpleNamespace(data=tree, **more)


def density_of(fitted: Any) -> np.ndarray:
    """Stored log likelihood on (sample, record)."""
    values = fitted.data["log_likelihood"]["score"].to_numpy()
    return values.reshape(CHAINS * DRAWS, -1)


def scored(design: Design, fitted: Any, by: str = "record", **more: Any) -> Any:
    given = {"seed": 6, "refits": 0, "jobs": 1, "progress": silent} | more
    return score(design, fitted, by, **given)  # type: ignore[arg-type]


def test_refits_of_groups_are_counted_before_they_start() -> None:
    design = counts()
    check_cost(design, "language", refits=3)
    check_cost(design, "record", refits=0)
    check_cost(gaussian(), "language", refits=0)
    with pytest.raises(InputError) as caught:
        check_cost(design, "language", refits=2)
    assert str(caught.value) == (
        "x has no closed form of the density of a left-out language (it integrates effects out of "
        "a normal likelihood, not of binomial): it takes 3 refits, more than the 2 allowed; allow "
        "them with refits=3, leave x out, or compare by record"
    )


@pytest.mark.parametrize("by", ["record", "language"])
def test_units_beyond_the_k_hat_are_left_out_by_marginal_likelihoods(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = gaussian()
    fitted = fitted_to(design)
    n = design.n_records if by == "record" else 4
    k_hat = np.full(n, 0.1)
    k_hat[[1, 2, 3]] = 0.9, 0.7, 0.71
    asked: dict[str, Any] = {}

    def leave_group_out(own: Design, *, progress: Any, **more: Any) -> GroupDensities:
        assert own is design
        asked.update(more)
        progress(1, 2)
        return GroupDensities(np.array([-50.0, -60.0]), np.zeros(2), np.array([0.2, 0.3]))

    monkeypatch.setattr(scores, "leave_group_out", leave_group_out)

    def exact(*given: Any) -> tuple[np.ndarray, np.ndarray]:
        assert given == (design, fitted, by)
        return np.arange(n) - 40.0, k_hat.copy()

    monkeypatch.setattr(scores, "exact_elpd", exact)
    told: list[tuple[str, int, int, str]] = []
    found = scored(design, fitted, by, progress=lambda *now: told.append(now))
    assert asked == {"by": by, "units": [1, 3], "seed": 6}
    expected = np.arange(n) - 40.0
    expected[[1, 3]] = -50.0, -60.0
    assert found.elpd.tolist() == expected.tolist()
    assert found.k_hat[:5].tolist() == [0.1, 0.2, 0.7, 0.3, 0.1][:n]
    assert found.method == (
        f"exact given the sds, PSIS over the sds; 2 {by}s by marginal likelihoods"
    )
    assert told == [
        ("mine: marginal likelihoods", 0, 2, ""),
        ("mine: marginal likelihoods", 1, 2, ""),
    ]
    assert found.notes == ()
    density = density_of(fitted)
    if by == "language":
        own = design.factor_index["language"]
        density = np.stack([density[:, own == i].sum(axis=1) for i in range(4)], axis=1)
        assert found.plain is None
    assert found.lppd == pytest.approx(log_mean_exp(density).sum(), rel=1e-12)
    # Nothing is left out again where all k-hats are good.
    monkeypatch.setattr(scores, "exact_elpd", lambda *_: (expected, np.full(n, 0.7)))
    asked.clear()
    kept = scored(design, fitted, by)
    assert kept.elpd.tolist() == expected.tolist()
    assert kept.method == "exact given the sds, PSIS over the sds"
    assert not asked
    assert not kept.bad.any()
    assert replace(kept, k_hat=k_hat).bad.tolist() == (k_hat > 0.7).tolist()


def test_groups_get_the_draws_of_their_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    design = counts()
    fitted = fitted_to(design)
    asked: dict[str, Any] = {}

    def refit(own: Design, by: str, units: Any, **more: Any) -> tuple[np.ndarray, np.ndarray]:
        asked.update(more, by=by, units=list(units))
        return np.array([-1.0, -2.0, -3.0]), np.array([np.nan, 0.3, np.nan])

    monkeypatch.setattr(scores, "refit_units", refit)
    found = scored(design, fitted, "task", jobs=2)
    assert (asked["by"], asked["units"], asked["seed"]) == ("task", [0, 1, 2], 6)
    assert (asked["jobs"], asked["progress"]) == (2, silent)
    stored = fitted.data["log_likelihood"]["score"].to_numpy()
    index = design.factor_index["task"]
    assert (np.diff(index) < 0).any()
    assert asked["whole"].shape == (3, CHAINS, DRAWS)
    for unit in range(3):
        own = stored[..., index == unit].sum(axis=-1)
        np.testing.assert_allclose(asked["whole"][unit], own, rtol=1e-12)
    assert found.elpd.tolist() == [-1.0, -2.0, -3.0]
    np.testing.assert_array_equal(found.k_hat, [np.nan, 0.3, np.nan])
    assert found.method == "refits without each task, 2 by bridge sampling"
    # Normal noise has no weights where there is no bridge either.
    other = gaussian(residual_by="task")
    assert scored(other, fitted_to(other), "task").method == "refits without each task"
    tailed = heavy()
    found = scored(tailed, fitted_to(tailed), "task")
    assert found.method == "refits without each task, 2 by bridge sampling"


def test_records_of_heavy_tails_take_the_cheapest_route_that_is_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    design = heavy()
    fitted = fitted_to(design)
    n = design.n_records
    plain, k_hat = -np.arange(n, dtype=np.float64), np.full(n, 0.1)
    k_hat[:6] = 0.7, 0.8, 0.9, 1.2, 0.75, 0.71
    other_k = np.full(n, 0.2)
    # Good in both but the first, and bad in both for the other four.
    other_k[1:6] = 0.7, 0.9, 0.95, 0.71, 0.8
    monkeypatch.setattr(scores, "_psis", lambda tree: (plain.copy(), k_hat.copy()))
    mixed: list[int] = []

    def mixture(*given: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
        assert given == (design, fitted)
        mixed.append(seed)
        return np.full(n, -100.0), other_k

    monkeypatch.setattr(scores, "_mixture", mixture)
    asked: list[int] = []

    def refit(own: Design, by: str, units: list[int], **more: Any) -> Any:
        asked.extend(units)
        assert own is design
        more["progress"]("refits", 1, 3, "")
        assert (by, more["seed"], more["jobs"]) == ("record", 6, 1)
        return np.array([-201.0, -202.0, -203.0])[: len(units)], np.full(len(units), np.nan)

    monkeypatch.setattr(scores, "refit_units", refit)
    told: list[tuple[str, int, int, str]] = []
    found = scored(design, fitted, refits=3, progress=lambda *now: told.append(now))
    assert mixed == [6]
    # The worst first.
    assert asked == [3, 2, 4]
    np.testing.assert_array_equal(
        found.elpd[:8], [0.0, -100.0, -202.0, -201.0, -203.0, np.nan, -6.0, -7.0]
    )
    np.testing.assert_array_equal(found.k_hat[:7], [0.7, 0.7, np.nan, np.nan, np.nan, 0.71, 0.1])
    assert found.method == (
        "PSIS; 1 record by integrating the effects out; 3 records by refits; 1 record not computed"
    )
    assert found.notes == (
        f"mine: 1 left-out record of {n} has no reliable density (k-hat above 0.7) and 3 refits "
        "were allowed, so its elpd was not computed; refits=4 computes it",
    )
    assert found.plain[0].tolist() == plain.tolist()
    assert found.plain[1].tolist() == k_hat.tolist()
    stage = "mine: effects integrated out"
    assert told == [(stage, 0, 1, ""), (stage, 1, 1, ""), ("refits", 1, 3, "")]
    assert found.lppd == pytest.approx(log_mean_exp(density_of(fitted)).sum(), rel=1e-12)
    # Good k-hats throughout: nothing else is asked.
    mixed.clear()
    monkeypatch.setattr(scores, "_psis", lambda tree: (plain.copy(), np.full(n, 0.7)))
    assert scored(design, fitted).method == "PSIS"
    assert not mixed


def test_normal_noise_by_task_takes_all_records_from_the_mixture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    design = gaussian(residual_by="task")
    n = design.n_records
    k_hat = np.full(n, 0.1)
    k_hat[2] = 0.71
    monkeypatch.setattr(scores, "_psis", lambda tree: (np.full(n, -1.0), k_hat.copy()))
    other = (-np.arange(n) - 10.0, np.full(n, 0.3))
    monkeypatch.setattr(scores, "_mixture", lambda *_, seed: other)
    found = scored(design, fitted_to(design))
    assert found.elpd.tolist() == other[0].tolist()
    assert found.k_hat.tolist() == [0.3] * n
    assert found.method == "exact given the sds, PSIS over the sds"
    assert found.notes == ()


def loo_of(
    density: np.ndarray, posterior: xr.Dataset, design: Design
) -> tuple[np.ndarray, np.ndarray]:
    """PSIS of densities on (chain, draw, record), by ArviZ, given draws of the scalars."""
    groups = {
        "posterior": posterior[list(design.priors)].drop_attrs(),
        "log_likelihood": xr.Dataset({"score": (("chain", "draw", "record"), density)}),
        "observed_data": design.observed_data(),
    }
    found = arviz_stats.loo(xr.DataTree.from_dict(groups), pointwise=True)
    return np.asarray(found.elpd_i), np.asarray(found.pareto_k)


def test_the_mixture_is_asked_at_draws_of_each_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    design = gaussian(residual_by="task")
    fitted = fitted_to(design)
    monkeypatch.setattr(scores, "LEAVE_OUT_DRAWS", 250)
    asked: dict[str, Any] = {}
    density = np.random.default_rng(4).normal(-3.0, 0.1, (CHAINS * 250, design.n_records))

    def mixture(own: Design, arrays: dict[str, np.ndarray], *, seed: int) -> np.ndarray:
        assert own is design
        asked.update(arrays=arrays, seed=seed)
        return density

    monkeypatch.setattr(scores, "leave_out_mixture", mixture)
    elpd, k_hat = scores._mixture(design, fitted, seed=6)
    kept = np.linspace(0, DRAWS - 1, 250).astype(int)
    drawn = fitted.data["posterior"].to_dataset().isel(draw=kept)
    expected = loo_of(density.reshape(CHAINS, 250, -1), drawn, design)
    np.testing.assert_allclose(elpd, expected[0], rtol=1e-12)
    np.testing.assert_allclose(k_hat, expected[1], rtol=1e-12)
    assert asked["seed"] == 6
    assert set(asked["arrays"]) == {*design.priors, *design.dims()}
    assert asked["arrays"]["intercept"].tolist() == drawn["intercept"].to_numpy().ravel().tolist()


@pytest.mark.parametrize(("most", "kept"), [(100, [0, 124, 249, 374, 499]), (7, [0, 499])])
def test_densities_that_are_not_stored_are_computed_at_some_draws(
    most: int, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    design = counts()
    fitted = fitted_to(design)
    stored = fitted.data["log_likelihood"]["score"].to_numpy()
    # As many values as are allowed, or the two draws that are always used.
    monkeypatch.setattr(names, "MOST_POINTWISE", design.n_records * most // 5)
    del fitted.data["log_likelihood"]
    seen: list[xr.DataTree] = []

    def psis(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
        seen.append(tree)
        return np.zeros(design.n_records), np.zeros(design.n_records)

    monkeypatch.setattr(scores, "_psis", psis)
    found = scored(design, fitted)
    used = seen[0]["log_likelihood"]["score"].to_numpy()
    np.testing.assert_allclose(used, stored[:, kept], rtol=1e-12)
    assert found.notes == (
        "x: its densities record by record are too large to be stored with the fit; "
        f"{len(kept)} of 500 draws of each chain were used",
    )
    expected = log_mean_exp(stored[:, kept].reshape(CHAINS * len(kept), -1)).sum()
    assert found.lppd == pytest.approx(expected, rel=1e-12)


def test_exact_densities_are_those_stored_with_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    design = gaussian()
    fitted = fitted_to(design)
    monkeypatch.setattr(scores, "LEAVE_OUT_DRAWS", 60)
    data = fitted.data["posterior"].to_dataset()
    computed = leave_out_tree(design, data, by="record", draws=60)
    expected = scores._psis(computed)
    found = exact_elpd(design, fitted, "record")
    np.testing.assert_array_equal(found, expected)
    assert np.ptp(expected[0]) > 0.5
    groups = scores._psis(leave_out_tree(design, data, by="language", draws=60))
    np.testing.assert_array_equal(exact_elpd(design, fitted, "language"), groups)
    # What is stored is read, without any computation.
    stored = leave_out_tree(design, data, by="record", draws=40)
    fitted.leave_one_out = {"record": stored}.__getitem__
    fitted.data["leave_out_record"] = stored
    found = exact_elpd(design, fitted, "record")
    np.testing.assert_array_equal(found, scores._psis(stored))
    assert (found[0] != expected[0]).all()
