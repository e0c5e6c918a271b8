"""``load``: a benchmark's name, a file, a folder or a data frame in, ``Records`` out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from bayeseval._arguments import as_builtin, as_path, as_text
from bayeseval._calls import explained
from bayeseval._progress import reporting
from bayeseval._resources import find_resource, resource_names
from bayeseval._special import refuse_special
from bayeseval._text import Note, counted, one_line, shorten
from bayeseval._typing import Progress
from bayeseval._yaml import parse_config
from bayeseval.errors import InputError, argument, did_you_mean
from bayeseval.readers import (
    TABULAR_SUFFIXES,
    Options,
    detect,
    files_below,
    read_results,
    read_tables,
    read_wide_frame,
    with_task_names,
)
from bayeseval.readers.compressed import stem_of, suffix_of
from bayeseval.readers.databases import is_address, shown
from bayeseval.readers.numbered import with_file_numbers, with_models_of_folders
from bayeseval.readers.raw import RawTable, with_constants
from bayeseval.records.build import Assembled, DivergedRuns, MixedScales, assemble
from bayeseval.records.databases import database_tables
from bayeseval.records.frames import raw_from_frame
from bayeseval.records.merge import merge
from bayeseval.records.out_of_core import (
    USUAL_MEMORY,
    Memory,
    as_memory,
    is_database,
    reduced_rows,
    refuse_large,
)
from bayeseval.records.registry import (
    CARD,
    BenchmarkCard,
    covariate_files,
    file_of_card,
    find_mapping,
    read_card,
    read_mapping,
    refuse_link_out,
)
from bayeseval.records.remote import fetch
from bayeseval.records.row_order import refused_in_order
from bayeseval.records.row_sums import with_sums
from bayeseval.records.row_tables import RowGroups
from bayeseval.records.scales import UnitsLike
from bayeseval.records.settings import TableMapping, UnitsConfig
from bayeseval.records.table import FRAME_NAME, Records

__all__ = ["TableSource", "load"]

#: One table: a name, a path or a data frame.
TableSource = str | os.PathLike[str] | pd.DataFrame


@explained
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
    memory: Memory | None = None,
    progress: Progress | bool | None = None,
) -> Records:
    """Read a table of scores, or the results of an evaluation tool.

    Parameters
    ----------
    source : str, path or DataFrame
        The name of a shipped benchmark (``"mega"``; remote ones such as ``"xquad"`` are
        downloaded once), a file (CSV, TSV, JSON, JSONL, Parquet), a folder with a
        ``benchmark.yaml``, or a folder of such files, which are put together; or a file
        or folder of results that an evaluation tool wrote, found by its content; or a table in
        a database, ``"postgres://me@host/evals?table=items"`` (extra ``ibis``); or a data frame
        with one row per score, as :meth:`Records.from_frame` takes it, or a wide one, models by
        languages. Several of them, in a list, become one table; the options then hold for each.
        A shipped name has precedence over a folder of that name; ``./mega`` means the folder.
    columns : mapping of str to str or None, optional
        Our column names to the file's, if the loader should not choose them: ``{"score": "F1"}``.
        None leaves a column out.
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
        Format of the files, where it should not be detected: ``"table"``, or the
        name of a tool's format such as ``"lm-eval"``.
    metric : str or mapping of str to str, optional
        Which metric of a tool's results is the score, for all datasets or by dataset.
        Otherwise the main one is taken and named in the report.
    task_names : path, optional
        CSV file with the columns ``task``, ``dataset``, ``language``: what the names of
        tasks mean, where the names alone do not show it. In a table with one row per score it
        renames the tasks that it has, and gives a table without languages its languages.
    name : str, optional
        Name of the records; the card's or the file's when not given, ``table`` for a data
        frame.
    memory : int or str, optional
        Bytes, or a size such as ``"2GB"``: rows of items or bootstrap test sets are reduced to
        cells by DuckDB while they are read, file by file, so that a table of any length takes
        no more. DuckDB files (``.duckdb``) are always read so.
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
    <Records 'mega': 1364 records, 13 models, 53 languages, 15 tasks>
    >>> be.load(df, units=(-200, 300), name="pilot").units["t0"].upper
    300.0
    """
    sources = _sources(source)
    given = {
        "columns": columns,
        "units": None if units is None else UnitsConfig.of(units),
        "language_names": language_names,
        "missing": missing,
        "drop": drop,
        "mixed_scales": mixed_scales,
        "diverged_runs": diverged_runs,
        "format": format,
        "metric": metric,
        "task_names": task_names,
    }
    set_here = {name: as_builtin(value) for name, value in given.items() if value is not None}
    name = None if name is None else as_text("name", name)
    allowed = None if memory is None else as_memory(memory)
    mapping = None if mapping_file is None else as_path("mapping_file", mapping_file)
    arguments = parse_config(TableMapping, set_here, source="load")
    with reporting(progress) as report:
        if len(sources) == 1:
            return _load(sources[0], arguments, mapping, name, report, allowed)
        # Frames have no names of their own, and need different ones.
        names = [
            f"{FRAME_NAME} {number}" if isinstance(one, pd.DataFrame) else None
            for number, one in enumerate(sources, 1)
        ]
        merged = merge(
            [
                _load(one, arguments, mapping, own, report, allowed)
                for one, own in zip(sources, names, strict=True)
            ]
        )
    return merged if name is None else replace(merged, name=name)


def _sources(source: object) -> list[TableSource]:
    """The sources as a list of tables."""
    if _is_table(source):
        return [source]
    sources = list(source) if isinstance(source, Sequence) else []
    if not sources and isinstance(source, Sequence):
        raise InputError("no benchmark was named; give a shipped name, a file or a folder")
    wrong = [one for one in sources if not _is_table(one)]
    if not sources or wrong:
        given = type(source).__name__ + (f" of {type(wrong[0]).__name__}" if wrong else "")
        hint = {
            "Records": "; Records are read already",
            "Series": "; give the whole frame",
            "bytes of int": "; the path of a file is a text or a Path, not bytes",
        }.get(given, "; pandas.DataFrame(rows) makes a data frame of them" if wrong else "")
        raise InputError(
            "a table is the name of a shipped benchmark, a file, a folder or a pandas DataFrame, "
            f"or a list of these; got {given}{hint}"
        )
    return sources


def _is_table(source: object) -> TypeGuard[TableSource]:
    return isinstance(source, str | os.PathLike | pd.DataFrame)


def _load(
    source: TableSource,
    arguments: TableMapping,
    mapping_file: Path | None,
    name: str | None,
    progress: Progress | None,
    memory: int | None,
) -> Records:
    if isinstance(source, pd.DataFrame):
        return _load_frame(source, arguments, mapping_file, FRAME_NAME if name is None else name)
    if isinstance(source, str) and is_address(source):
        return _load_database(source, arguments, mapping_file, name, progress, memory)
    path = _resolve_path(Path(source), text=os.fspath(source))
    card = read_card(path / CARD) if _is_card_folder(path) else None
    file_settings, notes = _file_settings(path, card, mapping_file)
    settings = file_settings.merged(arguments).without_dropped_tasks()
    is_chosen = settings.format is not None
    options = Options(settings.metrics, settings.task_names, settings.columns, progress, is_chosen)
    if memory is not None or is_database(path):
        _refuse_tools(path, card, settings)
        _refuse_tool_options(path, options)
        files, others, folder_notes = _files(path, card)
        with reduced_rows(
            files,
            folder=path if card is None and path.is_dir() else None,
            others=others,
            settings=settings,
            memory=USUAL_MEMORY if memory is None else memory,
            progress=progress,
        ) as (groups, warnings, group_notes):
            return _records(
                [with_constants(table, settings.constants) for table in groups.tables],
                settings,
                name=name or _name_of(path, card),
                notes=[*warnings, *folder_notes, *group_notes, *notes],
                covariate_files=covariate_files(path, card),
                groups=groups,
                progress=progress,
            )
    tables, table_notes, from_tool = _tables(path, card, settings, options)
    return _records(
        [with_constants(table, settings.constants) for table in tables],
        settings,
        name=name or _name_of(path, card),
        notes=[*table_notes, *notes],
        from_tool=from_tool,
        covariate_files=covariate_files(path, card),
    )


def _load_database(
    address: str,
    arguments: TableMapping,
    mapping_file: Path | None,
    name: str | None,
    progress: Progress | None,
    memory: int | None,
) -> Records:
    settings = TableMapping() if mapping_file is None else read_mapping(mapping_file)
    settings = settings.merged(arguments).without_dropped_tasks()
    if settings.format not in (None, "table"):
        raise InputError(f"{shown(address)}: {argument('format')} is for files, not for databases")
    _refuse_tool_options(shown(address), Options(settings.metrics))
    memory = USUAL_MEMORY if memory is None else memory
    with database_tables(address, settings=settings, memory=memory, progress=progress) as found:
        return _records(
            [with_constants(table, settings.constants) for table in found.tables],
            settings,
            name=name or one_line(found.name),
            notes=found.notes,
            groups=found.groups,
            progress=progress,
        )


def _load_frame(
    frame: pd.DataFrame,
    arguments: TableMapping,
    mapping_file: Path | None,
    name: str,
) -> Records:
    settings = TableMapping() if mapping_file is None else read_mapping(mapping_file)
    settings = settings.merged(arguments).without_dropped_tasks()
    chosen = settings.format is not None
    options = Options(settings.metrics, settings.task_names, settings.columns, format_chosen=chosen)
    if settings.format not in (None, "table", "wide"):
        raise InputError(f"{name}: format={settings.format!r} is for files; this is a data frame")
    table = with_constants(raw_from_frame(frame, name), settings.constants)
    # These columns are those of a table with one row per score.
    has_scores = not {"language", "score"}.isdisjoint(settings.columns)
    plain = settings.format == "table" or (settings.format is None and has_scores)
    wide = None if plain else read_wide_frame(frame, name, options)
    if wide is not None:
        tables = [with_constants(table, settings.constants) for table in wide.tables]
        return _records(tables, settings, name=name, notes=wide.notes, from_tool=True)
    if settings.format == "wide":
        raise InputError(
            f"{name}: the frame is not wide: it needs a column of models and languages as columns,"
            " or the reverse; leave format= out for a frame with one row per score"
        )
    _refuse_tool_options(name, options)
    return _records([table], settings, name=name)


def _records(
    tables: Sequence[RawTable],
    settings: TableMapping,
    *,
    name: str,
    notes: Sequence[Note] = (),
    from_tool: bool = False,
    covariate_files: Mapping[str, Path] | None = None,
    groups: RowGroups | None = None,
    progress: Progress | None = None,
) -> Records:
    columns = {**{name: name for name in settings.constants}, **settings.columns}

    def put_together(tables: Sequence[RawTable]) -> Assembled:
        named, all_notes = [], [*notes]
        for table in tables:
            if not from_tool:
                table, own = with_task_names(table, columns=columns, path=settings.task_names)
                all_notes += own
            named.append(table)
        return assemble(
            named,
            columns=columns,
            units=None if settings.units is None else settings.units.as_units(),
            mixed=settings.mixed_scales,
            diverged=settings.diverged_runs,
            missing=settings.missing,
            drop=dict(settings.drop.items()),
            named_languages=settings.language_names,
            notes=all_notes,
            allow_single=from_tool,
        )

    assembled = refused_in_order(put_together, tables, groups, settings.constants)
    records = Records._assembled(
        assembled,
        name=name,
        language_names=settings.language_names,
        datasets=settings.datasets,
        likelihoods=settings.likelihoods,
        covariate_files=covariate_files,
    )
    return with_sums(records, groups, assembled.record_of_group, progress=progress)


def _refuse_tools(path: Path, card: BenchmarkCard | None, settings: TableMapping) -> None:
    """Refuse results of tools, whose rows are not reduced while they are read."""
    if is_database(path) or (card is not None and settings.format is None):
        return
    detected = detect(path, format=settings.format)
    if detected is not None:
        raise InputError(
            f"{path}: {argument('memory')} is for tables with one row per score, and these are"
            f" results in the format {detected.reader.name}; leave it out, or give"
            f" {argument('format')} table"
        )


def _refuse_tool_options(source: object, options: Options) -> None:
    if options.metrics:
        raise InputError(
            f"{source}: {argument('metric')} is for results of an evaluation tool; this is a table,"
            f" whose columns are chosen with {argument('columns')}"
        )


def _file_settings(
    path: Path, card: BenchmarkCard | None, mapping_file: Path | None
) -> tuple[TableMapping, list[str]]:
    """Settings of the card and the mapping file, or of a configuration beside the data; notes."""
    settings = TableMapping() if card is None else card
    notes: list[str] = []
    file = mapping_file
    if file is None and card is None:
        file, notes = find_mapping(path if path.is_dir() else path.parent)
    return settings if file is None else settings.merged(read_mapping(file)), notes


def _name_of(path: Path, card: BenchmarkCard | None) -> str:
    if card is not None:
        return card.name
    # A dot in a folder's name is no ending; "." itself has no name.
    return one_line(path.resolve().name if path.is_dir() else stem_of(path))


def _tables(
    path: Path, card: BenchmarkCard | None, settings: TableMapping, options: Options
) -> tuple[Sequence[RawTable], Sequence[Note], bool]:
    """The tables of a path, what to report, and whether a tool wrote them."""
    # The files of a card are tables unless it names the format of a tool.
    kind = settings.format
    detected = detect(path, format=kind) if card is None or kind is not None else None
    if detected is not None:
        reading = read_results(detected, options)
        return reading.tables, reading.notes, True
    _refuse_tool_options(path, options)
    files, others, notes = _files(path, card)
    folder = path if card is None and path.is_dir() else None
    refuse_large(files)
    read, warnings = read_tables(files, folder=folder, others=others)
    if card is not None:
        return [*read.values()], notes, False
    tables, added = with_file_numbers([*read.values()], [*read])
    chosen = {**dict.fromkeys(settings.constants), **settings.columns}
    tables, named = with_models_of_folders(tables, [*read], folder=folder, columns=chosen)
    return tables, [*warnings, *notes, *added, *named], False


def _resolve_path(path: Path, *, text: str) -> Path:
    """The file or folder that `text` names; the path of a card means its folder."""
    if not text:
        raise InputError("no benchmark was named; give a shipped name, a file or a folder")
    is_name = path.name == text
    if is_name and text in resource_names("benchmarks"):
        return find_resource("benchmarks", text).parent
    # Path.exists raises an error for names that are too long.
    if not os.path.exists(path):  # noqa: PTH110
        if is_name and not path.suffix:
            # Its message lists the shipped names.
            find_resource("benchmarks", text)
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        # It is there where it is a link that leads nowhere.
        siblings = [name for name in siblings if name != path.name]
        raise InputError(f"{text}: no such file or folder{did_you_mean(path.name, siblings)}")
    refuse_special(path)
    return path.parent if path.name == CARD else path


def _is_card_folder(path: Path) -> bool:
    return path.is_dir() and (path / CARD).is_file()


def _files(path: Path, card: BenchmarkCard | None) -> tuple[Sequence[Path], int, list[str]]:
    """The tables to read, the number of other files, and what to report about the folder."""
    if not path.is_dir():
        return [path], 0, []
    if card is not None and card.remote is not None:
        target, notes = fetch(card.remote, card.name)
        return [target], 0, notes
    if card is not None and card.files:
        return [file_of_card(path, "files", name) for name in card.files], 0, []
    try:
        entries = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    tables = [file for file in entries if suffix_of(file) in TABULAR_SUFFIXES]
    everything = sorted(files_below(path)) if card is None or not tables else entries
    below = sorted({f for f in everything if suffix_of(f) in TABULAR_SUFFIXES} - set(tables))
    notes = []
    if tables and below:
        names = shorten([file.relative_to(path).as_posix() for file in below])
        notes.append(
            f"{counted(len(below), 'table')} in folders below not read ({names}), because this"
            " folder has tables itself; give their folder to read them"
        )
    if not tables:
        # As results of tools are read, whose folders have one for each model.
        tables, entries = below, everything
    if not tables:
        raise InputError(f"{path}: the folder holds no table ({', '.join(TABULAR_SUFFIXES)})")
    for file in tables if card is not None else ():
        refuse_link_out(path, file, str(file))
    others = [p.name for p in sorted(set(entries) - set(tables)) if p.name != CARD]
    if others:
        notes.append(
            f"{counted(len(others), 'other file')} in the folder not read: {shorten(others)}"
        )
    return tables, len(others), notes
