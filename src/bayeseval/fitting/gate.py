"""The convergence gate: checks as data, their wording apart.

A run that fails the gate is still written, but every table and figure it leaves
says so and the command line exits with 3.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval._diagnostics import Convergence, convergence
from bayeseval.errors import ConvergenceWarning, by_option, wording
from bayeseval.names import K_HAT_MAX

__all__ = [
    "BFMI_MIN",
    "ESS_PER_CHAIN",
    "GATE_FAILED",
    "RHAT_MAX",
    "Check",
    "Gate",
    "convergence_gate",
    "format_gate",
    "gate_advice",
    "warn_of_gates",
]

# Vehtari et al. (2021), doi:10.1214/20-BA1221: rank-normalised split R-hat and
# at least 100 effective draws per chain in bulk and tail. Betancourt (2016),
# arXiv:1604.00695: an energy fraction under 0.3 means the sampler cannot move
# between energy levels.
RHAT_MAX: Final = 1.01
ESS_PER_CHAIN: Final = 100.0
BFMI_MIN: Final = 0.3

# Split R-hat compares halves of chains, and a half needs two draws to vary.
_DRAWS_MIN: Final = 4
# Quantities that are diagnosed at a time: 16 MB at the usual number of draws, and whole blocks of
# :func:`convergence`.
_AT_A_TIME: Final = 512
# A warning names so many fits; the tables have all.
_MOST_NAMED: Final = 3

# Checks that more draws of the same sampler can pass.
_OF_DRAWS: Final = frozenset({"r_hat", "ess_bulk", "ess_tail", "importance_ess", "draws"})
# An effective sample size is itself an estimate: draws beyond those that its ratio asks for.
_RESERVE: Final = 1.1
# Chains that would need more than so many times their draws do not mix: another sampler is
# the better advice.
_MOST_TIMES: Final = 20.0
_HIGH_ACCEPT: Final = 0.99
_ALL_CHAINS: Final = "all chains"

#: What stands before numbers that were made from a fit whose gate failed.
GATE_FAILED: Final = "the convergence gate of the fit failed; do not rely on these numbers"

Status = Literal["pass", "fail", "not applicable"]


@dataclass(frozen=True)
class Check:
    """One criterion of the gate.

    Attributes
    ----------
    name : str
        ``r_hat``, ``ess_bulk``, ``ess_tail``, ``divergences`` or ``bfmi``.
    value : float
        The worst value found; NaN when it could not be computed, which fails.
    limit : float
        What is allowed.
    where : str
        The quantity that has the worst value, with its label.
    passed : bool
        Whether the value keeps to the limit.
    """

    name: str
    value: float
    limit: float
    where: str
    passed: bool


@dataclass(frozen=True)
class Gate:
    """Outcome of all checks.

    Attributes
    ----------
    status : {"pass", "fail", "not applicable"}
        ``not applicable`` for a point estimate, which has nothing to converge.
    checks : tuple of Check
        Every criterion, in the order it is reported.
    n_quantities : int
        Number of scalar quantities the R-hat and ESS checks looked at.
    """

    status: Status
    checks: tuple[Check, ...]
    n_quantities: int

    def to_dict(self) -> dict[str, Any]:
        """Plain mapping for ``run.json``."""
        return {**asdict(self), "checks": [asdict(check) for check in self.checks]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Gate:
        """Inverse of :meth:`to_dict`."""
        return cls(
            status=values["status"],
            # JSON has no NaN: a value that could not be computed is stored as null.
            checks=tuple(
                Check(**{**check, "value": np.nan if check["value"] is None else check["value"]})
                for check in values.get("checks", ())
            ),
            n_quantities=values.get("n_quantities", 0),
        )


def convergence_gate(tree: xr.DataTree) -> Gate:
    """Check R-hat, effective sample sizes, divergences and energy of a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups ``posterior`` and ``sample_stats``. Every variable of the posterior
        is looked at but the ranks: they are step functions of quantities that are
        looked at, and a rank that hardly ever changes has no useful R-hat; and but the
        loadings of low-rank interactions, whose signs and rotation the scores do not
        identify: the effects that they multiply to are looked at.

    Returns
    -------
    Gate
        A quantity that is constant by construction is left out; one whose
        diagnostic cannot be computed fails.
    """
    posterior = tree["posterior"].to_dataset()
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if n_chains == 1 and n_draws == 1:
        return Gate(status="not applicable", checks=(), n_quantities=0)
    if n_draws < _DRAWS_MIN:
        check = Check("draws", float(n_draws), float(_DRAWS_MIN), "every chain", passed=False)
        return Gate(status="fail", checks=(check,), n_quantities=0)
    labels, found = _diagnosed(posterior)
    checks = [*_rank_checks(labels, found, n_chains)]
    checks += _importance_checks(posterior.attrs, n_chains)
    if "sample_stats" in tree.children:
        checks += _sampler_checks(tree["sample_stats"].to_dataset())
    passed = all(check.passed for check in checks)
    return Gate(status="pass" if passed else "fail", checks=tuple(checks), n_quantities=len(labels))


def _diagnosed(posterior: xr.Dataset) -> tuple[list[str], Convergence]:
    """Labels and diagnostics of every scalar quantity that varies."""
    labels: list[str] = []
    found = [Convergence(*np.empty((3, 0)))]
    quantities = _quantities(posterior)
    # Some at a time: all of them are as large as the posterior.
    while part := list(islice(quantities, _AT_A_TIME)):
        labels += [label for label, _ in part]
        found.append(convergence(np.stack([values for _, values in part])))
    return labels, Convergence(*np.concatenate(found, axis=1))


def _quantities(posterior: xr.Dataset) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Every scalar quantity that varies: label and draws (chain, draw)."""
    for name, variable in posterior.data_vars.items():
        if str(name).endswith("_rank") or names.is_loading(str(name)):
            continue
        for label, values in _scalars(str(name), variable):
            finite = np.isfinite(values)
            if not finite.any() or np.ptp(values[finite]) == 0.0:
                # Wholly NaN: withheld by its estimand, with the reason there.
                continue
            if not finite.all():
                # A few draws withheld by the estimand's guard (at most 1 %).
                values = np.where(finite, values, values[finite].mean())
            yield label, values


