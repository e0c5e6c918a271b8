"""Refuse models that a table cannot identify, naming the levels responsible."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from bayeseval import names
from bayeseval._text import counted, grouped
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.errors import DesignError, wording
from bayeseval.records import Records, connected_components, without_language

__all__ = ["check_interactions", "check_main_effects"]


# Most labels that a message lists; more are counted.
_MOST_LISTED = 100
# Groups of levels that a message names.
_MOST_GROUPS = 3


def check_main_effects(
    records: Records, factor_index: Mapping[str, Index], sizes: Mapping[str, int]
) -> None:
    """Refuse a design in which main effects are confounded."""
    components = connected_components(records)
    if len(components) > 1:
        parts = "; ".join(
            " + ".join(
                f"{factor} {_first_few(getattr(component, factor))}" for factor in names.FACTORS
            )
            for component in components[:2]
        )
        raise DesignError(
            f"{records.name}: the table falls into {len(components)} unconnected parts, "
            f"so levels of different parts cannot be compared ({parts}); add records that link them"
            f"{_advice_to_drop(records)}"
        )
    free: list[names.Factor] = [factor for factor in names.FACTORS if sizes[factor] > 1]
    index = {factor: factor_index[factor] for factor in free}
    if _are_identified(index, sizes):
        return
    confounded = [text for pair in _pairs(free) if (text := _describe_unlinked(records, pair))]
    linking = ", so that every group shares a level with another" if confounded else ""
    if not confounded:
        null_levels = _levels_moving_together(index, sizes)
        levels = {f: [records.coords[f][i] for i in levels] for f, levels in null_levels.items()}
        together = " and ".join(f"{f} {_first_few(labels)}" for f, labels in levels.items())
        confounded = [f"{together} always occur together"]
    raise DesignError(
        f"{records.name}: {'; '.join(confounded)}, so their effects are confounded; add records"
        f" that cross them{linking}{_advice_to_drop(records)}"
    )


def _pairs(factors: Sequence[names.Factor]) -> list[tuple[names.Factor, names.Factor]]:
    return list(combinations(factors, 2))


def _describe_unlinked(records: Records, pair: tuple[names.Factor, names.Factor]) -> str:
    """Describe groups of levels of two factors that no record links; empty for one group.

    Within a group, a constant can be moved from the effects of one factor to those of the
    other, so every group but one has a contrast that is not identified. The largest
    group, with which the others are compared, is not described.
    """
    codes = {factor: records.codes(factor) for factor in pair}
    group = _linked(codes, pair)
    sizes = np.bincount(group)
    others = np.argsort(-sizes, kind="stable")[1:]
    if not others.size:
        return ""

    def described(one: int) -> str:
        levels = {f: np.unique(codes[f][group == one]) for f in pair}
        labels = {f: [records.coords[f][i] for i in levels[f]] for f in pair}
        return " and ".join(f"{f} {_first_few(labels[f])}" for f in pair)

    shown = [described(int(one)) for one in others[:_MOST_GROUPS]]
    # With the largest: the reader counts all groups.
    more = len(others) + 1 - len(shown) if len(others) > len(shown) else 0
    tail = f" and {counted(more, 'more group')} of a {pair[0]} and a {pair[1]}" if more else ""
    return f"{', '.join(shown)}{tail} always occur together"


def _linked(codes: Mapping[names.Factor, Index], factors: Sequence[names.Factor]) -> Index:
    """Group of every record; records that share a level of these factors are in one group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components as components

    offset, nodes = 0, []
    for factor in factors:
        nodes.append(codes[factor] + offset)
        offset += int(codes[factor].max()) + 1
    start = np.concatenate(nodes[:-1])
    end = np.concatenate(nodes[1:])
    graph = coo_array((np.ones(len(start)), (start, end)), shape=(offset, offset))
    member = components(graph.tocsr(), directed=False)[1]
    return np.unique(member[nodes[0]], return_inverse=True)[1].reshape(-1).astype(np.int64)


