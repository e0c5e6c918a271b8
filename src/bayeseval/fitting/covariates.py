"""Which covariates a fit gets: those its model names, from the caller or from the card."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeseval import names
from bayeseval._resources import resource_names, shipped_covariates
from bayeseval.errors import InputError, argument, did_you_mean
from bayeseval.records import Covariate, Records
from bayeseval.spec import ModelSpec, covariate_name

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.design import Design

__all__ = [
    "CovariateSource",
    "covariate_names",
    "data_hash",
    "find_covariates",
    "given_covariate",
    "stored_covariate",
]

CovariateSource = Covariate | str | Path | Sequence[Covariate] | None


def covariate_names(given: CovariateSource) -> tuple[str, ...]:
    """Names of covariates that are given, for the model ``auto`` to take; a file has its own.

    Parameters
    ----------
    given : Covariate, sequence of Covariate, str or Path, optional
        As for :func:`find_covariates`.
    """
    if given is None:
        return ()
    if isinstance(given, str | Path):
        return (covariate_name(Path(given)),)
    several: object = [given] if isinstance(given, Covariate) else given
    if not isinstance(several, Sequence) or not all(isinstance(c, Covariate) for c in several):
        raise InputError(
            f"a covariate is a file, a Covariate or a list of these; got {type(given).__name__}"
        )
    return tuple(one.name for one in several)


def find_covariates(
    records: Records, spec: ModelSpec, given: CovariateSource = None
) -> tuple[Covariate, ...]:
    """Covariates of a model on a table.

    Parameters
    ----------
    records : Records
        The table; its benchmark's card may name files (``covariates: {mexa: FILE}``).
    spec : ModelSpec
        The model; its ``covariates`` say which are wanted.
    given : Covariate, sequence of Covariate, str or Path, optional
        Wins over the card. A file is read for the model's one covariate.

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
    wanted = [term.name for term in spec.covariates]
    if given is not None and not wanted:
        raise InputError(
            f"the model {spec.name} has no covariate, so none can be given; take the model mexa, "
            "or add covariates: [NAME] to the spec"
        )
    by_name: dict[str, Covariate] = {}
    if isinstance(given, str | Path):
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
    """What ``covariate`` has to be for another fit with the one covariate of a run.

    Parameters
    ----------
    run : mapping
        As ``run.json`` has it.

    Returns
    -------
    str
        A file, or the name of a shipped covariate; empty for a run with none, with several, or
        with values that came from no file.
    """
    sources = [str(one.get("source", "")) for one in (run.get("covariates") or {}).values()]
    if len(sources) != 1:
        return ""
    benchmark = str(run["benchmark"])
    own = shipped_covariates(benchmark) if benchmark in resource_names("benchmarks") else {}
    shipped = {str(path): name for name, path in (shipped_covariates() | own).items()}
    return shipped.get(sources[0], sources[0])


def stored_covariate(
    data: xr.DataTree,
    run: Mapping[str, Any],
    spec: ModelSpec,
    name: str,
    given: CovariateSource = None,
) -> Covariate:
    """Values of a fit's covariate, which may know more languages than the table.

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
    if given is not None:
        return next(c for c in find_covariates(records, spec, given) if c.name == name)
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
