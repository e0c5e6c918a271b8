"""Rows of files reduced by one query after the other, each result kept as a partial result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayeseval._typing import Progress
from bayeseval.errors import InputError
from bayeseval.readers.scans import Engine, literal
from bayeseval.records.partials import Partials, file_digest
from bayeseval.records.row_queries import Batch, TableRows

__all__ = ["Reading", "listed"]


@dataclass(frozen=True, eq=False)
class Reading:
    """Runs queries on batches of files, and says how far it is.

    Parameters
    ----------
    engine : Engine
    partials : Partials
    files : sequence of TableRows
    batches : sequence of Batch
        Which files one query reads.
    progress : callable or None
    """

    engine: Engine
    partials: Partials
    files: Sequence[TableRows]
    batches: Sequence[Batch]
    progress: Progress | None = None

    @property
    def source(self) -> str:
        """The first file, for messages."""
        return self.files[0].scan.source

    def reduced(
        self, queries: Mapping[Batch, str], *, stage: str, depends_on: str = ""
    ) -> list[Path]:
        """The results of one query for each batch, as files that are kept.

        Parameters
        ----------
        queries : mapping of Batch to str
        stage : str
            What the queries do, for reports of progress.
        depends_on : str
            What the queries read besides the files.
        """
        total = sum(len(batch.files) for batch in queries)
        done, paths = 0, []
        for batch, sql in queries.items():
            self.report(stage, done, total, batch.rows.file.name)
            paths.append(self._reduced(batch, sql, depends_on))
            done += len(batch.files)
        self.report(stage, total, total, "")
        return paths

    def report(self, stage: str, done: int, total: int, remark: str) -> None:
        """Say how far a stage is."""
        if self.progress is not None:
            self.progress(stage, done, total, remark)

    def _reduced(self, batch: Batch, sql: str, depends_on: str) -> Path:
        import duckdb

        one = batch.rows

        def make(path: Path) -> None:
            try:
                self.engine.execute(
                    f"COPY ({sql}) TO {literal(str(path))} (FORMAT parquet)",
                    source=one.scan.source,
                )
            except InputError:
                self._refuse_damaged(batch)
                raise

        # The relation names a link of this process.
        query = sql.replace(one.scan.relation, "relation")
        others = [file_digest(self.files[place].file) for place in batch.files[1:]]
        key = "\n".join([f"2 {duckdb.__version__}", *others, depends_on, query])
        return self.partials.get(one.file, key, make)

    def _refuse_damaged(self, batch: Batch) -> None:
        """Name the file of several that cannot be read."""
        for place in batch.files if len(batch.files) > 1 else ():
            scan = self.files[place].scan
            cells = ", ".join(f"count({cell})" for cell in scan.cells.values())
            self.engine.run(f"SELECT {cells} FROM {scan.relation}", source=scan.source)


def listed(paths: Sequence[Path], *, with_names: bool = False) -> str:
    """SQL of all rows of some partial results."""
    named = ", filename = true" if with_names else ""
    return f"read_parquet([{', '.join(literal(str(path)) for path in paths)}]{named})"
