"""`Prepared`: all that is decided before sampling, in one place; running it gives a `Fit`."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayeseval import names
from bayeseval._arguments import as_number, as_texts
from bayeseval._memory import free_memory
from bayeseval._text import byte_size, grouped
from bayeseval._typing import Progress
from bayeseval.design import Chosen, Design, build_design, choose_model
from bayeseval.engines import Choice, SamplerSettings, choose_engine, load_engine, to_tree
from bayeseval.engines.base import USUAL_CHAINS, USUAL_DRAWS
from bayeseval.errors import EngineError, InputError, argument
from bayeseval.fitting.covariates import (
    CovariateSource,
    covariate_names,
    data_hash,
    family_left_out,
    find_covariates,
)
from bayeseval.fitting.fitted import LEAVE_OUT_DRAWS, Fit, check_posterior
from bayeseval.fitting.gate import Gate, convergence_gate
from bayeseval.fitting.provenance import provenance, sampler_report
from bayeseval.output.store import RUN_ID
from bayeseval.records import (
    Covariate,
    PairChoice,
    PairSource,
    Records,
    choose_pairs,
    pairs_hash,
    warn_of_sole_pairs,
)
from bayeseval.spec import AUTO, ModelSpec

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Origin", "Prepared", "prepare"]

# A failed gate is met once with smaller steps and twice the length; what still
# fails then is a problem of the model or the data, not of the sampler's settings.
_STRICT_ACCEPT: Final = 0.99
_STRICT_FACTOR: Final = 2

_SIDES: Final = ("lower", "upper")
_DEFAULTS: Final = SamplerSettings()


@dataclass(frozen=True)
class Origin:
    """Where a table came from, as the command line takes it.

    Attributes
    ----------
    name : str
        A shipped benchmark's name, a file or a folder.
    options : str
        The options with which it was read, quoted for a shell.
    """

    name: str
    options: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A fit before sampling: made by :func:`prepare`, run by :meth:`run`.

    Attributes
    ----------
    records : Records
        The table.
    model : Chosen
        The spec, and why ``auto`` took it.
    covariates : tuple of Covariate
        Those of the model, in its order.
    design : Design
        The model on the table; likelihoods that the spec takes from the benchmark's card
        stand in its spec.
    engine : Choice
        The engine, and why ``auto`` took it.
    settings : SamplerSettings
        As asked for; what is None is the engine's default.
    pairs : PairChoice
        The language-task pairs that models are compared on.
    margin : float or None
        Difference between models that is too small to matter, score units.
    leave_out : tuple of str
        Which densities of left-out scores are stored with the fit.
    predictive : bool
        Whether predicted scores, prior draws and log prior densities are stored with the fit.
    source : Origin or None
        Where the table came from, for the commands that the checks name; None is what the
        records say.
    """

    records: Records
    model: Chosen
    covariates: tuple[Covariate, ...]
    design: Design
    engine: Choice
    settings: SamplerSettings
    pairs: PairChoice
    margin: float | None = None
    leave_out: tuple[str, ...] = ()
    predictive: bool = False
    source: Origin | None = None

    def __repr__(self) -> str:
        """Which fit this will be, in one line."""
        parts = [
            self.records.name,
            f"model {self.design.spec.name}",
            f"engine {self.engine.name}",
            f"{grouped(self.design.n_records)} records",
        ]
        return f"Prepared({'; '.join(parts)})"

    def __str__(self) -> str:
        """What will be fitted: table, model, priors, engine, notes and warnings."""
        from bayeseval.fitting.report.terminal import format_preamble

        return format_preamble(
            self.records,
            self.design,
            engine=str(self.engine),
            reasons=self.model.reasons,
            warnings=warn_of_sole_pairs(self.records, self.pairs),
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run, as in ``run.json``.

        A result folder is only replaced by results of the same run.
        """
        values = (
            data_hash(self.records, self.covariates, self.design),
            self.design.spec.content_hash,
            self.engine.name,
            self.settings.seed,
            pairs_hash(self.records, self.pairs),
            self.margin,
        )
        return dict(zip(RUN_ID, values, strict=True))

    @property
    def default_folder(self) -> Path:
        """Result folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        return default_folder(
            self.records.name,
            self.design.spec.name,
            self.engine.name,
            self.settings.seed,
            pairs=self.pairs.name,
        )

    def run(self, progress: Progress | None = None, *, estimands: bool = True) -> Fit:
        """Sample, once more with stricter settings if the gate fails, and derive all estimands.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(stage, done, total, remark)``.
        estimands : bool
            Whether to derive them. Without them, the gate is of the parameters alone and the
            fit is of use only to predict cells.

        Returns
        -------
        Fit
            Without a warning when its gate failed: that is for the caller to say.

        Raises
        ------
        EngineError
            If the engine refuses the design or a setting.
        """
        started = time.perf_counter()
        tree, gate, used = self._attempt(self.settings, progress, estimands, is_last=False)
        retried = gate.status == "fail"
        if retried:
            if progress is not None:
                progress(
                    "retry",
                    0,
                    1,
                    "the convergence gate failed; sampling again with stricter settings",
                )
            # Not kept beside those of the second attempt; parents and children of a tree refer to
            # each other.
            del tree
            gc.collect()
            tree, gate, used = self._attempt(_stricter(used), progress, estimands, is_last=True)
        _add_left_out(tree, self.design, self.leave_out, progress)
        notes = _add_predictive(tree, self.design, used, progress) if self.predictive else []
        seconds = time.perf_counter() - started
        run = self._provenance(tree, gate, used)
        run |= {
            "notes": [*run["notes"], *notes],
            "predictive": self.predictive,
            "retried": retried,
            "pairs": self.pairs.name,
            "pairs_hash": pairs_hash(self.records, self.pairs),
            "margin": self.margin,
            "seconds": round(seconds, 3),
        }
        if self.source is not None:
            run |= {"source": self.source.name, "source_options": self.source.options}
        return Fit(data=tree, run=run)

    def _attempt(
        self,
        settings: SamplerSettings,
        progress: Progress | None,
        estimands: bool,
        *,
        is_last: bool,
    ) -> tuple[xr.DataTree, Gate, SamplerSettings]:
        import xarray as xr

        from bayeseval.estimands import derive

        result = load_engine(self.engine.name)(self.design, settings, progress=progress)
        tree = to_tree(self.design, result, engine=self.engine.name)
        if not is_last and (early := _failed_scalars(tree)) is not None:
            # Whatever is derived fails with them, and takes most of the time of large tables.
            return tree, early, result.settings
        constant = tree["constant_data"].to_dataset()
        comparison = _comparison_data(self.records, self.pairs, self.margin)
        attrs = {**constant.attrs, **comparison.attrs}
        tree["constant_data"] = xr.DataTree(constant.merge(comparison).assign_attrs(attrs))
        if progress is not None:
            progress("computing results", 0, 1, "")
        if estimands:
            additions, derived = derive(tree, seed=settings.seed)
            tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
            tree["estimands"] = xr.DataTree(derived)
        gate = convergence_gate(tree)
        if progress is not None:
            progress("computing results", 1, 1, "")
        return tree, gate, result.settings

    def _provenance(self, tree: xr.DataTree, gate: Gate, used: SamplerSettings) -> dict[str, Any]:
        run = provenance(
            self.records,
            self.design,
            gate,
            covariates=self.covariates,
            engine=self.engine.name,
            settings=used,
        )
        run["notes"] += map(str, warn_of_sole_pairs(self.records, self.pairs))
        return run | {
            "model_reasons": list(self.model.reasons),
            "engine_reason": self.engine.reason,
            "sampling": sampler_report(tree),
        }


def prepare(
    records: Records,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    engine: str = "auto",
    settings: SamplerSettings = _DEFAULTS,
    leave_out: str | Sequence[str] = (),
    predictive: bool = False,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    margin: float | None = None,
    source: Origin | None = None,
) -> Prepared:
    """Decide everything about a fit that can be known before sampling.

    Parameters
    ----------
    records : Records
        The table.
    spec, engine
        As for :func:`bayeseval.fit`.
    settings : SamplerSettings
        Draws, warm-up, chains, seed and the settings of NUTS.
    leave_out, predictive, covariate, pairs, margin
        As for :func:`bayeseval.fit`.
    source : Origin, optional
        Where the table came from, if it is not what the records say.

    Returns
    -------
    Prepared
        Frozen; :meth:`Prepared.run` samples.

    Raises
    ------
    BayesevalError
        If the spec makes no sense, the table cannot identify it, there is no such engine,
        pair or covariate, the densities of left-out scores have no closed form, or a point
        estimate is asked for predictive draws.

    Examples
    --------
    >>> from bayeseval.fitting import prepare
    >>> from bayeseval.simulation import simulate
    >>> records = simulate("additive", n_languages=6, seed=1).records
    >>> prepared = prepare(records, "additive")
    >>> prepared
    Prepared(simulated-additive; model additive; engine marginal; 126 records)
    >>> prepared.engine.reason
    'all effects can be integrated out exactly'
    >>> prepared.identity["seed"]
    0
    """
    leave_out = as_texts("leave_out", leave_out, of="record, language, task, model")
    margin = None if margin is None else as_number(argument("margin"), margin)
    model = choose_model(spec, records, covariates=covariate_names(covariate), engine=engine)
    if model.reasons:
        model = replace(model, reasons=(*model.reasons, *family_left_out(covariate)))
    covariates = find_covariates(records, model.spec, covariate)
    # To choose the model, `auto` has built its design already.
    design = model.design or build_design(records, model.spec, covariates)
    common = choose_pairs(records, pairs)
    if margin is not None and not 0.0 < margin < np.inf:
        raise InputError(
            f"{argument('margin')} must be a positive number of score units, got {margin:g}"
        )
    chosen = choose_engine(engine, design, settings)
    _refuse_more_than_memory(design, settings, chosen.name)
    if predictive:
        check_posterior(chosen.name, argument("predictive"))
    if leave_out:
        from bayeseval.engines._leave_out import check_leave_out

        for by in leave_out:
            check_leave_out(design, by)
    return Prepared(
        records=records,
        model=model,
        covariates=covariates,
        design=design,
        engine=chosen,
        settings=settings,
        pairs=common,
        margin=margin,
        leave_out=leave_out,
        predictive=bool(predictive),
        source=source,
    )


def _refuse_more_than_memory(design: Design, settings: SamplerSettings, engine: str) -> None:
    """Refuse draws that do not fit into memory, which may take an hour to find out.

    Counted are the draws of the parameters and the copy that the tree gets; what is derived
    from them comes on top.
    """
    if engine == "ml":
        return
    draws = (settings.draws or USUAL_DRAWS) * (settings.chains or USUAL_CHAINS)
    values = len(design.priors) + sum(
        math.prod(len(design.coords[dim]) for dim in dims) for dims in design.dims().values()
    )
    needed, free = 2 * 8 * values * draws, free_memory()
    if free is None or needed <= free:
        return
    most = max(1, draws * free // needed // (settings.chains or USUAL_CHAINS))
    raise EngineError(
        f"{grouped(draws)} draws of {grouped(values)} parameters take at least "
        f"{byte_size(needed)} of memory, and {byte_size(free)} are free; give fewer "
        f"{argument('draws')} (at most {grouped(most)} per chain) or a smaller model"
    )


def _failed_scalars(tree: xr.DataTree) -> Gate | None:
    """The gate of the parameters without levels, if it fails; they are few."""
    import xarray as xr

    posterior = tree["posterior"].to_dataset()
    scalars = [name for name, values in posterior.data_vars.items() if values.ndim == 2]
    without_levels = tree.assign(posterior=xr.DataTree(posterior[scalars]))
    gate = convergence_gate(without_levels)
    return gate if gate.n_quantities and gate.status == "fail" else None


def _stricter(used: SamplerSettings) -> SamplerSettings:
    strict = replace(used, draws=_STRICT_FACTOR * (used.draws or 1))
    if used.tune is None:
        return strict
    return replace(
        strict,
        tune=_STRICT_FACTOR * used.tune,
        target_accept=max(_STRICT_ACCEPT, used.target_accept or 0.0),
    )


def _add_left_out(
    tree: xr.DataTree, design: Design, leave_out: Sequence[str], progress: Progress | None
) -> None:
    """Add the densities of left-out scores, one group each."""
    import xarray as xr

    for by in leave_out:
        from bayeseval.engines._leave_out import leave_out_tree

        if progress is not None:
            progress(f"leaving out each {by}", 0, 1, "")
        posterior = tree["posterior"].to_dataset()
        left_out = leave_out_tree(design, posterior, by=by, draws=LEAVE_OUT_DRAWS)
        tree[names.leave_out_group(by)] = xr.DataTree(left_out["log_likelihood"].to_dataset())
        if progress is not None:
            progress(f"leaving out each {by}", 1, 1, "")


def _add_predictive(
    tree: xr.DataTree, design: Design, used: SamplerSettings, progress: Progress | None
) -> list[str]:
    """Add predicted scores, prior draws and log prior densities; notes on what is left out."""
    import xarray as xr

    from bayeseval.checks import predictive_groups

    stage = "predicting scores"
    if progress is not None:
        progress(stage, 0, 1, "")
    for name, dataset in predictive_groups(tree, design, seed=used.seed).items():
        tree[name] = xr.DataTree(dataset)
    if progress is not None:
        progress(stage, 1, 1, "")
    stored, drawn = (tree[g].sizes["draw"] for g in ("posterior_predictive", "posterior"))
    if stored == drawn:
        return []
    return [
        f"posterior_predictive holds {grouped(stored)} of the {grouped(drawn)} draws of each "
        f"chain, evenly spaced: at most {names.MOST_POINTWISE:.3g} predicted scores are stored"
    ]


def _comparison_data(records: Records, pairs: PairChoice, margin: float | None) -> xr.Dataset:
    """What a comparison of models rests on besides the posterior, for ``constant_data``.

    The declared range of every task, the common pairs, and the margin.
    """
    import xarray as xr

    by_task = records.units
    units = [by_task[task] for task in records.coords["task"]]
    bounds = np.array([[u.lower, u.upper] for u in units], dtype=np.float64).T
    data = {f"declared_{side}": ((names.TASK,), b) for side, b in zip(_SIDES, bounds, strict=True)}
    if pairs.name != "any":
        data |= {
            "common_pair_language": (("common_pair",), pairs.language),
            "common_pair_task": (("common_pair",), pairs.task),
        }
    attrs = {"pairs": pairs.name} | ({} if margin is None else {"margin": float(margin)})
    return xr.Dataset(data, attrs=attrs)
