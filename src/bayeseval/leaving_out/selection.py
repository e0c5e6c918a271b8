"""Which records to leave out: levels, groups of levels, or the largest residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._typing import Bools
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands import mean_residual, read_arrays
from bayeseval.records import Records

__all__ = ["Part", "choose_parts", "outlying"]


_OUTLIERS = "outliers"


@dataclass(frozen=True, eq=False)
class Part:
    """Records that one refit goes without.

    Attributes
    ----------
    drop : str
        ``language``, ``task``, ``model``, ``group`` or ``outliers``.
    label : str
        What is left out.
    keep : ndarray of bool, shape (n_records,)
        The records that stay.
    """

    drop: str
    label: str
    keep: Bools


def choose_parts(
    records: Records, drop: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[list[Part], int | None]:
    """Every level of the factors to drop, every group, and how many outliers.

    Parameters
    ----------
    records : Records
        The table.
    drop : sequence of str
        Factors, or ``outliers=N``.
    groups : mapping of str to sequence of str
        Name to levels of any factor, or patterns with ``*`` and ``?``.

    Returns
    -------
    parts : list of Part
        Levels first, in the order asked for, then groups.
    n_outliers : int or None

    Raises
    ------
    InputError
        If a factor or level does not exist, a number is out of range, or nothing is
        asked for.
    """
    parts: list[Part] = []
    n_outliers = None
    if len(set(drop)) < len(drop):
        raise InputError(f"drop names {next(d for d in drop if drop.count(d) > 1)!r} twice")
    for what in drop:
        if what.startswith(_OUTLIERS):
            if n_outliers is not None:
                raise InputError("drop names outliers twice")
            n_outliers = _number(what, len(records))
            continue
        factor = next((f for f in names.FACTORS if f == what), None)
        if factor is None:
            allowed = (*names.FACTORS, _OUTLIERS)
            raise InputError(
                f"cannot drop {what!r}{did_you_mean(what, allowed)} "
                f"(it is one of: {', '.join(names.FACTORS)}, outliers=N)"
            )
        levels, codes = records.coords[factor], records.codes(factor)
        if len(levels) < 2:
            raise InputError(f"{records.name} has one {factor}, {levels[0]}: nothing would be left")
        parts += [Part(factor, label, codes != i) for i, label in enumerate(levels)]
    parts += [_group(records, name, list(levels)) for name, levels in groups.items()]
    if not parts and n_outliers is None:
        raise InputError("nothing to leave out; name a factor, outliers=N or a group")
    return parts, n_outliers


def _number(text: str, n_records: int) -> int:
    _, equals, number = text.partition("=")
    if not (equals and number.isdecimal() and 0 < int(number) < n_records):
        raise InputError(
            f"outliers takes a number of records from 1 to {n_records - 1}, as in outliers=10; "
            f"got {text!r}"
        )
    return int(number)


def _group(records: Records, name: str, levels: Sequence[str]) -> Part:
    keep = np.ones(len(records), dtype=np.bool_)
    known = [label for factor in names.FACTORS for label in records.coords[factor]]
    for level in levels:
        hit = np.zeros(len(records), dtype=np.bool_)
        for factor in names.FACTORS:
            labels = records.coords[factor]
            # A label that is there is meant as it is, whatever characters it has.
            matches = (
                [label == level for label in labels]
                if level in known
                else [fnmatchcase(label, level) for label in labels]
            )
            hit |= np.array(matches)[records.codes(factor)]
        if not hit.any():
            raise InputError(
                f"group {name!r}: no language, task or model {level!r}{did_you_mean(level, known)}"
            )
        keep &= ~hit
    if keep.all():
        raise InputError(f"group {name!r} names no level; write NAME=level,level")
    if not keep.any():
        raise InputError(f"group {name!r} holds every record of {records.name}")
    return Part("group", name, keep)


def outlying(records: Records, tree: xr.DataTree, number: int) -> tuple[Bools, pd.DataFrame]:
    """Leave out the cells whose scores lie furthest from what the fit expects.

    Parameters
    ----------
    records : Records
        The table.
    tree : xarray.DataTree
        Its fit.
    number : int
        How many.

    Returns
    -------
    keep : ndarray of bool, shape (n_records,)
        Replicates of a cell go with it.
    table : pandas.DataFrame
        ``model``, ``language``, ``task``, ``score`` (mean of the replicates) and
        ``residual`` (observed less posterior mean of the expected score), largest first.
    """
    constant, score = tree["constant_data"].to_dataset(), tree["observed_data"][names.SCORE]
    arrays = read_arrays(tree)
    residual = mean_residual(arrays)
    order = np.argsort(-np.abs(residual), kind="stable")[:number]
    cells = {f: constant[f"{f}_index"].to_numpy()[order] for f in names.FACTORS}
    gone = set(zip(*(cells[f].tolist() for f in names.FACTORS), strict=True))
    rows = zip(*(records.codes(f).tolist() for f in names.FACTORS), strict=True)
    keep = np.array([row not in gone for row in rows])
    table = pd.DataFrame(
        {
            factor: [records.coords[factor][i] for i in cells[factor]]
            for factor in (names.MODEL, names.LANGUAGE, names.TASK)
        }
    ).assign(score=score.to_numpy()[order], residual=residual[order])
    return keep, table
