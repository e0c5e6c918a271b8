"""simple-evals: ``mgsm_<model>_<time>.json`` and ``mmlu_SW-KE_<model>.json``.

The files are flat: the mean of each metric, and ``<metric>:std`` beside it. In those of MGSM
the metrics are codes of languages, with averages over scripts (``group_latin``); those of the
translated MMLU have the language in their names (none is English), and its ``score``. The
model stands in the name of the file only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bayeseval._text import counted
from bayeseval.errors import InputError
from bayeseval.languages.codes import is_code
from bayeseval.readers.base import Head, Options, Reader, Reading, as_mapping, as_number, read_json
from bayeseval.readers.compressed import stem_of
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.scores import Score, settle

__all__ = ["SIMPLE_EVALS"]

_NAME: Final = re.compile(
    r"(?P<test>mgsm|mmlu)_(?:(?P<code>[A-Z]{2})-[A-Z]{2}_)?(?P<model>.+?)(?:_(?P<time>\d{8}_\d{6}))?"
    r"(?P<debug>_DEBUG)?"
)
# Of one language, and all that the others hold.
_OTHER_TESTS: Final = ("browsecomp", "drop", "gpqa", "healthbench", "humaneval", "math", "simpleqa")
_NO_LANGUAGE: Final = ("score", "group_latin", "group_non_latin")


def _sniff(path: Path, head: Head) -> bool:
    if not head.text.startswith("{") or not head.has("score", "score:std"):
        return False
    is_mgsm = head.has("group_latin") or head.has("group_non_latin")
    if not is_mgsm:
        # Files from which the averages were removed.
        codes = [key for key in head.keys if is_code(key) and f"{key}:std" in head.keys]
        is_mgsm = len(codes) > 1
    return is_mgsm or (head.has("stem:std") and path.name.startswith("mmlu_"))


def _read(paths: Sequence[Path], options: Options) -> Reading:
    read = options.attempts(options.each(paths), lambda path: list(_scores(path)))
    scores = [score for _, own in read for score in own]
    models = {score.model for score in scores}
    notes = [f"{counted(len(models), 'model')} named after files, which name no other"]
    return settle(scores, source=common_folder(paths), options=options, place="score", notes=notes)


def _scores(path: Path) -> Iterator[Score]:
    """The score of each language of a file."""
    name = _NAME.fullmatch(stem_of(path))
    if name is None:
        raise InputError(
            f"{path}: the model and the test stand in the name that simple-evals gave the file"
            " (mgsm_MODEL.json, mmlu_SW-KE_MODEL.json); name it so again"
        )
    if name["debug"]:
        raise InputError(f"{path}: a run for debugging, of ten items per language")
    values = as_mapping(read_json(path), str(path))
    if name["test"] == "mmlu":
        by_language = {(name["code"] or "en").casefold(): values.get("score")}
    else:
        by_language = {
            key: value
            for key, value in values.items()
            if ":" not in key and key not in _NO_LANGUAGE
        }
    for language, value in by_language.items():
        if not is_code(language):
            raise InputError(f"{path}: {language!r} is no code of a language; remove the key")
        yield Score(
            model=name["model"],
            dataset=name["test"],
            language=language,
            metric="accuracy",
            value=as_number(value, f"{path}: {language}"),
            where=f"{path}, {language}",
            higher=True,
            lower_bound=0.0,
            upper_bound=1.0,
            run=name["time"] or "",
        )


SIMPLE_EVALS: Final = Reader(
    "simple-evals",
    "results of simple-evals",
    _sniff,
    _read,
    auxiliary_files=("*_allresults.json", *(f"{test}_*.json" for test in _OTHER_TESTS)),
)
