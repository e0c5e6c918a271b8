"""Estimands: what a posterior says about languages and models, draw by draw.

Plain-array functions compute, thin labelled wrappers name the results. Nothing
here knows how the posterior was made.
"""

from __future__ import annotations

from bayeseval.estimands.aggregates import aggregate_variants
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.correlations import model_correlations_table
from bayeseval.estimands.covariates import covariates_table
from bayeseval.estimands.derive import component_dataset, derive
from bayeseval.estimands.expected import expected_scores
from bayeseval.estimands.inference import infer
from bayeseval.estimands.language_parts import language_parts_table
from bayeseval.estimands.model_tables import (
    disparity_table,
    model_language_table,
    ranking_probabilities,
    ranking_table,
)
from bayeseval.estimands.noise import run_text, sources_text
from bayeseval.estimands.predictor import expected_score, mean_residual
from bayeseval.estimands.prr import disparity_summaries, pairs_left_out, record_prr
from bayeseval.estimands.ranks import (
    higher_is_better,
    may_be_best,
    p_top_k,
    pairwise_differences,
    rank_draws,
    rank_probabilities,
    rank_sets,
    tie_groups,
)
from bayeseval.estimands.read import read_arrays
from bayeseval.estimands.summaries import (
    components_table,
    pairwise_table,
    potential_table,
    rank_probability_table,
    rank_table,
)
from bayeseval.estimands.within import (
    aggregates_table,
    has_replicates,
    language_pairwise_table,
    model_components_table,
    noise_sources,
    within_language_table,
)

__all__ = [
    "aggregate_variants",
    "aggregates_table",
    "component_dataset",
    "components_table",
    "covariates_table",
    "derive",
    "disparity_summaries",
    "disparity_table",
    "expected_score",
    "expected_scores",
    "has_replicates",
    "higher_is_better",
    "infer",
    "language_pairwise_table",
    "language_parts_table",
    "may_be_best",
    "mean_residual",
    "model_components_table",
    "model_correlations_table",
    "model_language_table",
    "noise_sources",
    "p_top_k",
    "pairs_left_out",
    "pairwise_differences",
    "pairwise_table",
    "potential_table",
    "rank_draws",
    "rank_probabilities",
    "rank_probability_table",
    "rank_sets",
    "rank_table",
    "ranking_probabilities",
    "ranking_table",
    "read_arrays",
    "record_prr",
    "run_text",
    "sources_text",
    "tie_groups",
    "variance_components",
    "within_language_table",
]
