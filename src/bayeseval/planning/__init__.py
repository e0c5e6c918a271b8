"""Decision studies: the cheapest next evaluation that is precise enough."""

from __future__ import annotations

from bayeseval.planning.run import Costs, Plan, plan

__all__ = ["Costs", "Plan", "plan"]