def _levels_per_group(group: Index, level: Index) -> Index:
    """Number of levels in each group."""
    n_levels = int(level.max()) + 1
    return np.bincount(np.unique(group * n_levels + level) // n_levels)


def _advice_to_drop(records: Records) -> str:
    """Advice on the levels to drop so that the rest can be fitted."""
    codes = {factor: records.codes(factor) for factor in names.FACTORS}
    kept = _all_rows(codes, records.scores)
    renaming = _advice_to_rename(records, codes)
    if kept is not None:
        entry = f"'drop: {{{', '.join(_drop_entries(records, codes, kept))}}}'"
        return (
            f", or fit the largest part that is linked ({entry} in a YAML file passed as"
            f" {wording('mapping_file', '--mapping')} keeps {grouped(int(kept.sum()))} of"
            f" {grouped(len(kept))} records){renaming}"
        )
    text = (
        "; dropping levels does not help, because no part with two models and two languages"
        " could be fitted"
    )
    if renaming:
        return text + renaming
    tasks_of = np.unique(np.stack([codes[names.LANGUAGE], codes[names.TASK]]), axis=1)
    if len(records.coords[names.LANGUAGE]) == tasks_of.shape[1] > 1:
        # Every language has one task, so that no cell would have two scores.
        one_task = {**codes, names.TASK: np.zeros_like(codes[names.TASK])}
        rest = _all_rows(one_task, records.scores)
        if rest is not None and rest.all():
            text += "; if the tasks are the same test under several names, give them one name"
    return text


def _advice_to_rename(records: Records, codes: Mapping[names.Factor, Index]) -> str:
    """Advice to take the language out of the names of tasks, if that identifies the model."""
    tasks, languages = records.coords[names.TASK], records.coords[names.LANGUAGE]
    pairs = np.unique(np.stack([codes[names.TASK], codes[names.LANGUAGE]]), axis=1).T
    with_one = np.bincount(pairs[:, 0]) == 1
    parted = {
        int(task): without_language(tasks[task], languages[language])
        for task, language in pairs
        if with_one[task]
    }
    renamed = {task: name for task, name in parted.items() if name != tasks[task]}
    wanted = [renamed.get(task, label) for task, label in enumerate(tasks)]
    place = {name: code for code, name in enumerate(dict.fromkeys(wanted))}
    new = np.array([place[name] for name in wanted], dtype=np.int64)
    after = {**codes, names.TASK: new[codes[names.TASK]]}
    collide = len({(place[wanted[task]], language) for task, language in pairs}) < len(pairs)
    rest = None if collide or not renamed else _all_rows(after, records.scores)
    if rest is None or not rest.all():
        return ""
    places: dict[str, list[str]] = {}
    for task, name in renamed.items():
        places.setdefault(name, []).append(repr(tasks[task]))
    shown = [f"{name!r} in place of {_first_few(old)}" for name, old in places.items()]
    return (
        "; if the tasks named after a language are one test in several languages, give it one name:"
        f" {_first_few(shown)}"
    )


def _all_rows(codes: Mapping[names.Factor, Index], scores: Floats) -> Bools | None:
    return _identified_rows(codes, scores, np.ones(len(scores), dtype=np.bool_))


def _drop_entries(records: Records, codes: Mapping[names.Factor, Index], kept: Bools) -> list[str]:
    """Entries of ``drop:`` that keep exactly these records, of as few factors as possible."""
    dropped = {
        factor: np.setdiff1d(np.unique(codes[factor]), codes[factor][kept])
        for factor in names.FACTORS
    }
    candidates = [factors for n in (1, 2, 3) for factors in combinations(names.FACTORS, n)]

    def leaves_the_rest(factors: Sequence[names.Factor]) -> bool:
        left_out = np.any([np.isin(codes[f], dropped[f]) for f in factors], axis=0)
        return bool((left_out == ~kept).all())

    sufficient = [factors for factors in candidates if leaves_the_rest(factors)]
    # All three factors always suffice: a record was dropped for one of its levels.
    # Of a language and a task that say the same, the task is what the table can do without.
    chosen = min(
        sufficient,
        key=lambda factors: (
            len(factors),
            sum(len(dropped[f]) for f in factors),
            names.TASK not in factors,
        ),
    )
    entries = []
    for factor in chosen:
        labels = [records.coords[factor][i] for i in dropped[factor]]
        if len(labels) <= _MOST_LISTED:
            # Every text in double quotes is the same in JSON and in YAML.
            listed = ", ".join(json.dumps(label, ensure_ascii=False) for label in labels)
        else:
            listed = f"... the {len(labels)} labels, from bayeseval validate"
        entries.append(f"{factor}: [{listed}]")
    return entries


def _identified_rows(
    codes: Mapping[names.Factor, Index], scores: Floats, rows: Bools
) -> Bools | None:
    """Records of the largest part whose main effects are identified; None without one.

    Parts that are not connected, through all factors or through two, are tried largest
    first. A part needs two models, two languages and scores that vary.
    """
    too_few = any(len(np.unique(codes[f][rows])) < 2 for f in (names.MODEL, names.LANGUAGE))
    if too_few or np.ptp(scores[rows]) == 0.0:
        return None
    index: dict[names.Factor, Index] = {}
    for factor in names.FACTORS:
        index[factor] = np.unique(codes[factor][rows], return_inverse=True)[1].reshape(-1)
    positions = np.flatnonzero(rows)

    def only(chosen: Bools) -> Bools:
        part = np.zeros_like(rows)
        part[positions[chosen]] = True
        return part

    free = [factor for factor in names.FACTORS if index[factor].max() > 0]
    for factors in (names.FACTORS, *_pairs(free)):
        group = _linked(index, factors)
        sizes = np.bincount(group)
        if len(sizes) < 2:
            continue
        least = np.minimum(
            *(_levels_per_group(group, index[f]) for f in (names.MODEL, names.LANGUAGE))
        )
        order = np.argsort(-sizes, kind="stable")
        for member in order[least[order] > 1]:
            identified = _identified_rows(codes, scores, only(group == member))
            if identified is not None:
                return identified
        return None
    number: dict[str, int] = {factor: int(index[factor].max()) + 1 for factor in free}
    index = {factor: index[factor] for factor in free}
    if _are_identified(index, number):
        return rows
    null_levels = _levels_moving_together(index, number)
    for factor in sorted(null_levels, key=lambda f: len(null_levels[f])):
        identified = _identified_rows(
            codes, scores, only(~np.isin(index[factor], null_levels[factor]))
        )
        if identified is not None:
            return identified
    return None


def _are_identified(index: Mapping[names.Factor, Index], sizes: Mapping[str, int]) -> bool:
    """Whether the effects of all factors are identified.

    The block of the factor with the most levels is diagonal and is eliminated first, so
    that the cost depends on the other factors only.
    """
    if len(index) < 2:
        return True
    largest = max(index, key=sizes.__getitem__)
    rest = [factor for factor in index if factor != largest]
    starts = np.cumsum([0, *(sizes[factor] for factor in rest)])
    within, between = np.zeros((starts[-1], starts[-1])), np.zeros((starts[-1], sizes[largest]))
    for i, row in enumerate(rest):
        block = slice(starts[i], starts[i + 1])
        between[block] = _joint_counts(index[row], index[largest], sizes[row], sizes[largest])
        for j, column in enumerate(rest):
            within[block, starts[j] : starts[j + 1]] = _joint_counts(
                index[row], index[column], sizes[row], sizes[column]
            )
    counts = np.bincount(index[largest], minlength=sizes[largest])
    values = np.linalg.eigvalsh(within - (between / counts) @ between.T)
    tolerance = within.max() * len(values) * np.finfo(np.float64).eps
    # One direction per factor is never identified: a constant moved to another factor.
    return int((values > tolerance).sum()) >= len(values) - len(rest)


def _joint_counts(first: Index, second: Index, n_first: int, n_second: int) -> Floats:
    counts = np.bincount(first * n_second + second, minlength=n_first * n_second)
    return counts.reshape(n_first, n_second).astype(np.float64)


def _cross_products(indices: list[Index], sizes: list[int]) -> Floats:
    """X'X of intercept and indicator columns, without forming X."""
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])
    cross = np.zeros((starts[-1], starts[-1]))
    cross[0, 0] = len(indices[0])
    columns = [start + index for start, index in zip(starts[:-1], indices, strict=True)]
    for i, first in enumerate(columns):
        np.add.at(cross, (0, first), 1.0)
        np.add.at(cross, (first, 0), 1.0)
        for second in columns[i:]:
            np.add.at(cross, (first, second), 1.0)
            if first is not second:
                np.add.at(cross, (second, first), 1.0)
    return cross


