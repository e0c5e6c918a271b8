"""Files of a result folder: netCDF, JSON and CSV."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayeseval._special import refuse_special
from bayeseval._text import grouped
from bayeseval.errors import InputError
from bayeseval.output._deferred import errors_at_the_end
from bayeseval.output._folders import flush
from bayeseval.output._hdf5 import refuse_unbounded
from bayeseval.output._locks import try_lock

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "as_input_errors",
    "csv_text",
    "plain",
    "read_json",
    "read_tree",
    "refuse_unbounded_csv",
    "replace_file",
    "replace_json",
    "to_json",
    "write_csv",
    "write_json",
    "write_text",
    "write_tree",
]

# What a formula of a spreadsheet begins with (full-width signs too, in East Asian settings); tabs
# and line breaks before it are skipped. Where semicolons separate cells, one ends the cell.
_FORMULA: Final = re.compile(
    "^(?=[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20])|(?<=;)(?=[ \t]*[=+\\-@\uff1d\uff0b\uff0d\uff20])"
)
# Quantiles of ranks, and ranks of the exports.
_RANK: Final = re.compile(r"(^|_)rank(_set)?(_median|_lower|_upper|_old|_new)?$")

# Of the provenance of a run, which has some kilobytes.
_MAX_JSON = 1 << 26
# Ranks and constants shrink to a tenth and less; draws in double precision hardly do, and take
# most of the time of writing. A higher level takes no more off.
_COMPRESSION = {"zlib": True, "complevel": 1, "shuffle": True}
# The first numbers of a variable tell, and the share that has to remain of them at most.
_SAMPLE: Final = 4096
_WORTHWHILE: Final = 0.5

_MAX_COLUMNS: Final = 1000
# Python keeps bytes of file names that are no UTF-8 as lone surrogates.
_ESCAPED: Final = "backslashreplace"


def write_tree(tree: xr.DataTree, path: Path) -> None:
    """Write a DataTree as netCDF; what shrinks to half or less is losslessly compressed.

    Parameters
    ----------
    tree : xarray.DataTree
        ArviZ schema. Attributes that netCDF has no type for (booleans, None, mappings,
        mixed lists) are written as JSON text; the tree itself is not changed.
    path : Path
        Opens with ``xarray.open_datatree`` and ``arviz.from_netcdf``.
    """
    import xarray as xr

    plain = xr.DataTree.from_dict(
        {node.path: _with_plain_attrs(node.to_dataset(inherit=False)) for node in tree.subtree}
    )
    encoding = {
        node.path: {
            name: dict(_COMPRESSION)
            for name, variable in node.data_vars.items()
            if variable.dtype.kind in "biuf" and variable.ndim > 0 and _shrinks(variable)
        }
        for node in plain.subtree
    }
    # To the disk and not by way of memory, which would hold all draws a second time.
    with errors_at_the_end(path) as file:
        plain.to_netcdf(file, engine="h5netcdf", encoding=encoding)


def _shrinks(variable: xr.DataArray) -> bool:
    """Whether compression takes much off a variable of numbers."""
    sample = variable.to_numpy().flat[:_SAMPLE].tobytes()
    return len(zlib.compress(sample, level=1)) <= _WORTHWHILE * len(sample)


def read_tree(path: str | Path) -> xr.DataTree:
    """Read a DataTree into memory and close the file, so that it can be replaced.

    Raises
    ------
    InputError
        If the file is missing, damaged or not netCDF.
    """
    import xarray as xr

    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    try:
        refuse_unbounded(path)
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
        # Dimensions of one name and several lengths show only here.
        for node in tree.subtree:
            node.to_dataset()
        return tree
    except InputError:
        raise
    # h5netcdf and xarray let through whatever attributes and dimensions of other types cause.
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{path} is not a readable netCDF file ({reason})") from error


def refuse_unbounded_csv(data: bytes, *, most_bytes: int, most_rows: int) -> None:
    """Refuse a table of a result that pandas would take long for.

    Parameters
    ----------
    data : bytes
        Content of the file; of a longer one at least one byte more than `most_bytes`.
    most_bytes, most_rows : int
        Those of the largest table that is written.

    Raises
    ------
    ValueError
        If it is larger than that, has a thousand columns, or holds NUL characters.
    """
    if len(data) > most_bytes:
        raise ValueError(f"more than {grouped(most_bytes)} bytes")
    if b"\0" in data:
        raise ValueError("it has NUL characters")
    if data.count(b"\n") > most_rows:
        raise ValueError(f"more than {grouped(most_rows)} rows")
    columns = data.partition(b"\n")[0].count(b",") + 1
    if columns > _MAX_COLUMNS:
        raise ValueError(f"{grouped(columns)} columns; at most {grouped(_MAX_COLUMNS)} are read")


def _with_plain_attrs(dataset: xr.Dataset) -> xr.Dataset:
    # How a file was written that the dataset was read from says nothing of this one.
    copy = dataset.drop_encoding()
    copy.attrs = _plain_attrs(dataset.attrs)
    for variable in copy.variables.values():
        variable.attrs = _plain_attrs(variable.attrs)
    return copy


def _plain_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    plain = {str(key): value if _fits(value) else to_json(value) for key, value in attrs.items()}
    return {
        key: value.encode("utf-8", _ESCAPED).decode("utf-8") if isinstance(value, str) else value
        for key, value in plain.items()
    }


def _fits(value: object) -> bool:
    """Whether netCDF has a type for an attribute."""
    import numpy as np

    if isinstance(value, list | tuple):
        kinds = {"text" if isinstance(v, str) else "number" if _fits(v) else "" for v in value}
        return len(kinds) == 1 and "" not in kinds
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return isinstance(value, str | int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as UTF-8 CSV, lines ending in a single line feed.

    Numbers keep all their digits, so that reading them back gives the same numbers;
    missing values are empty cells.
    """
    _with_whole_ranks(table).to_csv(path, index=False, encoding="utf-8", lineterminator="\n")


