"""Intervals by parametric bootstrap, the frequentist way, beside one marginal fit.

    python perf/parametric_bootstrap.py [--refits 20] [--scale-to 1000]

The model is the published one (`paper`): fixed language and task effects, a random
model effect. statsmodels' MixedLM is fitted once by maximum likelihood, tables are
drawn from that fit, and MixedLM is fitted to each. Only fitting is timed, the design
matrix is made once, one fit per process at a time: the cheapest way to do it with
statsmodels. The time of the refits, which follow a first fit and its imports, is scaled to 1,000;
that of a marginal fit is all of `bayeseval.fit`, estimands and ranks included: of the first call in
a fresh process, which imports what it needs, and of the second.

The sds of the language potentials are compared too, so that it is the same intervals
that are timed. MixedLM with all three effects random (`additive`) is timed as well:
variance components in a single group (`--random-refits 0` leaves it out).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

from measure import child, print_machine, print_table, reply, write_csv

TARGET: Final = 30.0


def refits(n: int, seed: int) -> dict[str, Any]:
    """Time of `n` refits of the published model, and the sds they find."""
    import numpy as np
    from statsmodels.regression.mixed_linear_model import MixedLM

    from bayeseval import load

    records = load("mega")
    score = np.array(records.scores)
    language, task, model = (records.codes(f) for f in ("language", "task", "model"))
    columns = [
        (codes[:, None] == np.arange(1, codes.max() + 1)).astype(float)
        for codes in (language, task)
    ]
    exog = np.hstack([np.ones((len(score), 1)), *columns])
    with warnings.catch_warnings():
        # Any one refit may stop at a boundary; here it is its time that counts.
        warnings.simplefilter("ignore")
        base = MixedLM(score, exog, groups=model).fit(reml=False, method="powell")
        between, within = float(np.sqrt(base.cov_re[0, 0])), float(np.sqrt(base.scale))
        centre = exog @ base.fe_params
        rng = np.random.default_rng(seed)
        n_languages = int(language.max()) + 1
        potentials, seconds, failed = [], [], 0
        for _ in range(n):
            effects = rng.normal(0.0, between, int(model.max()) + 1)
            table = centre + effects[model] + rng.normal(0.0, within, len(score))
            begun = time.perf_counter()
            fitted = MixedLM(table, exog, groups=model).fit(reml=False)
            seconds.append(time.perf_counter() - begun)
            failed += int(not fitted.converged)
            # All that matters for the sd between tables: the intercept and the
            # means of the task effects are common to all languages.
            beta = fitted.fe_params
            tasks = beta[n_languages:].sum() / (int(task.max()) + 1)
            potentials.append(beta[0] + tasks + np.append(0.0, beta[1:n_languages]))
    return {
        "seconds": sum(seconds),
        "per_fit": sum(seconds) / n,
        "failed": failed,
        "sd": np.std(potentials, axis=0, ddof=1).tolist(),
    }


def random_refits(n: int, seed: int) -> dict[str, Any]:
    """Time of `n` fits with three crossed random effects, as variance components."""
    import numpy as np
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    from bayeseval import load

    records = load("mega")
    score = np.array(records.scores)
    factors = ("language", "task", "model")
    matrices = []
    for factor in factors:
        codes = records.codes(factor)  # type: ignore[arg-type]
        matrices.append([(codes[:, None] == np.arange(codes.max() + 1)).astype(float)])
    names = [[[str(i) for i in range(m[0].shape[1])]] for m in matrices]
    components = VCSpec(list(factors), names, matrices)
    one = np.ones((len(score), 1))

    def fitted(values: Any) -> Any:
        groups = one[:, 0]
        return MixedLM(values, one, groups=groups, exog_vc=components).fit(reml=False)

    rng = np.random.default_rng(seed)
    seconds, failed = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = fitted(score)
        for _ in range(n):
            table = base.fe_params[0] + rng.normal(0.0, np.sqrt(base.scale), len(score))
            for (matrix,), variance in zip(matrices, base.vcomp, strict=True):
                table += matrix @ rng.normal(0.0, np.sqrt(variance), matrix.shape[1])
            begun = time.perf_counter()
            failed += int(not fitted(table).converged)
            seconds.append(time.perf_counter() - begun)
    return {"seconds": sum(seconds), "per_fit": sum(seconds) / n, "failed": failed, "sd": None}


def marginal(model: str, seed: int) -> dict[str, Any]:
    """Times of two whole marginal fits, and the posterior sds of the language potentials."""
    import numpy as np

    from bayeseval import fit, load

    records = load("mega")
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        fitted = fit(records, model, engine="marginal", seed=seed)
        seconds.append(time.perf_counter() - begun)
    potential = fitted.data["posterior"]["language_potential"]
    return {
        "seconds": seconds,
        "sd": np.asarray(potential.std(("chain", "draw"))).tolist(),
        "gate": fitted.gate.status,
    }


def median_ratio(one: list[float], other: list[float]) -> float:
    """Median over levels of the ratio of their sds."""
    ratios = sorted(a / b for a, b in zip(one, other, strict=True))
    return ratios[len(ratios) // 2]


def main() -> int:
    """Print the table, write the CSV file; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description="Parametric bootstrap beside a marginal fit.")
    parser.add_argument("--refits", type=int, default=20)
    parser.add_argument("--random-refits", type=int, default=5)
    parser.add_argument("--scale-to", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        what = asked.child.pop("what")
        kinds: dict[str, Callable[..., dict[str, Any]]]
        kinds = {"refits": refits, "random": random_refits, "marginal": marginal}
        reply(kinds[what](**asked.child))
        return 0
    said = print_machine()
    peers = [("paper", "refits", asked.refits)]
    if asked.random_refits:
        peers.append(("additive", "random", asked.random_refits))
    rows = []
    for model, what, n in peers:
        peer = child(__file__, what=what, n=n, seed=asked.seed)
        ours = child(__file__, what="marginal", model=model, seed=asked.seed)
        scaled = peer["per_fit"] * asked.scale_to
        first, second = ours["seconds"]
        rows.append(
            {
                "model": model,
                "refits timed": n,
                "refit s": peer["per_fit"],
                f"{asked.scale_to} refits s": scaled,
                "first fit s": first,
                "second fit s": second,
                "ratio": scaled / first,
                "ratio to the second": scaled / second,
                "not converged": peer["failed"],
                "sd of potentials, bootstrap / posterior": None
                if peer["sd"] is None
                else median_ratio(peer["sd"], ours["sd"]),
            }
        )
    print_table(rows)
    write_csv("bootstrap", rows, said)
    return int(any(row["ratio"] < TARGET for row in rows))


if __name__ == "__main__":
    sys.exit(main())
