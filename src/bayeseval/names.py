"""Names of dimensions and variables, and shared defaults.

The names are the outside contract: tables, files and users' scripts rely on
them. PyMC 6 refuses a variable named like a dimension, which is why effects are
``language_effect`` and dimensions are ``language``.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = [
    "CENTRED_F",
    "CI_KIND",
    "CI_PROB",
    "CONTRASTS",
    "CV_PRR_LANGUAGES",
    "DATASET",
    "DESCRIPTIONS",
    "DISPARITY",
    "FACTORS",
    "FAMILY",
    "FLAVOURS",
    "GAP_SD",
    "INFERENCE",
    "INTERACTIONS",
    "INTERCEPT",
    "K_HAT_MAX",
    "LANGUAGE",
    "LANGUAGE_POTENTIAL",
    "LEAST_DIFFERENCE",
    "LIKELIHOODS",
    "LOW_RANK",
    "LOW_RANK_TERMS",
    "MODEL",
    "MODEL_FAMILY",
    "MOST_PAIRED",
    "MOST_POINTWISE",
    "MOST_RANKED",
    "NAMED_SOURCES",
    "NU",
    "PRR",
    "RECORD",
    "RECORD_PRR",
    "RELATIONS",
    "REPORTED",
    "RUN_SOURCES",
    "SCORE",
    "SCORE_CENTRE",
    "SCORE_SD",
    "SD_LOG_RESIDUAL",
    "SD_RESIDUAL",
    "SHARED_SOURCES",
    "SOURCES",
    "SQUARES",
    "STANDARDISED_SCORE",
    "SUPPORTS",
    "TASK",
    "TEST_SET",
    "UNBALANCED",
    "WORST_LANGUAGE_PRR",
    "Factor",
    "Flavour",
    "LeftOut",
    "Likelihood",
    "Source",
    "Support",
    "cell_label",
    "cell_levels",
    "covariate_cell_dim",
    "covariate_measured",
    "covariate_standardised",
    "covariate_unknown",
    "disparity_name",
    "effect_name",
    "factors_of",
    "is_loading",
    "leave_out_group",
    "level_name",
    "loading_name",
    "low_rank_term",
    "offset_name",
    "rank_dim",
    "rank_name",
    "related_dim",
    "relation_matrix",
    "sd_name",
    "shared_by",
    "slope_name",
    "source_cell_dim",
    "source_cell_sd",
    "source_log_sd",
    "source_model_sd",
    "term_dim",
]

Factor = Literal["language", "task", "model"]
Support = Literal["observed", "common"]
LeftOut = Literal["record", "language", "task", "model"]
Flavour = Literal["observed", "latent"]
Source = Literal["seed", "boot", "seed_boot", "prompt", "judge"]
Likelihood = Literal["normal", "student_t", "logit_normal", "beta", "binomial", "beta_binomial"]

LANGUAGE: Final = "language"
TASK: Final = "task"
MODEL: Final = "model"
# Shared by tasks that are several metrics of the same outputs.
DATASET: Final = "dataset"
RECORD: Final = "record"
SCORE: Final = "score"
TEST_SET: Final = "test_set"
SQUARES: Final = "sum_of_squares"
UNBALANCED: Final = "unbalanced_replicates"
CONTRASTS: Final = "contrasts_of_prompts"
# Centres and sds of the scores given all effects.
SCORE_CENTRE: Final = "score_centre"
SCORE_SD: Final = "score_sd"

FACTORS: Final[tuple[Factor, ...]] = ("language", "task", "model")
# What all metrics of one model's outputs in one dataset and language share. A table has one
# set of outputs in each of these cells, so what the model can do there and the noise of these
# outputs cannot be told apart: like the residual, it is no part of an expected score.
SHARED_BY_METRICS: Final = "model:language:dataset"
INTERACTIONS: Final = (
    *("language:task", "model:task", "model:language"),
    *(SHARED_BY_METRICS, "model:language:task"),
)

# Interactions as sums of products of loadings and factors of a few ranks.
LOW_RANK: Final = "low_rank"
LOW_RANK_TERMS: Final = ("model:language", "model:task")

# What a model is ranked by: its expected score on the common pairs, and how much its gap to
# the potential differs between languages.
STANDARDISED_SCORE: Final = "standardised_score"
GAP_SD: Final = "gap_sd_languages"
PRR: Final = "prr"
CV_PRR_LANGUAGES: Final = "cv_prr_languages"
RECORD_PRR: Final = "record_prr"
WORST_LANGUAGE_PRR: Final = "worst_language_prr"
#: Quantities that tables and figures report, each with its ranks.
REPORTED: Final = ("language_potential", STANDARDISED_SCORE, GAP_SD)
#: Those of models.
INFERENCE: Final = (STANDARDISED_SCORE, GAP_SD)

INTERCEPT: Final = "intercept"
SD_RESIDUAL: Final = "sd_residual"
SD_LOG_RESIDUAL: Final = "sd_log_residual"
NU: Final = "nu"

#: In the order in which several of one fit are listed; `families` says what they are.
LIKELIHOODS: Final[tuple[Likelihood, ...]] = get_args(Likelihood)

# Draws times records that are kept record by record (`log_likelihood`, `prr`): 400 MB
# in double precision. MEGA has 5 million.
MOST_POINTWISE: Final = 50_000_000
# Of more levels the files of a result have the best ones: models in pairs, and levels with the
# probability of every rank. Both grow with the square of their number.
MOST_PAIRED: Final = 150
MOST_RANKED: Final = 300

# Where replicates of one cell differ: training or decoding seeds, test sets, and what
# a seed does to one test set only.
RUN_SOURCES: Final[tuple[Source, ...]] = ("seed", "boot", "seed_boot")
# Wordings of the question and judges of the answers: those of a task are the same for its cells.
SHARED_SOURCES: Final[tuple[Source, ...]] = ("prompt", "judge")
SOURCES: Final[tuple[Source, ...]] = (*RUN_SOURCES, *SHARED_SOURCES)
# Those with a column of their own, which a spec can name.
NAMED_SOURCES: Final[tuple[Source, ...]] = ("seed", "boot", *SHARED_SOURCES)

#: What makes the effects of languages alike: ``sd_place`` and ``language_place``, a matrix over
#: the dimensions ``language`` and ``related_language``.
#: Those of a file have names that the user gives.
RELATIONS: Final = ("place", "family", "script")
#: The same of models: ``sd_model_family``, and ``model_family`` over ``model``, ``related_model``.
MODEL_FAMILY: Final = "model_family"
#: The column of a table of models that has their families.
FAMILY: Final = "family"

LANGUAGE_POTENTIAL: Final = "language_potential"
DISPARITY: Final = ("mean_prr", "std_prr", "cv_prr")
SUPPORTS: Final[tuple[Support, ...]] = ("observed", "common")
FLAVOURS: Final[tuple[Flavour, ...]] = ("observed", "latent")
# A score that was not observed has no observed flavour: on common pairs expected scores only.
DESCRIPTIONS: Final[tuple[tuple[Support, Flavour], ...]] = (
    ("observed", "observed"),
    ("observed", "latent"),
    ("common", "latent"),
)

CI_KIND: Final = "eti"
CI_PROB: Final = 0.95

# Samplers draw effects, and log sds, themselves where the variance of their estimates is at least
# this many times that of the errors, and unit-scale offsets elsewhere; `design/forms.py` has the
# measurements.
CENTRED_F: Final = 3.0
# Pareto k-hat of importance weights: above it they have no reliable mean, and the smoothed
# estimates are biased (Vehtari et al. 2024, arXiv:1507.02646).
K_HAT_MAX: Final = 0.7
# An elpd difference this small says nothing, whatever its standard error (Sivula, Magnusson
# and Vehtari 2020, "Uncertainty in Bayesian leave-one-out cross-validation based model
# comparison").
LEAST_DIFFERENCE: Final = 4.0


def low_rank_term(pair: str) -> str:
    """Name of the low-rank interaction of two factors: ``low_rank:model:language``."""
    return f"{LOW_RANK}:{pair}"


def factors_of(term: str) -> tuple[str, ...]:
    """Factors that a term crosses.

    Examples
    --------
    >>> factors_of("model:task"), factors_of("low_rank:model:task")
    (('model', 'task'), ('model', 'task'))
    """
    return tuple(part for part in term.split(":") if part != LOW_RANK)


def loading_name(term: str, factor: str) -> str:
    """What a low-rank term gives each level of a factor: ``low_rank_model_task_of_model``."""
    return f"{term_dim(term)}_of_{factor}"


def is_loading(name: str) -> bool:
    """Whether a variable is what a low-rank term gives each level of a factor.

    Examples
    --------
    >>> is_loading("low_rank_model_task_of_task"), is_loading("low_rank_model_task_effect")
    (True, False)
    """
    return name.startswith(f"{LOW_RANK}_") and name.endswith(tuple(f"_of_{f}" for f in FACTORS))


def rank_dim(term: str) -> str:
    """Dimension of the ranks of a low-rank term: ``low_rank_model_task_rank``."""
    return f"{term_dim(term)}_component"


def term_dim(term: str) -> str:
    """Dimension of a term: ``"language:task"`` lives on ``language_task``."""
    return term.replace(":", "_")


def effect_name(term: str) -> str:
    """Variable holding a term's effects, for example ``language_task_effect``."""
    return f"{term_dim(term)}_effect"


