"""Reference posteriors of the shipped models: long runs of two engines each, with their errors.

    python perf/reference_posteriors.py [--only mega/additive,replicates/crossed] [--again]
    python perf/reference_posteriors.py --evidence [--only mega/bounded] [--again]
    python perf/reference_posteriors.py --elpd [--only mega/by_task] [--again]

For every table and every model that it admits, two engines draw from the same posterior. The
first one is `marginal` where it applies, else NumPyro's NUTS; the second one is NumPyro's NUTS,
or nutpie on the PyMC model. The first engine's numbers become the reference
(``perf/results/reference/TABLE/MODEL.csv``); the second engine's stand beside them, with the
differences in Monte-Carlo standard errors. ``TABLE/MODEL.json`` holds the model in full, log
evidence, elpd and how all was made. ``README.md`` there documents every column.

Where the first engine is NUTS, ``--evidence`` adds the log evidence to the files that have none
(`perf/evidence.py`). ``--elpd`` adds the elpds to the files that have none, from draws of their own
(`perf/elpd.py`).

Posteriors whose two files exist are kept, so that an interrupted run continues; ``--again`` makes
them anew, except log evidence that was bridged. Nothing is written, and the exit code is 1, where
a convergence gate fails or the engines differ by more than 5 standard errors. Where their elpds
differ by more than correct ones do once in a thousand pairs, the file has no elpd but the reason,
and the exit code is 1 too. The table
``replicates`` is simulated: ``--table`` writes it and ends. What is still missing is listed in
``not_made.csv``; ``--missing`` makes nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats
from elpd import Engine, accepted, elpds
from evidence import log_evidence
from measure import RESULTS, provenance

from bayeseval import Fit, Records, load, simulate
from bayeseval._optional import versions
from bayeseval.engines import SamplerSettings, marginal
from bayeseval.fitting import Prepared, prepare

Floats = npt.NDArray[np.float64]

FOLDER: Final = RESULTS / "reference"
REPLICATES: Final = FOLDER / "replicates" / "records.csv"

# Quantities besides the parameters without dimension.
LABELLED: Final = (
    *("language_potential", "task_effect", "standardised_score", "prr"),
    *("gap_sd_languages", "cv_prr_languages", "cv_prr"),
)
QUANTILES: Final = (0.05, 0.25, 0.50, 0.75, 0.95)
CHAINS: Final = 4
TUNE: Final = 1000
ACCEPT: Final = 0.95
SEEDS: Final = {"first": 2025, "second": 2026}
# A correct pair of engines differs by more once in 1.7 million comparisons.
MOST_MCSE: Final = 5.0
# Fewer effective draws make no reference.
LEAST_ESS: Final = 1000.0
# The marginal engine's draws are cheap.
MARGINAL_DRAWS: Final = 4000
# Of draws that only elpds are computed from.
ELPD_ONLY_DRAWS: Final = 1500
# Half of them, of four chains, for the covariance of up to a thousand parameters.
EVIDENCE_DRAWS: Final = 6000

NOT_COMPUTED: Final = {"value": None, "reason": "not computed"}

# Draws of each chain of NUTS, by posterior: in the order of their cost.
POSTERIORS: Final[Mapping[str, int]] = {
    "mega/additive": 2500,
    "mega/interaction": 2500,
    "mega/paper": 2500,
    "mega/mexa": 2500,
    "mega/logit": 2500,
    "mega/crossed": 1500,
    "replicates/additive": 2000,
    "replicates/replicates": 2000,
    "replicates/paper": 4000,
    "replicates/interaction": 2000,
    "replicates/crossed": 5000,
    "replicates/dataset": 5000,
    "replicates/by_task": 3000,
    "mmmlu/counts": 2000,
    "mega/bounded": 2000,
    "mega/replicates": 3000,
    "mega/dataset": 3000,
    "mega/robust": 2500,
    "mega/by_task": 9000,
    "mega/related": 2500,
    "mega/factors": 4000,
    "replicates/factors": 5000,
}


def replicate_table() -> pd.DataFrame:
    """Simulated scores of 8 seeds on 5 bootstrapped test sets.

    Their sds differ enough between cells for samplers to mix well.
    """
    sds = {"sd_seed_model": 2.0, "sd_boot_model": 1.5, "sd_seed_boot_model": 1.5}
    sds |= {"sd_log_seed": 0.8, "sd_log_boot": 0.8, "sd_log_seed_boot": 0.8}
    drawn = simulate(
        "dataset", n_languages=6, n_tasks=4, n_metrics=2, n_models=4, observed_share=0.7,
        n_seeds=8, n_boot=5, sds=sds, seed=14,
    )  # fmt: skip
    return drawn.records.table


def table_of(name: str) -> Records:
    """Read one of the tables; write the simulated one first where it is missing."""
    if name != "replicates":
        return load(name)
    if not REPLICATES.is_file():
        write_replicates(REPLICATES)
    return load(REPLICATES, name="replicates")


def write_replicates(path: Path) -> None:
    """Write the simulated table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replicate_table().to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


