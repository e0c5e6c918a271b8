"""Labelled estimands: what a fit adds to its posterior, draw by draw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats
from bayeseval.estimands.aggregates import aggregate, aggregate_variants, choose_languages
from bayeseval.estimands.arrays import drop_meaningless
from bayeseval.estimands.completion import language_scores
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.expected import ExpectedScores, expected_scores
from bayeseval.estimands.inference import (
    Inference,
    Withheld,
    infer,
    why_no_geometric_mean,
)
from bayeseval.estimands.noise import (
    cell_means,
    model_components,
    read_noise,
    run_text,
    sources_text,
)
from bayeseval.estimands.prr import disparity_summaries, pairs_left_out, record_prr
from bayeseval.estimands.ranks import higher_is_better, rank_draws
from bayeseval.estimands.read import group, read_arrays

__all__ = ["component_dataset", "derive"]

_SUPPORT_TEXT = {"observed": "the records of the model", "common": "the common pairs"}
_FLAVOUR_TEXT = {"observed": "observed score", "latent": "expected score"}
_QUANTITY_TEXT = {
    "mean_prr": ("mean", "arXiv:2508.17162, Eq. 4"),
    "std_prr": ("standard deviation (ddof 1)", "arXiv:2508.17162, Eq. 4"),
    "cv_prr": ("standard deviation (ddof 1) over mean", "arXiv:2508.17162, Eq. 5"),
}
_POTENTIAL_TEXT = {
    "observed": "mean expected score of the models at hand",
    "models": "expected score of a model drawn from the population of models",
}
# Units, definition and source; score units where there is none.
_INFERENCE_TEXT = {
    names.STANDARDISED_SCORE: (None, "mean expected score over the common pairs"),
    names.PRR: ("1", "sum of expected scores over sum of potentials, on the common pairs"),
    names.GAP_SD: (
        None,
        "sd over languages (ddof 1) of mean expected score over all tasks less language potential",
    ),
    names.CV_PRR_LANGUAGES: (
        "1",
        "coefficient of variation over languages of mean expected score over language potential",
    ),
    names.WORST_LANGUAGE_PRR: (
        "1",
        "mean expected score over language potential in the measured language of the lowest gap",
    ),
}
_COMPONENT_TEXT = {
    "between_sd": "sd (ddof 1) of the model's means over the languages at hand",
    "between_sd_population": "sd of the population that the languages come from",
    "seed_sd": "sd between seeds, root mean square over the model's cells",
    "boot_sd": "sd between test sets, root mean square over the model's cells",
    "seed_boot_sd": "sd of what a seed does to one test set only, root mean square over cells",
    "prompt_sd": "sd between prompts, root mean square over the model's cells",
    "prompt_own_sd": "sd between prompts without what models share of it",
    "prompt_shared_sd": "sd between prompts that models share",
    "judge_sd": "sd between judges, root mean square over the model's cells",
    "judge_own_sd": "sd between judges without what models share of it",
    "judge_shared_sd": "sd between judges that models share",
    "se_sd": "given standard error, root mean square over the model's cells",
    "within_sd": "sd of one run about its cell's mean, root mean square over cells",
}


def derive(
    tree: xr.DataTree, *, seed: int, withheld_as: xr.Dataset | None = None
) -> tuple[xr.Dataset, xr.Dataset]:
    """Compute potentials, PRR summaries and their ranks from a posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups ``posterior``, ``constant_data`` and ``observed_data``; not changed.
    seed : int
        Seed of what has to be predicted: unobserved cells of interactions and
        unobserved scores. Each has a stream of its own.
    withheld_as : xarray.Dataset, optional
        Posterior with additions of this function: ``prr`` and ``cv_prr_languages`` are withheld,
        and the languages of the latter chosen, as there instead of by the draws of `tree`.

    Returns
    -------
    posterior_additions : xarray.Dataset
        ``language_potential``, ``standardised_score``, ``prr``, ``gap_sd_languages`` and
        ``cv_prr_languages``; ranks of the first, second and fourth (floats, 1 = best);
        Mean-, Std- and CV-PRR, which describe and have no ranks; on (chain, draw, level).
    estimands : xarray.Dataset
        ``potential`` on (chain, draw, language_task), over the pairs that occur
        in the benchmark, ``record_prr`` on (chain, draw, record) in single precision, and
        by model ``worst_language`` and ``cv_prr_constant_gap``.

    Raises
    ------
    InputError
        If the tree lacks something or the estimands are not defined for it.
    """
    arrays = read_arrays(tree)
    posterior = group(tree, "posterior")
    sampling = {dim: posterior.coords[dim] for dim in ("chain", "draw") if dim in posterior.coords}
    score = group(tree, "observed_data")[names.SCORE]
    units = str(score.attrs.get("units", "score points"))

    expected = expected_scores(arrays, seed=seed)
    withheld = None if withheld_as is None else _withheld_in(withheld_as, arrays)
    inference = infer(expected, withheld=withheld)
    left_out = pairs_left_out(arrays, inference.point_potential)[: arrays.n_pairs]
    additions = _inference_variables(arrays, inference, units=units)
    additions |= _descriptions(arrays, expected, inference, left_out)
    estimands = _point_estimands(arrays, inference, left_out, units=units)
    if arrays.likelihood == "normal":
        within, cells = _replicate_variables(tree, arrays, seed=seed, units=units)
        additions |= within
        estimands |= cells
    record = score.coords.get(names.RECORD, np.arange(len(arrays.score)))
    return (
        xr.Dataset(
            additions,
            coords=sampling
            | {f: np.array(arrays.levels[f], dtype=str) for f in (names.LANGUAGE, names.MODEL)},
        ),
        xr.Dataset(
            estimands,
            coords=sampling
            | {
                "language_task": np.array(arrays.pairs.labels, dtype=str),
                **{f: np.array(arrays.levels[f], dtype=str) for f in (names.LANGUAGE, names.MODEL)},
                names.RECORD: np.asarray(record),
            },
            # Views that are not stored are computed again, with the same draws.
            attrs={"seed": str(seed)},
        ),
    )


def _withheld_in(posterior: xr.Dataset, arrays: PosteriorArrays) -> Withheld:
    left_out = json.loads(posterior[names.CV_PRR_LANGUAGES].attrs["left_out"])
    return Withheld(
        no_prr=posterior[names.PRR].attrs["note"],
        left_out=np.isin(arrays.levels[names.LANGUAGE], left_out),
    )


def _descriptions(
    arrays: PosteriorArrays, expected: ExpectedScores, inference: Inference, left_out: Bools
) -> dict[str, xr.Variable]:
    """Mean-, Std- and CV-PRR, which describe the languages at hand."""
    return {
        name: _labelled(
            arrays,
            summary.values,
            names.MODEL,
            units="1",
            **_description(name),
            population=arrays.population,
            left_out=_json_labels(arrays.pairs.labels, left_out),
            note=json.dumps(dict(summary.notes), ensure_ascii=False),
        )
        for name, summary in disparity_summaries(expected, inference.point_potential).items()
    }


def _point_estimands(
    arrays: PosteriorArrays, inference: Inference, left_out: Bools, *, units: str
) -> dict[str, xr.Variable]:
    """Potential of every pair that occurs, PRR of every record, and what is by model only."""
    labels = (*arrays.levels[names.LANGUAGE], "")
    potential = inference.point_potential[:, : arrays.n_pairs]
    estimands = {
        "potential": _labelled(
            arrays,
            potential,
            "language_task",
            units=units,
            definition=_POTENTIAL_TEXT[arrays.population],
            source="arXiv:2508.17162, Eq. 2 and 6",
            population=arrays.population,
        ),
        "cv_prr_constant_gap": xr.Variable(
            (names.MODEL,),
            inference.cv_prr_constant_gap,
            attrs={"definition": "posterior mean of cv_prr_languages, were all gaps the same"},
        ),
        "worst_language": xr.Variable(
            (names.MODEL,),
            np.array([labels[i] for i in inference.worst_language], dtype=str),
            attrs={"definition": "measured language with the lowest mean gap"},
        ),
    }
    if arrays.n_samples * len(arrays.score) <= names.MOST_POINTWISE:
        estimands[names.RECORD_PRR] = _labelled(
            arrays,
            record_prr(arrays, potential, left_out),
            names.RECORD,
            units="1",
            definition="observed score / potential of its language-task pair",
            source="arXiv:2508.17162, Eq. 4",
            population=arrays.population,
            left_out=_json_labels(arrays.pairs.labels, left_out),
        )
    return estimands


def _replicate_variables(
    tree: xr.DataTree, arrays: PosteriorArrays, *, seed: int, units: str
) -> tuple[dict[str, xr.Variable], dict[str, xr.Variable]]:
    """Components and aggregates by model, and means of cells; empty without replicates."""
    noise = read_noise(tree)
    if noise is None:
        return {}, {}

    def rng(what: str) -> np.random.Generator:
        return generator(seed, f"estimands: {what}")

    def by_model(values: Floats, definition: str) -> xr.Variable:
        return _labelled(
            arrays,
            values,
            names.MODEL,
            units=units,
            definition=definition,
            source="arXiv:2509.22612, sections 3 and 5",
            population=arrays.population,
        )

    means = cell_means(arrays, noise, rng=rng("cell means"))
    # An array of draws by records, which nothing below needs.
    noise = replace(noise, shared=None)
    # Not pooled, a run is resampled around the observed score, as the paper does.
    centre = means if noise.pooled else arrays.score
    one_run = noise.one_run(np.broadcast_to(centre, means.shape), rng("runs"))
    scores = {
        # Not pooled, the published resampling takes all terms of the score.
        "expected": language_scores(arrays, means, seed=seed, expected=noise.pooled),
        "run": language_scores(arrays, one_run, seed=seed),
    }
    components = model_components(arrays, noise, scores["expected"], rng=rng("languages"))
    variables = {
        name: by_model(values, _COMPONENT_TEXT[name]) for name, values in components.items()
    }
    no_geometric_mean = why_no_geometric_mean(arrays)
    of_text = {"expected": "the cells' means", "run": f"one run: {run_text(noise.sd)}"}
    for name, kind, population, of in aggregate_variants():
        # The same languages for all three aggregates, so that they can be compared.
        chosen = choose_languages(scores[of], population, rng=rng(f"{population} languages"))
        values = aggregate(kind, chosen)
        # The other draws alone are not the posterior: one draw without a mean is too many.
        guarded, excluded, _ = drop_meaningless(values, limit=0.0)
        reason = no_geometric_mean if kind == "geometric_mean" else ""
        if reason:
            guarded = np.full_like(guarded, np.nan)
        variables[name] = by_model(
            guarded, f"{kind.replace('_', ' ')} over languages ({population}) of {of_text[of]}"
        )
        variables[name].attrs["excluded_draws"] = _json_counts(arrays.levels[names.MODEL], excluded)
        variables[name].attrs["note"] = reason
        ranks = rank_draws(guarded, highest_first=True)
        variables[names.rank_name(name)] = by_model(ranks, f"rank of {name}, 1 = highest")
        variables[names.rank_name(name)].attrs["units"] = "rank"
    shape = (arrays.n_chains, arrays.n_draws, *scores["expected"].shape[1:])
    cells = {
        "cell_mean": _labelled(
            arrays,
            means,
            names.RECORD,
            units=units,
            definition=f"score of the cell without the noise of {sources_text(noise.sd)}",
            source="arXiv:2509.22612, section 3",
            population=arrays.population,
        ),
        "language_score": xr.Variable(
            ("chain", "draw", names.MODEL, names.LANGUAGE),
            scores["expected"].reshape(shape),
            attrs={
                "scale": "response",
                "units": units,
                "definition": "mean of a model on the pairs of a language",
            },
        ),
    }
    return variables, cells


def _inference_variables(
    arrays: PosteriorArrays, inference: Inference, *, units: str
) -> dict[str, xr.Variable]:
    """Language potential and what models are compared by, with ranks where there are any."""
    result = {
        names.LANGUAGE_POTENTIAL: _labelled(
            arrays,
            inference.language_potential,
            names.LANGUAGE,
            units=units,
            definition="mean over all tasks of the potential of the language",
            source="arXiv:2508.17162, Eq. 3",
            population=arrays.population,
        )
    }
    for name, (specific_units, definition) in _INFERENCE_TEXT.items():
        result[name] = _labelled(
            arrays,
            getattr(inference, name),
            names.MODEL,
            units=specific_units or units,
            definition=definition,
            source="expected scores on common pairs",
            population=arrays.population,
            pairs=arrays.common.choice,
            note=inference.reasons.get(name, ""),
        )
    result[names.CV_PRR_LANGUAGES].attrs["left_out"] = _json_labels(
        arrays.levels[names.LANGUAGE], inference.left_out
    )
    # One draw is a point estimate, which ranks nobody.
    ranked = names.REPORTED if arrays.n_samples > 1 else ()
    for name in ranked:
        variable = result[name]
        flat = variable.values.reshape(arrays.n_samples, -1)
        best = "highest" if higher_is_better(name) else "lowest"
        result[names.rank_name(name)] = _labelled(
            arrays,
            rank_draws(flat, highest_first=higher_is_better(name)),
            str(variable.dims[-1]),
            units="rank",
            definition=f"rank of {name} within the draw, 1 = {best}",
            source="joint posterior draws",
            population=arrays.population,
        )
    return result


def _description(name: str) -> dict[str, str]:
    for support, flavour in names.DESCRIPTIONS:
        for quantity, (what, source) in _QUANTITY_TEXT.items():
            if names.disparity_name(quantity, support=support, flavour=flavour) == name:
                ratio = f"PRR = {_FLAVOUR_TEXT[flavour]} / potential"
                text = f"{what} of {ratio}, over {_SUPPORT_TEXT[support]}"
                return {"definition": text, "source": source}
    raise KeyError(name)


def _labelled(
    arrays: PosteriorArrays,
    values: npt.NDArray[np.floating],
    dim: str,
    **attrs: str,
) -> xr.Variable:
    shaped = values.reshape(arrays.n_chains, arrays.n_draws, values.shape[1])
    return xr.Variable(("chain", "draw", dim), shaped, attrs={"scale": "response", **attrs})


def _json_counts(labels: tuple[str, ...], counts: npt.NDArray[np.int64]) -> str:
    """Write what was left out, by label; a JSON text survives every file format."""
    left_out = {labels[i]: int(counts[i]) for i in np.flatnonzero(counts)}
    return json.dumps(left_out, ensure_ascii=False)


def _json_labels(labels: tuple[str, ...], chosen: npt.NDArray[np.bool_]) -> str:
    """Write which levels were left out; a JSON text survives every file format."""
    return json.dumps([labels[i] for i in np.flatnonzero(chosen)], ensure_ascii=False)


def component_dataset(tree: xr.DataTree) -> xr.Dataset:
    """Variance components draw by draw.

    Returns
    -------
    xarray.Dataset
        ``sd``, ``finite_sd`` (on the linear predictor's ``scale``, an attribute of the
        data set: ``score`` or ``logit``) and ``share`` on (chain, draw, component); the
        coordinate ``kind`` says what `sd` is, see
        :class:`bayeseval.estimands.components.Components`.
    """
    arrays = read_arrays(tree)
    parts = variance_components(arrays)
    texts: Mapping[str, tuple[Floats, str]] = {
        "sd": (parts.sd, "standard deviation of the component, see kind"),
        "finite_sd": (parts.finite_sd, "finite-population sd: of the levels at hand"),
        "share": (parts.share, "squared sd over the sum of squared sds"),
    }
    posterior = group(tree, "posterior")
    return xr.Dataset(
        {
            name: _labelled(arrays, values, "component", definition=text)
            for name, (values, text) in texts.items()
        },
        coords={dim: posterior.coords[dim] for dim in ("chain", "draw") if dim in posterior.coords}
        | {
            "component": np.array(parts.labels, dtype=str),
            "kind": ("component", np.array(parts.kind, dtype=str)),
        },
        attrs={"scale": "score" if arrays.response.link == "identity" else "logit"},
    )
