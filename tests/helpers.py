"""The one Monte-Carlo comparison that the tests use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def assert_within_mcse(
    draws: npt.ArrayLike, expected: float, *, min_ess: float = 400.0, n_mcse: float = 5.0
) -> None:
    """Assert that the mean of the draws is `expected`, up to Monte-Carlo error.

    Parameters
    ----------
    draws : array_like, shape (n,) or (n_chains, n_draws)
        One dimension: independent draws, whose effective number is their number.
        Two: Markov chains, whose effective number and standard error come from
        ArviZ. Sum, square or compare the draws first to check other moments.
    expected : float
        The true mean.
    min_ess : float
        Fewer effective draws fail the test: a check that cannot see anything must
        not pass.
    n_mcse : float
        Largest distance in Monte-Carlo standard errors. At 5 a correct program
        fails once in 1.7 million checks.
    """
    values = np.asarray(draws, dtype=np.float64)
    assert values.ndim in (1, 2), f"draws must be (n,) or (chain, draw), got {values.shape}"
    assert np.isfinite(values).all(), "draws must be finite"
    if values.ndim == 1:
        ess, mcse = float(len(values)), float(values.std(ddof=1) / np.sqrt(len(values)))
    else:
        from arviz_stats import ess as chain_ess
        from arviz_stats import mcse as chain_mcse

        ess = float(chain_ess(values, method="mean", chain_axis=0, draw_axis=1))
        mcse = float(chain_mcse(values, method="mean", chain_axis=0, draw_axis=1))
    assert ess >= min_ess, f"only {ess:.0f} effective draws, {min_ess:.0f} needed"
    error = abs(float(values.mean()) - expected)
    assert error <= n_mcse * mcse, (
        f"mean {values.mean():.6g} is {error / mcse:.1f} MCSE away from {expected:.6g} "
        f"(MCSE {mcse:.3g}, {ess:.0f} effective draws)"
    )
