"""Files in, one validated and frozen :class:`Records` out."""

from __future__ import annotations

from bayeseval.readers.measures import is_accuracy
from bayeseval.readers.raw import Dropped
from bayeseval.records.averages import average_over_others, sources_of
from bayeseval.records.benchmarks import BenchmarkSummary, card_citations, list_benchmarks
from bayeseval.records.connectivity import Component, connected_components
from bayeseval.records.covariates import Covariate, CovariateLevel
from bayeseval.records.items import BootVariance, ItemVariance, boot_variance, item_variance
from bayeseval.records.language_names import without_language
from bayeseval.records.load import TableSource, load
from bayeseval.records.look_alikes import look_alikes, look_alikes_text, same_names
from bayeseval.records.model_facts import (
    LANGUAGE_COLUMNS,
    fact_names,
    facts_table,
    match_models,
    model_covariate,
)
from bayeseval.records.pairs import (
    PairChoice,
    PairSource,
    choose_pairs,
    pairs_hash,
    sole_pairs,
    warn_of_sole_pairs,
)
from bayeseval.records.registry import BenchmarkCard
from bayeseval.records.replicates import CellTable, reduce_replicates
from bayeseval.records.report import LoadReport, TableError, Units
from bayeseval.records.scales import WITH_NUMBERS, declare_units, natural_units
from bayeseval.records.strata import Stratum
from bayeseval.records.table import Records
from bayeseval.records.unbalanced import (
    Quadratics,
    Unbalanced,
    restricted_log_density,
    unbalanced_quadratics,
)
from bayeseval.records.validate import Description, describe, format_description, format_refused
from bayeseval.records.with_prompts import ByPrompt

__all__ = [
    "LANGUAGE_COLUMNS",
    "WITH_NUMBERS",
    "BenchmarkCard",
    "BenchmarkSummary",
    "BootVariance",
    "ByPrompt",
    "CellTable",
    "Component",
    "Covariate",
    "CovariateLevel",
    "Description",
    "Dropped",
    "ItemVariance",
    "LoadReport",
    "PairChoice",
    "PairSource",
    "Quadratics",
    "Records",
    "Stratum",
    "TableError",
    "TableSource",
    "Unbalanced",
    "Units",
    "average_over_others",
    "boot_variance",
    "card_citations",
    "choose_pairs",
    "connected_components",
    "declare_units",
    "describe",
    "fact_names",
    "facts_table",
    "format_description",
    "format_refused",
    "is_accuracy",
    "item_variance",
    "list_benchmarks",
    "load",
    "look_alikes",
    "look_alikes_text",
    "match_models",
    "model_covariate",
    "natural_units",
    "pairs_hash",
    "reduce_replicates",
    "restricted_log_density",
    "same_names",
    "sole_pairs",
    "sources_of",
    "unbalanced_quadratics",
    "warn_of_sole_pairs",
    "without_language",
]
