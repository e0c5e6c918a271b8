"""Put other scores on the cells of a design, as in tables simulated from its priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design.build import assemble
from bayeseval.design.container import Design, Term
from bayeseval.design.noise import Noise, Replicates
from bayeseval.design.outcome import Outcome, build_outcome
from bayeseval.design.share_errors import all_errors_known, known_residual

__all__ = ["rescore"]


def rescore(
    design: Design,
    score: Floats,
    *,
    replicates: Replicates | None = None,
    scaled: bool = False,
) -> Design:
    """Build the same design for other scores: same cells, errors, items and covariates.

    Parameters
    ----------
    design : Design
        The model on its table.
    score : ndarray, shape (n_records,)
        The other scores, or means of the cells' replicates, score units.
    replicates : Replicates, optional
        Their noise, where `design` has replicates.
    scaled : bool
        Whether priors that are relative to the scores are scaled to the other scores, as in a
        fit to them. False keeps the priors of `design`, and the sds of fixed effects.

    Returns
    -------
    Design
        Parametrisations (centred or not) are chosen for the other scores.
    """
    outcome = _outcome(design, score)
    sd = float(outcome.linear.std(ddof=1))
    spec, n_records = design.spec, design.n_records
    shared = [term for term in design.terms if term.is_noise]
    noise = Noise(
        replicates=replicates,
        known_variance=None if design.se is None else design.se**2,
        known_sds=design.known_sds,
        notes=(),
    )
    effects = [_with_fixed_sd(term, spec.fixed_scale * sd) for term in design.terms]
    own = [term for term in effects if not term.is_noise]
    known = outcome.has_normal_scores and all_errors_known(noise, shared, n_records)
    built = assemble(
        spec,
        score=score,
        outcome=outcome,
        noise=noise,
        terms=effects,
        slopes=design.slopes,
        coords=design.coords,
        factor_index=design.factor_index,
        notes=design.notes,
        residual_scale=(
            known_residual("the table", noise, own, spec.residual_by, n_records)[0]
            if known
            else None
        ),
    )
    if scaled:
        return built
    return replace(built, priors=design.priors, terms=_with_sds_of(built.terms, design))


def _outcome(design: Design, score: Floats) -> Outcome:
    old, tasks = design.outcome, design.coords[names.TASK]
    span = old.upper - old.lower
    return build_outcome(
        design.spec,
        score=score,
        task=design.factor_index[names.TASK],
        tasks=tasks,
        task_likelihoods=old.task_likelihoods,
        bounds=(old.lower, old.upper),
        chance=None if old.chance is None else old.lower + span * old.chance,
        n=old.n,
        k=None,
        name="the table",
    )


def _with_fixed_sd(term: Term, sd: float) -> Term:
    return replace(term, known_sd=sd) if isinstance(term.known_sd, float) else term


def _with_sds_of(terms: Sequence[Term], design: Design) -> tuple[Term, ...]:
    return tuple(replace(term, known_sd=design.term(term.name).known_sd) for term in terms)
