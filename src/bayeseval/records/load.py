"""``load``: a benchmark's name, a file, a folder or a data frame in, ``Records`` out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from bayeseval._progress import reporting
from bayeseval._resources import find_resource, resource_names
from bayeseval._text import counted, shorten
from bayeseval._typing import Progress
from bayeseval.errors import InputError, did_you_mean
from bayeseval.readers import TABULAR_SUFFIXES, Options, detect, read_results, read_table
from bayeseval.readers.raw import RawTable, with_constants
from bayeseval.records.build import DivergedRuns, MixedScales, assemble
from bayeseval.records.merge import merge
from bayeseval.records.registry import BenchmarkCard, find_mapping, read_card, read_mapping
from bayeseval.records.remote import fetch
from bayeseval.records.scales import UnitsLike
from bayeseval.records.settings import Settings, metric_by_dataset
from bayeseval.records.table import FRAME_NAME, Records, raw_from_frame

__all__ = ["TableSource", "load"]

#: One table: a name, a path or a data frame.
TableSource = str | os.PathLike[str] | pd.DataFrame

_CARD = "benchmark.yaml"


def load(
    source: TableSource | Sequence[TableSource],
    *,
    columns: Mapping[str, str | None] | None = None,
    mapping_file: str | os.PathLike[str] | None = None,
    units: UnitsLike | Mapping[str, UnitsLike] | None = None,
    language_names: Mapping[str, str] | None = None,
    missing: float | Sequence[float] = (),
    drop: Mapping[str, Sequence[str]] | None = None,
    mixed_scales: MixedScales | None = None,
    diverged_runs: DivergedRuns | None = None,
    format: str | None = None,
    metric: str | Mapping[str, str] | None = None,
    task_names: str | os.PathLike[str] | None = None,
    name: str | None = None,
    progress: Progress | bool | None = None,
) -> Records:
    """Read a table of scores, or the results of an evaluation tool.

    Parameters
    ----------
    source : str, path or DataFrame
        The name of a shipped benchmark (``"mega"``; remote ones such as ``"xquad"`` are
        downloaded once), a file (CSV, TSV, JSON, JSONL, Parquet), a folder with a
        ``benchmark.yaml``, or a folder of such files, which are put together; or a file
        or folder of results that an evaluation tool wrote, found by its content; or a data
        frame with one row per score, as :meth:`Records.from_frame` takes it. Several
        of them, in a list, become one table; the options then hold for each. A shipped
        name wins over a folder of that name in the working directory; ``./mega`` means
        the folder.
    columns : mapping of str to str or None, optional
        Our column names to the file's, where the loader should not choose itself:
        ``{"score": "F1"}``. None leaves a column out.
    mapping_file : path, optional
        YAML file with ``columns``, ``units``, ``language_names``, ``datasets``,
        ``missing``, ``drop``, ``mixed_scales``, ``diverged_runs``, ``constants``,
        ``likelihoods``; or a reuben configuration (``score_col``, ...). One of these beside
        the data is found without being named. Arguments win over it, and it wins over a
        benchmark's card.
    units : Units, pair, mapping or None
        Bounds of the scores, ``(lower, upper)``: for all tasks, or by task (the key
        ``"*"`` stands for all others). Guessed and reported when not given.
    language_names : mapping of str to str, optional
        Names of language labels.
    missing : float or sequence of float
        Scores that mean that there is no score, such as -1; their rows are left out.
    drop : mapping of str to sequence of str, optional
        Models, languages and tasks to leave out: ``{"model": ["a", "b"]}``.
    mixed_scales : {"refuse", "allow"}, optional
        What to do with a task that seems to mix 0-1 and 0-100 scales, or whose scores
        of one model seem to be in other units.
    diverged_runs : {"refuse", "allow", "drop"}, optional
        What to do with a seed that scored far below its cell's other seeds: refuse the
        table (the default), keep the run with a warning, or leave the run out.
    format : str, optional
        What the files are, where their content should not decide: ``"table"``, or the
        name of a tool's format such as ``"lm-eval"``.
    metric : str or mapping of str to str, optional
        Which metric of a tool's results is the score, for all datasets or by dataset.
        Otherwise the main one is taken, and the report says which.
    task_names : path, optional
        CSV file with the columns ``task``, ``dataset``, ``language``: what the names of
        tasks mean, where the names alone do not say it.
    name : str, optional
        Name of the records; the card's or the file's when not given, ``table`` for a data
        frame.
    progress : bool or callable, optional
        True shows on stderr how far the reading of many files is; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Records
        ``.report`` says what was read, dropped and guessed.

    Raises
    ------
    InputError
        One line: what is wrong, where (file, row, column, value), what is allowed.

    Examples
    --------
    >>> import bayeseval as be
    >>> be.load("mega")
    <Records 'mega': 1,364 records, 13 models, 53 languages, 15 tasks>
    >>> be.load(df, units=(-200, 300), name="pilot").units["t0"].upper
    300.0
    """
    sources = _sources(source)
    asked = Settings(
        columns=columns or {},
        units=units,
        language_names=language_names or {},
        missing=(float(missing),) if isinstance(missing, int | float) else tuple(missing),
        drop=drop or {},
        mixed_scales=mixed_scales,
        diverged_runs=diverged_runs,
        format=format,
        metrics=metric_by_dataset(metric),
        task_names=None if task_names is None else Path(task_names),
    )
    with reporting(progress) as report:
        if len(sources) == 1:
            return _load(sources[0], asked, mapping_file, name, report)
        # Frames have no names of their own, and need different ones.
        called = [
            f"{FRAME_NAME} {number}" if isinstance(one, pd.DataFrame) else None
            for number, one in enumerate(sources, 1)
        ]
        found = merge(
            [
                _load(one, asked, mapping_file, own, report)
                for one, own in zip(sources, called, strict=True)
            ]
        )
    return found if name is None else replace(found, name=name)


def _sources(source: object) -> list[TableSource]:
    """The tables that were given; what is none is refused in one line."""
    if _is_table(source):
        return [source]
    several = list(source) if isinstance(source, Sequence) else []
    if not several and isinstance(source, Sequence):
        raise InputError("no benchmark was named; give a shipped name, a file or a folder")
    wrong = [one for one in several if not _is_table(one)]
    if not several or wrong:
        given = type(source).__name__ + (f" of {type(wrong[0]).__name__}" if wrong else "")
        hint = {"Records": "; Records are read already", "Series": "; give the whole frame"}.get(
            given, "; pandas.DataFrame(rows) makes a data frame of them" if wrong else ""
        )
        raise InputError(
            "a table is the name of a shipped benchmark, a file, a folder or a pandas DataFrame, "
            f"or a list of these; got {given}{hint}"
        )
    return several


def _is_table(source: object) -> TypeGuard[TableSource]:
    return isinstance(source, str | os.PathLike | pd.DataFrame)


def _load(
    source: TableSource,
    asked: Settings,
    mapping_file: str | os.PathLike[str] | None,
    name: str | None,
    progress: Progress | None,
) -> Records:
    if isinstance(source, pd.DataFrame):
        return _load_frame(source, asked, mapping_file, FRAME_NAME if name is None else name)
    path = _find(Path(source), text=os.fspath(source))
    card = read_card(path / _CARD) if _is_card_folder(path) else None
    said, notes = _said(path, card, mapping_file)
    settings = said.merged(asked).without_dropped_tasks()
    options = Options(metrics=settings.metrics, task_names=settings.task_names, progress=progress)
    tables, found, of_tool = _tables(path, card, settings.format, options)
    return _records(
        [with_constants(table, settings.constants) for table in tables],
        settings,
        name=name or _name_of(path, card),
        notes=[*found, *notes],
        of_tool=of_tool,
        covariate_files=_covariate_files(path, card),
    )


def _load_frame(
    frame: pd.DataFrame, asked: Settings, mapping_file: str | os.PathLike[str] | None, name: str
) -> Records:
    settings = Settings()
    if mapping_file is not None:
        file = Path(mapping_file)
        settings = Settings.of(read_mapping(file), file.parent)
    settings = settings.merged(asked).without_dropped_tasks()
    _refuse_tool_options(name, Options(settings.metrics, settings.task_names))
    if settings.format not in (None, "table"):
        raise InputError(f"{name}: format {settings.format} is for files; this is a data frame")
    table = with_constants(raw_from_frame(frame, name), settings.constants)
    return _records([table], settings, name=name)


def _records(
    tables: Sequence[RawTable],
    settings: Settings,
    *,
    name: str,
    notes: Sequence[str] = (),
    of_tool: bool = False,
    covariate_files: Mapping[str, Path] | None = None,
) -> Records:
    return Records._assembled(
        assemble(
            tables,
            columns={**{name: name for name in settings.constants}, **settings.columns},
            units=settings.units,
            mixed=settings.mixed_scales or "refuse",
            diverged=settings.diverged_runs or "refuse",
            missing=settings.missing,
            drop=settings.drop,
            named=settings.language_names,
            notes=notes,
            small=of_tool,
        ),
        name=name,
        language_names=settings.language_names,
        datasets=settings.datasets,
        likelihoods=settings.likelihoods,
        covariate_files=covariate_files,
    )


def _refuse_tool_options(source: object, options: Options) -> None:
    for given, option in ((options.metrics, "metric"), (options.task_names, "task_names")):
        if given:
            raise InputError(
                f"{source}: {option} is for results of an evaluation tool; this is a table, whose"
                " columns say it (columns: score=..., metric=...)"
            )


def _said(
    path: Path, card: BenchmarkCard | None, mapping_file: str | os.PathLike[str] | None
) -> tuple[Settings, list[str]]:
    """What the card and the mapping file say, or a configuration beside the data; notes."""
    settings = Settings() if card is None else Settings.of(card, path)
    notes: list[str] = []
    file = None if mapping_file is None else Path(mapping_file)
    if file is None and card is None:
        file, notes = find_mapping(path if path.is_dir() else path.parent)
    if file is not None:
        settings = settings.merged(Settings.of(read_mapping(file), file.parent))
    return settings, notes


def _name_of(path: Path, card: BenchmarkCard | None) -> str:
    if card is not None:
        return card.name
    # A dot in a folder's name is no ending; "." itself has no name.
    return path.resolve().name if path.is_dir() else path.stem


def _tables(
    path: Path, card: BenchmarkCard | None, kind: str | None, options: Options
) -> tuple[Sequence[RawTable], Sequence[str], bool]:
    """The tables of a path, what to report, and whether a tool wrote them."""
    # The files of a card are tables unless it says that a tool wrote them.
    found = detect(path, format=kind) if card is None or kind is not None else None
    if found is not None:
        reading = read_results(found, options)
        return reading.tables, reading.notes, True
    _refuse_tool_options(path, options)
    files, notes = _files(path, card)
    return [read_table(file) for file in files], notes, False


def _find(path: Path, *, text: str) -> Path:
    """The file or folder that `text` stands for; a card's path stands for its folder."""
    if not text:
        raise InputError("no benchmark was named; give a shipped name, a file or a folder")
    bare = path.name == text
    if bare and text in resource_names("benchmarks"):
        return find_resource("benchmarks", text).parent
    # Path.exists raises an error for names that are too long.
    if not os.path.exists(path):  # noqa: PTH110
        if bare and not path.suffix:
            # Says which names there are.
            find_resource("benchmarks", text)
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"{text}: no such file or folder{did_you_mean(path.name, beside)}")
    return path.parent if path.name == _CARD else path


