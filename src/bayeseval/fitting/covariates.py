"""Which covariates a fit gets: those its model names, from the caller or from the card."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._resources import resource_names, shipped_covariates
from bayeseval._text import shorten
from bayeseval._typing import Floats
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.languages.matching import match
from bayeseval.records import Covariate, Records, fact_names, facts_table, match_models
from bayeseval.spec import CovariateTerm, ModelSpec, covariate_name

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.design import Design
    from bayeseval.estimands.container import PosteriorArrays
    from bayeseval.estimands.covariates import SlopeDraws

__all__ = [
    "CovariateSource",
    "called_models",
    "covariate_at_cells",
    "covariate_names",
    "data_hash",
    "family_left_out",
    "find_covariates",
    "given_covariate",
    "stored_covariate",
    "wanted_covariates",
]

CovariateSource = Covariate | str | Path | Sequence[Covariate] | None


def covariate_names(given: CovariateSource) -> tuple[str, ...]:
    """Names of covariates that are given, for the model ``auto`` to take.

    A file has its own name; of a table of models they are those of its columns.

    Parameters
    ----------
    given : Covariate, sequence of Covariate, str or Path, optional
        As for :func:`find_covariates`.
    """
    if given is None:
        return ()
    if isinstance(given, str | Path):
        facts = facts_table(Path(given))
        return (covariate_name(Path(given)),) if facts is None else fact_names(facts)
    several: object = [given] if isinstance(given, Covariate) else given
    if not isinstance(several, Sequence) or not all(isinstance(c, Covariate) for c in several):
        raise InputError(
            f"a covariate is a file, a Covariate or a list of these; got {type(given).__name__}"
        )
    return tuple(one.name for one in several if not one.categories)


def family_left_out(given: CovariateSource) -> tuple[str, ...]:
    """Say that ``auto`` does not take the families of a table of models, if it has any.

    Parameters
    ----------
    given : Covariate, sequence of Covariate, str or Path, optional
        As for :func:`find_covariates`.
    """
    if isinstance(given, str | Path):
        facts = facts_table(Path(given))
        has_families = facts is not None and names.FAMILY in facts.columns
    else:
        several = [given] if isinstance(given, Covariate) else given or ()
        has_families = any(one.categories for one in several)
    if not has_families:
        return ()
    return (
        f"not in the model: {names.FAMILY} of the table of models, which auto does not take; "
        "a spec with models: {family: true} relates models of one family",
    )


def wanted_covariates(spec: ModelSpec) -> tuple[str, ...]:
    """Names of what a model takes from tables beside the scores: covariates, then families."""
    families = () if spec.models is None else (names.FAMILY,)
    return (*(term.name for term in spec.covariates), *families)


def find_covariates(
    records: Records, spec: ModelSpec, given: CovariateSource = None
) -> tuple[Covariate, ...]:
    """Covariates of a model on a table.

    Parameters
    ----------
    records : Records
        The table; its benchmark's card may name files (``covariates: {mexa: FILE}``).
    spec : ModelSpec
        The model; its ``covariates`` and ``models`` say which are wanted.
    given : Covariate, sequence of Covariate, str or Path, optional
        Wins over the card. A file is read for the model's one covariate; a table of models for
        every covariate that it has a column of.

    Returns
    -------
    tuple of Covariate
        Those that were found, in the order of the model. One that was not is for
        `build_design` to refuse.

    Raises
    ------
    InputError
        If something is given to a model without covariates, or cannot be read.
    """
    wanted = wanted_covariates(spec)
    if given is not None and not wanted:
        raise InputError(
            f"the model {spec.name} has no covariate, so none can be given; take the model mexa, "
            "or add covariates: [NAME], or models: {family: true} for families of models, to a spec"
        )
    by_name: dict[str, Covariate] = {}
    facts = facts_table(Path(given)) if isinstance(given, str | Path) else None
    if facts is not None:
        known = [name for name in wanted if name in facts.columns]
        # None of them is refused where the first is read.
        by_name |= {name: _load(Path(str(given)), records, name) for name in known or wanted[:1]}
    elif isinstance(given, str | Path):
        if len(wanted) > 1:
            raise InputError(
                f"the model {spec.name} has {len(wanted)} covariates ({', '.join(wanted)}), and "
                "one file cannot be all of them; give Covariate objects, or name the files in "
                "the card"
            )
        by_name[wanted[0]] = _load(Path(given), records, wanted[0])
    elif given is not None:
        for covariate in [given] if isinstance(given, Covariate) else given:
            if covariate.name not in wanted:
                raise InputError(
                    f"the model {spec.name} has no covariate {covariate.name!r}"
                    f"{did_you_mean(covariate.name, wanted)} (it has: {', '.join(wanted)})"
                )
            by_name[covariate.name] = covariate
    for name in wanted:
        if name not in by_name and name in records.covariate_files:
            by_name[name] = _load(records.covariate_files[name], records, name)
    return tuple(by_name[name] for name in wanted if name in by_name)


def given_covariate(run: Mapping[str, Any]) -> str:
    """What ``covariate`` has to be for another fit with the covariates of a run.

    Parameters
    ----------
    run : mapping
        As ``run.json`` has it.

    Returns
    -------
    str
        A file, or the name of a shipped covariate; empty for a run with none, with those of
        several files, or with values that came from no file.
    """
    sources = {str(one.get("source", "")) for one in (run.get("covariates") or {}).values()}
    if len(sources) != 1:
        return ""
    (source,) = sources
    benchmark = str(run["benchmark"])
    own = shipped_covariates(benchmark) if benchmark in resource_names("benchmarks") else {}
    shipped = {str(path): name for name, path in (shipped_covariates() | own).items()}
    return shipped.get(source, source)


def stored_covariate(
    data: xr.DataTree,
    run: Mapping[str, Any],
    spec: ModelSpec,
    name: str,
    given: CovariateSource = None,
) -> Covariate:
    """Values of a fit's covariate, which may know more languages and models than the table.

    Parameters
    ----------
    data, run, spec : DataTree, mapping, ModelSpec
        Those of the fit.
    name : str
        Name of the covariate.
    given : Covariate, sequence of Covariate, str or Path, optional
        Values to take; when left out, those that the fit was made with.

    Raises
    ------
    InputError
        If these values are not where they were, or have changed.
    """
    if isinstance(given, Covariate) and given.name == name:
        return given
    records = _fitted_records(data, run)
    for one in () if given is None else find_covariates(records, spec, given):
        if one.name == name:
            return one
    stored = {"source": "", "hash": "", **(run.get("covariates") or {}).get(name, {})}
    if stored["source"] and Path(stored["source"]).exists():
        covariate = _load(Path(stored["source"]), records, name)
        if covariate.content_hash == stored["hash"]:
            return covariate
        raise InputError(
            f"{stored['source']} has changed since the fit; fit again, or give the values with "
            f"{argument('covariate')}"
        )
    shipped = _shipped(str(run["benchmark"]), stored["source"])
    if shipped is not None:
        covariate = _load(shipped, records, name)
        if covariate.content_hash == stored["hash"]:
            return covariate
    raise InputError(
        f"the values of {name} that the fit was made with are not at "
        f"{stored['source'] or 'any file'}; give them with {argument('covariate')}"
    )


def covariate_at_cells(
    data: xr.DataTree,
    run: Mapping[str, Any],
    spec: ModelSpec,
    name: str,
    given: CovariateSource,
    arrays: PosteriorArrays,
    labels: Mapping[str, tuple[str, ...]],
    notes: list[str],
) -> tuple[Floats, Floats] | None:
    """Standardised values and standard errors by cell; None if the fit has all of them.

    Raises
    ------
    InputError
        If a new model has no value, and the spec does not say ``missing: model``.
    """
    slope = next(one for one in arrays.slopes if one.name == name)
    factors = names.factors_of(slope.by)
    if all(set(labels[f]) <= set(arrays.levels[f]) for f in factors):
        return None
    source = stored_covariate(data, run, spec, name, given)
    term = next(one for one in spec.covariates if one.name == name)
    levels = {f: list(dict.fromkeys(labels[f])) for f in factors}
    called = dict(levels)
    if names.LANGUAGE in levels:
        strange = [label for label in levels[names.LANGUAGE] if label not in source.labels]
        matches = match(strange, source.labels)
        notes += [
            f"{name}: language {p.a!r} is read as {p.b!r}" for p in matches.pairs if p.a != p.b
        ]
        called[names.LANGUAGE] = [matches.mapping.get(one, one) for one in levels[names.LANGUAGE]]
    if names.MODEL in levels:
        called[names.MODEL] = _models_of(source, levels[names.MODEL], labels, arrays, term, notes)
    values, se = source.at(called.get(names.LANGUAGE, ()), called.get(names.MODEL, ()))
    se = se if term.measurement_error else np.where(np.isnan(values), np.nan, 0.0)
    at = tuple(_places(labels[f], levels[f]) for f in factors)
    x, error = (values[at] - slope.mean) / slope.sd, se[at] / slope.sd
    notes += _lacking_notes(slope, x, labels, arrays)
    return x, error


def _models_of(
    source: Covariate,
    models: Sequence[str],
    labels: Mapping[str, tuple[str, ...]],
    arrays: PosteriorArrays,
    term: CovariateTerm,
    notes: list[str],
) -> list[str]:
    """What the source calls models; one of a table of models that has no value is refused."""
    called = called_models(source, models, notes)
    # Alignment of a new model may be unknown; what is known of models is a row of a file.
    if term.missing == "refuse" and (source.by == "model" or not np.isnan(source.elsewhere)):
        values = source.at(source.labels, called)[0].reshape(len(called), -1)
        # Known models have values of the fit, but in its languages only.
        new_languages = bool(set(labels[names.LANGUAGE]) - set(arrays.levels[names.LANGUAGE]))
        new_languages &= source.by == "model:language"
        for label, read, own in zip(models, called, values, strict=True):
            needed = label not in arrays.levels[names.MODEL] or new_languages
            if needed and np.isnan(own).any():
                where = f" in {source.source}" if source.source else ""
                give = wording("covariate='FILE'", "--covariate FILE")
                # A model that has a row lacks the value in it.
                near = "" if read in source.models else did_you_mean(label, source.models)
                raise InputError(
                    f"{source.name} has no value for the model {label!r}{where}"
                    f"{near}; add its row and give the table with "
                    f"{give}, or fit with covariates: [{{name: {source.name}, missing: model}}], "
                    "which predicts without"
                )
    return called


def called_models(source: Covariate, models: Sequence[str], notes: list[str]) -> list[str]:
    """What a source calls models: their labels, or those with or without ORG/.

    Parameters
    ----------
    source : Covariate
        With values of models.
    models : sequence of str
        Labels to look for.
    notes : list of str
        Gets a note on every label that is read as another.
    """
    strange = [label for label in models if label not in source.models]
    found = match_models(strange, source.models, source.source or source.name)
    read = {label: source.models[i] for label, i in found.items()}
    notes += [f"{source.name}: model {ours!r} is read as {own!r}" for ours, own in read.items()]
    return [read.get(label, label) for label in models]


def _lacking_notes(
    slope: SlopeDraws, x: Floats, labels: Mapping[str, tuple[str, ...]], arrays: PosteriorArrays
) -> list[str]:
    """How levels that have no value are predicted."""
    factor = names.MODEL if slope.by == names.MODEL else names.LANGUAGE
    own = set(arrays.levels[factor])
    lacking = dict.fromkeys(
        label
        for label, value in zip(labels[factor], x, strict=True)
        if np.isnan(value) and (label not in own or slope.by == "model:language")
    )
    if not lacking:
        return []
    drawn = (
        "drawn for each pair of a model and a language on its own"
        if slope.by == "model:language"
        else f"predicted for a {factor} drawn from those of the table"
    )
    return [f"{slope.name} has no value for {shorten(lacking)}: {drawn}"]


def _places(labels: Sequence[str], levels: Sequence[str]) -> list[int]:
    place = {label: i for i, label in enumerate(levels)}
    return [place[label] for label in labels]


def _shipped(benchmark: str, source: str) -> Path | None:
    """The shipped file of that name: the folder may come from another machine."""
    own = shipped_covariates(benchmark) if benchmark in resource_names("benchmarks") else {}
    # Of either system's paths.
    path = PureWindowsPath(source)
    return (shipped_covariates() | own).get(path.stem) if path.suffix == ".csv" else None


def _fitted_records(data: xr.DataTree, run: Mapping[str, Any]) -> Records:
    """The fit's table, for the labels that a covariate is matched to."""
    constant = data["constant_data"].to_dataset()
    table = pd.DataFrame(
        {
            f: constant[f].to_numpy()[constant[f"{f}_index"].to_numpy()].astype(str)
            for f in names.FACTORS
        }
    )
    score = data["observed_data"][names.SCORE].to_numpy()
    return Records.from_frame(
        table.assign(score=score).drop_duplicates(list(names.FACTORS)),
        name=str(run["benchmark"]),
        language_names=run["language_names"],
        mixed_scales="allow",
    )


def _load(path: Path, records: Records, name: str) -> Covariate:
    from bayeseval.mexa.covariate import load_covariate

    return load_covariate(path, records, name=name)


def data_hash(
    records: Records, covariates: Sequence[Covariate] = (), design: Design | None = None
) -> str:
    """What data a fit is of: the hash of the records, of covariates and of files of relations.

    Parameters
    ----------
    records : Records
        The table.
    covariates : sequence of Covariate
        Those of the fit.
    design : Design, optional
        Of a model that may take relations of languages from files.
    """
    parts = [records.content_hash, *(covariate.content_hash for covariate in covariates)]
    relations = None if design is None else design.spec.languages
    if design is not None and relations is not None and relations.files:
        related = design.term(names.LANGUAGE).relations
        matrices = b"" if related is None else related.matrices.round(9).tobytes()
        parts.append(hashlib.sha256(matrices).hexdigest())
    if len(parts) == 1:
        return records.content_hash
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
