"""Results of long work: kept in pieces until they are saved, and shown whatever happens then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayeseval._text import counted, one_line, shorten
from bayeseval.cli._shared import StoppedError, echo, echo_place
from bayeseval.errors import EngineError, InputError
from bayeseval.output._kept import discard_pieces
from bayeseval.output._locks import alone_in
from bayeseval.output.store import RUN_FILE, read_json, results_saved

__all__ = ["keeping", "naming_removed", "save_and_show"]


@contextmanager
def naming_removed(folder: Path) -> Iterator[None]:
    """Name the files of an earlier result that a new one in its folder does not have.

    A folder is one result: figures of another run, of other settings or scores, cannot stay.
    """
    before = _files_of(folder)
    yield
    gone = sorted(before - _files_of(folder))
    if gone:
        files = counted(len(gone), "file")
        echo(
            f"removed: {files} of the earlier result in {one_line(folder)} that this run does not "
            f"write ({shorten(gone, limit=4)})",
            err=True,
        )


def _files_of(folder: Path) -> set[str]:
    """Files that a run file lists; none of a folder that has none, or a damaged one."""
    try:
        files = read_json(folder / RUN_FILE).get("files") if folder.is_dir() else None
    except InputError:
        return set()
    return set(map(str, files)) if isinstance(files, list) else set()


@contextmanager
def keeping(folder: Path, what: str) -> Iterator[Callable[[], None]]:
    """Say where finished pieces of an interrupted run are kept.

    Parameters
    ----------
    folder : Path
        Holds a JSON file for each, itself or in folders below.
    what : str
        What they are: fits, simulations.

    Yields
    ------
    callable
        Removes them, and the folder above where nothing else is in it: call it once the
        results are saved. An empty folder that was there before stays: the user made it.
    """
    work = folder.parent
    is_users = work.is_dir() and not any(work.iterdir())

    def tidy() -> None:
        if not is_users:
            # Others may keep theirs in it.
            with suppress(OSError):
                work.rmdir()

    def discard() -> None:
        discard_pieces(folder)
        tidy()

    kept = f"finished {what} are kept in {folder}; run the same command again to continue"
    try:
        yield discard
    except KeyboardInterrupt as error:
        raise StoppedError(kept if any(folder.rglob("*.json")) else "") from error
    except EngineError as error:
        if not any(folder.rglob("*.json")):
            raise
        raise EngineError(f"{error}; {kept}") from error
    finally:
        # Only where nothing is kept; another process that works in the folder needs it.
        with suppress(InputError, OSError), alone_in(folder):
            pass
        tidy()


def save_and_show(
    result: object, folder: Path, save: Callable[[], object], discard: Callable[[], None]
) -> None:
    """Save a result, remove its pieces and print it; print it, too, where saving fails.

    Parameters
    ----------
    result : object
        Printed as a text.
    folder : Path
        Where `save` puts it.
    save : callable
    discard : callable
        Of :func:`keeping`.
    """
    try:
        with naming_removed(folder):
            save()
    except BaseException:
        # What cannot be printed either is not what the command says.
        with suppress(OSError):
            echo(str(result))
        raise
    discard()
    with results_saved(folder, [], ""):
        echo(str(result))
        echo_place("\nResults", folder)
