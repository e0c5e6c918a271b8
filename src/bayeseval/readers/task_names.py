"""Dataset and language in the names of tasks: a table of patterns, and the user's own lines.

Tools such as lm-evaluation-harness say the language only in the name of a task, each
benchmark in its own way. A rule is the name of a family of tasks with a slot for the
language; the dataset is the name without it. Names that no rule knows are refused with a
list: a pattern that fits anything would find a language in ``arc_easy`` too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from bayeseval._text import counted, plain, shorten, show
from bayeseval.errors import InputError, argument, wording
from bayeseval.readers.base import decode, file_bytes, joined_languages
from bayeseval.readers.proposals import Proposal, propose
from bayeseval.readers.task_lines import SLOT, TaskLines

__all__ = [
    "RULES",
    "NamedTask",
    "TaskNames",
    "UnknownTasksError",
    "parse_task",
    "proposed_table",
    "read_task_names",
]

# What may stand in a slot. Two slots of a rule are a pair: context and question of
# mlqa_ar_de, source and target of flores_eng_Latn-fon_Latn.
_SLOTS: Final[Mapping[str, str]] = {
    "two": r"[a-z]{2}",
    "three": r"[a-z]{3}",
    "code": r"[a-z]{2,3}",
    "region": r"[a-z]{2}_[a-z]{2}",
    "flores": r"[a-z]{3}_[A-Z][a-z]{3}",
    "lower": r"[a-z]{3}_[a-z]{4}(?:_[a-z]{4})?",
    "name": r"[a-z]+(?:_macedonian)?",
}

_AFRICAN: Final = (
    "(?:afriqa|afrisenti|afridiacritics|belebele|injongointent|masakhaner|masakhanews|masakhapos"
    "|naijarc|nollysenti|ntrex|sib|uhura-arc-easy|openai_mmlu|xlsum)"
)
_AFRI: Final = "(?:afrimgsm|afrimmlu|afrixnli)(?:_cot|_direct|_translate|_cot_translate)?"

_LIGHTEVAL: Final = (
    r"(?:afri_mgsm|afri_mmlu|afri_xnli|belebele|community_arc|community_boolq|community_hellaswag"
    r"|exams|global_mmlu_(?:all|ca|cs|unk)|include|indicnxnli|indicqa|indicxcopa|m3exams|meta_mmlu"
    r"|mgsm|mintaka|mkqa|mlmm_arc|mlmm_hellaswag|mlmm_mmlu|mlmm_truthfulqa|mlqa|ntrex128"
    r"|openai_mmlu|pawsx|sib200|tatoeba|tydiqa|universalner|xcodah|xcopa|xcsqa|xnli|xnli2\.0|xquad"
    r"|xstory_cloze|xwinograd)"
)

RULES: Final = (
    # ISO 639-1 at the end: xnli_sw, xcopa_qu, mgsm_direct_bn.
    r"(?:xnli|xcopa|xstorycloze|xwinograd|xquad|paws|pawsx|wnli|tydiqa_goldp){_two}",
    r"(?:mgsm_direct|mgsm_en_cot|mgsm_native_cot|mgsm_cot_native){_two}",
    # The same in the lists of 2023.
    r"(?:mgsm|xstory_cloze){_two}",
    r"mgsm{_two}_(?:direct|en_cot|native_cot)",
    r"(?:arc|hellaswag|m_mmlu|mela|indicxnli|copa|piqa|openbookqa|headqa|careqa|bertaqa|pisa){_two}",
    r"(?:lambada_openai_mt|lambada_openai_mt_stablelm|arc_challenge_mt){_two}",
    r"truthfulqa-multi_(?:gen|mc1|mc2){_two}",
    # ISO 639-1 within: global_mmlu_ar_stem, truthfulqa_ar_mc1, arc_ca_challenge.
    r"(?:global_mmlu|global_mmlu_full|mmlu_prox|mmlu_prox_lite){_two}_.+",
    r"(?:global_mmlu|mmlu_prox|mmlu_prox_lite){_two}",
    r"truthfulqa{_two}_(?:gen|mc1|mc2)",
    r"mmlu{_two}_llama(?:_.+)?",
    r"arc{_two}_(?:challenge|easy)",
    r"xnli{_two}_(?:mt|native|spanish_bench)",
    r"paws{_two}_spanish_bench",
    r"pisa{_two}_llm_judged",
    # Exams of one language each: eus_exams_eu_opeosakiadmineu.
    r"eus_exams{_two}_.+",
    # ISO 639-1 with a territory: mmmlu_pt_br_astronomy.
    r"mmmlu{_region}(?:_.+)?",
    # ISO 639-3 at the end: multiblimp_abk.
    r"multiblimp{_three}",
    r"afrixnli_(?:en_direct|manual_direct|manual_translate|native_direct|translate){_three}",
    # ISO 639-3 (some write -1) within: afrimmlu_direct_amh_prompt_1.
    _AFRI + r"{_three}_prompt_\d+",
    _AFRI + r"{_three}",
    _AFRICAN + r"{_code}_prompt_\d+",
    # FLORES: belebele_afr_Latn.
    r"belebele{_flores}",
    # FLORES in lower case, some with a region: global_piqa_parallel_cloze_apc_arab_jord.
    r"global_piqa_(?:parallel|nonparallel)_(?:cloze|generation){_lower}",
    # English names: include_base_44_albanian_stem.
    r"include_base_44{_name}_(?:few_shot_(?:en|og)_)?(?:applied_science|arts_humanities"
    r"|business_commerce|driving_license|general_knowledge|health_oriented_education"
    r"|marine_license|medical_license|professional_certification|social_science|stem|culinary)",
    r"indicparam{_name}",
    r"crows_pairs_(?P<name>english|french)(?:_.+)?",
    r"xlsum{_name}_prompt_\d+",
    # lighteval's names: xnli_swa_mcf, mlmm_mmlu_vie_cf:anatomy, belebele_swh_Latn_mcf.
    r"(?:belebele|sib200){_flores}_(?:cf|mcf|hybrid)",
    _LIGHTEVAL + r"{_three}(?:_(?:cf|mcf|hybrid))?(?::.+)?",
    r"flores200{:flores}-{flores}",
    # Pairs: mlqa_ar_de, flores_eng_Latn-fon_Latn_prompt_1, catalan_bench_flores_ca-fr.
    r"mlqa{_two}{_two}",
    r"(?:basque|catalan|galician|portuguese|spanish)_bench_flores{_two}-{two}",
    r"(?:flores|ntrex){_flores}-{flores}(?:_prompt_\d+)?",
    r"(?:mafand|salt){_code}-{code}(?:_prompt_\d+)?",
    r"(?:wmt14|wmt16|iwslt2017){-two}-{two}",
)
"""Names of tasks with slots such as ``{_two}``: what separates the language, and its code."""

# Codes that benchmarks use otherwise than ISO 639 does: ch is Chamorro, jp no code.
_CORRECTED_CODES: Final[Mapping[tuple[str, str], str]] = {
    ("pisa", "ch"): "zh",
    ("pisa_llm_judged", "ch"): "zh",
    ("xwinograd", "jp"): "ja",
}

_COLUMNS: Final = ("task", "dataset", "language")
_SLOT: Final = re.compile(r"\{([_:-]?)(\w+?)\}")


@dataclass(frozen=True, slots=True)
class NamedTask:
    """Dataset and language that the name of a task gives."""

    dataset: str
    language: str


class TaskNames:
    """The user's own lines, before the table of rules.

    Parameters
    ----------
    lines : sequence of (task, dataset, language)
        `task` is a name, in which ``*`` stands for anything and ``{language}`` for a language.
        `dataset` empty: the task's name without its language. `language` empty and no
        slot in `task`: the task is left out.
    """

    def __init__(self, lines: Sequence[tuple[str, str, str]] = ()) -> None:
        self._lines = TaskLines([task for task, _, _ in lines])
        self._given = [(dataset, language) for _, dataset, language in lines]

    def __contains__(self, task: str) -> bool:
        """Whether a line of the user's fits the name."""
        return self._lines.first(task) is not None

    def parse(self, task: str) -> NamedTask | None:
        """Dataset and language; None for a task to leave out.

        Raises
        ------
        LookupError
            If neither a line nor a rule knows the name.
        """
        found = self._lines.first(task)
        if found is None:
            return parse_task(task)
        place, slot = found
        dataset, language = self._given[place]
        if slot is None:
            return NamedTask(dataset or task, language) if language else None
        start, end = slot
        rest = task[:start].rstrip("_-") + task[end:]
        without = (rest if start else rest.lstrip("_-")) or task
        return NamedTask(dataset or without, language or task[start:end])

    def parse_all(self, tasks: Iterable[str], source: str) -> dict[str, NamedTask | None]:
        """Dataset and language of all names; None for tasks to leave out.

        Raises
        ------
        InputError
            If names are not known; the message lists them.
        """
        named: dict[str, NamedTask | None] = {}
        unknown = []
        for task in dict.fromkeys(tasks):
            try:
                named[task] = self.parse(task)
            except LookupError:
                unknown.append(task)
        if unknown:
            raise UnknownTasksError(source, sorted(unknown))
        return named


