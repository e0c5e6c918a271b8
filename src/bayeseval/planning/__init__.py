"""Decision studies: the cheapest next evaluation that is precise enough, and its cells."""

from __future__ import annotations

from bayeseval.planning.next_run import NextCells, next_cells
from bayeseval.planning.run import Costs, Plan, plan

__all__ = ["Costs", "NextCells", "Plan", "next_cells", "plan"]
