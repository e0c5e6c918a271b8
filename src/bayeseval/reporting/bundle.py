"""The chart library that a page carries: Vega, Vega-Lite and Vega-Embed in one script."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bayeseval.output._files import write_text
from bayeseval.records.remote import CACHE_VARIABLE

__all__ = ["chart_library"]

# SHA-256 of the script by version of vl-convert-python. Pages run the script, and others may be
# able to write into a cache: a script whose hash is not known is neither kept nor read there.
_HASHES: Final[Mapping[str, str]] = {
    "1.9.0.post1": "373b1f84072b31010f15ceb787be6b415c53936411aae267c8c2b2b6ccde46e7",
}


def chart_library() -> str:
    """JavaScript of the chart library, from the user's cache or made anew.

    Returns
    -------
    str
        Defines ``vegaEmbed``; asks for nothing from the network.

    Notes
    -----
    Making it takes two seconds, so it is kept beside the downloaded benchmarks. A cache that
    cannot be written, a file that was changed or a version of vl-convert-python whose script has
    no known SHA-256 costs these two seconds every time, and nothing else.
    """
    made_by = version("vl-convert-python")
    path, known = _cache() / f"vega-{made_by}.js", _HASHES.get(made_by)
    if known is not None and (kept := _kept(path)) is not None and _hash(kept) == known:
        return kept
    script = _made()
    if _hash(script) != known:
        return script
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(script, part)
        part.replace(path)
    except OSError:
        # There may not even be a folder that the part could be in.
        with suppress(OSError):
            part.unlink()
    return script


def _cache() -> Path:
    import pooch

    given = os.environ.get(CACHE_VARIABLE)
    return (Path(given) if given else Path(pooch.os_cache("bayeseval"))) / "report"


def _kept(path: Path) -> str | None:
    """What a file of the cache holds; None where it is not there or cannot be read."""
    try:
        # A pipe in its place would never end.
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None


def _hash(script: str) -> str:
    return hashlib.sha256(script.encode("utf-8")).hexdigest()


def _made() -> str:
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    # Inside a script element nothing may look like the end of one.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
