"""Benchmark cards: what a shipped folder of scores is, and how to read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from bayeseval._text import shorten, show
from bayeseval._yaml import parse_config, read_yaml
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.records.remote import Remote
from bayeseval.records.settings import TableMapping

__all__ = [
    "CARD",
    "BenchmarkCard",
    "covariate_files",
    "file_of_card",
    "find_mapping",
    "read_card",
    "read_mapping",
    "refuse_link_out",
]

CARD: Final = "benchmark.yaml"
"""Name of the file in a benchmark's folder that says what it is."""


# reuben's keys for columns, and ours.
_REUBEN_COLUMNS: Final = {
    "model_col": "model",
    "task_col": "language",
    "score_col": "score",
    "seed_sd_col": "seed_sd",
    "boot_sd_col": "boot_sd",
    "replication_sd_col": "se",
    "seed_idx_col": "seed",
    "boot_idx_col": "boot",
    "replication_idx_col": "seed",
}
# Its other keys, on resampling and printing, do not concern the table.
_REUBEN_SETTINGS: Final = (
    *("fix_outliers", "standardized", "output_format", "output_path", "pickle_output_folder"),
    *("rounding", "num_bootstrap_resamples", "task_resampling_method"),
    *("task_resampling_with_replacement", "task_resampling_num_tasks"),
    "replication_resampling_method",
)
_MAX_CONFIG_BYTES: Final = 16_384
_MAX_CONFIGS: Final = 16


# Names are part of titles, of captions and of the names of folders.
_MOST_CHARACTERS: Final = 500


class BenchmarkCard(TableMapping):
    """The ``benchmark.yaml`` of a benchmark's folder.

    Attributes
    ----------
    name, title, description : str
        What the benchmark is called and what it is.
    files : tuple of str
        Tables beside the card; every table of the folder when left out.
    remote : Remote or None
        Address and SHA-256 of a table that is not beside the card.
    covariates : mapping of str to str
        Covariate to its file beside the card.
    source : str
        Where the scores were published.
    licence : str
        What is known about the right to use them.
    citation : str
        What to cite, as text or BibTeX.
    """

    name: str = Field(min_length=1, max_length=_MOST_CHARACTERS)
    title: str = Field(min_length=1, max_length=_MOST_CHARACTERS)
    description: str = ""
    files: tuple[str, ...] = ()
    remote: Remote | None = None
    covariates: dict[str, str] = Field(default_factory=dict)
    source: str = ""
    licence: str = ""
    citation: str = ""


def read_card(path: Path) -> BenchmarkCard:
    """Read a ``benchmark.yaml``.

    Raises
    ------
    InputError
        The key and what is allowed, in one line.
    """
    card = parse_config(BenchmarkCard, read_yaml(path), source=str(path))
    if card.task_names is None:
        return card
    names = file_of_card(path.parent, "task_names", str(card.task_names))
    return card.model_copy(update={"task_names": names})


def file_of_card(folder: Path, key: str, name: str) -> Path:
    """A file of the card's folder that one of its keys names.

    Raises
    ------
    InputError
        If it is outside the folder, also by a symbolic link, or is not there.
    """
    where = f"{folder / CARD}: {key}: {show(name)}"
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(
            f"{where} is not in the folder of the card; put the file there, and give its name"
        )
    # Unlike Path.is_file(), it takes a name that is too long for one of no file.
    if not os.path.isfile(folder / name):  # noqa: PTH113
        near = did_you_mean(name, [p.name for p in folder.iterdir()])
        raise InputError(f"{where} is not a file in the folder of the card{near}")
    refuse_link_out(folder, folder / name, where)
    return folder / name


def covariate_files(folder: Path, card: BenchmarkCard | None) -> dict[str, Path]:
    """Covariate to its file in the folder of the card."""
    named = {} if card is None else card.covariates
    return {name: file_of_card(folder, f"covariates: {name}", file) for name, file in named.items()}


def refuse_link_out(folder: Path, path: Path, where: str) -> None:
    """Refuse a file of a card's folder that is a symbolic link to another place.

    Whoever sent the folder could otherwise let a command read, and print, any file of the user.

    Raises
    ------
    InputError
        In one line that begins with `where`.
    """
    # realpath, because Path.resolve raises on a symbolic link to itself in some versions.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(
            f"{where} is a link that leads out of the folder of the card; put the file itself there"
        )


def read_mapping(path: Path) -> TableMapping:
    """Read a mapping file: the keys of :class:`TableMapping`, or a reuben configuration.

    reuben (the toolkit of "From tests to effect sizes") names columns by ``score_col``,
    ``model_col``, ``task_col``, ``seed_sd_col``, ``boot_sd_col``, ``seed_idx_col`` and
    ``boot_idx_col``. What it calls a task is what the models are compared over: a
    language here. Its settings of the analysis do not concern the table and are not read.
    """
    values = read_yaml(path)
    if _is_reuben(values):
        return _reuben_mapping(values, source=str(path))
    mapping = parse_config(TableMapping, values, source=str(path))
    return mapping.in_folder(path.parent)


def find_mapping(folder: Path) -> tuple[Path | None, list[str]]:
    """The one reuben configuration in a folder, and what to report about it.

    Returns
    -------
    path : Path or None
        None when there is none, or more than one.
    notes : list of str
    """
    configurations = []
    candidates = [*filter(_may_be_reuben, sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]))]
    # Parsing YAML is slow: thousands of such files beside a table would take hours.
    for path in candidates[:_MAX_CONFIGS]:
        try:
            configurations += [path] if _is_reuben(read_yaml(path)) else []
        except InputError:
            continue
    if len(candidates) > _MAX_CONFIGS:
        return None, [
            f"{len(candidates)} YAML files that may be reuben configurations; choose one with"
            f" {wording('mapping_file', '--mapping')}"
        ]
    if len(configurations) > 1:
        names = shorten([path.name for path in configurations])
        return None, [
            f"{len(configurations)} reuben configurations ({names}); choose one with"
            f" {wording('mapping_file', '--mapping')}"
        ]
    if not configurations:
        return None, []
    return configurations[0], [
        f"columns taken from the reuben configuration {configurations[0].name}"
    ]


def _may_be_reuben(path: Path) -> bool:
    """Whether a file is as short as a configuration and has one of its keys somewhere."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_CONFIG_BYTES:
            return False
        data = path.read_bytes()
    except OSError:
        return False
    return any(key.encode() in data for key in _REUBEN_COLUMNS)


def _is_reuben(values: Any) -> bool:
    return isinstance(values, dict) and bool(set(values) & set(_REUBEN_COLUMNS))


def _reuben_mapping(values: dict[str, Any], *, source: str) -> TableMapping:
    columns: dict[str, str | None] = {}
    for key, value in values.items():
        if key in _REUBEN_SETTINGS or value is None:
            continue
        if key not in _REUBEN_COLUMNS:
            allowed = (*_REUBEN_COLUMNS, *_REUBEN_SETTINGS)
            raise InputError(
                f"{source}: unknown key {show(key)}{did_you_mean(str(key), allowed)}"
                f" (columns are named by {', '.join(_REUBEN_COLUMNS)})"
            )
        if not isinstance(value, str):
            raise InputError(f"{source}: {key}: expected the name of a column, got {show(value)}")
        our = _REUBEN_COLUMNS[key]
        if our in columns:
            raise InputError(f"{source}: {key}: another key names the {our} column already")
        columns[our] = value
    return TableMapping(columns=columns)
