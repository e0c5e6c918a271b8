"""The figure of the performance page and the tables of `perf/README.md`, from the CSV files.

    python perf/report.py

Every number comes from `perf/results/`; the tables stand between two marks in
`README.md` and are written anew each time.
"""

from __future__ import annotations

import sys
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pandas as pd
from measure import RESULTS, ROOT

from bayeseval.output._style import ACCENT, GREY, MAIN, new_figure, save_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGE: Final = ROOT / "docs" / "images" / "performance.png"
README: Final = ROOT / "perf" / "README.md"
_BEGIN: Final = "<!-- written by report.py: begin -->"
_END: Final = "<!-- written by report.py: end -->"
_ORIGIN: Final = ("command", "commit", "date")
_DECADES: Final = [10.0**k for k in range(-4, 5)]


class Claim(NamedTuple):
    """One number beside its target; None when it was not measured."""

    what: str
    value: float | None
    target: float
    at_least: bool
    command: str

    def row(self) -> str:
        """A line of a Markdown table."""
        sign = "at least" if self.at_least else "at most"
        shown, reached = "not measured", ""
        if self.value is not None:
            good = self.value >= self.target if self.at_least else self.value <= self.target
            shown, reached = _number(self.value), "yes" if good else "**no**"
        target = f"{sign} {_number(self.target)}"
        return f"| {self.what} | {shown} | {target} | {reached} | `{self.command}` |"


def _number(value: object) -> str:
    if isinstance(value, float):
        if pd.isna(value):
            return ""
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def results(name: str) -> pd.DataFrame | None:
    """Read one CSV file; None when it was not measured yet."""
    path = RESULTS / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else None


def _of_row(table: pd.DataFrame | None, column: str, label: str, what: str) -> float | None:
    """One number of a table; None where it was not measured."""
    if table is None or label not in set(table[column]):
        return None
    return float(table.set_index(column)[what].loc[label])


def claims() -> list[Claim]:
    """Every target of the marginal engine, with what was measured."""
    ess = results("ess_per_second")
    command = "python perf/ess_per_second.py"
    found = []
    for model, peers, target in (
        ("additive", ["pymc"], 100.0),
        ("additive", ["numpyro", "nutpie", "bambi"], 50.0),
        ("crossed", ["numpyro", "nutpie", "pymc", "bambi"], 15.0),
        ("dataset", ["numpyro", "nutpie", "pymc"], 15.0),
    ):
        value = None
        if ess is not None:
            rows = ess[(ess["model"] == model) & ess["contestant"].isin(peers)]
            value = float(rows["ours / this"].min()) if len(rows) else None
        named = "PyMC's default" if peers == ["pymc"] else "the best of the others"
        what = f"ESS per second, `{model}`, marginal / {named}"
        found.append(Claim(what, value, target, True, command))

    whole = results("whole_command")
    share = None if whole is None else float(whole["share of bambi"].iloc[0])
    what = "wall time of the whole command / the same with bambi"
    found.append(Claim(what, share, 1 / 3, False, "python perf/whole_command.py"))
    for model, most in (("additive", 6.0), ("dataset", 15.0)):
        value = _of_row(whole, "what", f"fit.py {model}, all files", "median s")
        what = f"the whole command, `{model}`, with checks, figures and page, s"
        found.append(Claim(what, value, most, False, "python perf/whole_command.py"))

    warm = results("warm_fit")
    value = _of_row(warm, "engine", "marginal", "seconds")
    what, command = "`fit`, `additive`, in a warm process, s", "python perf/warm_fit.py"
    found.append(Claim(what, value, 0.5, False, command))
    value = _of_row(warm, "engine", "pymc", "ours / this")
    what = "ESS per second of the same call / with PyMC"
    found.append(Claim(what, value, 30.0, True, command))
    value = _of_row(results("import_time"), "what", "bayeseval.load('mega')", "median s")
    what = "`import bayeseval; bayeseval.load('mega')`, s"
    found.append(Claim(what, value, 1.2, False, "python perf/import_time.py"))

    refits = results("bootstrap")
    for model in ("paper", "additive"):
        for which, column in (("first", "ratio"), ("second", "ratio to the second")):
            value = _of_row(refits, "model", model, column)
            what = f"1,000 bootstrap refits of `{model}` / the {which} marginal fit of a process"
            found.append(Claim(what, value, 30.0, True, "python perf/parametric_bootstrap.py"))

    replicates = results("replicates")
    seconds = memory = None
    if replicates is not None:
        first = replicates[replicates["way"] == "bayeseval"].iloc[0]
        seconds, memory = float(first["total s"]), float(first["memory_mib"])
    command = "python perf/replicates.py"
    what = "366,000 replicate rows, from Parquet to the posterior"
    found.append(Claim(f"{what}, s", seconds, 60.0, False, command))
    found.append(Claim(f"{what}, peak MiB", memory, 1536.0, False, command))

    table = results("rows")
    memory = None
    if table is not None:
        memory = float(table.set_index("way")["peak MiB"].loc["from nothing"])
    what = "10^8 rows, from Parquet to the page with `--memory 2GB`, peak MiB"
    # Of 2.5 GB.
    found.append(Claim(what, memory, 2.5e9 / 2**20, False, "python perf/rows.py"))

    records = results("scaling_records")
    for model in ("additive", "crossed"):
        value = None
        if records is not None:
            fits = records[records["model"] == model].set_index("records")["fit s"]
            if {10_000, 10_000_000} <= set(fits.index):
                value = float(fits.loc[10_000_000] / fits.loc[10_000])
        what = f"fit at 10^7 records / fit at 10^4, `{model}`"
        found.append(Claim(what, value, 1.5, False, "python perf/scaling.py"))
    return found


