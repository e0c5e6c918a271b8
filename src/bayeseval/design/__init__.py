"""From records and a spec to a design: index arrays, coordinates, scaled priors.

:func:`build_design` turns records and a spec into the frozen :class:`Design`
that every engine reads, and refuses a model that the data cannot identify.
"""

from bayeseval.design.build import build_design
from bayeseval.design.choose import Chosen, choose_model, identified_interactions
from bayeseval.design.container import Design, Term
from bayeseval.design.covariates import Slope
from bayeseval.design.noise import Replicates, Source
from bayeseval.design.prompts import ByCell, SharedEffect
from bayeseval.design.ranges import narrow_tasks, too_small_because
from bayeseval.design.readiness import Readiness, check_ready
from bayeseval.design.relations import Relations, relate, same_family
from bayeseval.design.rescore import rescore
from bayeseval.design.restore import restore_design

__all__ = [
    "ByCell",
    "Chosen",
    "Design",
    "Readiness",
    "Relations",
    "Replicates",
    "SharedEffect",
    "Slope",
    "Source",
    "Term",
    "build_design",
    "check_ready",
    "choose_model",
    "identified_interactions",
    "narrow_tasks",
    "relate",
    "rescore",
    "restore_design",
    "same_family",
    "too_small_because",
]
