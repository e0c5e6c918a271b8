"""What every test runs under: fixed randomness, no window, no GPU, no skip in CI."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from bayeseval import Fit

# Before any test module imports JAX, BLAS or matplotlib, which read these once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"
# Workers of pytest-xdist share the cores; nested threads only take them from each other.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# XLA compiles small programs in half the time without its emitters of fused loops and its
# expensive optimisations. Only rounding differs, and the other family of versions is tested with
# the defaults. Named by version, because XLA ends a process that passes a flag it does not know.
if version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1 "
        "--xla_llvm_disable_expensive_passes=true",
    )

import hypothesis
import numpy as np
import pytest

# The only reasons for which CI may leave a test out.
ALLOWED_SKIPS: tuple[str, ...] = ("needs an accelerator", "needs Python")
if os.environ.get("BAYESEVAL_NO_BROWSER"):
    # Set by .ci/run where no browser is there and none can be installed, and said there.
    ALLOWED_SKIPS += ("needs a browser: no browser",)
if os.environ.get("BAYESEVAL_NO_POSTGRES"):
    # The same, of PostgreSQL.
    ALLOWED_SKIPS += ("needs PostgreSQL: it is not installed",)

# The files that take longest, longest first. They start first: a worker that began one of them
# at the end would still be busy when the others have nothing left.
LONGEST: tuple[str, ...] = (
    "tests/test_mega.py",
    "tests/engines/test_samplers.py",
    "tests/test_cli.py",
    "tests/test_compare.py",
    "tests/test_null.py",
    "tests/engines/test_numpyro.py",
    "tests/test_calibrate.py",
    "tests/test_fit.py",
    "tests/test_replicates.py",
    "tests/test_sensitivity.py",
    "tests/test_forecast.py",
    "tests/test_cluster.py",
    "tests/engines/test_density.py",
    "tests/engines/test_marginal_nuts.py",
    "tests/engines/test_marginal.py",
    "tests/engines/test_marginal_agreement.py",
    "tests/engines/test_likelihoods.py",
    "tests/reporting/test_page.py",
    "tests/test_examples.py",
    "tests/test_item_recovery.py",
    "tests/test_readme.py",
    "tests/test_pasted_advice.py",
    "tests/test_cli_front.py",
    "tests/test_front.py",
    "tests/test_wheel.py",
)

# The same examples in every CI run. The machine is shared: no deadline, and no complaint of slow
# examples.
_SHARED: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("ci", derandomize=True, **_SHARED)
hypothesis.settings.register_profile("local", **_SHARED)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail when a test is skipped for a reason that CI does not allow (set by CI=true)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Reports of all xdist workers arrive at the controller, so it alone counts.
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--strict-skips"):
        config.pluginmanager.register(StrictSkips(), "strict-skips")
    if config.getoption("dist", "no") == "loadfile":
        config.pluginmanager.register(OneWorkerPerFile(), "one-worker-per-file")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files by `LONGEST`; the others keep the order of their names."""
    place = {file: i for i, file in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for unreachable objects less often: with the defaults it takes a tenth of a session.

    What collection leaves (modules, test items) stays to the end of the session and is not
    searched again; the rest still is, and all of it at the end, where pytest reports what a
    finaliser raises.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)


class StrictSkips:
    """Turns a passed session with an unexplained skip into a failed one."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED_SKIPS):
            self.refused.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.refused:
            terminalreporter.section("skips that are not allowed here", red=True)
            for line in self.refused:
                terminalreporter.line(line)


class OneWorkerPerFile:
    """Fails a session in which a file's fixtures were set up by several workers.

    Nothing else would tell: the tests pass, they only take twice as long.
    """

    def __init__(self) -> None:
        self.workers: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Reports from a worker carry it as `node`.
        if report.when == "call" and hasattr(report, "node"):
            file = report.nodeid.partition("::")[0]
            self.workers.setdefault(file, set()).add(report.node.gateway.id)

    @property
    def divided(self) -> list[str]:
        return sorted(file for file, workers in self.workers.items() if len(workers) > 1)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.divided and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.divided:
            terminalreporter.section("files that several workers ran", red=True)
            for file in self.divided:
                terminalreporter.line(file)


@pytest.fixture(autouse=True, scope="session")
def one_process() -> Iterator[None]:
    """Commands draw figures in this process, with or without the threads of pytest-xdist.

    What a test replaces would be replaced in a copy, and what it notes noted there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayeseval._second_process._can_be_copied", lambda: False)
        yield


@pytest.fixture(autouse=True)
def no_stray_state() -> Iterator[None]:
    """A test leaves no figure open, and the global random generator as it found it.

    Our code never uses that generator (ruff's NPY002); libraries that do must not
    make one test depend on another.
    """
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002
    plt = sys.modules.get("matplotlib.pyplot")
    figures = plt.get_fignums() if plt is not None else []
    if plt is not None:
        plt.close("all")
    assert not figures, f"figures left open: {figures}"


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """A small simulated table, as a data frame."""
    import bayeseval as be

    return be.simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1).records.table


@pytest.fixture(scope="session")
def fitted(frame: pd.DataFrame) -> Fit:
    """A fit of that table, in less than a second."""
    import bayeseval as be

    return be.fit(frame, "additive", draws=100, chains=2)
