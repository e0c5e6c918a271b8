"""How a command ends when the machine lacks something: memory, disk, descriptors, a stdout."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Final

from bayeseval.errors import InputError

__all__ = ["check_address_space", "drop_unwritable", "fault_text", "prepare_streams"]

# A fit of 45 records with numpyro reserves 3.4 GB on two cores, and uses 0.8 GB.
_ADDRESS_SPACE: Final = 4_000_000_000
_MEMORY: Final = (
    "close other programs, ask for fewer draws (--draws) or fewer processes (--jobs), or use a "
    "machine with more memory"
)
# Parts of what libraries say when memory runs out and they raise no MemoryError.
_MEMORY_MARKS: Final = (
    "RESOURCE_EXHAUSTED",
    "Cannot allocate memory",
    "failed to map segment from shared object",
    "can't start new thread",
    "std::bad_alloc",
)
_REMEDIES: Final = {
    errno.ENOSPC: "; free some space, or write to another disk",
    errno.EDQUOT: "; free some space, or write to another disk",
    errno.EFBIG: "; raise the limit on the size of files (ulimit -f)",
    errno.EMFILE: "; raise the limit on open files (ulimit -n)",
    errno.ENFILE: "; close other programs: the system has too many files open",
    errno.EROFS: "; write to another place (--out)",
}


def fault_text(error: BaseException) -> str | None:
    """Say in one line what the machine lacked.

    Returns
    -------
    str or None
        With what was saved before, where a note of the error says so. None for any other
        error, which is a fault of the program and needs its traceback.
    """
    text = _text(error)
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return None if text is None else text + notes


def _text(error: BaseException) -> str | None:
    if isinstance(error, RecursionError):
        return "the input is nested too deeply to be processed; give it with fewer levels"
    # Libraries raise errors of their own from a lack of memory, so what they say counts, too.
    chain: BaseException | None = error
    while chain is not None:
        if _is_memory(chain):
            detail = str(chain).partition("\n")[0].strip()
            return f"not enough memory{f' ({detail[:200]})' if detail else ''}; {_MEMORY}"
        chain = chain.__cause__
    if isinstance(error, OSError):
        if error.filename is None:
            place, failed = "the output", "written"
        else:
            place, failed = error.filename, "used"
        if isinstance(place, bytes):
            place = os.fsdecode(place)
        reason = error.strerror or str(error)
        return f"{place} could not be {failed}: {reason}{_REMEDIES.get(error.errno or 0, '')}"
    return None


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    is_other = isinstance(error, RuntimeError | OSError | ImportError)
    return is_other and any(mark in str(error) for mark in _MEMORY_MARKS)


def check_address_space() -> None:
    """Refuse a limit on the address space below what the numerical libraries reserve.

    They do not raise MemoryError there: depending on the limit, OpenBLAS tries again
    forever and JAX aborts the process.

    Raises
    ------
    InputError
        The limit, and what is needed.
    """
    if sys.platform == "win32":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE:
        raise InputError(
            f"the address space of a process is limited to {limit / 1e9:.1f} GB (ulimit -v, or "
            f"the memory limit of a batch system); at least {_ADDRESS_SPACE / 1e9:.0f} GB are "
            "needed, most of which is reserved and never used: raise the limit"
        )


def prepare_streams() -> None:
    """Let stdout and stderr print any text, and keep their descriptors occupied.

    Names of files may hold bytes that are no UTF-8, and labels characters that the
    terminal's encoding lacks: they are printed escaped, as stderr does anyhow. A closed
    stdout or stderr would give its number to the next file that is opened, and what a
    library prints would go into that file.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Takes the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def drop_unwritable() -> None:
    """Drop what is left in a buffer that cannot be written.

    Python flushes both streams at exit; it must not fail there again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
