"""Expected log predictive densities of left-out records of reference posteriors, with errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from arviz_stats import loo
from left_out import LeftOut, left_out_together
from scipy.stats import t as student_t

from bayeseval import Fit
from bayeseval.comparison.refits import refit_units
from bayeseval.comparison.scores import EXACT, EXACT_GIVEN_LOADINGS, Scores, score
from bayeseval.design import Design
from bayeseval.engines import SamplerSettings, marginal
from bayeseval.engines._evidence import leave_group_out
from bayeseval.engines._leave_out_mixture import leave_out_mixture, why_no_mixture
from bayeseval.engines.marginal import why_no_closed_form
from bayeseval.estimands.frames import draws_of
from bayeseval.names import K_HAT_MAX

Floats = npt.NDArray[np.float64]

CHAINS: Final = 4
TUNE: Final = 1000
# Draws of each chain at which densities of left-out scores are computed.
ELPD_DRAWS: Final = 500
# Every chain is cut into so many batches, whose elpds tell the error.
PER_CHAIN: Final = 2
BATCHES: Final = CHAINS * PER_CHAIN
# Largest k-hat in the draws of one batch, which only the error is computed from: beyond it, the
# weights have no mean.
MOST_OF_BATCH: Final = 1.0
# Elpds of correct engines differ by more than is accepted once in a thousand pairs.
REFUSED: Final = 0.001
# Of errors that are computed from four chains or four refits.
LEAST_DF: Final = 3.0
# Of refits without one record, each a run of its own.
REFIT_SEEDS: Final = (1, 2, 3, 4)
# Of four chains, without records that weights cannot leave out.
WITHOUT_DRAWS: Final = 500


class Engine(NamedTuple):
    """A design, and one engine's fit of it."""

    design: Design
    fit: Fit


def elpds(runs: tuple[Engine, Engine]) -> dict[str, dict[str, Any]]:
    """Expected log predictive densities of left-out records of both engines, with both errors.

    The Monte-Carlo standard error is that of the mean of eight batches of draws, each by itself.
    Records whose k-hat is too large in all draws or in those of a batch are left out for good.
    """
    design = runs[0].design
    exact = why_no_closed_form(design) is None
    if not exact and design.outcome.is_gaussian and why_no_mixture(design) is None:
        found = given_sds(runs)
    else:
        found = [closed_form(run) if exact else weighted(run) for run in runs]
    return dict(zip(("first", "second"), found, strict=True))


class Error(NamedTuple):
    """A standard error and its degrees of freedom."""

    value: float
    df: float

    def __and__(self, other: Error) -> Error:
        """Of the sum of two independent estimates (Welch and Satterthwaite)."""
        squares = np.square([self.value, other.value])
        df = squares.sum() ** 2 / (squares**2 / [self.df, other.df]).sum()
        return Error(float(np.sqrt(squares.sum())), float(df))