def _scalars(name: str, variable: xr.DataArray) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    extra = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    values = variable.transpose(*extra, "chain", "draw").to_numpy()
    if not extra:
        yield name, np.asarray(values, dtype=np.float64)
        return
    (dim,) = extra
    labels = variable[dim].to_numpy()
    for start in range(0, len(labels), _AT_A_TIME):
        # Draws of a level side by side, as they are looked at.
        part = np.ascontiguousarray(values[start : start + _AT_A_TIME], dtype=np.float64)
        for level, own in zip(labels[start : start + _AT_A_TIME], part, strict=True):
            yield f"{name}[{level}]", own


def _rank_checks(labels: list[str], found: Convergence, n_chains: int) -> Iterator[Check]:
    ess_min = ESS_PER_CHAIN * n_chains
    yield _worst("r_hat", found.r_hat, labels, limit=RHAT_MAX, at_most=True)
    yield _worst("ess_bulk", found.bulk, labels, limit=ess_min, at_most=False)
    yield _worst("ess_tail", found.tail, labels, limit=ess_min, at_most=False)


def _worst(
    name: str,
    values: npt.NDArray[np.float64],
    labels: list[str],
    *,
    limit: float,
    at_most: bool,
) -> Check:
    if not labels:
        return Check(name=name, value=np.nan, limit=limit, where="nothing varies", passed=False)
    # NaN must flag, so it counts as the worst value there is.
    badness = np.where(np.isnan(values), np.inf, values if at_most else -values)
    index = int(np.argmax(badness))
    value = float(values[index])
    passed = value <= limit if at_most else value >= limit
    return Check(name=name, value=value, limit=limit, where=labels[index], passed=bool(passed))


def _importance_checks(attrs: Mapping[Any, Any], n_chains: int) -> Iterator[Check]:
    """Checks of draws that come from importance sampling; none for other draws.

    A point that was resampled twice looks like two independent draws to R-hat and
    the effective sample sizes above, so the weights are asked as well.
    """
    if attrs.get("path") != "importance":
        return
    k_hat, ess = float(attrs["k_hat"]), float(attrs["importance_ess"])
    ess_min = ESS_PER_CHAIN * n_chains
    yield Check("k_hat", k_hat, K_HAT_MAX, "the importance weights", bool(k_hat <= K_HAT_MAX))
    yield Check("importance_ess", ess, ess_min, "the importance weights", bool(ess >= ess_min))


def _sampler_checks(stats: xr.Dataset) -> Iterator[Check]:
    if "diverging" in stats:
        count = int(stats["diverging"].sum())
        yield Check("divergences", float(count), 0.0, _ALL_CHAINS, count == 0)
    if "energy" in stats:
        energy = stats["energy"].transpose("chain", "draw").to_numpy().astype(np.float64)
        # Estimated Bayesian fraction of missing information, one per chain.
        fraction = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
        chain = int(np.argmin(np.where(np.isnan(fraction), -np.inf, fraction)))
        value = float(fraction[chain])
        yield Check("bfmi", value, BFMI_MIN, f"chain {chain}", bool(value >= BFMI_MIN))


_WORDS = {
    "r_hat": "R-hat",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "divergences": "divergent transitions",
    "bfmi": "BFMI",
    "k_hat": "Pareto k-hat",
    "importance_ess": "importance ESS",
    "draws": "draws per chain",
}


