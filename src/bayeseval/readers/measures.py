"""What measures are, by their names: accuracies, and those of which lower is better."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_accuracy", "lower_is_better", "measure_of_task", "says_lower_is_better"]

_ACCURACIES: Final = frozenset(["acc", "acc_norm", "accuracy", "em", "exact_match"])
_UNBOUNDED: Final = frozenset(
    [
        *("perplexity", "word_perplexity", "byte_perplexity", "ppl", "bits_per_byte", "bpb"),
        *("bits_per_character", "bpc", "loss", "log_loss", "cross_entropy", "nll"),
        *("negative_log_likelihood", "likelihood_diff", "mse", "mae", "rmse"),
    ]
)
_BOUNDED: Final = frozenset(
    [
        *("ter", "wer", "cer", "word_error_rate", "character_error_rate", "error", "error_rate"),
        *("brier", "brier_score", "ece", "pct_stereotype", "toxicity"),
    ]
)
# What stands between words of a name; "fleurs (WER)", "fleurs/wer" and "fleurs:word error rate"
# end with the name of a measure.
_BETWEEN_WORDS: Final = re.compile(r"[\s:/|()\[\]]+")
_MOST_WORDS: Final = 3
# Names of measures that are no words of other names: "fleurs_wer".
_UNMISTAKABLE: Final = re.compile(r".*[_\-.](wer|cer|ppl|perplexity|bpb|nll)", re.IGNORECASE)
_LOWER: Final = re.compile(r"\blower[\s_-]*(?:is|=|the)?[\s_-]*better\b|↓", re.IGNORECASE)


def is_accuracy(task: str) -> bool:
    """Whether a metric, or the metric behind a task's last colon, is a share of right items.

    Examples
    --------
    >>> is_accuracy("mgsm:exact_match,strict-match"), is_accuracy("Accuracy"), is_accuracy("qa:f1")
    (True, True, False)
    """
    return _folded(task.rsplit(":", 1)[-1].split(",")[0].strip()) in _ACCURACIES


def lower_is_better(metric: str) -> bool:
    """Whether a metric of this name is an error or a loss."""
    return _folded(metric) in _UNBOUNDED | _BOUNDED


def measure_of_task(task: str) -> tuple[str, bool] | None:
    """The measure of errors that a task is named after, and whether it has no upper bound.

    Error rates that may exceed 100 %, such as the word error rate, count as bounded.

    Examples
    --------
    >>> measure_of_task("fleurs:WER"), measure_of_task("lm perplexity"), measure_of_task("cer-qa")
    (('wer', False), ('perplexity', True), None)
    """
    words = [word for word in _BETWEEN_WORDS.split(_LOWER.sub("", task)) if word]
    last = [_folded("_".join(words[-n:])) for n in range(1, min(_MOST_WORDS, len(words)) + 1)]
    found = _UNMISTAKABLE.fullmatch(words[-1]) if words else None
    last += [found[1].casefold()] if found else []
    measure = next((name for name in reversed(last) if lower_is_better(name)), None)
    return None if measure is None else (measure, measure in _UNBOUNDED)


def says_lower_is_better(task: str) -> bool:
    """Whether a name says so in words, or with an arrow that points down.

    Examples
    --------
    >>> says_lower_is_better("fleurs (lower is better)"), says_lower_is_better("WER ↓")
    (True, True)
    """
    return _LOWER.search(task) is not None


def _folded(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.casefold())
