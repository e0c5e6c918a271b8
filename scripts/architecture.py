"""Write the module table of ARCHITECTURE.md from the first lines of the modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEADING = "## Modules\n\n"
_ROLE = re.compile(r":[a-z:]+:`~?([^`]*)`")


def with_modules(page: str, package: Path) -> str:
    """Return the page with a module table that matches the package.

    Parameters
    ----------
    page : str
        Text of ARCHITECTURE.md.
    package : Path
        Folder of the package.
    """
    head = page[: page.index(_HEADING) + len(_HEADING)]
    files = sorted(
        (path.relative_to(package) for path in package.rglob("*.py")),
        key=lambda path: (len(path.parts) > 1, path.as_posix()),
    )
    rows = [f"| `{path.as_posix()}` | {_first_line(package / path)} |" for path in files]
    return head + "\n".join(["| module | job |", "| --- | --- |", *rows]) + "\n"


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = text.splitlines()[0].rstrip(".")
    return _ROLE.sub(r"`\1`", line).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    target = ROOT / "ARCHITECTURE.md"
    text = with_modules(target.read_text(encoding="utf-8"), ROOT / "src" / "bayeseval")
    target.write_text(text, encoding="utf-8")
