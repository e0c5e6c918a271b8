"""Named random streams from one seed.

Sampling, prediction and simulation never share random numbers, and adding a
stream does not move the others: a stream's key is its name.
"""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["generator", "stream"]


def stream(seed: int, name: str) -> np.random.SeedSequence:
    """Seed sequence of the stream called `name`."""
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))


def generator(seed: int, name: str) -> np.random.Generator:
    """Random generator of the stream called `name`."""
    return np.random.default_rng(stream(seed, name))
