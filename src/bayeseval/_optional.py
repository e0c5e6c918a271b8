"""Optional packages, imported where they are used and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from bayeseval.errors import MissingDependencyError

__all__ = ["require", "versions"]


def require(package: str, extra: str) -> ModuleType:
    """Import `package`; if it is missing, the message names the extra that installs it.

    Raises
    ------
    MissingDependencyError
        If the package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        raise MissingDependencyError(
            f"{package} is not installed; install it with the extra {extra!r}: "
            f"pip install 'bayeseval[{extra}]'"
        ) from error


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed; a source tree on the path has none."""
    found = {package: _version(package) for package in packages}
    return {package: said for package, said in found.items() if said is not None}


@cache
def _version(package: str) -> str | None:
    """The version of a package, read once: its metadata are a file."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