class UnknownTasksError(InputError):
    """The names of tasks say no language that is known.

    Parameters
    ----------
    source : str
    tasks : sequence of str
    """

    def __init__(self, source: str, tasks: Sequence[str]) -> None:
        self.proposals = propose(tasks)
        listed = [
            line.pattern if len(line.tasks) == 1 else f"{line.pattern} ({len(line.tasks)})"
            for line in sorted(self.proposals, key=lambda line: (-len(line.tasks), line.pattern))
        ]
        proposed = {task for line in self.proposals for task in line.tasks}
        listed += [task for task in tasks if task not in proposed]
        super().__init__(
            f"{source}: no language is known for {counted(len(tasks), 'task')}:"
            f" {shorten(listed, limit=12)}; name it in a CSV file with the columns"
            " task,dataset,language (an empty language leaves a task out), given as"
            f" {argument('task_names')}"
            + wording("", "; 'bayeseval validate ... --propose-task-names FILE' writes one to edit")
        )


@lru_cache(maxsize=1)
def _compiled() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_SLOT.sub(_slot, rule)) for rule in RULES)


def _slot(match: re.Match[str]) -> str:
    # The separator before a language goes with it; each slot has a name of its own.
    place = match.start()
    return f"(?P<s{place}>{match[1]}(?P<l{place}>{_SLOTS[match[2]]}))"


