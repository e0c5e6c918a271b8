"""Tokens of sentences by a tokenizer of strangers: its faults in one line, its texts bounded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any, Final

from bayeseval._optional import require
from bayeseval._text import grouped, show
from bayeseval.errors import InputError
from bayeseval.mexa.checkpoint import only_line

__all__ = ["token_ids", "token_limit"]

# Tokenizers say something astronomical when they know no limit.
_NO_LIMIT: Final = 1_000_000
# Characters of one sentence behind the normalizer; ten times what a sentence may have.
_MAX_NORMALISED: Final = 1_000_000


def token_limit(tokenizer: Any, config: Any) -> int | None:
    """Tokens that the model has positions for; None where nothing says it.

    Raises
    ------
    InputError
        If what the files say is no number of tokens.
    """
    said = tokenizer.model_max_length
    if isinstance(said, bool) or not isinstance(said, int | float) or not said >= 1:
        raise InputError(
            "tokenizer_config.json: model_max_length must be a number of tokens, at least 1; got "
            f"{show(said)}"
        )
    limits = [int(said)] if said < _NO_LIMIT else []
    room = getattr(config, "max_position_embeddings", None)
    if isinstance(room, int) and room > 0:
        # RoBERTa's positions begin behind its padding id.
        behind = config.pad_token_id + 1 if "roberta" in config.model_type else 0
        if room <= behind:
            raise InputError(
                f"config.json: max_position_embeddings must be above {behind}, because positions "
                f"begin behind pad_token_id; got {room}"
            )
        limits.append(room - behind)
    return min(limits, default=None)


def token_ids(
    tokenizer: Any, texts: Sequence[str], limit: int | None
) -> tuple[list[list[int]], int]:
    """Tokens of each sentence, and how many sentences were cut at the limit.

    Raises
    ------
    InputError
        If the tokenizer fails, or makes a text too long of a sentence.
    """
    with _faults_in_one_line():
        _refuse_growth(tokenizer, texts)
        # Not verbose: it would say of the sentences that are cut here that they are too long.
        ids = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
        long = [i for i, one in enumerate(ids) if limit is not None and len(one) > limit]
        for i in long:
            short = tokenizer(texts[i], truncation=True, max_length=limit)
            ids[i] = short["input_ids"]
    return ids, len(long)


def _refuse_growth(tokenizer: Any, texts: Sequence[str]) -> None:
    """Refuse a normalizer whose steps multiply a text, before the text fills the memory."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    steps = _steps(None if backend is None else backend.normalizer)
    for text in texts:
        grown = text
        for step in steps:
            # A step writes its content at most once per character.
            if len(grown) * max(1, len(getattr(step, "content", ""))) > _MAX_NORMALISED:
                raise InputError(
                    f"tokenizer.json: its normalizer can make more than {grouped(_MAX_NORMALISED)} "
                    "characters of one sentence; choose another model, or shorter sentences"
                )
            grown = step.normalize_str(grown)


def _steps(normalizer: Any) -> list[Any]:
    """The steps of a normalizer, one after the other."""
    if normalizer is None:
        return []
    # A sequence inside a sequence cannot be indexed, so one without any is made of what is stored.
    flat = require("tokenizers", "mexa").normalizers.Sequence([])
    stored = {"type": "Sequence", "normalizers": _flat(json.loads(normalizer.__getstate__()))}
    flat.__setstate__(json.dumps(stored).encode())
    return [flat[place] for place in range(len(flat))]


def _flat(stored: Mapping[str, Any]) -> list[Any]:
    if stored["type"] != "Sequence":
        return [stored]
    return [one for step in stored["normalizers"] for one in _flat(step)]


@contextmanager
def _faults_in_one_line() -> Iterator[None]:
    """Turn what a tokenizer raises into one line.

    A panic of Rust is no ``Exception``, and Rust reports it on standard error itself, with a stack
    for every sentence; what else is written there meanwhile is written when the sentences are done.
    """
    panicked = False
    # A program may have been started without standard error; there is nothing to hold back then.
    terminal = None if sys.stderr is None else os.dup(2)
    with TemporaryFile() as said:
        if terminal is not None:
            sys.stderr.flush()
            os.dup2(said.fileno(), 2)
        try:
            yield
        except InputError:
            raise
        except BaseException as error:
            panicked = type(error).__name__ == "PanicException"
            if not panicked and not isinstance(error, Exception):
                raise
            raise InputError(
                f"its tokenizer fails on these sentences ({only_line(error)}); download or copy "
                "the model again, or choose another one"
            ) from error
        finally:
            if terminal is not None:
                sys.stderr.flush()
                os.dup2(terminal, 2)
                os.close(terminal)
                said.seek(0)
                os.write(2, b"" if panicked else said.read())
