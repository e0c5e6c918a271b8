"""Elpd of one model: the cheapest route that can be relied on, record by record.

A normal likelihood has closed-form densities of left-out scores given the standard
deviations; importance sampling (PSIS) is then left with these few. Student-t noise starts
with PSIS over everything; records that break it get the density given everybody's noise
(`_leave_out_mixture`). What still has a k-hat above 0.7 is left out for good: by a ratio
of marginal likelihoods, or by refits.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from bayeseval import names
from bayeseval._cluster import Cluster
from bayeseval._typing import Bools, Floats
from bayeseval.comparison.refits import refit_units
from bayeseval.design import Design
from bayeseval.engines._evidence import leave_group_out
from bayeseval.engines._leave_out import leave_out_tree
from bayeseval.engines._leave_out_mixture import leave_out_mixture, why_no_mixture
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.engines.marginal import why_no_closed_form
from bayeseval.errors import InputError, wording
from bayeseval.estimands.frames import draws_of
from bayeseval.fitting.run import LEAVE_OUT_DRAWS, Fit

if TYPE_CHECKING:
    from bayeseval._typing import Progress

__all__ = ["Scores", "check_cost", "exact_elpd", "score"]


EXACT: Final = "exact given the sds, PSIS over the sds"
# Loadings that are given leave those of models jointly normal.
EXACT_GIVEN_LOADINGS: Final = (
    "exact given the sds and the loadings of languages or tasks, PSIS over these"
)
PSIS: Final = "PSIS"


@dataclass(frozen=True, eq=False)
class Scores:
    """Pointwise results of one model.

    Attributes
    ----------
    elpd : ndarray, shape (n_units,)
        Log predictive density of every left-out record, or of all records of a level
        jointly. Natural log, score units. NaN where no route gives it: what importance
        sampling says beyond k-hats of 0.7 has been hundreds too high.
    k_hat : ndarray, shape (n_units,)
        Pareto k-hat behind each; NaN where nothing was importance-sampled.
    lppd : float
        Log pointwise predictive density within the sample.
    method : str
        How, and for how many units.
    notes : tuple of str
        What a reader should know.
    plain : tuple of ndarray, optional
        Elpd and k-hats of PSIS over all parameters, for records; shown, never relied on
        beyond k-hats of 0.7.
    """

    elpd: Floats
    k_hat: Floats
    lppd: float
    method: str
    notes: tuple[str, ...] = ()
    plain: tuple[Floats, Floats] | None = None

    @property
    def bad(self) -> Bools:
        """Units that cannot be relied on."""
        return np.asarray(self.k_hat > names.K_HAT_MAX)


def check_cost(design: Design, by: names.LeftOut, *, refits: int) -> None:
    """Refuse groups left out by refits that are more than allowed: InputError."""
    reason = why_no_closed_form(design)
    if by == names.RECORD or reason is None:
        return
    name, n = design.spec.name, len(design.coords[by])
    if n > refits:
        raise InputError(
            f"{name} has no closed form of the density of a left-out {by} ({reason}): it takes "
            f"{n} refits, more than the {refits} allowed; allow them with "
            f"{wording(f'refits={n}', f'--refits {n}')}, leave {name} out, or compare by record"
        )


def score(
    design: Design,
    fitted: Fit,
    by: names.LeftOut,
    *,
    seed: int,
    refits: int,
    jobs: int | Cluster,
    progress: Progress,
    work: Path | None = None,
) -> Scores:
    """Elpd of every left-out unit of one model.

    Parameters
    ----------
    design : Design
        The model and its table.
    fitted : Fit
        Its fit.
    by : {"record", "language", "task", "model"}
        What is left out at a time.
    seed : int
        The one seed.
    refits : int
        How many units NUTS may refit for.
    jobs : int or Cluster
        Refits at once.
    progress : callable
        Called as ``progress(stage, done, total, remark)``.
    work : Path, optional
        Folder of the refits of this model that keeps finished ones.
    """
    tree, notes = _plain_tree(design, fitted)
    joint = draws_of(tree["log_likelihood"].to_dataset()[names.SCORE])
    if by != names.RECORD:
        index = design.factor_index[by]
        order = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[order], np.arange(len(design.coords[by])))
        joint = np.add.reduceat(joint[:, order], starts, axis=1)
        chains = tree["log_likelihood"].sizes["chain"]
        whole = joint.T.reshape(joint.shape[1], chains, -1)
        scores = _groups(
            design, fitted, by, whole, seed=seed, jobs=jobs, progress=progress, work=work
        )
        return replace(scores, lppd=_lppd(joint), notes=notes)
    plain = _psis(tree)
    if why_no_closed_form(design) is None:
        scores = _gaussian_records(design, fitted, seed=seed, progress=progress)
    else:
        scores = _other_records(
            design, fitted, plain, seed=seed, refits=refits, jobs=jobs, progress=progress, work=work
        )
    return replace(scores, lppd=_lppd(joint), notes=(*notes, *scores.notes), plain=plain)


def _gaussian_records(design: Design, fitted: Fit, *, seed: int, progress: Progress) -> Scores:
    elpd, k_hat = exact_elpd(design, fitted, names.RECORD)
    return _by_evidence(design, names.RECORD, elpd, k_hat, seed=seed, progress=progress)


def _groups(
    design: Design,
    fitted: Fit,
    by: names.LeftOut,
    whole: Floats,
    *,
    seed: int,
    jobs: int | Cluster,
    progress: Progress,
    work: Path | None,
) -> Scores:
    if why_no_closed_form(design) is None:
        elpd, k_hat = exact_elpd(design, fitted, by)
        return _by_evidence(design, by, elpd, k_hat, seed=seed, progress=progress)
    units = range(len(design.coords[by]))
    elpd, k_hat = refit_units(
        design, by, units, seed=seed, jobs=jobs, progress=progress, whole=whole, work=work
    )
    # Normal noise has no weights either.
    own_weights = design.outcome.is_gaussian and why_no_mixture(design) is None
    bridged = 0 if own_weights else int(np.isnan(k_hat).sum())
    bridge_note = f", {bridged} by bridge sampling" if bridged else ""
    return Scores(elpd, k_hat, 0.0, f"refits without each {by}{bridge_note}")


def _by_evidence(
    design: Design,
    by: names.LeftOut,
    elpd: Floats,
    k_hat: Floats,
    *,
    seed: int,
    progress: Progress,
) -> Scores:
    """Units with bad k-hats left out for good: ratios of marginal likelihoods."""
    bad = np.flatnonzero(k_hat > names.K_HAT_MAX)
    if not bad.size:
        return Scores(elpd, k_hat, 0.0, EXACT)
    stage = f"{design.spec.name}: marginal likelihoods"
    progress(stage, 0, len(bad), "")
    exact = leave_group_out(
        design,
        by=by,
        units=bad.tolist(),
        seed=seed,
        progress=lambda done, total: progress(stage, done, total, ""),
    )
    elpd[bad], k_hat[bad] = exact.log_density, exact.k_hat
    return Scores(elpd, k_hat, 0.0, f"{EXACT}; {_counted(len(bad), by)} by marginal likelihoods")


def _other_records(
    design: Design,
    fitted: Fit,
    plain: tuple[Floats, Floats],
    *,
    seed: int,
    refits: int,
    jobs: int | Cluster,
    progress: Progress,
    work: Path | None,
) -> Scores:
    (elpd, k_hat), method, notes = (plain[0].copy(), plain[1].copy()), [PSIS], []
    if (k_hat > names.K_HAT_MAX).any() and why_no_mixture(design) is None:
        stage = f"{design.spec.name}: effects integrated out"
        progress(stage, 0, 1, "")
        other, other_k = _mixture(design, fitted, seed=seed)
        progress(stage, 1, 1, "")
        if design.outcome.is_gaussian:
            given = EXACT_GIVEN_LOADINGS if design.spec.low_rank else EXACT
            elpd, k_hat, method = other, other_k, [given]
        else:
            better = (k_hat > names.K_HAT_MAX) & (other_k <= names.K_HAT_MAX)
            elpd, k_hat = np.where(better, other, elpd), np.where(better, other_k, k_hat)
            if better.any():
                method.append(
                    f"{_counted(int(better.sum()), 'record')} by integrating the effects out"
                )
    bad = np.flatnonzero(k_hat > names.K_HAT_MAX)
    # The worst first, where not all may be refitted.
    chosen = bad[np.argsort(-k_hat[bad], kind="stable")][:refits]
    if chosen.size:
        elpd[chosen], k_hat[chosen] = refit_units(
            design,
            names.RECORD,
            chosen.tolist(),
            seed=seed,
            jobs=jobs,
            progress=progress,
            work=work,
        )
        method.append(f"{_counted(len(chosen), 'record')} by refits")
    left = np.setdiff1d(bad, chosen)
    if left.size:
        # Plain importance sampling has been hundreds too high beyond the limit of its k-hats.
        elpd[left] = np.nan
        method.append(f"{_counted(len(left), 'record')} not computed")
        notes.append(
            f"{design.spec.name}: {_counted(len(left), 'left-out record')} of {len(elpd)} "
            f"{'have' if len(left) > 1 else 'has'} no reliable density (k-hat above "
            f"{names.K_HAT_MAX:g}) and {refits} refits were allowed, so its elpd was not computed; "
            f"{wording(f'refits={len(bad)}', f'--refits {len(bad)}')} computes it"
        )
    return Scores(elpd, k_hat, 0.0, "; ".join(method), tuple(notes))


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n > 1 else ''}"


def _mixture(design: Design, fitted: Fit, *, seed: int) -> tuple[Floats, Floats]:
    """Elpd and k-hats with the effects integrated out given everybody's noise."""
    posterior = _thinned(fitted.data["posterior"].to_dataset(), LEAVE_OUT_DRAWS)
    arrays = _arrays(design, posterior)
    density = leave_out_mixture(design, arrays, seed=seed)
    return _psis(_tree(design, posterior, density))


