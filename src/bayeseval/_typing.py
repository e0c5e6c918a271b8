"""Types that many modules share: arrays by what they hold, and the progress callback."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Floats", "Index", "Progress"]

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: Called as ``progress(stage, done, total, remark)``.
Progress = Callable[[str, int, int, str], None]