def offset_name(term: str) -> str:
    """Unit-scale variable sampled in the non-centred form of a term."""
    return f"{effect_name(term)}_offset"


def sd_name(term: str) -> str:
    """Standard-deviation parameter of a term, for example ``sd_language_task``."""
    return f"sd_{term_dim(term)}"


def relation_matrix(relation: str, factor: str) -> str:
    """Matrix of how related levels are: ``language_place``, ``model_family``."""
    return f"{factor}_{relation.removeprefix(f'{MODEL}_')}"


def related_dim(factor: str) -> str:
    """Second dimension of such a matrix: ``related_language``."""
    return f"related_{factor}"


def level_name(noise: str, factor: str) -> str:
    """A noise parameter that differs by the levels of `factor`: ``sd_residual_language``."""
    return f"{noise}_{factor}"


def source_model_sd(source: str) -> str:
    """Typical standard deviations by model: ``sd_seed_model``."""
    return f"sd_{source}_model"


def source_cell_sd(source: str) -> str:
    """Standard deviations of the cells that have replicates: ``sd_seed_cell``."""
    return f"sd_{source}_cell"


def source_cell_dim(source: str) -> str:
    """Dimension of :func:`source_cell_sd`: ``seed_cell``."""
    return f"{source}_cell"


def source_log_sd(source: str) -> str:
    """How much the log sds differ between the cells of a model: ``sd_log_seed``."""
    return f"sd_log_{source}"