def csv_text(table: pd.DataFrame, *, safe: bool = False) -> str:
    """The text that :func:`write_csv` writes.

    `safe` puts an apostrophe before texts that a spreadsheet would take for formulas; numbers
    stay as they are.
    """
    shown = _with_whole_ranks(table)
    if safe:
        for name in shown:
            cells = shown[name].tolist()
            if any(map(_is_formula, cells)):
                shown[name] = [
                    _FORMULA.sub("'", cell) if isinstance(cell, str) else cell for cell in cells
                ]
    return str(shown.to_csv(index=False, lineterminator="\n"))


def _is_formula(value: object) -> bool:
    """Whether it is a text that a spreadsheet may take for a formula."""
    return isinstance(value, str) and _FORMULA.search(value) is not None


def _with_whole_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Ranks as whole numbers, apart from medians between two ranks: ``1``, not ``1.0``."""
    shown = table.copy(deep=False)
    for name in shown:
        if _RANK.search(str(name)) and shown[name].dtype.kind == "f":
            whole = [int(v) if v == v and v == int(v) else v for v in shown[name].tolist()]
            # Of the type object: pandas would make them one type of number again.
            shown[name] = type(shown[name])(whole, index=shown.index, dtype=object)
    return shown


def plain(value: object) -> Any:
    """The value as JSON reads it back: NaN and infinity are None, NumPy numbers numbers."""
    return json.loads(to_json(value))


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON text in which NaN and infinity are null and NumPy numbers are numbers."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(value: Mapping[str, Any], path: Path) -> None:
    """Write a mapping as indented UTF-8 JSON; NaN and infinity become null."""
    write_text(to_json(value, indent=2) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write a text as UTF-8, lines ending in a single line feed.

    What UTF-8 has no code for, a byte of a file name, is escaped; JSON reads it back as it was.
    """
    path.write_text(text, encoding="utf-8", newline="\n", errors=_ESCAPED)


def read_json(path: Path, *, remedy: str = "") -> dict[str, Any]:
    """Read a JSON mapping.

    Raises
    ------
    InputError
        If the file cannot be read or does not hold a JSON mapping.
    """
    refuse_special(path)
    try:
        size = path.stat().st_size
        if size > _MAX_JSON:
            raise InputError(f"{path} has {size} bytes; at most {_MAX_JSON} are read")
        value = json.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise InputError(f"{path} is damaged: nested too deeply{remedy}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: not JSON ({error}){remedy}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: a JSON mapping was expected{remedy}")
    return value


def replace_json(value: Mapping[str, Any], path: Path) -> None:
    """Write one JSON file that is whole and on disk, or not there.

    Raises
    ------
    InputError
        If the disk refuses to take it.
    """
    replace_file(partial(write_json, value), path)


def replace_file(writer: Callable[[Path], None], path: Path) -> None:
    """Write one file that is whole and on disk, or leave what was there.

    Parameters
    ----------
    writer : callable
        Writes the file to the path that it is given.
    path : Path
        Where the file is in the end. Of a symbolic link the file is replaced, not the link;
        a pipe or a device is written to as it is.

    Raises
    ------
    InputError
        If the disk refuses to take it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with as_input_errors(path):
            writer(path)
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"{path} could not be written: there is no folder {target.parent}")
    part = target.with_name(f".{target.name}-{secrets.token_hex(4)}.part")
    with as_input_errors(path):
        _remove_parts(target)
        lock = None
        try:
            part.touch(exist_ok=False)
            # The lock tells others that we are alive.
            lock = try_lock(part)
            writer(part)
            flush(part)
            part.replace(target)
            flush(target.parent)
        finally:
            part.unlink(missing_ok=True)
            if lock is not None:
                os.close(lock)


def _remove_parts(target: Path) -> None:
    """Delete parts of a file whose process is dead: nobody holds their lock."""
    name = re.compile(re.escape(f".{target.name}-") + r"[0-9a-f]{8}\.part")
    if not os.access(target.parent, os.R_OK):
        return
    for part in target.parent.iterdir():
        if name.fullmatch(part.name) and part.is_file():
            lock = try_lock(part)
            if lock is not None:
                part.unlink(missing_ok=True)
                os.close(lock)


@contextmanager
def as_input_errors(folder: str | Path) -> Iterator[None]:
    """Turn what the operating system refuses (disk full, permission) into one line."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise InputError(
            f"{folder} could not be written{where}: {error.strerror or error}"
        ) from error


def _plain(value: object) -> object:
    """Return a value in the types JSON has."""
    # Most values of a long table are texts; the check of `Mapping` is slow.
    if type(value) is str:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(inner) for inner in ordered]
    if hasattr(value, "tolist"):  # NumPy numbers and arrays, without importing NumPy
        return _plain(value.tolist())
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)