def _is_card_folder(path: Path) -> bool:
    return path.is_dir() and (path / _CARD).is_file()


def _covariate_files(path: Path, card: BenchmarkCard | None) -> dict[str, Path]:
    if card is None:
        return {}
    found = {name: path / file for name, file in card.covariates.items()}
    for name, file in found.items():
        if not file.is_file():
            raise InputError(f"{path / _CARD}: covariates: {name}: {file} is not there")
    return found


def _files(path: Path, card: BenchmarkCard | None) -> tuple[Sequence[Path], list[str]]:
    """The tables to read, and what to report about the folder."""
    if not path.is_dir():
        return [path], []
    if card is not None and card.remote is not None:
        target, notes = fetch(card.remote, card.name)
        return [target], notes
    if card is not None and card.files:
        files = [path / name for name in card.files]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise InputError(
                f"{path / _CARD}: files: {missing[0]!r} is not there"
                f"{did_you_mean(missing[0], [p.name for p in path.iterdir()])}"
            )
        return files, []
    try:
        inside = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    tables = [file for file in inside if file.suffix.casefold() in TABULAR_SUFFIXES]
    if not tables:
        raise InputError(
            f"{path}: the folder holds no table (looked for {', '.join(TABULAR_SUFFIXES)})"
        )
    others = [p.name for p in inside if p not in tables and p.name != _CARD]
    notes = [f"{counted(len(others), 'other file')} in the folder not read: {shorten(others)}"]
    return tables, notes if others else []