def shared_by(source: str) -> tuple[str, ...]:
    """Effects of a prompt (or judge) that cells share: of all cells of a task, and of some.

    Examples
    --------
    >>> shared_by("prompt")
    ('prompt:task', 'prompt:language:task', 'prompt:model:task')
    """
    return tuple(f"{source}:{part}" for part in ("task", "language:task", "model:task"))


def slope_name(covariate: str) -> str:
    """Slope of a standardised covariate: ``mexa_slope``."""
    return f"{covariate}_slope"


def covariate_standardised(covariate: str) -> str:
    """Values a covariate has, in standard deviations: ``mexa_standardised``."""
    return f"{covariate}_standardised"


def covariate_unknown(covariate: str) -> str:
    """Values that are estimated, missing or measured with error: ``mexa_unknown``."""
    return f"{covariate}_unknown"


def covariate_cell_dim(covariate: str) -> str:
    """Dimension of :func:`covariate_unknown`: ``mexa_cell``."""
    return f"{covariate}_cell"


def covariate_measured(covariate: str) -> str:
    """Measurements of the unknown values, which are data: ``mexa_measured``."""
    return f"{covariate}_measured"


def leave_out_group(by: str) -> str:
    """Group of a fit's data that holds the densities of left-out scores."""
    return f"leave_out_{by}"


def rank_name(quantity: str) -> str:
    """Variable holding the ranks of a quantity, for example ``cv_prr_rank``."""
    return f"{quantity}_rank"


def cell_label(*levels: str) -> str:
    r"""Label of one cell of an interaction, for example ``en|xnli:accuracy``.

    Bars and backslashes of a level are escaped, so that ``a|b`` with ``c`` is another label than
    ``a`` with ``b|c``.
    """
    return "|".join(level.replace("\\", "\\\\").replace("|", "\\|") for level in levels)


def cell_levels(label: str) -> list[str]:
    r"""Levels of a :func:`cell_label`.

    Examples
    --------
    >>> cell_levels(cell_label("a|b", "c"))
    ['a|b', 'c']
    """
    levels, escaped = [""], False
    for character in label:
        if character == "|" and not escaped:
            levels.append("")
        elif character != "\\" or escaped:
            levels[-1] += character
        escaped = character == "\\" and not escaped
    return levels


def disparity_name(
    quantity: str, *, support: Support = "observed", flavour: Flavour = "observed"
) -> str:
    """Variable name of a PRR summary under a support and a flavour.

    The plain name is the paper's quantity (observed pairs, observed scores);
    other choices are said in a suffix: ``mean_prr_latent_common``.
    """
    suffix = ("_latent" if flavour == "latent" else "") + ("_common" if support == "common" else "")
    return quantity + suffix
