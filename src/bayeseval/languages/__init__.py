"""Languages: what one label means, which labels mean the same, where languages are spoken."""

from __future__ import annotations

from bayeseval.languages.codes import Language, resolve, understand
from bayeseval.languages.matching import Matches, match

__all__ = ["Language", "Matches", "match", "resolve", "understand"]
