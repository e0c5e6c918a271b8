"""Write the small result files that both ArviZ families must be able to open.

Run once under each family, from the top of the checkout:

    PYTHONPATH=src python3.11 tests/reference/make_posteriors.py     # posterior_arviz023.nc
    PYTHONPATH=src python3.13 tests/reference/make_posteriors.py     # posterior_arviz1.nc

The numbers are formulas, said again in `tests/fitting/test_netcdf.py`; the files differ
only in the versions that wrote them.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import xarray as xr

from bayeseval.output.store import write_tree


def reference_tree() -> xr.DataTree:
    """Two chains of fifty draws of three languages and four records."""
    sampling = {"chain": np.arange(2), "draw": np.arange(50)}
    languages = np.array(["en", "sw", "中文"])
    # Fractional parts of multiples of the golden ratio: evenly spread, without a seed.
    spread = np.modf(np.arange(1, 301) * 0.6180339887498949)[0].reshape(2, 50, 3)
    score = np.array([60.0, 55.0, 40.0, 45.0])
    expected = 50.0 + spread[..., [0, 0, 1, 2]]
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {
                    "language_potential": (
                        ("chain", "draw", "language"),
                        spread + np.array([60.0, 50.0, 40.0]),
                        {"units": "score points"},
                    ),
                    "language_potential_rank": (
                        ("chain", "draw", "language"),
                        np.tile([1.0, 2.0, 3.0], (2, 50, 1)),
                    ),
                    "sd_language": (("chain", "draw"), 8.0 + spread[..., 0]),
                },
                coords=sampling | {"language": languages},
                attrs={
                    "engine": "reference",
                    "published_shift": 1.5,
                    "arviz_base": version("arviz-base"),
                    "xarray": version("xarray"),
                },
            ),
            "sample_stats": xr.Dataset(
                {
                    "diverging": (("chain", "draw"), np.eye(2, 50, dtype=bool)),
                    "n_steps": (("chain", "draw"), np.full((2, 50), 7)),
                },
                coords=sampling,
            ),
            "log_likelihood": xr.Dataset(
                {
                    "score": (
                        ("chain", "draw", "record"),
                        -0.5 * ((score - expected) / 8.0) ** 2 - np.log(8.0 * np.sqrt(2 * np.pi)),
                    )
                },
                coords=sampling | {"record": np.arange(4)},
            ),
            "observed_data": xr.Dataset(
                {"score": ("record", score)}, coords={"record": np.arange(4)}
            ),
        }
    )


if __name__ == "__main__":
    family = "023" if version("arviz").startswith("0.") else "1"
    target = Path(__file__).with_name(f"posterior_arviz{family}.nc")
    write_tree(reference_tree(), target)
