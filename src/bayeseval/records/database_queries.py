"""Queries that reduce the rows of a table in a database: Ibis expressions, run by its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, Final

import pandas as pd

from bayeseval.readers.databases import Database
from bayeseval.readers.scans import NUMBER
from bayeseval.records.unread_averages import unread_columns

__all__ = ["BITS", "STATES", "Queries", "cell_of"]

#: Units of a piece, of which each group of rows has a string of bits in a whole number of the
#: engine, whose sign is left alone.
BITS: Final = 62
#: Bits of the state of a row; the number of the missing value follows.
STATES: Final = ("blank", "empty", "no_unit")
# Scores count in the checksum in steps of a billionth, where they are that small.
_STEP: Final = 1e9
_LARGE: Final = 1e7
_FACTORS: Final = ("task", "language", "model")


def cell_of(column: Any) -> Any:
    """A column as text, whole number, float or truth value; other types as text."""
    kind = column.type()
    if kind.is_string() or kind.is_boolean():
        return column
    if kind.is_integer():
        return column.cast("int64")
    if kind.is_floating() or kind.is_decimal():
        return column.cast("float64")
    return column.cast("string")


@dataclass(frozen=True, eq=False)
class Queries:
    """The rows of one table by group (same labels) and unit (item or bootstrap test set).

    Groups and units are numbered by the engine, in an order that depends on its collation, so
    that labels are compared by the engine alone and no query carries them.

    Parameters
    ----------
    database : Database
    columns : mapping of str to str
        Names of the columns as messages have them, and as the engine has them.
    ours : mapping of str to str
        Our columns to these names.
    keys : tuple of str
        Our columns that tell groups apart.
    unit : str
    missing : tuple of float
        Scores that mean that there is none.
    same_units : mapping of int to int
        Numbers of units whose labels mean the same as an earlier one's, and that one.
    """

    database: Database
    columns: Mapping[str, str]
    ours: Mapping[str, str]
    keys: tuple[str, ...]
    unit: str
    missing: tuple[float, ...]
    same_units: Mapping[int, int] = field(default_factory=dict)

    def _cell(self, our: str) -> Any:
        return cell_of(self.database.table[self.columns[self.ours[our]]])

    def _labels(self) -> dict[str, Any]:
        """Columns with the same values in all rows of a group, none of them null."""
        import ibis

        cells: dict[str, Any] = {}
        nulls = ibis.literal(0, "int64")
        for place, key in enumerate(self.keys):
            cell = self._cell(key)
            kind = cell.type()
            if kind.is_string():
                cells[f"c{place}"] = cell.fill_null("")
                continue
            nothing = ibis.literal(False) if kind.is_boolean() else ibis.literal(0).cast(kind)
            cells[f"c{place}"] = cell.fill_null(nothing)
            nulls = nulls + _flag(cell.isnull(), place)
        return {**cells, "nulls": nulls, "state": self._state()}

    def _state(self) -> Any:
        import ibis

        score, table = self.score, self.database.table
        blank = ibis.literal(False)
        if "language" in self.ours:
            blank = reduce(and_, (_is_empty(table[name]) for name in self.columns.values()))
        flags = (blank, _is_empty(self._cell("score")), self._cell(self.unit).isnull())
        state = sum((_flag(one, bit) for bit, one in enumerate(flags)), ibis.literal(0, "int64"))
        if self.missing:
            marks = [(score == value, place) for place, value in enumerate(self.missing, 1)]
            mark = ibis.cases(*marks, else_=0).cast("int64")
            state = state + mark * 2 ** len(STATES)
        return state

    @property
    def score(self) -> Any:
        """The score as a finite number; null where the cell holds none."""
        return _number(self._cell("score"))

    @property
    def is_bad(self) -> Any:
        """Whether the cell of the score is filled and no finite number."""
        return ~_is_empty(self._cell("score")) & self.score.isnull()

    def bad_rows(self, *, without: Sequence[str]) -> Any:
        """The rows whose score is no number, without those of some languages."""
        found = self.is_bad
        # Only texts can be named as averages.
        if without and self._cell("language").type().is_string():
            found = found & ~self._cell("language").fill_null("").isin(list(without))
        return self.database.table.filter(found)

    def unread_numbers(self) -> list[str]:
        """The first columns that are not read, of these those that may hold numbers."""
        unread = unread_columns(self.columns, self.ours.values())
        kinds = {name: self.database.table[self.columns[name]].type() for name in unread}
        return [n for n in unread if kinds[n].is_numeric() or kinds[n].is_string()]

    def numbers(self, names: Sequence[str]) -> Any:
        """Of every row with a score: the score `x`, and some columns `c0`, `c1`, ... as numbers."""
        table = self.database.table
        cells = (cell_of(table[self.columns[name]]) for name in names)
        rows = table.select(
            x=self.score, **{f"c{i}": _number(cell) for i, cell in enumerate(cells)}
        )
        return rows.filter(rows.x.notnull())

    def groups(self) -> Any:
        """Labels of every group, and its number `gid`."""
        import ibis

        labels = self._labels()
        distinct = self.database.table.select(**labels).distinct()
        return distinct.mutate(gid=ibis.row_number().over(order_by=[*labels]))

    def units(self) -> Any:
        """Every unit as the column has it, and its number `code`."""
        import ibis

        cell = self._cell(self.unit)
        table = self.database.table.filter(cell.notnull()).select(unit=cell).distinct()
        return table.mutate(code=ibis.row_number().over(order_by="unit"))

    def _rows(self) -> Any:
        """Labels, number of the unit and score of every row."""
        import ibis

        units = self.units()
        if self.same_units:
            units = units.mutate(code=units.code.substitute(dict(self.same_units)).cast("int64"))
        units = units.mutate(
            block=(units.code // BITS).cast("int64"),
            bit=(ibis.literal(2.0) ** (units.code % BITS).cast("float64")).cast("int64"),
            place=(units.code % BITS + 1).cast("int64"),
        )
        rows = self.database.table.select(
            **self._labels(), unit=self._cell(self.unit), x=self.score, bad=self.is_bad
        )
        return rows.left_join(units, "unit").drop("unit_right")

    def pieces(self) -> Any:
        """Counts, means and sums of squares of every group and block of units.

        `first` and `second` are exact sums, which do not depend on the order of rows: they tell
        scores from others.
        """
        import ibis

        rows = self._rows()
        steps = ibis.ifelse(rows.x.abs() < _LARGE, (rows.x * _STEP).round(), 0).cast("int64")
        rows = rows.mutate(steps=steps)
        place = rows.place.fill_null(1)
        labels = [*self._labels()]
        pieces = rows.group_by(*labels, "block").agg(
            n=rows.count(),
            mean=rows.x.mean(),
            square=rows.x.var(how="pop") * rows.x.count(),
            lowest=rows.x.min(),
            highest=rows.x.max(),
            bad=_flag(rows.bad, 0).sum().cast("int64"),
            bits=rows.bit.bit_or(),
            first=rows.steps.sum().cast("string"),
            second=(rows.steps * place).sum().cast("string"),
        )
        return pieces.inner_join(self.groups(), labels).drop(*labels)

    def repeated(self, gids: Sequence[int], *, with_unit: bool) -> Any:
        """The first unit that some groups have twice, and how often."""
        groups = self.groups()
        rows = self._rows().inner_join(
            groups.filter(groups.gid.isin(list(gids))), [*self._labels()]
        )
        if not with_unit:
            return rows.agg(
                unit=rows.unit.cast("string").min(), code=rows.code.min(), n=rows.count()
            )
        counts = rows.group_by("code").agg(unit=rows.unit.cast("string").min(), n=rows.count())
        return counts.filter(counts.n > 1).order_by("code").limit(1)

    def _deviations(self, kept: pd.DataFrame, *, crossed: bool) -> Any:
        """Deviation of every row from the mean of its cell; of seeds together if `crossed`.

        Rows that belong to no cell have the task -1: a left join without a condition on what it
        joins tells planners that the rows are many and the cells few.
        """
        groups = self.groups().inner_join(self._as_relation(kept), "gid")
        labels = [*self._labels()]
        rows = self._rows().left_join(groups, labels)
        rows = rows.select(
            *(rows[name].fill_null(-1).name(name) for name in (*_FACTORS, "cell", "code")),
            "weight",
            d=rows.x - rows.centre,
        )
        if not crossed:
            return rows
        margin = rows.group_by([*_FACTORS, "cell", "code"]).agg(d=rows.d.mean())
        return margin.filter(margin.task >= 0)

    def margin_squares(self, kept: pd.DataFrame) -> Any:
        """Sum of squared deviations of the units' means over seeds from their mean, by cell."""
        margin = self._deviations(kept, crossed=True)
        return margin.group_by("cell").agg(square=margin.d.var(how="pop") * margin.count())

    def sums(self, kept: pd.DataFrame, *, crossed: bool) -> tuple[Any, ...]:
        """Sums over units of products, by task and kind of pair: one query for each factor.

        Parameters
        ----------
        kept : pandas.DataFrame
            Number of the group, cell, mean of the cell, weight, task, language and model.
        crossed : bool
            Whether cells have several seeds.
        """
        import ibis

        rows = self._deviations(kept, crossed=crossed)
        if crossed:
            of_cell = ibis.window(group_by="cell")
            rows = rows.select(
                *_FACTORS,
                "code",
                d=rows.d - rows.d.mean().over(of_cell),
                weight=1.0 / rows.d.count().over(of_cell),
            )

        def by(*labels: str) -> Any:
            found = rows.group_by(*labels).agg(
                d=rows.d.sum(), k=rows.count().cast("float64"), w=rows.weight.sum()
            )
            return found.filter(found.task >= 0)

        language = by("task", "language", "code")
        everything = language.group_by("task", "code").agg(
            d=language.d.sum(), k=language.k.sum(), w=language.w.sum()
        )
        both = ibis.union(_products(everything, "all"), _products(language, "language"))
        return both, _products(by("task", "model", "code"), "model")

    def _as_relation(self, kept: pd.DataFrame) -> Any:
        """A small table of numbers within the query, which needs no right to write anything."""
        import ibis
        import ibis.expr.operations as ops

        backend = self.database.backend
        if not (backend.has_operation(ops.Unnest) and backend.has_operation(ops.StringSplit)):
            return ibis.memtable(kept)
        lines = zip(*(kept[name].tolist() for name in kept), strict=True)
        text = ";".join("|".join(map(repr, line)) for line in lines)
        rows = ibis.literal(text).split(";").unnest().name("line").as_table()
        parts = rows.line.split("|")
        kinds = {str(name): "float64" if kept[name].dtype == float else "int64" for name in kept}
        return rows.select(
            **{str(name): parts[i].cast(kind) for i, (name, kind) in enumerate(kinds.items())}
        )


def _number(cell: Any) -> Any:
    """A cell as a finite number; null where it holds none."""
    import ibis

    kind, nothing = cell.type(), ibis.null("float64")
    if kind.is_boolean():
        return nothing
    if kind.is_string():
        text = cell.strip()
        return ibis.ifelse(text.re_search(f"^({NUMBER})$"), text.cast("float64"), nothing)
    if kind.is_integer():
        return cell.cast("float64")
    return ibis.ifelse(cell.isnan() | cell.isinf(), nothing, cell)


def _flag(condition: Any, bit: int) -> Any:
    import ibis

    # Not every engine casts truth values to numbers.
    return ibis.ifelse(condition, 2**bit, 0).cast("int64")


def _is_empty(column: Any) -> Any:
    null = column.isnull()
    return null | (column.strip() == "") if column.type().is_string() else null


def _products(sums: Any, kind: str) -> Any:
    import ibis

    table = sums.group_by("task").agg(
        products=(sums.d * sums.d).sum(),
        shared=(sums.k * sums.k).sum(),
        scaled=(sums.k * sums.w).sum(),
        overlap=(sums.w * sums.w).sum(),
    )
    return table.mutate(kind=ibis.literal(kind))
