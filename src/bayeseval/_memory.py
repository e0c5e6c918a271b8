"""How much memory a process may still take."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

__all__ = ["free_memory"]

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP: Final = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes that are free for this process; None where the system does not say.

    The least of what the machine has left and what the container's limit leaves.
    """
    known = [one for one in (_of_machine(), _of_container()) if one is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    text = _text(_MEMINFO)
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    if available is not None:
        return 1024 * int(available[1])
    known = getattr(os, "sysconf_names", {})
    if not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= known.keys():
        return None
    # All memory of the machine, where what is free cannot be asked for.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_container() -> int | None:
    most, used = (_text(_CGROUP / f"memory.{name}").strip() for name in ("max", "current"))
    if not (most.isdigit() and used.isdigit()):
        return None
    # Files that were read are counted as used, but give way to whoever needs memory.
    cached = re.findall(r"^(?:in)?active_file (\d+)$", _text(_CGROUP / "memory.stat"), re.MULTILINE)
    return max(0, int(most) - max(0, int(used) - sum(map(int, cached))))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