def _levels_moving_together(
    index: Mapping[names.Factor, Index], sizes: Mapping[str, int]
) -> dict[names.Factor, list[int]]:
    """Levels that move together in a direction that the data do not identify, by factor."""
    free = list(index)
    cross = _cross_products([index[f] for f in free], [sizes[f] for f in free])
    values, vectors = np.linalg.eigh(cross)
    tolerance = values[-1] * len(values) * np.finfo(np.float64).eps
    null = vectors[:, values <= tolerance]
    starts = np.concatenate([[1], 1 + np.cumsum([sizes[f] for f in free])])
    # First remove the directions that never matter (one constant per factor).
    centred = null.copy()
    centred[0] = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = slice(start, start + sizes[factor])
        centred[block] -= centred[block].mean(axis=0)
    _, _, rotation = np.linalg.svd(centred, full_matrices=False)
    direction = centred @ rotation[0]
    by_factor: dict[names.Factor, list[int]] = {}
    sign = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = direction[start : start + sizes[factor]]
        if np.abs(block).max() < 1e-6 * np.abs(direction).max():
            continue
        # Where the levels of one factor gain, those of the other lose: take the opposite side.
        sign = -sign if sign else float(np.sign(block[np.abs(block).argmax()]))
        side = sign * block
        by_factor[factor] = np.flatnonzero(side > 0.5 * side.max()).tolist()
    return by_factor


