"""Types that many modules share: arrays by what they hold, figure formats, progress callback."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Figures", "Floats", "Index", "Progress"]

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: Which figures to draw: none (False), PNG (True), or formats: "pdf", "png,svg", ("png", "svg").
Figures = bool | str | Sequence[str]
#: Called as ``progress(stage, done, total, remark)``.
Progress = Callable[[str, int, int, str], None]
