"""Where `benchmarks/` and `models/` are: in the checkout, or inside the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bayeseval.errors import InputError, did_you_mean

__all__ = ["find_resource", "resource_folder", "resource_names", "shipped_covariates"]

Kind = Literal["benchmarks", "models"]


def resource_folder(kind: Kind) -> Path:
    """Folder of the shipped benchmarks or models.

    A wheel carries them under ``bayeseval/_data``; a checkout (also an editable
    install) has them at its top level.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_data" / kind, package.parents[1] / kind):
        if folder.is_dir():
            return folder
    raise InputError(
        f"the shipped {kind} are missing at {package}; reinstall bayeseval, or give a path"
    )


def resource_names(kind: Kind) -> dict[str, Path]:
    """Names of the shipped resources and their files, in alphabetical order."""
    pattern = "*/benchmark.yaml" if kind == "benchmarks" else "*.yaml"
    paths = sorted(resource_folder(kind).glob(pattern))
    return {(p.parent.name if kind == "benchmarks" else p.stem): p for p in paths}


def shipped_covariates(benchmark: str | None = None) -> dict[str, Path]:
    """Names and files of the covariates that come with one shipped benchmark, or with any."""
    pattern = f"{'*' if benchmark is None else benchmark}/covariates/*.csv"
    return {path.stem: path for path in sorted(resource_folder("benchmarks").glob(pattern))}


def find_resource(kind: Kind, name: str) -> Path:
    """Path of a shipped benchmark card or model spec.

    Raises
    ------
    InputError
        If there is none of that name; the message lists the names.
    """
    known = resource_names(kind)
    if name in known:
        return known[name]
    raise InputError(
        f"no {kind.removesuffix('s')} named {name!r} and no such file"
        f"{did_you_mean(name, known)} (shipped: {', '.join(known)})"
    )
