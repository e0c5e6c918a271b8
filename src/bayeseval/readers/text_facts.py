"""What one pass over a file tells: its SHA-256, and which engines read its text alike."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bayeseval.errors import InputError
from bayeseval.readers.compressed import packing_of, sound_pieces
from bayeseval.readers.engine_errors import writing
from bayeseval.readers.tabular import EXPECTED

__all__ = ["TextFacts", "digest_of", "forget_digests", "text_facts"]

# Characters of a name in the cache.
_DIGITS: Final = 32
_VERSION: Final = 1
# Within one run, by path and state of the file: a pass over many gigabytes is not made twice.
_digests: dict[tuple[str, int, int, int], str] = {}


@dataclass(frozen=True)
class TextFacts:
    """Counts of bytes in a text, unpacked.

    Parameters
    ----------
    n_bytes, lines : int
        The last line counts also where nothing ends it.
    separators, quotes : int
    lone_returns, line_feeds, pairs : int
        Carriage returns without a line feed, line feeds, and both together.
    empty_lines : bool
    odd : int
        Bytes that engines take differently: 0x01, and vertical tabs and form feeds.
    """

    n_bytes: int = 0
    lines: int = 0
    separators: int = 0
    quotes: int = 0
    lone_returns: int = 0
    line_feeds: int = 0
    pairs: int = 0
    empty_lines: bool = False
    odd: int = 0

    @property
    def one_line_end(self) -> bool:
        """Whether all lines end alike, and not with a carriage return alone."""
        return not self.lone_returns and self.pairs in (0, self.line_feeds)


def forget_digests() -> None:
    """Begin a run: every file is read again for its SHA-256."""
    _digests.clear()


def _key(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    # No user sets the time of the last change of state.
    return str(file.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest_of(file: Path) -> str:
    """SHA-256 of the bytes of a file; within a run every file is read for it once."""
    key = _key(file)
    if key not in _digests:
        with file.open("rb") as stream:
            _digests[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _digests[key]


def text_facts(file: Path, separator: str, *, kept: Path) -> TextFacts:
    """Count what a text holds; a packed one is unpacked for it once.

    Parameters
    ----------
    file : Path
    separator : str
        One character of ASCII.
    kept : Path
        A folder that keeps the counts of packed files, by their SHA-256.

    Raises
    ------
    InputError
        If the file is damaged, or holds zero bytes.
    """
    if not packing_of(file):
        key, digest = _key(file), hashlib.sha256()
        facts = _counted(file, sound_pieces(file), separator.encode(), digest)
        _digests[key] = digest.hexdigest()
        return facts
    name = f"{digest_of(file)[:_DIGITS]}-{ord(separator):02x}-{_VERSION}"
    known = kept / f"sound-{name}.txt"
    try:
        facts = TextFacts(**json.loads(known.read_text(encoding="ascii")))
        os.utime(known)
        return facts
    except (OSError, ValueError, TypeError):
        facts = _counted(file, sound_pieces(file), separator.encode(), None)
    with writing(kept):
        temporary = known.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(asdict(facts)), encoding="ascii")
        temporary.replace(known)
    return facts


def _counted(
    file: Path, pieces: Iterable[bytes], separator: bytes, digest: hashlib._Hash | None
) -> TextFacts:
    n_bytes = separators = quotes = returns = feeds = pairs = odd = 0
    empty_lines, before = False, b"\n"
    for piece in pieces:
        if digest is not None:
            digest.update(piece)
        if b"\0" in piece:
            place = piece.index(b"\0")
            line = feeds + piece[:place].count(b"\n") + 1
            raise InputError(
                f"{file}, line {line}: not a text file: byte 0x00 at position {n_bytes + place}; "
                f"{EXPECTED}"
            )
        n_bytes += len(piece)
        separators += piece.count(separator)
        quotes += piece.count(b'"')
        feeds += piece.count(b"\n")
        odd += sum(map(piece.count, (b"\x01", b"\x0b", b"\x0c")))
        # With the end of the piece before, because line ends have two bytes.
        joined = before + piece
        if b"\r" in joined:
            returns += piece.count(b"\r")
            pairs += joined.count(b"\r\n") - before.count(b"\r\n")
            empty_lines = empty_lines or b"\n\r\n" in joined
        empty_lines = empty_lines or b"\n\n" in joined
        before = joined[-2:]
    unended = n_bytes and not before.endswith(b"\n")
    return TextFacts(
        n_bytes=n_bytes,
        lines=feeds + bool(unended),
        separators=separators,
        quotes=quotes,
        lone_returns=returns - pairs,
        line_feeds=feeds,
        pairs=pairs,
        empty_lines=empty_lines,
        odd=odd,
    )
