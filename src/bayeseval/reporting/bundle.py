"""The chart library that a page carries: Vega, Vega-Lite and Vega-Embed in one script."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from bayeseval.output._files import write_text
from bayeseval.records.remote import CACHE_VARIABLE

__all__ = ["chart_library"]


def chart_library() -> str:
    """JavaScript of the chart library, from the user's cache or made anew.

    Returns
    -------
    str
        Defines ``vegaEmbed``; asks for nothing from the network.

    Notes
    -----
    Making it takes two seconds, so it is kept beside the downloaded benchmarks. A cache that
    cannot be written costs these two seconds every time, and nothing else.
    """
    path = _cache() / f"vega-{version('vl-convert-python')}.js"
    try:
        # A pipe in its place would never end.
        if path.is_file():
            return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        # Made anew below.
        pass
    script = _made()
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


def _made() -> str:
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    # Inside a script element nothing may look like the end of one.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