def disagreement(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[float, float]:
    """Difference of two elpds in standard errors, and the largest that is accepted.

    The limit is a quantile of Student's t with the degrees of freedom of both errors.
    """
    error = Error(first["mcse"], first.get("mcse_df", LEAST_DF)) & Error(
        second["mcse"], second.get("mcse_df", LEAST_DF)
    )
    differ = abs(first["value"] - second["value"]) / error.value
    return float(differ), float(student_t.ppf(1.0 - 0.5 * REFUSED, error.df))


def accepted(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The elpds if both engines agree; else the reason why there are none."""
    if any(one["value"] is None for one in found.values()):
        return found
    differ, most = disagreement(found["first"], found["second"])
    if differ <= most:
        return found
    reason = (
        f"refused: {found['first']['value']:.2f} and {found['second']['value']:.2f} of the two "
        f"engines differ by {differ:.1f} MCSE, more than {most:.1f}"
    )
    return {side: {"value": None, "reason": reason} for side in found}


def of_batches(each: Sequence[float], run: Engine) -> Error:
    """Standard error of an elpd, from those of batches of its draws.

    Draws of importance sampling are taken from points that all batches share: the error of these
    is not seen in the batches, and is that of as many draws as the points are worth.
    """
    error = float(np.std(each, ddof=1) / np.sqrt(len(each)))
    worth = run.fit.run["sampling"].get("importance_ess", np.inf)
    return Error(error * float(np.sqrt(1.0 + CHAINS * ELPD_DRAWS / worth)), len(each) - 1.0)


def described_elpd(values: Floats, error: Error, k_hat: Floats, method: str) -> dict[str, Any]:
    """An elpd as the JSON has it."""
    return {
        "value": float(values.sum()),
        "se": float(np.sqrt(len(values) * values.var(ddof=1))),
        "mcse": float(error.value),
        "mcse_df": round(error.df, 1),
        "worst_k_hat": float(np.nanmax(k_hat)),
        "method": method,
    }


def closed_form(run: Engine) -> dict[str, Any]:
    """Elpd of a Gaussian model with one residual sd."""
    tree = run.fit.leave_one_out(draws=ELPD_DRAWS)
    values, k_hat = psis(tree)
    each = [psis(batch_of(tree, i))[0].sum() for i in range(BATCHES)]
    return described_elpd(values, of_batches(each, run), k_hat, EXACT)


def given_sds(runs: tuple[Engine, Engine]) -> list[dict[str, Any]]:
    """Elpd of both runs of a model with normal noise that one run has to leave records out for.

    What is lost to one engine's weights is computed without them, once for both engines.
    """
    design = runs[0].design
    found = []
    for run in runs:
        tree = densities_given_sds(run)
        batches = [psis(batch_of(tree, i)) for i in range(BATCHES)]
        found.append((psis(tree), batches))
    of_all = np.array([k_hat for (_, k_hat), _ in found])
    of_batch = np.array([k_hat for _, batches in found for _, k_hat in batches])
    lost = (of_all > K_HAT_MAX).any(axis=0) | (of_batch > MOST_OF_BATCH).any(axis=0)
    records = np.flatnonzero(lost)
    method = EXACT_GIVEN_LOADINGS if design.spec.low_rank else EXACT
    others = None
    if records.size:
        method += f"; {len(records)} of {lost.size} records by "
        if marginal.why_not(design) is None:
            method += "ratios of marginal likelihoods"
            others = by_ratios(design, records.tolist())
        else:
            method += "fits without one or two of them"
            others = by_fits_without(design, records.tolist())
        print(f"left out: {records.tolist()}, {others}", flush=True)
        if (worst := others.k_hat.max()) > K_HAT_MAX:
            reason = (
                f"{len(records)} of {lost.size} left-out records were not computed: their Pareto "
                f"k-hat is up to {worst:.1f}, above {K_HAT_MAX}"
            )
            return [{"value": None, "reason": reason}] * len(runs)
    described = []
    for run, ((values, k_hat), batches) in zip(runs, found, strict=True):
        error, kept = of_batches([own[~lost].sum() for own, _ in batches], run), k_hat[~lost]
        if others is not None:
            values[lost], error = others.elpd, error & Error(others.mcse, LEAST_DF)
            kept = np.concatenate([kept, others.k_hat])
        described.append(described_elpd(values, error, kept, method))
    return described


def by_ratios(design: Design, records: Sequence[int]) -> LeftOut:
    """Densities of records as ratios of marginal likelihoods, which `marginal` computes."""
    several = [
        leave_group_out(design, by="record", units=records, seed=seed) for seed in REFIT_SEEDS
    ]
    found = np.array([one.log_density for one in several])
    error = found.sum(axis=1).std(ddof=1) / np.sqrt(len(several))
    k_hat = np.max([one.k_hat for one in several], axis=0)
    return LeftOut(found.mean(axis=0), float(error), k_hat)


def by_fits_without(design: Design, records: Sequence[int]) -> LeftOut:
    """Densities of records from fits without two of them, without one where weights fail."""
    settings = SamplerSettings(draws=WITHOUT_DRAWS, tune=TUNE, chains=CHAINS)
    half = (len(records) + 1) // 2
    # Neighbours in the table are alike, and each would have to stand in for the other.
    left_out = [list(records[i::half]) for i in range(half)]
    density: dict[int, float] = {}
    k_hat: dict[int, float] = {}
    variance = 0.0
    while left_out:
        several = left_out.pop(0)
        found = left_out_together(design, several, settings, seed=REFIT_SEEDS[0])
        print(f"without {several}: {found}", flush=True)
        if found.k_hat.max() > K_HAT_MAX:
            left_out += [[record] for record in several]
            continue
        density |= dict(zip(several, found.elpd, strict=True))
        k_hat |= dict(zip(several, found.k_hat, strict=True))
        variance += found.mcse**2
    return LeftOut(
        np.array([density[record] for record in records]),
        float(np.sqrt(variance)),
        np.array([k_hat[record] for record in records]),
    )


def densities_given_sds(run: Engine) -> xr.DataTree:
    """Densities of left-out records with the effects integrated out, at some of the draws."""
    design, posterior = run.design, run.fit.data["posterior"].to_dataset()
    kept = np.linspace(0, posterior.sizes["draw"] - 1, ELPD_DRAWS).astype(int)
    posterior = posterior.isel(draw=kept)
    arrays = {name: draws_of(posterior[name]) for name in (*design.priors, *design.dims())}
    density = leave_out_mixture(design, arrays).reshape(CHAINS, len(kept), -1)
    coords = {"chain": posterior["chain"], "draw": posterior["draw"]}
    return xr.DataTree.from_dict(
        {
            "posterior": posterior[list(design.priors)].drop_attrs(),
            "log_likelihood": xr.Dataset({"score": (("chain", "draw", "record"), density)}, coords),
        }
    )


def weighted(run: Engine) -> dict[str, Any]:
    """Elpd by the routes of `bayeseval compare`, with four refits of each record that needs one."""
    design, fit = run
    scores = left_out(fit, design)
    batches = [replace(fit, data=batch_of(fit.data, i)) for i in range(BATCHES)]
    own = np.array([left_out(batch, design).elpd for batch in batches])
    lost = np.isnan(scores.elpd) | np.isnan(own).any(axis=0)
    values, k_hat, method = scores.elpd.copy(), scores.k_hat[~lost], scores.method
    error = of_batches(own[:, ~lost].sum(axis=1).tolist(), run)
    if lost.any():
        values[lost], refitted = without_each(design, np.flatnonzero(lost))
        error &= Error(refitted, LEAST_DF)
        method += f"; {lost.sum()} of {len(values)} records by refits"
    # The records that importance sampling does not compute are among those of the refits.
    method = re.sub(r"; \d+ records? not computed", "", method)
    return described_elpd(values, error, k_hat, method)


def without_each(design: Design, records: npt.NDArray[np.intp]) -> tuple[Floats, float]:
    """Densities of records under refits without them, and the error of their sum."""
    several = np.array(
        [
            refit_units(
                design, "record", records.tolist(), seed=seed, jobs=1, progress=lambda *_: None
            )[0]
            for seed in REFIT_SEEDS
        ]
    )
    variance = several.var(axis=0, ddof=1) / len(REFIT_SEEDS)
    return np.log(np.exp(several).mean(axis=0)), float(np.sqrt(variance.sum()))


def psis(tree: xr.DataTree) -> tuple[Floats, Floats]:
    """Elpd and k-hat of every record of a tree of densities."""
    with warnings.catch_warnings():
        # What the warnings say of k-hats is in the result.
        warnings.simplefilter("ignore")
        result = loo(tree, pointwise=True)
    return np.asarray(result.elpd_i, dtype=np.float64), np.asarray(result.pareto_k)


def batch_of(tree: xr.DataTree, batch: int) -> xr.DataTree:
    """Successive draws of one chain, of all groups that have chains."""
    chain, part = divmod(batch, PER_CHAIN)

    def cut(group: xr.Dataset) -> xr.Dataset:
        if "chain" not in group.dims:
            return group
        draws = np.array_split(np.arange(group.sizes["draw"]), PER_CHAIN)[part]
        return group.isel(chain=[chain], draw=draws)

    return xr.DataTree.from_dict(
        {name: cut(group.to_dataset()) for name, group in tree.children.items()}
    )


def left_out(fit: Fit, design: Design) -> Scores:
    """Pointwise elpds by the routes of `bayeseval compare` that need no refits."""
    return score(design, fit, "record", seed=0, refits=0, jobs=1, progress=lambda *_: None)
