"""The reference posteriors: complete, agreed between two engines, and of the models as shipped."""

from __future__ import annotations

import datetime
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.linalg import helmert
from scipy.special import logsumexp
from scipy.stats import t as student_t

from bayeseval import Records, load, simulate
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines._density import sampled_variables
from bayeseval.engines._evidence import leave_group_out, without
from bayeseval.engines._numpyro_density import log_density
from bayeseval.fitting import prepare
from bayeseval.spec import load_spec
from tests.reference_posteriors import FOLDER, N_MCSE, reference

PERF = FOLDER.parents[1]
SCRIPTS = ("measure", "evidence", "left_out", "elpd", "reference_posteriors")
POSTERIORS = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.json")
)


@pytest.fixture(scope="module")
def script() -> Any:
    """`perf/reference_posteriors.py`, which imports `measure` from its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PERF))
        for name in SCRIPTS:
            patch.delitem(sys.modules, name, raising=False)
        import reference_posteriors

        for name in SCRIPTS:
            patch.delitem(sys.modules, name)
        yield reference_posteriors


@pytest.fixture(scope="module")
def tables() -> dict[str, Records]:
    replicates = FOLDER / "replicates" / "records.csv"
    return {
        "mega": load("mega"),
        "mmmlu": load("mmmlu"),
        "replicates": load(replicates, name="replicates"),
    }


def test_the_simulated_table_is_the_one_that_its_seed_gives(
    script: ModuleType, tmp_path: Path
) -> None:
    script.write_replicates(tmp_path / "records.csv")
    again = pd.read_csv(tmp_path / "records.csv")
    stored = pd.read_csv(FOLDER / "replicates" / "records.csv")
    pd.testing.assert_frame_equal(stored.drop(columns="score"), again.drop(columns="score"))
    # Six digits are stored; other processors round sums of normals differently.
    np.testing.assert_allclose(stored["score"], again["score"], rtol=2e-5)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(stored["score"] * 1.0001, again["score"], rtol=2e-5)


def test_a_bridge_finds_the_normalising_constant(script: ModuleType) -> None:
    bridged = script.log_evidence.__globals__["bridged"]
    # Logs of gamma variates with shape 3 are skewed, as logs of sds are.
    drawn = np.log(np.random.default_rng(1).gamma(3.0, size=(4, 2000, 5)))

    def log_posterior(x: np.ndarray) -> np.ndarray:
        return (3.0 * x - np.exp(x)).sum(axis=1) - 7.0

    found = bridged(drawn, log_posterior, units=2.0, seed=1)
    exact = 5 * np.log(2.0) - 7.0 + 2.0
    assert (found.n_parameters, found.mcse < 0.02) == (5, True)
    assert abs(found.value - exact) < 5 * found.mcse
    # Draws that are too narrow by a tenth do not give it.
    narrow = bridged(0.9 * drawn, log_posterior, units=2.0, seed=1)
    assert abs(narrow.value - exact) > 5 * narrow.mcse


def test_a_bridge_covers_modes_that_are_images_of_one_another(script: ModuleType) -> None:
    known = script.log_evidence.__globals__
    spec = {**load_spec("additive").to_dict(), "low_rank": {"model:language": 2}}
    table = simulate("additive", n_languages=4, n_tasks=2, n_models=3, seed=3).records
    design = build_design(table, load_spec(spec))
    of_model, of_language = next(term.drawn_loadings for term in design.terms if term.rank)
    places = {
        "intercept": np.array(0),
        "sd_low_rank_model_language": np.array([1, 2]),
        of_model: np.array([[3, 4], [5, 6]]),
        of_language: np.array([[7, 8], [9, 10]]),
    }
    moves = known["symmetries"](design, places)
    rng = np.random.default_rng(1)
    point = rng.normal(size=11)

    def cells(x: np.ndarray) -> np.ndarray:
        sds, model, language = (x[where] for where in list(places.values())[1:])
        return (sds[:, None, None] * model[:, :, None] * language[:, None, :]).sum(axis=0)

    images = [move(point) for move in moves]
    assert len(np.unique(images, axis=0)) == len(moves) == 8
    assert (images[0] == point).all()
    for image in images:
        np.testing.assert_allclose(cells(image), cells(point), rtol=1e-12)
    # Eight normal densities of sd 1/4, each integral 1; every chain of draws in one of them.
    centres = np.array([move(3.0 * point) for move in moves])
    draws = centres[[0, 3, 5, 6], None] + 0.25 * rng.normal(size=(4, 2000, 11))

    def log_posterior(x: np.ndarray) -> np.ndarray:
        far = ((x[:, None] - centres) ** 2).sum(axis=2) / 0.25**2
        return logsumexp(-0.5 * far, axis=1) - 11 * np.log(0.25 * np.sqrt(2.0 * np.pi))

    exact = np.log(8.0) + 2.0
    found = known["bridged_in_one_mode"](draws, log_posterior, 2.0, 1, moves)
    assert found.mcse < 0.02
    assert abs(found.value - exact) < 5.0 * found.mcse + 1e-6
    # Negative control: draws of one mode do not tell of the others.
    alone = known["bridged"](moves[0](draws[:1].repeat(4, axis=0)), log_posterior, 2.0, 1)
    assert abs(alone.value - exact) > 1.0


def integral_over_effects(design: Design, point: dict[str, np.ndarray], given: Any) -> float:
    """Log integral of the joint density over all variables but the given ones.

    Its log is a quadratic polynomial of these, whose coefficients are found from its values.
    """
    variables = {k: v for k, v in sampled_variables(design).items() if k not in given}
    basis = {
        k: helmert(v.size) if v.zero_sum else np.eye(v.size or 1) for k, v in variables.items()
    }
    sizes = [(v.rank or 1) * len(basis[k]) for k, v in variables.items()]

    def value(z: np.ndarray) -> float:
        parts = np.split(z, np.cumsum(sizes)[:-1])
        changed = {
            name: (part.reshape(-1, len(basis[name])) @ basis[name]).reshape(variables[name].shape)
            for name, part in zip(variables, parts, strict=True)
        }
        return float(sum(log_density(design, {**point, **changed}).values()))

    steps = np.eye(sum(sizes))
    zero, plus = value(0.0 * steps[0]), np.array([value(one) for one in steps])
    minus = np.array([value(-one) for one in steps])
    hessian = np.diag(plus + minus - 2.0 * zero)
    for i, j in itertools.combinations(range(len(steps)), 2):
        both = value(steps[i] + steps[j])
        hessian[i, j] = hessian[j, i] = both - plus[i] - plus[j] + zero
    gradient = (plus - minus) / 2.0
    sign, log_det = np.linalg.slogdet(-hessian)
    assert sign == 1.0
    peak = zero - 0.5 * gradient @ np.linalg.solve(hessian, gradient)
    return float(peak + 0.5 * (len(steps) * np.log(2.0 * np.pi) - log_det))


def test_effects_are_integrated_out_given_loadings(script: ModuleType) -> None:
    """Against the joint density: its integral over effects, of which it is a Gaussian."""
    known = script.log_evidence.__globals__
    spec = {**load_spec("additive").to_dict(), "low_rank": {"model:language": 2}}
    table = simulate("additive", n_languages=4, n_tasks=2, n_models=3, seed=3).records
    design = build_design(table, load_spec(spec))
    assert known["is_integrable"](design)
    assert not known["is_integrable"](build_design(table, load_spec("additive")))
    # The noise of seeds is estimated, so that scores are not normal given the sds.
    seeds = simulate("additive", n_languages=4, n_tasks=2, n_models=3, n_seeds=3, seed=3).records
    assert not known["is_integrable"](build_design(seeds, load_spec(spec)))
    density = known["GivenLoadings"].of(design)
    rng = np.random.default_rng(1)
    sizes = {name: variable.shape for name, variable in sampled_variables(design).items()}
    for _ in range(2):
        point = {name: np.exp(0.3 * rng.normal(size=shape)) for name, shape in sizes.items()}
        draws = {name: values[None, None] for name, values in point.items()}
        x = density.flat(draws)[0, 0]
        assert len(x) == 4 + 2 + 2 * 4
        is_sd = [name in density.priors or name in density.design.priors for name in density.places]
        jacobian = sum(
            float(x[where].sum())
            for sd, where in zip(is_sd, density.places.values(), strict=True)
            if sd
        )
        exact = integral_over_effects(design, point, density.places) + jacobian
        assert density(x[None])[0] == pytest.approx(exact, abs=1e-6)
        moved = {**point, "sd_residual": 1.01 * point["sd_residual"]}
        other = integral_over_effects(design, moved, density.places) + jacobian
        assert abs(density(x[None])[0] - other) > 1e-3


def test_records_that_are_left_out_together_have_the_densities_of_each(script: Any) -> None:
    """Against ratios of marginal likelihoods, which need no draws of NUTS."""
    left_out = script.elpd_of.__globals__["elpds"].__globals__["left_out_together"]
    table = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    design = build_design(table, load_spec("additive"))
    # All scores of one model on a task, and one of another: they say something of each other.
    index = design.factor_index
    same = np.flatnonzero((index["model"] == 1) & (index["task"] == 2))
    chosen = [*same.tolist(), int(np.flatnonzero(index["model"] == 3)[0])]
    exact = leave_group_out(design, by="record", units=chosen).log_density
    settings = SamplerSettings(draws=400, tune=400, chains=4)
    found = left_out(design, chosen, settings, seed=1)
    assert found.elpd.shape == found.k_hat.shape == (len(chosen),)
    assert (found.k_hat.max() < 0.7, 0.0 < found.mcse < 0.1) == (True, True)
    # The error of the ratios of marginal likelihoods is about a hundredth.
    assert abs(found.elpd.sum() - exact.sum()) < 5.0 * found.mcse + 0.05
    np.testing.assert_allclose(found.elpd, exact, atol=5.0 * found.mcse + 0.05)
    # Negative control: given the records outside of the chosen ones only, they are others.
    alone = []
    for record in chosen:
        rest, kept = design, record
        for other in sorted(set(chosen) - {record}, reverse=True):
            rest, kept = without(rest, by="record", unit=other), kept - (other < kept)
        alone.append(leave_group_out(rest, by="record", units=[kept]).log_density[0])
    assert abs(sum(alone) - exact.sum()) > 2.0 * (5.0 * found.mcse + 0.05)


def test_records_whose_weights_fail_in_pairs_are_left_out_one_by_one(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = script.elpd_of.__globals__["elpds"].__globals__
    asked = []

    def left_out(_: Any, records: list[int], *__: Any, seed: int) -> Any:
        asked.append(tuple(records))
        k_hat = 0.9 if records == [4, 30] else 0.1 * len(records)
        return known["LeftOut"](-np.array(records, dtype=float), 0.3, np.full(len(records), k_hat))

    monkeypatch.setitem(known, "left_out_together", left_out)
    found = known["by_fits_without"](None, [2, 4, 10, 20, 30])
    assert asked == [(2, 20), (4, 30), (10,), (4,), (30,)]
    np.testing.assert_array_equal(found.elpd, [-2.0, -4.0, -10.0, -20.0, -30.0])
    np.testing.assert_array_equal(found.k_hat, [0.2, 0.1, 0.1, 0.2, 0.1])
    assert found.mcse == pytest.approx(0.6)


def test_what_is_missing_is_listed(script: ModuleType) -> None:
    listed = pd.read_csv(FOLDER / "not_made.csv")
    assert sorted([*listed["posterior"], *POSTERIORS]) == sorted(script.POSTERIORS)
    assert listed["commit"].str.fullmatch("[0-9a-f]{40}").all()


@pytest.mark.parametrize("key", POSTERIORS)
def test_the_reference_is_of_the_model_as_shipped(key: str, tables: dict[str, Records]) -> None:
    table, model = key.split("/")
    _, said = reference(table, model)
    prepared = prepare(tables[table], model)
    assert said["data_hash"] == prepared.identity["data_hash"]
    assert said["spec_hash"] == prepared.design.spec.content_hash
    assert said["spec"] == prepared.design.spec.to_dict()
    assert priors(prepared.design) == pytest.approx(flat(said["priors"]), rel=1e-9)
    # Negative control: another prior of the sd of models is another posterior.
    half = {"sd_model": {"dist": "half_normal", "scale": 0.5}}
    changed = prepare(tables[table], {**said["spec"], "priors": half})
    assert changed.design.spec.content_hash != said["spec_hash"]
    assert priors(changed.design) != pytest.approx(flat(said["priors"]), rel=1e-9)


def flat(priors: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{name} {key}": value if isinstance(value, float) else hash(value)
        for name, prior in priors.items()
        for key, value in prior.items()
    }


def priors(design: Any) -> dict[str, Any]:
    return flat(
        {
            name: prior.model_dump(exclude_none=True, exclude={"relative"})
            for name, prior in design.priors.items()
        }
    )


@pytest.mark.parametrize("key", POSTERIORS)
def test_two_engines_agree_and_have_enough_draws(key: str) -> None:
    table, said = reference(*key.split("/"))
    assert said["agreement"]["comparisons"] == 7 * len(table)
    for name in ("mean", "sd"):
        error = np.hypot(table[f"{name}_mcse"], table[f"second_{name}_mcse"])
        z = (table[name] - table[f"second_{name}"]) / error
        assert z.abs().max() < N_MCSE
        # Errors are stored with three digits, estimates with six: half a unit of the last each.
        half = 0.5 * 10.0 ** (np.floor(np.log10(table[name].abs())) - 5)
        rounding = 0.06 + 2.0 * half / error
        assert ((z - table[f"z_{name}"]).abs() <= rounding).all()
        assert abs(said["agreement"][f"z_{name}"] - z.abs().max()) <= rounding.max()
        # Negative control: two per cent in the sds would have been seen.
        sds = table["quantity"].str.fullmatch("sd_(residual|language|model)|dispersion_.*")
        moved = (1.02 * table[name] - table[f"second_{name}"]) / error
        assert name == "sd" or moved[sds].abs().max() > 2.0
    assert table["z_quantiles"].abs().max() < N_MCSE
    for side in ("", "second_"):
        assert table[[f"{side}ess_bulk", f"{side}ess_tail"]].min(axis=None) >= 1000
        assert table[f"{side}r_hat"].max() <= 1.01
    quantiles = table[["q5", "q25", "q50", "q75", "q95"]].to_numpy()
    assert (np.diff(quantiles, axis=1) > 0).all()
    assert [e["convergence"]["status"] for e in said["engines"].values()] == ["pass", "pass"]
    assert len({e["engine"] for e in said["engines"].values()}) == 2


def test_the_error_of_an_elpd_has_the_degrees_of_freedom_of_its_batches(script: Any) -> None:
    known = script.elpd_of.__globals__["elpds"].__globals__
    each = [1.0, 2.0, 4.0, 3.0, 2.0, 2.0, 5.0, 1.0]
    error = np.std(each, ddof=1) / np.sqrt(8)

    def run(**sampling: float) -> Any:
        return SimpleNamespace(fit=SimpleNamespace(run={"sampling": sampling}))

    assert known["of_batches"](each, run()) == pytest.approx((error, 7.0))
    # As many points as draws: their errors are equal.
    shared = known["of_batches"](each, run(importance_ess=2000.0))
    assert shared == pytest.approx((error * np.sqrt(2.0), 7.0))
    # Of two equal errors the degrees of freedom add up; of unequal ones the larger error counts.
    pair = known["Error"](0.3, 7.0) & known["Error"](0.3, 7.0)
    assert pair == pytest.approx((0.3 * np.sqrt(2.0), 14.0))
    assert (known["Error"](3.0, 7.0) & known["Error"](0.03, 3.0)).df == pytest.approx(7.0, abs=0.01)


def test_batches_are_parts_of_chains(script: Any) -> None:
    known = script.elpd_of.__globals__["elpds"].__globals__
    values = xr.DataArray(np.arange(4 * 5.0).reshape(4, 5), dims=("chain", "draw"))
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"x": values}), "observed_data": xr.Dataset({"y": 1.0})}
    )
    batches = [known["batch_of"](tree, i) for i in range(known["BATCHES"])]
    drawn = [batch["posterior"]["x"].to_numpy().tolist() for batch in batches]
    assert drawn[:2] == [[[0.0, 1.0, 2.0]], [[3.0, 4.0]]]
    assert drawn[7] == [[18.0, 19.0]]
    assert sum(batch["posterior"]["x"].size for batch in batches) == values.size
    assert all(batch["observed_data"]["y"] == 1.0 for batch in batches)


def test_elpds_that_differ_too_much_are_refused(script: Any) -> None:
    known = script.elpd_of.__globals__["elpds"].__globals__
    limit = student_t.ppf(0.9995, 14.0)

    def pair(errors: float) -> dict[str, dict[str, Any]]:
        second = {"value": 10.0 - errors * 0.5, "mcse": 0.4, "mcse_df": 7.0}
        # 0.3 and 0.4 give 0.5, with equal errors 14 degrees of freedom.
        return {"first": {"value": 10.0, "mcse": 0.3, "mcse_df": 7.0}, "second": second}

    close = pair(3.5)
    assert known["accepted"](close) is close
    assert known["disagreement"](*close.values()) == pytest.approx((3.5, limit), rel=0.02)
    refused = known["accepted"](pair(5.0))
    assert refused["first"] == refused["second"]
    assert refused["first"] == {
        "value": None,
        "reason": "refused: 10.00 and 7.50 of the two engines differ by 5.0 MCSE, more than 4.2",
    }
    assert not script.agreed("mega/additive", refused)
    assert script.agreed("mega/additive", close)
    # Errors of four chains each, as of files without the degrees of freedom.
    old = {"first": {"value": 10.0, "mcse": 0.3}, "second": {"value": 7.5, "mcse": 0.4}}
    assert known["accepted"](old) is old
    missing = {"first": {"value": None, "reason": "not computed"}, "second": close["second"]}
    assert known["accepted"](missing) is missing


@pytest.mark.parametrize("key", POSTERIORS)
def test_left_out_densities_of_both_engines_agree(key: str, script: Any) -> None:
    _, said = reference(*key.split("/"))
    first, second = said["elpd_loo"].values()
    if first["value"] is None or second["value"] is None:
        assert re.search("^refused: |need refits|not computed", (first | second)["reason"])
        return
    assert max(first["worst_k_hat"], second["worst_k_hat"]) <= 0.7
    error = np.hypot(first["mcse"], second["mcse"])
    differ, most = script.elpd_of.__globals__["accepted"].__globals__["disagreement"](first, second)
    assert differ <= most
    # Densities of single records have independent errors, whose norm is that of their sum. The
    # norms of two vectors differ by at most the norm of their difference.
    assert abs(first["se"] - second["se"]) < max(0.02 * first["se"], error)


@pytest.mark.parametrize("key", POSTERIORS)
def test_the_origin_of_every_posterior_is_stored(key: str) -> None:
    _, said = reference(*key.split("/"))
    assert said["command"].startswith("python perf/reference_posteriors.py")
    assert re.fullmatch("[0-9a-f]{40}", said["commit"]), "made with uncommitted changes"
    assert datetime.date.fromisoformat(said["date"])
    assert {"bayeseval", "numpyro", "pymc", "nutpie", "jax"} <= set(said["versions"])


@pytest.mark.parametrize("key", POSTERIORS)
def test_every_column_and_key_is_documented(key: str) -> None:
    table, said = reference(*key.split("/"))
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    # Errors of quantiles are named by their pattern.
    columns = [c for c in table.columns if not re.fullmatch(r"q(25|50|75|95)_mcse", c)]
    missing = [name for name in [*columns, *said] if f"`{name}`" not in text]
    assert missing == []
    quantities = {re.sub("^(sd|dispersion)_.*", r"\1_*", name) for name in table["quantity"]}
    assert [name for name in quantities if f"`{name}`" not in text] == []