@dataclass(frozen=True, eq=False)
class Run:
    """One engine's fit, what it took, and every quantity's summary."""

    prepared: Prepared
    fit: Fit
    cpu_seconds: float
    summary: pd.DataFrame

    @property
    def about(self) -> dict[str, Any]:
        """How the draws were made, for the JSON."""
        run = self.fit.run
        checks = {check.name: float(f"{check.value:.6g}") for check in self.fit.gate.checks}
        return {
            "engine": run["engine"],
            "settings": run["settings"],
            "sampled_again_with_stricter_settings": run["retried"],
            "path": run["sampling"].get("path", "nuts"),
            "convergence": {"status": self.fit.gate.status, **checks},
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def draw(records: Records, model: str, engine: str, settings: SamplerSettings) -> Run:
    """Fit, and summarise every quantity."""
    begun = time.process_time()
    prepared = prepare(records, model, engine=engine, settings=settings)
    fit = prepared.run()
    seconds = time.process_time() - begun
    return Run(prepared, fit, seconds, summarise(fit))


def summarise(fit: Fit) -> pd.DataFrame:
    """One row per scalar quantity: estimates, Monte-Carlo errors, ESS and R-hat."""
    found = quantities(fit.data["posterior"].to_dataset(), fit.run["priors"])
    draws = np.stack(list(found.values()))
    axes = {"chain_axis": 1, "draw_axis": 2}
    squares = (draws - draws.mean(axis=(1, 2), keepdims=True)) ** 2
    sd = draws.std(axis=(1, 2), ddof=1)
    # Points that importance sampling drew twice look independent to ArviZ.
    most = fit.run["sampling"].get("importance_ess", np.inf)
    widened, widened_squares = (
        np.sqrt(np.maximum(array_stats.ess(values, method="mean", **axes) / most, 1.0))
        for values in (draws, squares)
    )
    ess = {
        "ess_bulk": array_stats.ess(draws, method="bulk", **axes),
        "ess_tail": array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
    }
    columns: dict[str, Any] = {
        "quantity": [quantity for quantity, _ in found],
        "label": [label for _, label in found],
        "mean": draws.mean(axis=(1, 2)),
        "mean_mcse": widened * array_stats.mcse(draws, method="mean", **axes),
        "sd": sd,
        # Of the mean square, by the delta method. ArviZ 0.8 takes the effective number of draws for
        # the mean, which is too large: NUTS draws of means are often antithetic, of squares not.
        "sd_mcse": widened_squares * array_stats.mcse(squares, method="mean", **axes) / (2.0 * sd),
    }
    for prob in QUANTILES:
        name = f"q{100 * prob:g}"
        columns[name] = np.quantile(draws, prob, axis=(1, 2))
        error = array_stats.mcse(draws, method="quantile", prob=prob, **axes)
        columns[f"{name}_mcse"] = widened * error
    columns |= {name: np.minimum(values, most) for name, values in ess.items()}
    columns["r_hat"] = array_stats.rhat(draws, **axes)
    return pd.DataFrame(columns)


def quantities(posterior: xr.Dataset, priors: Mapping[str, Any]) -> dict[tuple[str, str], Floats]:
    """Draws (chain, draw) of every quantity of the reference that the model has, by label.

    What does not vary, or is withheld in some draws (a ratio to what may be zero), is no part.
    """
    found = {}
    for name, variable in posterior.data_vars.items():
        extra = [str(dim) for dim in variable.dims if dim not in ("chain", "draw")]
        values = variable.transpose("chain", "draw", *extra).to_numpy().astype(np.float64)
        if not extra:
            found[str(name), ""] = values
        elif name in LABELLED or name in priors or str(name).startswith("sd_residual_"):
            labels = posterior[extra[0]].to_numpy()
            found |= {(str(name), str(x)): values[..., i] for i, x in enumerate(labels)}
    return {
        key: values
        for key, values in found.items()
        if np.isfinite(values).all() and np.ptp(values) > 1e-9 * np.abs(values).max()
    }


def beside(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The first engine's rows, and the second's with the differences in standard errors."""
    table = first.merge(second, on=["quantity", "label"], how="outer", suffixes=("", "_2"))
    order = {key: i for i, key in enumerate(zip(first["quantity"], first["label"], strict=True))}
    keys = zip(table["quantity"], table["label"], strict=True)
    table = table.iloc[np.argsort([order.get(key, len(order)) for key in keys], kind="stable")]
    estimates = ["mean", "sd", *(f"q{100 * prob:g}" for prob in QUANTILES)]
    z = {name: standard_errors(table, name) for name in estimates}
    quantiles = np.stack([z[name] for name in estimates[2:]])
    largest = np.argmax(np.abs(quantiles), axis=0)
    shown = ["mean", "mean_mcse", "sd", "sd_mcse", "ess_bulk", "ess_tail", "r_hat"]
    return table[[*first.columns]].assign(
        **{f"second_{name}": table[f"{name}_2"] for name in shown},
        z_mean=z["mean"],
        z_sd=z["sd"],
        z_quantiles=quantiles[largest, np.arange(quantiles.shape[1])],
    )


def standard_errors(table: pd.DataFrame, name: str) -> Floats:
    """Difference of an estimate between the engines over its Monte-Carlo standard error."""
    error = np.hypot(table[f"{name}_mcse"], table[f"{name}_mcse_2"])
    return np.asarray((table[name] - table[f"{name}_2"]) / error, dtype=np.float64)


def disputed(runs: tuple[Run, Run]) -> list[str]:
    """Ratios that the engines form over different pairs.

    Pairs whose potential may be zero are left out; at the limit, the draws decide.
    """
    first, second = (run.fit.data["posterior"] for run in runs)
    return [
        name
        for name in LABELLED
        if name in first
        and name in second
        and first[name].attrs.get("left_out") != second[name].attrs.get("left_out")
    ]


def described(run: Run) -> dict[str, Any]:
    """Table, model and priors in full."""
    design, said = run.prepared.design, run.fit.run
    return {
        "data_hash": said["data_hash"],
        "n_records": design.n_records,
        "levels": said["levels"],
        "spec": said["spec"],
        "spec_hash": said["spec_hash"],
        "priors": {
            name: prior.model_dump(exclude_none=True, exclude={"relative"})
            for name, prior in design.priors.items()
        },
        "effects": {
            term.effect: {
                "sd": term.known_sd if term.sd is None else term.sd,
                "sums_to_zero": bool(term.zero_sum),
                "n": term.n_levels,
            }
            for term in design.terms
        },
        "covariates": {
            name: {key: one[key] for key in ("hash", "by")}
            for name, one in said["covariates"].items()
        },
        "notes": [str(note) for note in design.notes],
    }


def problems(runs: tuple[Run, Run], table: pd.DataFrame) -> list[str]:
    """Why a posterior is not written; empty when it may be."""
    found = []
    for run in runs:
        engine = run.fit.run["engine"]
        if run.fit.gate.status != "pass":
            found.append(f"the convergence gate of {engine} failed")
        least = float(run.summary[["ess_bulk", "ess_tail"]].to_numpy().min())
        if not least >= LEAST_ESS:
            found.append(f"{engine} has {least:.0f} effective draws, {LEAST_ESS:.0f} are needed")
    if table.drop(columns="label").isna().any(axis=None):
        lost = table[table.drop(columns="label").isna().any(axis=1)]
        found.append(f"one engine lacks {', '.join(sorted(set(lost['quantity'])))}")
    far = table[(table[["z_mean", "z_sd", "z_quantiles"]].abs() > MOST_MCSE).any(axis=1)]
    if len(far):
        found.append(f"the engines differ by more than {MOST_MCSE:g} MCSE:\n{far.to_string()}")
    return found


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Texts of the numbers: errors and differences need fewer digits."""

    def digits(name: str) -> str:
        if name.startswith("z_"):
            return ".2f"
        if "ess_" in name:
            return ".0f"
        if name.endswith("r_hat"):
            return ".4f"
        return ".3g" if name.endswith("_mcse") else ".6g"

    return pd.DataFrame(
        {
            name: values
            if name in ("quantity", "label")
            else [f"{x:{digits(name)}}" for x in values]
            for name, values in ((str(column), table[column]) for column in table.columns)
        }
    )


def reference(key: str, draws: int, said: Mapping[str, str]) -> bool:
    """Make one posterior and write its two files; False if it is refused."""
    name, model = key.split("/")
    records = table_of(name)
    first, second = drawn_by_both(records, model, draws)
    not_compared = disputed((first, second))
    table = beside(
        *(run.summary[~run.summary["quantity"].isin(not_compared)] for run in (first, second))
    )
    worst = table[["z_mean", "z_sd", "z_quantiles"]].abs().max()
    print(
        f"{key}: {len(table)} quantities, largest differences {worst.to_dict()}, "
        f"CPU seconds {first.cpu_seconds:.0f} + {second.cpu_seconds:.0f}",
        flush=True,
    )
    refused = problems((first, second), table)
    if refused:
        print(f"{key}: not written: {'; '.join(refused)}", flush=True)
        return False
    sampling = first.fit.run["sampling"]
    document = {
        "table": name,
        "model": model,
        **described(first),
        "log_evidence": {
            "value": sampling["log_marginal_likelihood"],
            "mcse": sampling["log_marginal_likelihood_se"],
        }
        if "log_marginal_likelihood" in sampling
        else bridged_before(FOLDER / f"{key}.json", described(first)),
        "elpd_loo": dict.fromkeys(("first", "second"), NOT_COMPUTED),
        "engines": {"first": first.about, "second": second.about},
        "agreement": {
            "not_compared": not_compared,
            "comparisons": (2 + len(QUANTILES)) * len(table),
            **{what: float(f"{value:.3g}") for what, value in worst.items()},
        },
        "versions": first.fit.run["versions"] | versions(("nutpie",)),
        **said,
    }
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    rounded(table).to_csv(folder / f"{model}.csv", index=False, lineterminator="\n")
    # The draws took long: they are kept if what follows is interrupted.
    write_json(folder / f"{model}.json", document)
    found = elpd_of((first, second))
    write_json(folder / f"{model}.json", document | {"elpd_loo": found})
    return agreed(key, found)


def drawn_by_both(records: Records, model: str, draws: int) -> tuple[Run, Run]:
    """Fits of both engines."""
    nuts = SamplerSettings(draws=draws, tune=TUNE, chains=CHAINS, target_accept=ACCEPT)
    own = SamplerSettings(draws=MARGINAL_DRAWS, chains=CHAINS, seed=SEEDS["first"])
    exact = marginal.why_not(prepare(records, model).design) is None
    first = (
        draw(records, model, "marginal", own)
        if exact
        else draw(records, model, "numpyro", replace(nuts, seed=SEEDS["first"]))
    )
    nuts = replace(nuts, seed=SEEDS["second"], nuts_sampler=None if exact else "nutpie")
    return first, draw(records, model, "numpyro" if exact else "pymc", nuts)


def elpd_of(runs: tuple[Run, Run]) -> dict[str, dict[str, Any]]:
    """Elpds of both engines, or why there are none."""
    first, second = (Engine(run.prepared.design, run.fit) for run in runs)
    found = elpds((first, second))
    print(f"elpds: {found}", flush=True)
    return accepted(found)


def agreed(key: str, found: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the elpds were not refused; says so if they were."""
    reason = str(found["first"].get("reason", ""))
    if reason.startswith("refused"):
        print(f"{key}: no elpd: {reason}", flush=True)
        return False
    return True


def add_elpd(key: str, said: Mapping[str, str], *, again: bool) -> bool:
    """Compute the elpds of a posterior whose file has none, from draws of their own.

    False if they, or the draws, are refused.
    """
    path = FOLDER / f"{key}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["elpd_loo"]["first"]["value"] is not None and not again:
        return True
    name, model = key.split("/")
    runs = drawn_by_both(table_of(name), model, ELPD_ONLY_DRAWS)
    failed = [run.fit.run["engine"] for run in runs if run.fit.gate.status != "pass"]
    if failed:
        print(f"{key}: the convergence gate of {' and '.join(failed)} failed", flush=True)
        return False
    found = elpd_of(runs)
    write_json(
        path, document | {"elpd_loo": {side: {**one, **said} for side, one in found.items()}}
    )
    return agreed(key, found)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write the description of a posterior."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def bridged_before(path: Path, model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Log evidence in the file that is replaced, if that is of the same table and model."""
    if not path.is_file():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    names = ("data_hash", "spec_hash", "priors")
    same = all(document[name] == model[name] for name in names)
    return document["log_evidence"] if same else None


def add_evidence(key: str, said: Mapping[str, str], *, again: bool) -> None:
    """Bridge the log evidence of a posterior whose file has none, or a bridged one."""
    path = FOLDER / f"{key}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    before = document["log_evidence"]
    if before is not None and not (again and "method" in before):
        return
    name, model = key.split("/")
    design = prepare(table_of(name), model).design
    found = log_evidence(design, draws=EVIDENCE_DRAWS, seed=SEEDS["first"])
    document["log_evidence"] = {
        "value": found.value,
        "mcse": found.mcse,
        "method": f"bridge sampling of {found.n_parameters} parameters",
        **said,
    }
    print(f"{key}: {found}", flush=True)
    write_json(path, document)


def write_missing(said: Mapping[str, str]) -> None:
    """List the posteriors that a table admits and that have not been made."""
    missing = [key for key in POSTERIORS if not (FOLDER / f"{key}.json").is_file()]
    table = pd.DataFrame({"posterior": missing}).assign(**said)
    table.to_csv(FOLDER / "not_made.csv", index=False, lineterminator="\n")


def main() -> int:
    """Make what is missing; 1 when something was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(POSTERIORS))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--evidence", action="store_true")
    parser.add_argument("--elpd", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--missing", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        write_replicates(REPLICATES)
        return 0
    said = provenance()
    kept = True
    if asked.evidence or asked.elpd:
        for key in asked.only.split(","):
            if asked.evidence:
                add_evidence(key, said, again=asked.again)
            if asked.elpd:
                kept &= add_elpd(key, said, again=asked.again)
        return int(not kept)
    for key in [] if asked.missing else asked.only.split(","):
        if not asked.again and (FOLDER / f"{key}.json").is_file():
            continue
        kept &= reference(key, POSTERIORS[key], said)
    write_missing(said)
    return int(not kept)


if __name__ == "__main__":
    raise SystemExit(main())
