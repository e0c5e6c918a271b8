"""One look for all figures: header, caption, colours, gate stamp.

Figures are made without pyplot, so nothing of a user's own plotting session is
touched. Every figure says what it shows, of which fit, with which intervals.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial, wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, ParamSpec, TypeVar, cast

from bayeseval._arguments import as_texts
from bayeseval._text import NO_BREAK, unbroken
from bayeseval._typing import Figures
from bayeseval.errors import InputError
from bayeseval.output._glyphs import font_families, legible, legible_text, reordered, visual

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT",
    "DARK",
    "FAINT",
    "FIGURE_FORMATS",
    "GREEN",
    "GREY",
    "MAIN",
    "PURPLE",
    "WARNING",
    "FigureWriter",
    "figure_contents",
    "figure_files",
    "figure_formats",
    "figure_names",
    "figure_text",
    "load_drawing",
    "mark_gate",
    "new_figure",
    "save_figure",
    "styled",
    "whole_figure",
]

# Okabe and Ito's colours, which stay apart for all common kinds of colour blindness.
MAIN: Final = "#0072B2"
#: Of bars that lie on points of the main colour.
DARK: Final = "#00263B"
ACCENT: Final = "#D55E00"
GREEN: Final = "#009E73"
PURPLE: Final = "#CC79A7"
WARNING: Final = "#B2182B"
GREY: Final = "#595959"
FAINT: Final = "#D9D9D9"

#: The first one is the default.
FIGURE_FORMATS: Final = ("png", "pdf", "svg")

_DPI = 150
_RC = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "black",
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.dpi": _DPI,
    "savefig.dpi": _DPI,
    # Conferences and journals refuse the Type 3 fonts of matplotlib's default.
    "pdf.fonttype": 42,
    # Identifiers of an SVG are random without it: the same figure, the same file.
    "svg.hashsalt": "bayeseval",
}

# Inches; characters per inch are what DejaVu Sans needs at the size at hand.
_MARGIN = 0.12
_TITLE = (12.0, 0.24, 9.2)
_SUBTITLE = (9.0, 0.19, 13.0)
_CAPTION = (7.5, 0.155, 16.5)
_STAMP_HEIGHT = 0.26
_LEAST_ROOM = 0.6
_STAMP = "Convergence gate failed: do not rely on these numbers"

#: Writes a figure to a file or into a stream.
FigureWriter = Callable[[Path | BinaryIO], None]

_P = ParamSpec("_P")
_R = TypeVar("_R")


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib
    import matplotlib.style

    # From matplotlib's defaults, so that a user's matplotlibrc changes nothing.
    with matplotlib.rc_context(), matplotlib.style.context("default"):
        matplotlib.rcParams.update(_RC)
        matplotlib.rcParams["font.family"] = list(font_families())
        yield


def styled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a function that makes a figure under the common style."""

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _style():
            return function(*args, **kwargs)

    return wrapper


