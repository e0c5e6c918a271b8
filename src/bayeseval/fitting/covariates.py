"""Which covariates a fit gets: those its model names, from the caller or from the card."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayeseval._resources import resource_names, shipped_covariates
from bayeseval.errors import InputError, did_you_mean
from bayeseval.records import Covariate, Records
from bayeseval.spec import ModelSpec, covariate_name

__all__ = [
    "CovariateSource",
    "covariate_names",
    "data_hash",
    "find_covariates",
    "given_covariate",
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


def _load(path: Path, records: Records, name: str) -> Covariate:
    from bayeseval.mexa.covariate import load_covariate

    return load_covariate(path, records, name=name)


def data_hash(records: Records, covariates: Sequence[Covariate] = ()) -> str:
    """What data a fit is of: the hash of the records, and of its covariates if it has any."""
    if not covariates:
        return records.content_hash
    parts = [records.content_hash, *(covariate.content_hash for covariate in covariates)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