def markdown(table: pd.DataFrame) -> str:
    """Render a table in Markdown, without the columns that say which machine it was."""
    shown = table[[*takewhile(lambda column: column != "cores", table.columns)]]
    lines = ["| " + " | ".join(shown.columns) + " |", "|" + " --- |" * shown.shape[1]]
    lines += [
        "| " + " | ".join(_number(value) for value in row) + " |"
        for row in shown.astype(object).itertuples(index=False)
    ]
    return "\n".join(lines)


def sections() -> str:
    """All that stands between the marks of the README."""
    parts = [
        "| what | measured | target | reached | command |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(claim.row() for claim in claims())
    ]
    for name, title in (
        ("ess_per_second", "Effective draws per second, MEGA"),
        ("whole_command", "The whole command, cold"),
        ("warm_fit", "One call of `fit`, warm"),
        ("import_time", "Until something happens"),
        ("bootstrap", "Parametric bootstrap"),
        ("replicates", "Seeds and bootstrapped test sets"),
        ("scaling_records", "Growth with the records"),
        ("scaling_languages", "Growth with the languages"),
        ("scaling_front", "From a data frame to a design"),
        ("rows", "Rows that do not fit into memory"),
        ("many_records", "Many records, the whole command"),
        ("database", "Rows in a database"),
        ("limits", "The largest tables"),
        ("readers", "Reading files, compared with plain pandas"),
    ):
        table = results(name)
        if table is not None:
            parts.append(f"### {title}\n\n{markdown(table)}\n\n{said(table)}")
    return "\n\n".join(parts)


def said(table: pd.DataFrame) -> str:
    """Two lines under a table: how it was measured, and on which machines."""
    runs = table[list(_ORIGIN)].drop_duplicates().astype(str).to_numpy()
    origin = "; ".join(
        f"`{command}`, commit {commit[:7]}, {date}" for command, commit, date in runs
    )
    first = table.drop(columns=list(_ORIGIN)).iloc[0]
    columns = dropwhile(lambda column: column != "cores", first.index)
    machine = ", ".join(
        f"{column} {' or '.join(table[column].astype(str).unique())}"
        if column == "processor"
        else f"{column} {first[column]}"
        for column in columns
    )
    return f"Measured: {origin}.\n\nMachine: {machine}."


def rates(axes: Axes, table: pd.DataFrame) -> None:
    """Effective draws per second, a group for each model."""
    places: list[int] = []
    labels: list[str] = []
    for group, (model, rows) in enumerate(table.groupby("model", sort=False)):
        for _, row in rows.iterrows():
            place = len(places) + group
            ours = row["contestant"] == "marginal"
            axes.plot(row["ESS/s"], place, "o", color=MAIN if ours else GREY)
            axes.text(
                row["ESS/s"] * 1.3, place, _number(float(row["ESS/s"])), va="center", size=7.5
            )
            places.append(place)
            labels.append(f"{row['contestant']}, {model}")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(table["ESS/s"].min() / 2, table["ESS/s"].max() * 8)
    axes.grid(axis="x")
    axes.set_xlabel("smallest bulk ESS per second, compilation included")


def growth(axes: Axes, table: pd.DataFrame) -> None:
    """Lines of fit and aggregation over the number of records."""
    for (model, rows), style in zip(table.groupby("model", sort=False), ("-", "--"), strict=False):
        axes.plot(
            rows["records"],
            rows["fit s"],
            style,
            color=MAIN,
            marker="o",
            ms=3,
            label=f"fit, {model}",
        )
        axes.plot(
            rows["records"],
            rows["aggregation s"],
            style,
            color=ACCENT,
            marker="o",
            ms=3,
            label=f"aggregation, {model}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_yticks([d for d in _DECADES if low <= d <= high])
    axes.set_xlabel("records")
    axes.set_ylabel("seconds")
    # Above the axes, where no line can pass under it.
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)


@styled
def figure() -> Figure:
    """Both panels."""
    ess = pd.read_csv(RESULTS / "ess_per_second.csv")
    records = pd.read_csv(RESULTS / "scaling_records.csv")
    made = new_figure(
        9.0,
        3.4,
        title="The marginal engine beside samplers of the joint density",
        subtitle=f"MEGA, 4 chains x 1,000 draws, {ess['cores'].iloc[0]} cores",
        caption="Left: smallest effective sample size over language, task and model effects and "
        "standard deviations. Right: simulated tables on the observed cells of MEGA.",
        gate_status="pass",
    )
    left, right = made.subplots(1, 2)
    rates(left, ess)
    growth(right, records)
    return made


def update(path: Path) -> None:
    """Write the tables between the marks of a page."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n\n{sections()}\n\n{_END}{after}", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")


def main() -> int:
    """Draw the figure and write the tables; 1 when there is no figure to draw yet."""
    update(README)
    if results("ess_per_second") is None or results("scaling_records") is None:
        print("no figure: run perf/ess_per_second.py and perf/scaling.py first", file=sys.stderr)
        return 1
    save_figure(figure(), IMAGE)
    print(f"written: {IMAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
