"""Files for HDF5, whose errors are raised when HDF5 has ended."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = ["errors_at_the_end"]

# What HDF5 may read back while it writes, its own structures, is in pieces smaller than this.
_STRUCTURE: Final = 1 << 20


class _DeferredErrors(io.RawIOBase):
    """A file that is never refused anything, whatever happens on disk.

    HDF5 that fails to write does not come to an end: it tries again when the file is closed and
    when the process ends, and takes the process with it. After the first error nothing more is
    written; HDF5 gets back what it wrote of its structures, so that it ends as it always does.
    """

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self._position = 0
        self._kept: dict[int, bytes] = {}
        self.error: BaseException | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        start = starts[whence] if whence in starts else self._size()
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        size = self._position if size is None else size
        if self.error is None:
            # An interruption too would end HDF5 in the middle.
            try:
                self._file.truncate(size)
            except BaseException as error:
                self.error = error
        return size

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                self._file.seek(self._position)
                done = 0
                # Linux takes no more than 2 GiB at once.
                while done < len(view):
                    done += self._file.write(view[done:])
            except BaseException as error:
                self.error = error
        if self.error is not None and len(view) <= _STRUCTURE:
            self._kept.pop(self._position, None)
            self._kept[self._position] = bytes(view)
        self._position += len(view)
        return len(view)

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        try:
            self._file.seek(self._position)
            done = 0
            while done < len(view) and (more := self._file.readinto(view[done:])):
                done += more
        except BaseException as error:
            self.error = self.error or error
        for place, data in self._kept.items():
            first = max(place, self._position)
            last = min(place + len(data), self._position + len(view))
            if first < last:
                view[first - self._position : last - self._position] = data[
                    first - place : last - place
                ]
        self._position += len(view)
        return len(view)

    def _size(self) -> int:
        kept = (place + len(data) for place, data in self._kept.items())
        return max(os.fstat(self._file.fileno()).st_size, *kept, 0)


@contextmanager
def errors_at_the_end(path: Path) -> Iterator[io.RawIOBase]:
    """A new file to write HDF5 to; what the disk refuses is raised at the end of the block.

    Parameters
    ----------
    path : Path
        The file, which is replaced. It is incomplete after an error.

    Raises
    ------
    OSError
        The first error of reading or writing.
    """
    with path.open("w+b", buffering=0) as opened:
        file = _DeferredErrors(opened)
        try:
            yield file
        finally:
            if file.error is not None:
                raise file.error
