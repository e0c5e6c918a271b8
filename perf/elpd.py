"""Expected log predictive densities of left-out records of reference posteriors, with errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from arviz_stats import loo
from left_out import LeftOut, left_out_together

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
ELPD_DRAWS: Final = 250
# Largest k-hat in the draws of one chain, which only the error is computed from: beyond it, the
# weights have no mean.
MOST_OF_CHAIN: Final = 1.0
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

    The Monte-Carlo standard error is that of the mean of four chains, each by itself. Records
    whose k-hat is too large in all draws or in those of a chain are left out for good.
    """
    design = runs[0].design
    exact = why_no_closed_form(design) is None
    if not exact and design.outcome.is_gaussian and why_no_mixture(design) is None:
        found = given_sds(runs)
    else:
        found = [closed_form(run) if exact else weighted(run) for run in runs]
    return dict(zip(("first", "second"), found, strict=True))


def described_elpd(values: Floats, error: float, k_hat: Floats, method: str) -> dict[str, Any]:
    """An elpd as the JSON has it."""
    return {
        "value": float(values.sum()),
        "se": float(np.sqrt(len(values) * values.var(ddof=1))),
        "mcse": float(error),
        "worst_k_hat": float(np.nanmax(k_hat)),
        "method": method,
    }


def closed_form(run: Engine) -> dict[str, Any]:
    """Elpd of a Gaussian model with one residual sd."""
    tree = run.fit.leave_one_out(draws=ELPD_DRAWS)
    values, k_hat = psis(tree)
    each = [psis(chain_of(tree, i))[0].sum() for i in range(CHAINS)]
    error = np.std(each, ddof=1) / np.sqrt(CHAINS)
    return described_elpd(values, error, k_hat, EXACT)


def given_sds(runs: tuple[Engine, Engine]) -> list[dict[str, Any]]:
    """Elpd of both runs of a model with normal noise that one run has to leave records out for.

    What is lost to one engine's weights is computed without them, once for both engines.
    """
    design = runs[0].design
    found = []
    for run in runs:
        tree = densities_given_sds(run)
        chains = [psis(chain_of(tree, i)) for i in range(CHAINS)]
        found.append((psis(tree), chains))
    of_all = np.array([k_hat for (_, k_hat), _ in found])
    of_chains = np.array([k_hat for _, chains in found for _, k_hat in chains])
    lost = (of_all > K_HAT_MAX).any(axis=0) | (of_chains > MOST_OF_CHAIN).any(axis=0)
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
    for (values, k_hat), chains in found:
        each = [own[~lost].sum() for own, _ in chains]
        error, kept = float(np.std(each, ddof=1) / np.sqrt(CHAINS)), k_hat[~lost]
        if others is not None:
            values[lost], error = others.elpd, float(np.hypot(error, others.mcse))
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
    chains = [replace(fit, data=chain_of(fit.data, i)) for i in range(CHAINS)]
    own = np.array([left_out(chain, design).elpd for chain in chains])
    lost = np.isnan(scores.elpd) | np.isnan(own).any(axis=0)
    values, k_hat, method = scores.elpd.copy(), scores.k_hat[~lost], scores.method
    error = own[:, ~lost].sum(axis=1).std(ddof=1) / np.sqrt(CHAINS)
    if lost.any():
        values[lost], refitted = without_each(design, np.flatnonzero(lost))
        error = np.hypot(error, refitted)
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


def chain_of(tree: xr.DataTree, chain: int) -> xr.DataTree:
    """One chain of all groups that have chains."""
    groups = {name: group.to_dataset() for name, group in tree.children.items()}
    return xr.DataTree.from_dict(
        {
            name: group.isel(chain=[chain]) if "chain" in group.dims else group
            for name, group in groups.items()
        }
    )


def left_out(fit: Fit, design: Design) -> Scores:
    """Pointwise elpds by the routes of `bayeseval compare` that need no refits."""
    return score(design, fit, "record", seed=0, refits=0, jobs=1, progress=lambda *_: None)