def _arrays(design: Design, posterior: xr.Dataset) -> dict[str, Floats]:
    return {name: draws_of(posterior[name]) for name in (*design.priors, *design.dims())}


def _tree(design: Design, posterior: xr.Dataset, density: Floats) -> xr.DataTree:
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], design.n_records)
    dataset = xr.Dataset(
        {names.SCORE: (("chain", "draw", names.RECORD), density.reshape(shape))},
        coords={"chain": posterior["chain"], "draw": posterior["draw"]},
    )
    return xr.DataTree.from_dict(
        {
            "posterior": posterior[list(design.priors)].drop_attrs(),
            "log_likelihood": dataset,
            "observed_data": design.observed_data(),
        }
    )


def _thinned(posterior: xr.Dataset, draws: int) -> xr.Dataset:
    n = posterior.sizes["draw"]
    return posterior.isel(draw=np.unique(np.linspace(0, n - 1, min(draws, n)).astype(int)))


def exact_elpd(design: Design, fitted: Fit, by: names.LeftOut) -> tuple[Floats, Floats]:
    """Elpd and Pareto k-hat of every unit by PSIS over the sds of a Gaussian model.

    Parameters
    ----------
    design : Design
        One that `marginal.why_no_closed_form` has nothing against.
    fitted : Fit
        Its fit.
    by : {"record", "language", "task", "model"}
        What is left out at a time.

    Returns
    -------
    tuple of ndarray, each of shape (n_units,)
    """
    if names.leave_out_group(by) in fitted.data.children:
        return _psis(fitted.leave_one_out(by))
    posterior = fitted.data["posterior"].to_dataset()
    return _psis(leave_out_tree(design, posterior, by=by, draws=LEAVE_OUT_DRAWS))


