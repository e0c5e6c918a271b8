"""Properties of a checked fit on which advice depends, and the commands that it can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from bayeseval import names
from bayeseval._text import shell_quoted
from bayeseval.checks.connections import unconnected_share
from bayeseval.design import identified_interactions, narrow_tasks
from bayeseval.errors import wording
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.families import of_quantity
from bayeseval.spec import AUTO, list_models

__all__ = ["BOUNDED", "INTERACTIONS", "OwnSpec", "Situation"]

# From the smallest model up.
_FULLER: Final = ("interaction", "crossed", "dataset")
#: Interactions of shipped models.
INTERACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "interaction": ("language:task",),
    "crossed": ("language:task", "model:task", "model:language"),
    "dataset": ("language:task", "model:task", "model:language", "model:language:dataset"),
}
#: Shipped models of likelihoods that know the bounds of the scores; none has interactions.
BOUNDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(of_quantity("share"), "bounded"),
    **dict.fromkeys(of_quantity("logit"), "logit"),
    **dict.fromkeys(of_quantity("count"), "counts"),
}


@dataclass(frozen=True)
class OwnSpec:
    """A model that is not shipped, as a user can write it.

    Attributes
    ----------
    likelihood : str
    terms : tuple of str
        Its interactions.
    residual_by : str or None
        Factor by which its residual sds differ.
    """

    likelihood: str
    terms: tuple[str, ...] = ()
    residual_by: str | None = None


@dataclass(frozen=True)
class Situation:
    """Properties of the checked fit on which the recommended next step depends.

    Attributes
    ----------
    benchmark : str
        Value of ``--benchmark``.
    model : str
        Value of ``--model``: a shipped name, ``auto``, or the name of the user's own spec.
    terms : tuple of str
        Its interactions, except low-rank ones.
    identified : tuple of str
        Interactions that the table identifies.
    likelihood : str
        ``normal``, ...; ``mixed`` where tasks differ.
    residual_by : str or None
        Factor by which residual sds differ.
    bounded : bool
        Whether the scores of all tasks have two bounds.
    alike : tuple of str
        Terms within whose cells residuals are correlated.
    outliers : int
        Number of outlying records.
    options : str
        Further options on reading the table, as a shell takes them: ``--mapping units.yaml``.
    covariates : tuple of str
        Its covariates.
    covariate : str
        Value of ``--covariate``; empty where there is none to give.
    unconnected : float
        Share of the pairs of models without a common language-task pair.
    crowded : bool
        Whether the language whose sd the model predicts worst has its scores at a bound.
    narrow : tuple of str
        Tasks whose scores vary less than half as much as those of others.
    inside : bool
        Whether all scores lie between two bounds, none at one of them.
    even_on_logits : bool
        Whether no task's logits vary less than half as much as those of others; False where a
        score has none, see `inside`.
    low_rank : mapping of str to int
        Its low-rank interactions, with their ranks.
    errors : bool
        Whether scores have standard errors or replicates, which belong to normal likelihoods.
    """

    benchmark: str
    model: str
    terms: tuple[str, ...]
    identified: tuple[str, ...]
    likelihood: str
    residual_by: str | None
    bounded: bool
    alike: tuple[str, ...] = ()
    outliers: int = 0
    options: str = ""
    covariates: tuple[str, ...] = ()
    covariate: str = ""
    unconnected: float = 0.0
    crowded: bool = False
    narrow: tuple[str, ...] = ()
    inside: bool = False
    even_on_logits: bool = False
    low_rank: Mapping[str, int] = field(default_factory=dict)
    errors: bool = False

    @classmethod
    def of(
        cls,
        arrays: PosteriorArrays,
        *,
        benchmark: str,
        model: str,
        bounded: bool,
        alike: Sequence[str],
        outliers: int,
        options: str = "",
        covariate: str = "",
        crowded: bool = False,
        inside: bool = False,
        even_on_logits: bool = False,
    ) -> Situation:
        """Read terms, noise and counts off a fit."""
        sizes = {factor: len(labels) for factor, labels in arrays.levels.items()}
        return cls(
            benchmark=benchmark,
            model=model,
            terms=tuple(cells.term for cells in arrays.cells if cells.loadings is None),
            identified=identified_interactions(arrays.index, sizes),
            likelihood=arrays.likelihood,
            residual_by=arrays.residual_by,
            bounded=bounded,
            alike=tuple(alike),
            outliers=outliers,
            options=options,
            covariates=tuple(slope.name for slope in arrays.slopes),
            covariate=covariate,
            unconnected=unconnected_share(arrays.index, sizes),
            crowded=crowded,
            narrow=narrow_tasks(arrays.score, arrays.index[names.TASK], arrays.levels[names.TASK]),
            inside=inside,
            even_on_logits=even_on_logits,
            low_rank={
                ":".join(names.factors_of(cells.term)): cells.loadings.sd.shape[1]
                for cells in arrays.cells
                if cells.loadings is not None
            },
            errors=arrays.se is not None,
        )

    def has(self, shipped: str) -> bool:
        """Whether a shipped model of these interactions can be fitted to the table."""
        return set(INTERACTIONS[shipped]) <= set(self.identified)

    def fuller(self, wanted: Sequence[str] = ()) -> str | None:
        """The smallest model with more terms than this one, including those wanted.

        With a covariate this is ``auto``, which adds it to all terms that the table identifies.
        Shipped models with interactions have no bounds; none replaces a model that has them.
        """
        if self.likelihood not in of_quantity("score"):
            return None
        # A full interaction contains the low-rank one.
        needed = {*self.terms, *self.low_rank, *wanted}
        if self.covariates:
            more = needed <= set(self.identified) != set(self.terms)
            return AUTO if self.covariate and self.model != AUTO and more else None
        return next(
            (
                name
                for name in _FULLER
                if self.has(name) and needed <= set(INTERACTIONS[name]) != set(self.terms)
            ),
            None,
        )

    def next_model(self) -> str | None:
        """The model with more terms, if possible those that residuals indicate."""
        return self.fuller(self.alike) or self.fuller()

    def robust(self) -> str | None:
        """The shipped model with heavy tails, if the table identifies it."""
        return "robust" if self.likelihood == "normal" and self.has("crossed") else None

    def lacking(self, terms: Sequence[str]) -> tuple[str, ...]:
        """Those of some terms that the table identifies and the model does not have."""
        return tuple(t for t in terms if t in self.identified and t not in self.terms)

    def interaction_lines(self, terms: Sequence[str]) -> dict[str, str]:
        """Some interactions beside the low-rank ones of the model, in the form of a spec file."""
        ranks = ", ".join(f"{pair}: {rank}" for pair, rank in self.low_rank.items())
        return ({"interactions": f"[{', '.join(terms)}]"} if terms else {}) | (
            {"low_rank": f"{{{ranks}}}"} if ranks else {}
        )

    def own_spec(self, spec: OwnSpec) -> tuple[str, str]:
        """How to write a spec of the user's own, and the command that fits it."""
        kind = "interactions" if spec.residual_by is None else f"by_{spec.residual_by}"
        written: dict[str, object] = {
            "name": f"{spec.likelihood}_{kind}",
            "likelihood": spec.likelihood,
        }
        if spec.terms:
            written["interactions"] = list(spec.terms)
        if self.low_rank:
            written["low_rank"] = dict(self.low_rank)
        if spec.residual_by is not None:
            written["residual_by"] = spec.residual_by
        lines = written | self.interaction_lines(spec.terms)
        listed = ", ".join(repr(f"{key}: {value}") for key, value in lines.items())
        file = f"{written['name']}.yaml"
        return (
            wording(
                f" Give this spec in place of a name: {written}.",
                f" Write these lines to {file}, and give the file to --model: {listed}.",
            ),
            self._written("fit", python=[repr(written)], command=f"--model {file}"),
        )

    def scales(self) -> str:
        """Command that shows the scale of every task, and how to declare those not known."""
        return wording(
            "records.report.notes",
            f"bayeseval validate {shell_quoted(self.benchmark)} {self.options}".rstrip(),
        )

    def fit(self, model: str) -> str:
        """Command that fits another model."""
        return self._written("fit", python=[repr(model)], command=f"--model {model}")

    def compare(self, *others: str | None) -> str:
        """Command that compares other models with this one; empty without others.

        Empty too where another model could only replace this one and lose its covariate.
        """
        known = [name for name in others if name is not None and name != self.model]
        if self.model in _model_names():
            known = [self.model, *known]
        if len(known) == 1:
            stays = known == [self.model] or (self.covariates and known != [AUTO])
            return "" if stays else self.fit(known[0])
        if not known:
            return ""
        return self._written("compare", python=[repr(known)], command=f"--models {','.join(known)}")

    def sensitivity(self, drop: str) -> str:
        """Command that fits this model without a part of the table."""
        named = self.model in _model_names()
        if self.covariates and not (named or self.covariate):
            return ""
        plain = BOUNDED.get(self.likelihood, "additive")
        other = AUTO if self.covariates else self.fuller() or plain
        model = self.model if named else other
        return self._written(
            "sensitivity",
            python=[repr(model), f"drop={drop!r}"],
            command=f"--model {model} --drop {drop}",
        )

    def _written(self, name: str, *, python: Sequence[str], command: str) -> str:
        """A call, or a command that reads the same table and covariate again."""
        table = f"--benchmark {shell_quoted(self.benchmark)} {self.options}".rstrip()
        given = f"covariate={self.covariate!r}" if self.covariate else ""
        option = f" --covariate {shell_quoted(self.covariate)}" if self.covariate else ""
        return wording(
            f"be.{name}({', '.join(['records', *python, *filter(None, [given])])})",
            f"bayeseval {name} {table} {command}{option}",
        )


@cache
def _model_names() -> frozenset[str]:
    """Names that ``--model`` accepts."""
    return frozenset({AUTO, *list_models()})