def new_figure(
    width: float,
    height: float,
    *,
    title: str,
    subtitle: str,
    caption: str,
    gate_status: str,
    data: str = "",
    labels: Sequence[object] = (),
    figsize: tuple[float, float] | None = None,
    least_height: float = _LEAST_ROOM,
) -> Figure:
    """Make a figure with its header and caption, and room for axes between them.

    Parameters
    ----------
    width, height : float
        Inches; `height` is that of the room for axes.
    title, subtitle : str
        What is shown, and of which fit.
    caption : str
        How to read it; wrapped to the width.
    gate_status : str
        ``fail`` stamps the figure.
    data : str
        What was fitted, the last sentence of the caption.
    labels : sequence
        Names of models and languages on the axes; the caption says what stands for characters
        that cannot be drawn.
    figsize : tuple of float, optional
        Width and height of the whole figure in inches, in the place of `width` and `height`.
    least_height : float
        Inches that the axes need to be legible; `figsize` is refused below.

    Returns
    -------
    matplotlib.figure.Figure
        With a constrained layout that keeps axes off header and caption.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if figsize is not None:
        width = figsize[0]
    room = max(width - 2 * _MARGIN, _MARGIN)
    # Before lines are broken: the replacements of characters can be longer.
    title, subtitle = legible(title), legible(subtitle)
    caption = legible(f"{caption} {data}".strip()) + legible_text([*labels, caption])
    title_lines = _lines(title, int(room * _TITLE[2]))
    subtitle_lines = _lines(subtitle, int(room * _SUBTITLE[2]))
    caption_lines = _lines(caption, int(room * _CAPTION[2]))
    header = len(title_lines) * _TITLE[1] + len(subtitle_lines) * _SUBTITLE[1] + 2 * _MARGIN
    header += _STAMP_HEIGHT + _MARGIN / 2 if gate_status == "fail" else 0.0
    footer = len(caption_lines) * _CAPTION[1] + 1.5 * _MARGIN
    if figsize is not None:
        height = figsize[1] - header - footer
        if height < least_height:
            least = header + least_height + footer
            raise InputError(
                f"figsize {figsize[0]:g} x {figsize[1]:g} inches leaves too little room below the "
                f"header; at this width the height is at least {math.ceil(10 * least) / 10:.1f}"
            )
    total = header + height + footer

    layout = ConstrainedLayoutEngine(
        rect=(_MARGIN / width, footer / total, 1 - 2 * _MARGIN / width, height / total)
    )
    figure: Any = _figure_class()(figsize=(width, total), layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    figure.description = (f"{title} ({subtitle})", caption)

    top = total - _MARGIN
    if gate_status == "fail":
        _stamp(figure, (top - _STAMP_HEIGHT / 2) / total)
        top -= _STAMP_HEIGHT + _MARGIN / 2
    _write_lines(figure, title_lines, top, _TITLE, weight="bold")
    top -= len(title_lines) * _TITLE[1]
    _write_lines(figure, subtitle_lines, top, _SUBTITLE, color=GREY)
    _write_lines(figure, caption_lines, footer - _MARGIN / 2, _CAPTION, color=GREY)
    return cast("Figure", figure)


def _lines(text: str, width: int) -> list[str]:
    """Lines of a text, none of which ends between a number and its unit."""
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(unbroken(text), width)]


def _stamp(figure: Figure, y: float) -> None:
    """Say across the figure that the gate failed, at a height from 0 to 1."""
    figure.text(
        0.5,
        y,
        _STAMP,
        color="white",
        weight="bold",
        ha="center",
        va="center",
        bbox={"boxstyle": "square,pad=0.4", "facecolor": WARNING, "edgecolor": "none"},
    )


def _write_lines(
    figure: Figure,
    lines: Sequence[str],
    top: float,
    form: tuple[float, float, float],
    **style: Any,
) -> None:
    """Write lines downwards from `top`, in inches; `form` is size, step and characters."""
    width, height = figure.get_size_inches()
    size, step, _ = form
    for line in lines:
        figure.text(
            _MARGIN / width,
            top / height,
            figure_text(line),
            size=size,
            va="top",
            **{"color": "black"} | style,
        )
        top -= step


def figure_formats(figures: Figures) -> tuple[str, ...]:
    """Formats to draw figures in; empty for none.

    Parameters
    ----------
    figures : bool, str or sequence of str
        False or an empty sequence is none and True is PNG; otherwise formats of
        :data:`FIGURE_FORMATS`, as text with commas between them.

    Raises
    ------
    InputError
        If a format is not one of these.
    """
    if isinstance(figures, bool):
        return FIGURE_FORMATS[:1] if figures else ()
    texts = figures.split(",") if isinstance(figures, str) else figures
    texts = as_texts("figures", texts, of="formats")
    formats = tuple(dict.fromkeys(text.strip().lower() for text in texts))
    unknown = [name for name in formats if name not in FIGURE_FORMATS]
    if unknown:
        raise InputError(
            f"figure formats are {', '.join(FIGURE_FORMATS)}, or several of them with commas "
            f"between; got {unknown[0]!r}"
        )
    return formats


def figure_files(name: str, figure: Figure, figures: Figures) -> dict[str, FigureWriter]:
    """Path inside a result folder to the function that writes the figure there, by format."""
    return {
        f"figures/{name}.{format}": partial(save_figure, figure, format=format)
        for format in figure_formats(figures)
    }


def figure_contents(writers: Mapping[str, FigureWriter]) -> dict[str, bytes]:
    """What functions of :func:`figure_files` write, by path."""
    contents = {}
    for name, writer in writers.items():
        stream = BytesIO()
        writer(stream)
        contents[name] = stream.getvalue()
    return contents


def figure_names(*names: str) -> tuple[str, ...]:
    """Paths that figures of these names may have inside a result folder, in any format."""
    return tuple(f"figures/{name}.{format}" for name in names for format in FIGURE_FORMATS)


@lru_cache(maxsize=1)
def _figure_class() -> type[Any]:
    """A figure that notebooks show without pyplot, which would register its own way."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        #: Title and caption, which files hold as metadata too.
        description = ("", "")

        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            save_figure(self, buffer)
            return buffer.getvalue()

    return NotebookFigure


