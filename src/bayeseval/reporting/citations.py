"""BibTeX of the methods and data that a result used, and of nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bayeseval._arguments import as_path
from bayeseval._calls import explained
from bayeseval._text import for_terminal
from bayeseval.errors import InputError
from bayeseval.reporting.bibliography import ENTRIES, SAMPLER_KEYS
from bayeseval.reporting.folder import SavedResults, read_saved

__all__ = ["citations_of", "cite", "cited_keys"]

_ENTRY = re.compile(r"@(\w+)\s*\{\s*([^\s,{}]+)\s*,")
# Commands of LaTeX, and the notation by which TeX reads any character as another one.
_COMMAND = re.compile(r"\\(?:[a-zA-Z]+|[^a-zA-Z])|\^\^")
# Accents, letters and fonts: all that titles and names need. Others may read files (\input).
_HARMLESS = re.compile(
    r"\\(?:[^a-zA-Z]|[bcdHijklLoOPrStuv]|aa|AA|ae|AE|oe|OE|ss|SS|dh|DH|dj|DJ|ng|NG|th|TH"
    r"|emph|em|it|bf|sc|sf|tt|rm|url|href|doi|path|text[a-z]+|math[a-z]+|noopsort|relax"
    r"|ldots|dots|times|pm|copyright|alpha|beta|gamma|delta|epsilon|lambda|mu|pi|sigma|tau|chi"
    r"|rightarrow|infty)"
)
_MEXA = "mexa"
# Engines that draw with NUTS, and the library that each is.
_NUTS_ENGINES: Mapping[str, str] = {"numpyro": "phan2019numpyro", "pymc": "abrilpla2023pymc"}
_WITH_PLACES = "forecast_map"


@explained
def cite(folder: str | Path) -> str:
    """BibTeX of exactly the methods and data that a saved result used.

    Parameters
    ----------
    folder : str or Path
        Folder of a saved fit, comparison or sensitivity analysis.

    Returns
    -------
    str
        What ``bayeseval cite DIR`` prints: UTF-8 entries with blank lines between them.

    Raises
    ------
    InputError
        If it is not a result folder, or two entries of the benchmark's citation have one key.

    Examples
    --------
    >>> import bayeseval as be
    >>> entries = be.cite(fit.save("results/cited", figures=False))
    >>> entries.splitlines()[0]
    '@software{bayeseval,'
    """
    return citations_of(read_saved(as_path("folder", folder)))


def citations_of(results: SavedResults, *, with_map: bool = False) -> str:
    """BibTeX of exactly the methods and data that a result used.

    Parameters
    ----------
    results : SavedResults
        Of a fit, a comparison or a sensitivity analysis.
    with_map : bool
        Whether a map is shown beside the result, so that the sources of the languages' places
        are cited; those of a map among its figures always are.

    Returns
    -------
    str
        UTF-8 entries, blank lines between them: bayeseval and the paper of its model first,
        then data, covariates and methods. No key occurs twice.

    Raises
    ------
    InputError
        If two entries of the benchmark's citation have one key.
    """
    keys = cited_keys(results, with_map=with_map)
    entries = {key: _rendered(key, results.run) for key in keys}
    for key, entry in _of_data(results.run).items():
        # What the benchmark's card and this list both know is cited once.
        entries.setdefault(key, entry)
    order = ["bayeseval", "hu2025quantifying"]
    data = [key for key in entries if key not in keys]
    rest = [key for key in keys if key not in order]
    return "\n\n".join(entries[key] for key in [*order, *data, *rest]) + "\n"


def cited_keys(results: SavedResults, *, with_map: bool = False) -> list[str]:
    """Keys of the methods that a result used, without those of the benchmark's own citation.

    Parameters
    ----------
    results, with_map : object
        See :func:`citations_of`.
    """
    run, tables = results.run, results.tables
    keys = ["bayeseval", "hu2025quantifying"]
    if "within_language" in tables:
        keys.append("saleva2025tests")
    if _uses_mexa(run):
        keys.append("kargaran2024mexa")
    if with_map or any(PurePosixPath(name).stem == _WITH_PLACES for name in run["files"]):
        keys += ["dryer2013wals", "hammarstrom2024glottolog"]
    elif {"place", "family"} & set((run.get("spec") or {}).get("languages") or {}):
        keys.append("hammarstrom2024glottolog")
    keys += _engine_keys(results)
    if {"pass", "fail"} & set(results.gates.values()):
        keys += ["vehtari2021rhat", "kumar2019arviz"]
    if "bfmi" in {check.get("name") for check in (run.get("gate") or {}).get("checks", ())}:
        keys.append("betancourt2016bfmi")
    if (
        "variance_components" in tables
        and tables["variance_components"]["finite_sd_mean"].notna().any()
    ):
        keys.append("gelman2005anova")
    keys += _comparison_keys(results)
    keys += _check_keys(results)
    return list(dict.fromkeys(keys))


def _uses_mexa(run: Mapping[str, Any]) -> bool:
    """Whether a covariate is alignment by MEXA: by its name or its file."""
    covariates = run.get("covariates") or {}
    return any(
        _MEXA in f"{name} {covariate.get('source', '')}".casefold()
        for name, covariate in covariates.items()
    )


def _engines(run: Mapping[str, Any]) -> list[str]:
    """Engines of a fit, of the fits compared, or of the fit whose parts were left out."""
    models = run.get("models")
    if isinstance(models, dict):
        return [str(engine) for engine in models.values()]
    return [str(run.get("fitted_with", run.get("engine")))]


def _engine_keys(results: SavedResults) -> Iterator[str]:
    run = results.run
    # Results of early versions do not say the path.
    paths = {one.get("path") for one in results.samplers.values()} or {"importance"}
    for engine in _engines(run):
        if engine == "marginal":
            if "nuts" in paths:
                yield from ("hoffman2014nuts", "phan2019numpyro")
            if "importance" in paths:
                yield "vehtari2024psis"
        elif engine == "ml":
            yield "seabold2010statsmodels"
        elif engine in _NUTS_ENGINES:
            yield from ("hoffman2014nuts", _NUTS_ENGINES[engine])
            sampler = (run.get("settings") or {}).get("nuts_sampler")
            yield from SAMPLER_KEYS.get(str(sampler), ())


def _comparison_keys(results: SavedResults) -> Iterator[str]:
    if results.kind != "comparison":
        return
    methods = " ".join(results.tables["comparison"]["method"])
    if "PSIS" in methods:
        yield from ("vehtari2017loo", "vehtari2024psis")
    if "bridge sampling" in methods:
        yield "meng1996bridge"


def _check_keys(results: SavedResults) -> Iterator[str]:
    if "checks" not in results.tables:
        return
    yield "gelman1996checking"
    if len(results.tables.get("prior_sensitivity", ())):
        yield "kallioinen2024powerscale"


def _rendered(key: str, run: Mapping[str, Any]) -> str:
    kind, fields = ENTRIES[key]
    version = (run.get("versions") or {}).get("bayeseval")
    if key == "bayeseval" and version:
        fields = {**fields, "version": str(version)}
    return _entry(kind, key, fields)


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _of_data(run: Mapping[str, Any]) -> dict[str, str]:
    """Key and entry of what the benchmark's card says to cite.

    A plain text becomes a note, and so does BibTeX with other commands than those of texts:
    whoever compiles it would let the author of the card read files.
    """
    benchmark = str(run.get("benchmark", "data"))
    entries: dict[str, str] = {}
    for number, citation in enumerate(_card_citations(run), start=1):
        parts = list(_split(citation)) if _is_harmless(citation) else []
        if not parts:
            name = re.sub(r"[^a-z0-9]+", "-", benchmark.lower()).strip("-") or "table"
            key = f"data-{name}-{number}"
            fields = {"title": _plain(benchmark), "note": _plain(citation)}
            parts = [(key, _entry("misc", key, fields))]
        for key, entry in parts:
            if entries.setdefault(key, entry) != entry:
                raise InputError(
                    f"the citation of benchmark {benchmark} has two entries with the key {key}; "
                    "give them different keys in its benchmark.yaml and fit again"
                )
    return entries


def _card_citations(run: Mapping[str, Any]) -> list[str]:
    """What was stored with the result; nothing for a table without a card."""
    stored = run.get("citations") or []
    return [text.strip() for text in stored if isinstance(text, str) and text.strip()]


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Keys and entries of a BibTeX text, by its braces."""
    for match in _ENTRY.finditer(text):
        depth, end = 0, match.start()
        for end in range(match.start(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if text[end] == "}" and depth == 0:
                yield match.group(2), text[match.start() : end + 1]
                break


def _is_harmless(text: str) -> bool:
    """Whether a BibTeX text has no commands but those of texts, and nothing that is not seen."""
    line = " ".join(text.split())
    return for_terminal(line) == line and all(map(_HARMLESS.fullmatch, _COMMAND.findall(line)))


def _plain(text: str) -> str:
    """A text as the value of a field: one line, braces paired, BibTeX's marks escaped."""
    line = for_terminal(" ".join(text.split())).replace("\\", r"\textbackslash ")
    line = re.sub(r"([&%$#_])", r"\\\1", line)
    line = line.replace("^", r"\textasciicircum ").replace("~", r"\textasciitilde ")
    return line.replace("{", "(").replace("}", ")")