def format_gate(gate: Gate) -> str:
    """One line per check that failed, or one line that says all passed."""
    if gate.status == "not applicable":
        return "Convergence gate: not applicable (a point estimate, no draws)"
    if gate.status == "pass":
        worst = ", ".join(
            f"{_WORDS.get(check.name, check.name)} {_number(check)}" for check in gate.checks
        )
        return f"Convergence gate: passed, {gate.n_quantities} quantities\n  worst {worst}"
    lines = ["Convergence gate: FAILED; do not rely on the results below"]
    return "\n".join([*lines, *(f"  {failure}" for failure in _failures(gate))])


def gate_advice(gate: Gate, run: Mapping[str, Any]) -> str:
    """What to do about a failed gate, in a sentence; empty for another outcome.

    Parameters
    ----------
    gate : Gate
    run : mapping
        Provenance of the fit: ``engine``, ``spec`` and ``settings``.
    """
    if gate.status != "fail":
        return ""
    failed = {check.name: check for check in gate.checks if not check.passed}
    settings = run.get("settings") or {}
    draws = settings.get("draws")
    ways = []
    # A fit that failed once was drawn again with a high one.
    usual = (settings.get("target_accept") or 0.0) < _HIGH_ACCEPT
    if usual and failed.keys() & {"divergences", "bfmi"}:
        ways.append(
            f"a higher {wording('target_accept', '--target-accept')}, such as {_HIGH_ACCEPT:g}"
        )
    if failed.keys() <= _OF_DRAWS and draws:
        enough = _enough_draws(failed.values(), int(draws))
        if enough:
            ways.append(f"{wording('draws=', '--draws ')}{enough} in place of {draws} per chain")
    ways.append(_other_engine(run))
    return f"What to do: fit again with {', or with '.join(ways)}."


def _enough_draws(failed: Iterable[Check], draws: int) -> int:
    """Draws per chain at which the checks would pass, by ratio; 0 if these would be too many."""
    # R-hat falls with the number of draws, but not in proportion.
    ratios = [
        2.0 if check.name == "r_hat" else check.limit / check.value
        for check in failed
        if check.value > 0.0
    ]
    if not ratios or max(ratios) > _MOST_TIMES:
        return 0
    return 100 * math.ceil(draws * _RESERVE * max(ratios) / 100)


def _other_engine(run: Mapping[str, Any]) -> str:
    """Another engine that can fit the model, or a simpler model."""
    if run.get("engine") == "marginal":
        return wording("engine='numpyro'", "--engine numpyro")
    spec = run.get("spec") or {}
    # Unknown covariates, and log sds of residuals or of replicates' noise, have to be sampled.
    unknown = any(
        one.get("missing") == "model" or one.get("measurement_error")
        for one in spec.get("covariates") or ()
    )
    logs = any(str(name).startswith("sd_log_") for name in run.get("priors") or {})
    sampled = names.LOW_RANK in spec or unknown or logs
    if spec.get("likelihood") == "normal" and not sampled:
        return wording("engine='marginal'", "--engine marginal")
    return f"a simpler model{by_option('--model')}"


def warn_of_gates(gates: Mapping[str, Gate], *, stacklevel: int) -> None:
    """Warn once of all fits whose convergence gate failed; silent when none did.

    Parameters
    ----------
    gates : mapping of str to Gate
        By the name of the fit; empty for a single one.
    stacklevel : int
        As for :func:`warnings.warn`, counted from the caller of this function.

    Warns
    -----
    ConvergenceWarning
        What failed, and what to do.
    """
    failed_fits = [
        f"{name}: {', '.join(_failures(gate))}" if name else ", ".join(_failures(gate))
        for name, gate in gates.items()
        if gate.status == "fail"
    ]
    if not failed_fits:
        return
    rest = len(failed_fits) - _MOST_NAMED
    more = [f"and {rest} more fit{'s' * (rest > 1)}"] if rest > 0 else []
    warnings.warn(
        f"the convergence gate failed, do not rely on these results: "
        f"{'; '.join(failed_fits[:_MOST_NAMED] + more)}. "
        "Fit again with more draws, or with a simpler model.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _failures(gate: Gate) -> list[str]:
    """What failed and by how much, worst value and limit."""
    at_most = ("r_hat", "divergences", "k_hat")
    return [
        f"{_WORDS.get(check.name, check.name)} {_number(check)}"
        f" {'in' if check.where == _ALL_CHAINS else 'at'} {check.where}"
        f" ({'at most' if check.name in at_most else 'at least'} {check.limit:g} is required)"
        for check in gate.checks
        if not check.passed
    ]


def _number(check: Check) -> str:
    if check.name in ("ess_bulk", "ess_tail", "importance_ess", "divergences", "draws"):
        return f"{check.value:.0f}"
    return f"{check.value:.3f}" if check.name == "r_hat" else f"{check.value:.2f}"