def check_interactions(
    records: Records, terms: list[Term], *, noise_is_known: bool = False
) -> list[str]:
    """Refuse an interaction that is confounded with the residual or another term."""
    notes = []
    for term in terms:
        if len(term.factors) == 1:
            continue
        if term.rank:
            _check_rank(records, term, len(terms[0].index))
            continue
        counts = np.bincount(term.index, minlength=term.n_levels)
        if names.DATASET in term.factors:
            # Several records of one cell and one task are not several metrics.
            task = next(other for other in terms if other.name == names.TASK)
            with_task = np.unique(term.index * task.n_levels + task.index) // task.n_levels
            counts = np.bincount(with_task, minlength=term.n_levels)
        if counts.max() < 2 and not noise_is_known:
            others = [factor for factor in names.FACTORS if factor not in term.factors]
            unit = others[0] if others else "record"
            raise DesignError(
                f"{records.name}: {term.name} has one {unit} in each of its {term.n_levels} cells, "
                "so it is confounded with the residual; remove it, or add replication"
            )
        for other in terms:
            within = set(other.factors) < set(term.factors) and not other.rank
            if within and other.n_levels == term.n_levels:
                raise DesignError(
                    f"{records.name}: {term.name} has as many cells as {other.name} has levels, so "
                    "the two are confounded; remove one"
                )
        single = int((counts == 1).sum())
        if names.DATASET in term.factors:
            notes.append(
                f"{term.name}: {term.n_levels - single} of {term.n_levels} cells have two tasks "
                f"or more; {names.sd_name(term.name)} is estimated from these"
            )
        elif single > term.n_levels / 2 and not noise_is_known:
            notes.append(
                f"{term.name}: {single} of {term.n_levels} cells have a single record; "
                f"{names.sd_name(term.name)} is estimated from the others"
            )
    return notes


def _first_few(labels: tuple[str, ...] | list[str], most: int = 3) -> str:
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def _check_rank(records: Records, term: Term, n_records: int) -> None:
    """Refuse more products than the levels or the scores can tell apart."""
    sizes = [term.n_members(factor) - 1 for factor in term.factors]
    counted_levels = " and ".join(
        f"{size + 1} {factor}s" for size, factor in zip(sizes, term.factors, strict=True)
    )
    if term.rank > min(sizes):
        raise DesignError(
            f"{records.name}: {term.name} has rank {term.rank}, and {counted_levels} have effects "
            f"of rank {min(sizes)} at most; lower the rank"
        )
    free = term.rank * (sum(sizes) + 1 - term.rank)
    if free + sum(sizes) >= n_records:
        raise DesignError(
            f"{records.name}: {term.name} of rank {term.rank} has {grouped(free)} free values for "
            f"{grouped(n_records)} scores of {counted_levels}; lower the rank, or remove it"
        )