def parse_task(task: str) -> NamedTask:
    """Dataset and language of a task that the table of rules knows.

    A pair of two languages is named ``ar+de``; a pair of one language is that language.

    Raises
    ------
    LookupError
        If no rule knows the name.
    """
    for pattern in _compiled():
        match = pattern.fullmatch(task)
        if match is not None:
            return _from_match(task, match)
    raise LookupError(task)


def _from_match(task: str, match: re.Match[str]) -> NamedTask:
    groups = match.groupdict()
    if "name" in groups:
        start, end = match.span("name")
        return NamedTask(task[:start].rstrip("_") + task[end:], groups["name"])
    slots = sorted((match.span(name), name) for name in groups if name.startswith("s"))
    (start, _), (_, end) = slots[0][0], slots[-1][0]
    dataset = task[:start] + task[end:]
    language = joined_languages(groups["l" + name[1:]] for _, name in slots)
    return NamedTask(dataset, _CORRECTED_CODES.get((dataset, language), language))


def read_task_names(path: Path | None) -> TaskNames:
    """The user's table: CSV with the columns ``task``, ``dataset`` and ``language``.

    ``task`` is a name, in which ``*`` stands for anything and ``{language}`` for a
    language; the first line that fits counts.

    Raises
    ------
    InputError
        If it is not such a table.
    """
    if path is None:
        return TaskNames()
    text = decode(file_bytes(path), str(path), expected="expected CSV")
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as problem:
        reason = "a quote is never closed" if "end of data" in str(problem) else str(problem)
        raise InputError(
            f"{path}, line {reader.line_num}: not valid CSV: {plain(reason)}"
        ) from problem
    header = [cell.strip() for cell in rows[0][1]] if rows else []
    if header != list(_COLUMNS):
        raise InputError(
            f"{path}, line 1: expected the columns task,dataset,language,"
            f" got {show(','.join(header)) if header else 'nothing'}"
        )
    lines = []
    for number, row in rows[1:]:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(_COLUMNS) or not row[0].strip():
            raise InputError(
                f"{path}, line {number}: expected task,dataset,language, got {show(','.join(row))}"
            )
        task, dataset, language = (cell.strip() for cell in row)
        if task.count(SLOT) > 1:
            raise InputError(f"{path}, line {number}: {{language}} is in {task!r} twice")
        lines.append((task, dataset, language))
    return TaskNames(lines)


def proposed_table(proposals: Iterable[Proposal], own: Path | None = None) -> str:
    """The text of a table of task names.

    Parameters
    ----------
    proposals : iterable of Proposal
    own : Path or None
        A table of the user's, whose lines come first.

    Raises
    ------
    InputError
        If `own` cannot be read.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if own is None:
        writer.writerow(_COLUMNS)
    else:
        text.write(decode(file_bytes(own), str(own), expected="expected CSV").rstrip() + "\n")
    writer.writerows((line.pattern, line.dataset, line.language) for line in proposals)
    return text.getvalue()