def whole_figure(axes: Axes) -> Figure:
    """The figure that axes stand in, also where a part of it is a figure of its own."""
    figure = axes.figure
    while (parent := getattr(figure, "figure", figure)) is not figure:
        figure = parent
    return cast("Figure", figure)


def mark_gate(axes: Axes, gate_status: str) -> None:
    """Say above single axes that the gate failed, where there is no header to say it."""
    if gate_status == "fail":
        axes.set_title(_STAMP, color=WARNING, weight="bold", size=9.0)


def load_drawing() -> None:
    """Import what figures need, and load their fonts, so that the first one need not."""
    with _style():
        figure = _figure_class()()
        figure.subplots().set_title("A")
        save_figure(figure, BytesIO())


def save_figure(figure: Figure, path: Path | BinaryIO, *, format: str = "") -> None:
    """Write a figure in the format that the file name ends with, without the time of day.

    Into a stream it is written as `format`, or as PNG.
    """
    if isinstance(path, Path):
        format = path.suffix.removeprefix(".")
    format = format or FIGURE_FORMATS[0]
    title, caption = getattr(figure, "description", ("", ""))
    metadata: Mapping[str, Mapping[str, str | None]] = {
        "png": {"Title": title, "Description": caption},
        "pdf": {"CreationDate": None, "Title": title, "Subject": caption},
        "svg": {"Date": None, "Title": title, "Description": caption},
    }
    with _style():
        _write_svg_text(figure)
        _offsets_into_labels(figure)
        with _laid_out(figure) if format == "png" else nullcontext():
            figure.savefig(path, format=format, dpi=_DPI, metadata=metadata.get(format))


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Give all axes their places: to find them, matplotlib would draw everything once more.

    Texts have the size of PNG files here; that in other formats differs a little.
    """
    layout = figure.get_layout_engine()
    if layout is None or figure.dpi != _DPI:
        yield
        return
    layout.execute(figure)
    # The engine "none" would have everything drawn once more, too.
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(layout)


def _write_svg_text(figure: Figure) -> None:
    """Let an SVG hold text, which can be searched and edited, and not the outlines of letters."""
    import matplotlib
    from matplotlib.text import Text

    # A browser would order text again that stands in the order in which it is drawn.
    turned = any(reordered(text.get_text()) for text in figure.findobj(Text))
    matplotlib.rcParams["svg.fonttype"] = "path" if turned else "none"


def _offsets_into_labels(figure: Figure) -> None:
    """Say in the label what ticks of very small or close values leave out, not across it."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            formatter.set_locs(list(axis.get_majorticklocs()))
            offset, label = formatter.get_offset(), axis.get_label_text()
            # Hidden: it is in the label since the figure was written in another format.
            if offset and label and axis.offsetText.get_visible():
                axis.set_label_text(f"{label}, ticks in {offset}")
                axis.offsetText.set_visible(False)


def figure_text(text: str) -> str:
    """Text as matplotlib shows it: what fonts have, in reading order, dollar signs as such."""
    return visual(legible(text)).replace("$", r"\$")
