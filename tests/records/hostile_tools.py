"""Results of evaluation tools with hostile fields, and hostile archives and Parquet files."""

from __future__ import annotations

import gzip
import io
import json
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.readers.good_files import GOOD, Good
from tests.records.hostile_texts import HOSTILE_NAME, Cases, Write

_TOOLS: Final = ("lm-eval", "lighteval", "euroeval", "every-eval", "mteb", "helm", "inspect")
_PLACES: Final = 16


def _values(scale: float) -> tuple[Any, ...]:
    number = max(10, int(50_000 * scale))
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    return (
        *(None, -1, 1e308, 10**400, True, "", HOSTILE_NAME, "../../../etc/passwd", "\ud800"),
        *([], {}, [None], deep, "x" * number, list(range(number)), {"a": {"b": [None]}}),
        *({f"k{i}": i for i in range(number // 5)}, "/dev/zero", "nan", "1" * number + "x"),
    )


def _places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree of lists and mappings; of long lists the first two."""
    held: Any = ()
    if isinstance(tree, dict):
        held = tree.items()
    elif isinstance(tree, list):
        held = enumerate(tree[:2])
    for key, value in held:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _with(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    key, *rest = place
    made = dict(tree) if isinstance(tree, dict) else list(tree)
    made[key] = _with(tree[key], tuple(rest), value)
    return made


def tool_fields(scale: float) -> Cases:
    """Results of every tool with something else in one field, deep inside too."""
    values = _values(scale)
    for good in GOOD:
        if not good.name.startswith(_TOOLS) or good.file.endswith(".csv"):
            continue
        is_lines = good.is_text and good.file.endswith(".jsonl")
        lines = [line for line in good.text.splitlines() if line.strip()] if is_lines else []
        if good.document is not None:
            tree = good.document
        else:
            tree = json.loads(lines[0] if lines else good.text)
        places = [*_places(tree)]
        for turn, place in enumerate(places[:: max(1, len(places) // _PLACES)]):
            for step in range(2):
                value = values[(2 * turn + 7 * step) % len(values)]

                def write(
                    folder: Path,
                    good: Good = good,
                    tree: Any = tree,
                    place: tuple[Any, ...] = place,
                    value: Any = value,
                    lines: list[str] = lines,
                ) -> Path:
                    made = _with(tree, place, value)
                    if good.document is not None:
                        data = _packed(good, made)
                    else:
                        data = "\n".join([json.dumps(made), *lines[1:]]).encode()
                    return good.write(folder / "rev", data)

                yield f"{good.name}, {'/'.join(map(str, place))[:60]}: {value!a:.20}", write


def _packed(good: Good, made: Any) -> bytes:
    """The tree as a file of its format; as JSON, where the format has no place for a value."""
    try:
        return good.pack(made)
    except (ValueError, TypeError, OverflowError, NotImplementedError):
        return json.dumps(made).encode()


def archives(scale: float) -> Cases:
    """Archives with members elsewhere, twice, nested, or larger than they say."""

    def zipped(name: str, fill: Callable[[zipfile.ZipFile], None]) -> Write:
        def write(folder: Path) -> Path:
            target = io.BytesIO()
            # zipfile warns of names that it is given twice.
            with warnings.catch_warnings(), zipfile.ZipFile(target, "w") as file:
                warnings.simplefilter("ignore")
                fill(file)
            (folder / name).write_bytes(target.getvalue())
            return folder / name

        return write

    def add(name: str, content: bytes, mode: int = 0) -> Callable[[zipfile.ZipFile], None]:
        def fill(file: zipfile.ZipFile) -> None:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            file.writestr(entry, content, zipfile.ZIP_DEFLATED)

        return fill

    def both(*fills: Callable[[zipfile.ZipFile], None]) -> Callable[[zipfile.ZipFile], None]:
        def fill(file: zipfile.ZipFile) -> None:
            for one in fills:
                one(file)

        return fill

    million = max(10, int(1_000_000 * scale))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as nested:
        nested.writestr("header.json", b"0" * million)
    members = {
        **{"up": "../../x", "root": "/etc/x", "drive": "C:\\x", "control": "a\x1b[2J\x07"},
        **{"bidi": "a\u202egnp", "long": "n" * 60_000, "empty": "", "dots": ".", "NUL": "a\0b"},
        **{"folder": "a/", "backslash": "..\\..\\x", "twins": "HEADER.JSON"},
    }
    for suffix, main in (("xlsx", "xl/workbook.xml"), ("eval", "header.json")):
        for what, member in members.items():
            fill = both(add(main, b"{}"), add(member, b"x"))
            yield f"{suffix} member {what}", zipped(f"t.{suffix}", fill)
        twice = both(add(main, b"{}"), add(main, b"<a/>"))
        yield f"{suffix} twice", zipped(f"t.{suffix}", twice)
        for what, mode in {
            "link": stat.S_IFLNK | 0o777,
            "device": stat.S_IFCHR | 0o666,
            "pipe": stat.S_IFIFO | 0o666,
            "set user": stat.S_IFREG | 0o4777,
        }.items():
            yield f"{suffix} {what}", zipped(f"t.{suffix}", add(main, b"/etc/passwd", mode))
        yield f"{suffix} nested", zipped(f"t.{suffix}", add(main, inner.getvalue()))
        yield f"{suffix} zeros", zipped(f"t.{suffix}", add(main, bytes(100 * million)))
        many = both(*(add(f"samples/{i}.json", b"{}") for i in range(million // 100)))
        yield f"{suffix} members", zipped(f"t.{suffix}", both(add(main, b"{}"), many))
        whole = zipped(f"t.{suffix}", both(add(main, b"{}"), add("b", b"x" * 1000)))
        for part in range(12):

            def damaged(
                folder: Path, whole: Write = whole, part: int = part, suffix: str = suffix
            ) -> Path:
                path = whole(folder)
                data = path.read_bytes()
                at = len(data) * part // 12
                path.write_bytes(
                    data[:at] if part % 2 else data[:at] + b"\xff" * 4 + data[at + 4 :]
                )
                return path

            yield f"{suffix} damaged {part}", damaged
    for name in ("t.tar", "t.tar.gz", "t.zip", "t.gz", "t.7z", "t.csv", "t.jsonl"):

        def packed(folder: Path, name: str = name) -> Path:
            (folder / "a.csv").write_text("model,language,score\na,en,1\n")
            path = folder / name
            with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as file:
                for member in ("../../x", "/etc/x", "a.csv"):
                    file.add(folder / "a.csv", member)
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                file.addfile(link)
            (folder / "a.csv").unlink()
            return path

        yield f"tar as {name}", packed
    for what, data in {
        "gzip twice": gzip.compress(gzip.compress(bytes(100 * million))),
        "many gzips": gzip.compress(b'{"a": 1}\n') * (million // 50),
        "gzip and more": gzip.compress(b'{"a": 1}\n') + b"more",
        "gzip cut": gzip.compress(b'{"a": 1}\n' * 1000)[:-9],
        "gzip wrong sum": gzip.compress(b'{"a": 1}\n')[:-8] + bytes(8),
        "no gzip": b"\x1f\x8b" + bytes(100),
    }.items():
        for name in ("t.jsonl.gz", "t.json.gz", "t.csv.gz"):

            def compressed(folder: Path, name: str = name, data: bytes = data) -> Path:
                (folder / name).write_bytes(data)
                return folder / name

            yield f"{what} as {name}", compressed


def parquet_files(scale: float) -> Cases:
    """Parquet with other types, wrong footers, and rows that take no place."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def table(columns: Mapping[str, Any], pieces: int = 1, **options: Any) -> Write:
        def write(folder: Path) -> Path:
            made = pa.table({name: make() for name, make in columns.items()})
            path = folder / "t.parquet"
            with pq.ParquetWriter(path, made.schema, **options) as file:
                for _ in range(pieces):
                    file.write_table(made)
            return path

        return write

    rows = 100
    labels = {"model": lambda: pa.array(["a", "b"] * (rows // 2)), "language": _languages}
    constant = {
        "model": lambda: _constant("a", 10_000_000),
        "language": lambda: _constant("en", 10_000_000),
        "score": lambda: pa.array(np.ones(10_000_000)),
    }
    for pieces in (2, 20):
        yield f"{pieces} x 10^7 rows", table(constant, pieces, compression="zstd")
    kinds: dict[str, Callable[[], Any]] = {
        "list": lambda: pa.array([[1.0]] * rows),
        "struct": lambda: pa.array([{"a": {"b": 1}}] * rows),
        "map": lambda: pa.array([[("a", 1)]] * rows, type=pa.map_(pa.string(), pa.int8())),
        "deep": lambda: pa.array([[[[[[[[[1]]]]]]]]] * rows),
        "decimal": lambda: pa.array(range(rows)).cast(pa.decimal256(76, 40)),
        "dates": lambda: pa.array(range(rows), type=pa.int32()).cast(pa.date32()),
        "far dates": lambda: pa.array([2**62] * rows, type=pa.timestamp("us")),
        "time": lambda: pa.array([1] * rows, type=pa.time64("ns")),
        "durations": lambda: pa.array([2**62] * rows, type=pa.duration("s")),
        "binary": lambda: pa.array([b"\xff\xfe"] * rows),
        "fixed": lambda: pa.array([b"\xff" * 16] * rows, type=pa.binary(16)),
        "bools": lambda: pa.array([True] * rows),
        "nulls": lambda: pa.nulls(rows),
        "half": lambda: pa.array(np.ones(rows, dtype=np.float16)),
        "large": lambda: pa.array([2**64 - 1] * rows, type=pa.uint64()),
        "infinite": lambda: pa.array([float("inf")] * rows),
        "texts": lambda: pa.array([HOSTILE_NAME] * rows),
        "long texts": lambda: pa.array(["x" * int(100_000 * scale + 10)] * rows),
        "no UTF-8": lambda: _no_text(rows),
        "dictionary of numbers": lambda: pa.array([1.5] * rows).dictionary_encode(),
        "large dictionary": lambda: pa.array([str(i) for i in range(rows)]).dictionary_encode(),
    }
    for what, make in kinds.items():
        for name in ("score", "model", "seed", HOSTILE_NAME):
            columns = {**labels, "score": lambda: pa.array(np.arange(rows) / 7), name: make}
            yield f"{what} as {name[:5]!a}", table(columns)
            if name == "score":
                yield f"{what}, plain", table(columns, use_dictionary=False, compression="none")
    wide = {f"c{i}": _languages for i in range(max(2, int(3000 * scale)))}
    yield "wide", table({**labels, **wide})
    good = table({**labels, "score": lambda: pa.array(np.arange(rows) / 7)})
    for part in range(60):

        def damaged(folder: Path, part: int = part) -> Path:
            path = good(folder)
            data = bytearray(path.read_bytes())
            # The footer is the last quarter; its length stands before the last four bytes.
            at = len(data) - 1 - (part * 11) % (len(data) // 2) if part % 3 else part * 5
            data[at] ^= 0xFF if part % 2 else 0x01
            path.write_bytes(bytes(data) if part % 5 else bytes(data[: len(data) - part]))
            return path

        yield f"damaged {part}", damaged
    for length in (0, 1, 2**31 - 1, 2**32 - 1, 10**6):

        def footer(folder: Path, length: int = length) -> Path:
            path = good(folder)
            data = path.read_bytes()
            path.write_bytes(data[:-8] + length.to_bytes(4, "little") + data[-4:])
            return path

        yield f"footer of {length}", footer


def _constant(label: str, rows: int) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), [label])


def _languages() -> Any:
    import pyarrow as pa

    return pa.array([f"l{i // 2}" for i in range(100)])


def _no_text(rows: int) -> Any:
    """A column of texts whose bytes are no UTF-8, which Arrow does not look at."""
    import pyarrow as pa

    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets, pa.py_buffer(b"\xff" * rows)])