def _plain_tree(design: Design, fitted: Fit) -> tuple[xr.DataTree, tuple[str, ...]]:
    """Densities given all parameters, and what to say when they had to be computed."""
    posterior = fitted.data["posterior"].to_dataset()
    if "log_likelihood" in fitted.data.children:
        stored = fitted.data["log_likelihood"].to_dataset()[names.SCORE]
        return _tree(design, posterior, draws_of(stored)), ()
    n_draws = posterior.sizes["draw"]
    kept = max(2, names.MOST_POINTWISE // (design.n_records * posterior.sizes["chain"]))
    posterior = _thinned(posterior, min(kept, n_draws))
    density = pointwise_log_likelihood(design, _arrays(design, posterior))
    note = (
        f"{design.spec.name}: its densities record by record are too large to be stored with the "
        f"fit; {posterior.sizes['draw']} of {n_draws} draws of each chain were used"
    )
    return _tree(design, posterior, density), (note,)


def _lppd(density: Floats) -> float:
    """Log pointwise predictive density of (n_samples, n_units) within the sample."""
    return float((logsumexp(density, axis=0) - np.log(len(density))).sum())


def _psis(tree: xr.DataTree) -> tuple[Floats, Floats]:
    """Elpd and Pareto k-hat of every unit; what the warnings say is counted by the caller."""
    from arviz_stats import loo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = loo(tree, pointwise=True)
    return np.array(result.elpd_i, dtype=np.float64), np.array(result.pareto_k, dtype=np.float64)
