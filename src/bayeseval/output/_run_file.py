"""What a run file may hold: the keys that commands read, with their types."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, StrictFloat, StrictInt

from bayeseval._text import grouped, show
from bayeseval._yaml import FrozenConfig, parse_config
from bayeseval.errors import InputError
from bayeseval.output._integrity import again

__all__ = ["check_calibration_run", "check_fit_run", "check_run"]

# JSON writes 1.0 as 1.0 or 1, and NaN as null.
_Number = StrictInt | StrictFloat
_Known = _Number | None
_Level = Annotated[StrictInt, Field(ge=0, le=10**9)]
_Draws = Annotated[StrictInt, Field(ge=1, le=10**9)]
_Seed = Annotated[StrictInt, Field(ge=0, lt=1 << 64)]
# Longer ones are no names, and pages would be as large.
_MAX_NAME: Final = 10_000


def _text(value: Any) -> str:
    """Text; names of files may hold bytes that are no UTF-8, which pydantic's own type refuses."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {show(value)}")
    return value


def _short(value: Any) -> str:
    text = _text(value)
    if len(text) > _MAX_NAME:
        raise ValueError(f"expected at most {grouped(_MAX_NAME)} characters, got {show(text)}")
    return text


def _inside(value: Any) -> str:
    text = _short(value)
    path = PurePosixPath(text)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in text:
        raise ValueError(f"expected the name of a file inside the folder, got {show(text)}")
    return text


def _with_reason(value: dict[str, Any]) -> dict[str, Any]:
    for key, needed in (("path", "path_reason"), ("path_reason", "path")):
        if isinstance(value.get(key), str) and not isinstance(value.get(needed), str):
            raise ValueError(f"expected a text under {needed}, because {key} is there")
    return value


_Text = Annotated[str, PlainValidator(_text)]
_Name = Annotated[str, PlainValidator(_short)]
_File = Annotated[str, PlainValidator(_inside)]


# How a fit was sampled; an engine with several ways says which one it took, and why.
_Sampling = Annotated[dict[_Text, _Text | _Known], AfterValidator(_with_reason)]


class _Part(FrozenConfig):
    """Keys of later versions, and those that nobody reads, are of any type."""

    model_config = ConfigDict(frozen=True, extra="allow")


class _GateCheck(FrozenConfig):
    name: _Text
    value: _Known
    limit: _Number
    where: _Text
    passed: bool | None


class _Gate(_Part):
    status: _Name
    checks: list[_GateCheck] = []
    n_quantities: StrictInt = 0


class _Spec(_Part):
    name: _Name = ""
    likelihood: _Text | dict[_Text, _Text] = "normal"
    interactions: list[_Text] | None = None
    low_rank: dict[_Text, StrictInt] | None = None
    languages: dict[_Text, Any] | None = None


class _FitSpec(_Spec):
    name: _Name


class _Settings(_Part):
    draws: _Draws | None = None
    nuts_sampler: _Name | None = None


class _Covariate(_Part):
    source: _Text | None = None
    hash: _Text = ""


class _Run(_Part):
    versions: dict[_Text, _Name] | None = None
    benchmark: _Name = ""
    source: _Text | None = None
    citations: list[_Text] | None = None
    engine: _Name | None = None
    seed: _Seed | None = None
    settings: _Settings | None = None
    spec: _Spec | None = None
    priors: dict[_Text, Any] | None = None
    fixed_effects: dict[_Text, Any] | None = None
    covariates: dict[_Text, _Covariate] | None = None
    levels: dict[_Text, _Level] | None = None
    bounds: dict[_Text, tuple[_Known, _Known]] | None = None
    n_records: _Level = 0
    language_names: dict[_Name, _Name] | None = None
    notes: list[_Text] | None = None
    gate: _Gate | None = None
    gates: dict[_Text, _Text] | None = None
    samplers: dict[_Text, _Sampling] | None = None
    created_at: _Name | None = None
    model_reasons: list[_Text] | None = None
    engine_reason: _Text | None = None
    sampling: _Sampling | None = None
    pairs: _Name | None = None
    seconds: _Number | None = None
    source_options: _Text | None = None
    ci_prob: Annotated[_Number, Field(gt=0, lt=1)] | None = None
    files: list[_File] | None = None
    sha256: dict[_File, _Text] | None = None


class _CalibratedSpec(_FitSpec):
    residual_by: _Name | None = None


class _CalibrationRun(_Run):
    """What every calibration has, too."""

    benchmark: _Name
    fitted_with: _Name
    priors_of_fits: _Name
    simulations: _Draws
    spec: _CalibratedSpec
    priors: dict[_Text, Any]


class _FitRun(_Run):
    """What every fit has, too."""

    benchmark: _Name
    engine: _Name
    seed: _Seed
    spec: _FitSpec
    gate: _Gate
    language_names: dict[_Name, _Name]
    n_records: _Level


def check_run(path: Path, run: dict[str, Any]) -> None:
    """Refuse a run file whose keys are of other types than those that were written.

    Raises
    ------
    InputError
        The first such key, what it has to be, and what to do.
    """
    _check(_Run, run, f"{path} is damaged")


def check_fit_run(path: Path, run: dict[str, Any]) -> None:
    """The same for the run file of a fit, which has more keys than others."""
    _check(_FitRun, run, f"{path} is damaged, or not that of a fit")


def check_calibration_run(path: Path, run: dict[str, Any]) -> None:
    """The same for the run file of a calibration."""
    _check(_CalibrationRun, run, f"{path} is damaged, or not that of a calibration")


def _check(schema: type[_Run], run: dict[str, Any], words: str) -> None:
    try:
        parse_config(schema, run, source=words)
    except InputError as error:
        raise InputError(f"{error}; restore the file, or {again(run)}") from error
