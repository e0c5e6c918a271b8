"""The one place that knows the two families of PyMC and ArviZ apart."""

from __future__ import annotations

from typing import Any

import xarray as xr

__all__ = ["nuts_arguments", "to_datatree"]


def nuts_arguments(nuts_sampler: str) -> dict[str, Any]:
    """Arguments of ``pymc.sample`` that PyMC 5 and 6 take under different names.

    JAX samplers run their chains vectorised: one program, whatever the number of
    devices. nutpie keeps its warm-up in PyMC 5 unless told not to.
    """
    import pymc as pm

    options: dict[str, Any] = {}
    if nuts_sampler in ("numpyro", "blackjax"):
        options["chain_method"] = "vectorized"
    if pm.__version__.startswith("5."):
        if nuts_sampler == "nutpie":
            options["save_warmup"] = False
        return {"nuts_sampler_kwargs": options} if options else {}
    return {"nuts": options} if options else {}


def to_datatree(result: Any) -> xr.DataTree:
    """Return what a sampler returned as a DataTree.

    PyMC 5 returns ``arviz.InferenceData``, PyMC 6 an ``xarray.DataTree``.
    """
    if isinstance(result, xr.DataTree):
        return result
    tree: xr.DataTree = result.to_datatree()
    return tree
