"""What all reports share: atomic folders, style, labels, numbers, text."""

from __future__ import annotations

from bayeseval.output.store import check_additions, check_target

__all__ = ["check_additions", "check_target"]
