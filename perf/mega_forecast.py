"""What alignment explains and forecasts on MEGA, for README: `python perf/mega_forecast.py`.

The model `mexa` with the default settings and seed 0, and `forecast` with its check: every
language with records is left out and forecast, with and without the covariate.
"""

from __future__ import annotations

from measure import print_table, provenance, write_csv

import bayeseval as be


def main() -> None:
    """Fit, forecast, print and write."""
    said = provenance()
    fit = be.fit("mega", "mexa", seed=0)
    forecast = be.forecast(fit)
    covariate = fit.covariates(detail=True).iloc[0]
    squared = forecast.check.assign(squared=forecast.check["error"] ** 2)
    rmse = squared.groupby("with_covariate")["squared"].mean() ** 0.5
    observed = forecast.table["observed"]
    row = {
        "languages": len(forecast.table),
        "languages with records": int(observed.sum()),
        "languages forecast": int((~observed).sum()),
        "languages checked": forecast.check["language"].nunique(),
        **{
            f"explained {part}": covariate[f"explained_{part}"]
            for part in ("mean", "lower", "upper")
        },
        "rmse with covariate": rmse[True],
        "rmse without covariate": rmse[False],
    }
    print_table([row])
    write_csv("mega_forecast", [row], said, digits=6)


if __name__ == "__main__":
    main()
