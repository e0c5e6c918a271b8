"""The report of one fit: folder, tables, figures and what the terminal shows."""

from __future__ import annotations

__all__: list[str] = []
