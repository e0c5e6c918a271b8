"""Result folders of strangers: posteriors, run files and tables that are not as they were written.

Every case is a copy of one small result of `fit`, changed in one place. The hashes in its run
file are those of what lies there: who changes a posterior can change them too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval.cli import main
from tests.records.hostile_texts import HOSTILE_NAME, Cases, Write

LANGUAGES: Final = ("en", "de", "sw", "hi", "fr", "ar")
#: A language that the covariate has and the table has not, which is forecast.
UNTESTED: Final = "th"
VALUES: Final[tuple[Any, ...]] = (
    *(None, 3, -1, 1e308, True, "", "x", HOSTILE_NAME, [], {}, [None], [[[]]], {"a": {"b": None}}),
    *("x" * 100_000, list(range(20_000)), {HOSTILE_NAME: HOSTILE_NAME}, "../../x", "/dev/zero"),
)

# Arrays that commands need, one of each kind.
_ARRAYS: Final = (
    *("posterior/language_effect", "posterior/model", "posterior/sd_residual"),
    *("constant_data/model_index", "observed_data/score"),
)
_GROUPS: Final = ("posterior", "constant_data", "observed_data", "estimands", "log_likelihood")


@functools.lru_cache(maxsize=1)
def good_result() -> Path:
    """A small result with a covariate, made once by the command itself."""
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name)
    # Kept until the process ends.
    good_result.made = made  # type: ignore[attr-defined]
    rows = [
        f"{model},{language},{task},{level - 4 * i + 8 * (task == 'nli') + (7 * i * j) % 5}\n"
        for j, (model, level) in enumerate((("a", 60), ("b", 55), ("c", 40)), start=1)
        for i, language in enumerate(LANGUAGES)
        for task in ("qa", "nli")
    ]
    (folder / "t.csv").write_text("model,language,task,score\n" + "".join(rows))
    covariate = [f"{one},{0.9 - 0.1 * i:.1f}\n" for i, one in enumerate((*LANGUAGES, UNTESTED))]
    (folder / "c.csv").write_text("language,mexa\n" + "".join(covariate))
    command = ["fit", "--benchmark", str(folder / "t.csv"), "--model", "mexa"]
    command += ["--covariate", str(folder / "c.csv"), "--engine", "marginal", "--draws", "100"]
    command += ["--no-figures", "--quiet", "--out", str(folder / "result")]
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(command)
    # 3: so few draws may not pass the gate.
    assert code in (0, 3)
    (folder / "result" / "report.html").unlink(missing_ok=True)
    return folder / "result"


def copy(folder: Path) -> Path:
    """The result in another folder, with the covariate beside it."""
    good = good_result()
    shutil.copytree(good, folder / "result")
    shutil.copy(good.parent / "c.csv", folder / "c.csv")
    return folder / "result"


def rehash(result: Path) -> None:
    """Let the run file list the hashes of the files that are there."""
    run = json.loads((result / "run.json").read_text(encoding="utf-8"))
    run.pop("run_sha256", None)
    run["sha256"] = {
        name: hashlib.sha256((result / name).read_bytes()).hexdigest()
        for name in run["files"]
        if name != "run.json" and (result / name).is_file()
    }
    (result / "run.json").write_text(json.dumps(run), encoding="utf-8")


def _posterior(change: Callable[[Any], None]) -> Write:
    """The result with an HDF5 file that `change` was applied to."""

    def write(folder: Path) -> Path:
        import h5py

        result = copy(folder)
        with h5py.File(result / "posterior.nc", "r+") as file:
            change(file)
        rehash(result)
        return result

    return write


def _posterior_bytes(change: Callable[[bytes], bytes]) -> Write:
    def write(folder: Path) -> Path:
        result = copy(folder)
        path = result / "posterior.nc"
        path.write_bytes(change(path.read_bytes()))
        rehash(result)
        return result

    return write


def _replaced(name: str, make: Callable[[Any, str], None]) -> Callable[[Any], None]:
    """An array replaced by what `make` puts there; its dimensions and attributes go."""

    def change(file: Any) -> None:
        del file[name]
        make(file, name)

    return change


def posterior_types(scale: float) -> Cases:
    """Arrays of other types, other shapes and other values than they have to be."""
    import h5py

    def of(data: Any, **options: Any) -> Callable[[Any, str], None]:
        return lambda file, name: file.create_dataset(name, data=data, **options)

    # Made when it is written: h5py keeps what it knows of types in the process.
    def compound(file: Any, name: str) -> None:
        file.create_dataset(name, data=np.zeros(6, dtype=[("a", "f8"), ("b", "i4", (3,))]))

    def reference(file: Any, name: str) -> None:
        made = file.create_dataset(name, shape=(6,), dtype=h5py.ref_dtype)
        made[0] = file["posterior"].ref

    def region(file: Any, name: str) -> None:
        file.create_dataset(name, shape=(6,), dtype=h5py.regionref_dtype)

    def vlen(file: Any, name: str) -> None:
        file.create_dataset(name, shape=(6,), dtype=h5py.vlen_dtype(np.int32))

    def enum(file: Any, name: str) -> None:
        file.create_dataset(name, shape=(6,), dtype=h5py.enum_dtype({"\x1b[2J": 1}, "i4"))

    def opaque(file: Any, name: str) -> None:
        stamp = np.arange(6).astype("M8[s]")
        file.create_dataset(name, data=stamp.astype(h5py.opaque_dtype(stamp.dtype)))

    def named(file: Any, name: str) -> None:
        file[name] = np.dtype("f8")

    def group(file: Any, name: str) -> None:
        file.create_group(name)

    def empty(file: Any, name: str) -> None:
        file[name] = h5py.Empty("f8")

    def gone(file: Any, name: str) -> None:
        pass

    texts = np.array([HOSTILE_NAME.encode()] * 6, dtype=object)
    made: dict[str, Callable[[Any, str], None]] = {
        **{"gone": gone, "a group": group, "a named type": named, "empty": empty},
        **{"compound": compound, "references": reference, "regions": region, "vlen": vlen},
        **{"enum": enum, "opaque": opaque, "a number": of(1.0), "none": of(np.zeros(0))},
        **{
            "texts": of(texts),
            "bytes": of(np.array([b"\xff\xfe"] * 6)),
            "int8": of(np.array([7], dtype="i1")),
        },
        **{"complex": of(np.ones(6, dtype="c16")), "bool": of(np.ones(6, dtype=bool))},
        **{"NaN": of(np.full((4, 100, 6), np.nan)), "huge": of(np.full(36, 10**15))},
        **{"negative": of(np.full(36, -5)), "ten dimensions": of(np.zeros((2,) * 10))},
        **{"big endian": of(np.ones(6, dtype=">f4")), "half": of(np.ones(6, dtype="f2"))},
    }
    for name in _ARRAYS:
        for what, make in made.items():
            yield f"{name}: {what}", _posterior(_replaced(name, make))
        for what, value in {"NaN": np.nan, "infinite": np.inf, "huge": 1e308, "0": 0.0}.items():

            def fill(file: Any, name: str = name, value: float = value) -> None:
                if file[name].dtype.kind == "f":
                    file[name][...] = value
                elif file[name].dtype.kind == "i":
                    file[name][...] = 10**9 if value else -1
                else:
                    file[name][...] = [f"{HOSTILE_NAME}{i}" for i in range(len(file[name]))]

            yield f"{name} full of {what}", _posterior(fill)


def posterior_links(scale: float) -> Cases:
    """Links, groups and attributes that a posterior does not have."""
    import h5py

    def many(file: Any, number: int) -> None:
        for i in range(number):
            file.create_group(f"posterior/g{i}")

    def deep(file: Any, number: int) -> None:
        group = file
        for _ in range(number):
            group = group.create_group("g")

    def scales(file: Any) -> None:
        file["posterior/loop"] = np.zeros(6)
        file["posterior/loop"].make_scale("loop")
        file["posterior/language_effect"].dims[2].attach_scale(file["posterior/loop"])

    def other_scale(file: Any) -> None:
        effect = file["posterior/language_effect"]
        effect.dims[2].detach_scale(file["posterior/language"])
        effect.dims[2].attach_scale(file["posterior/model"])

    links: dict[str, Callable[[Any], None]] = {
        "soft": lambda file: file.__setitem__("posterior/x", h5py.SoftLink("/posterior")),
        "dangling": lambda file: file.__setitem__("posterior/x", h5py.SoftLink("/nowhere")),
        "itself": lambda file: file.__setitem__("posterior/x", h5py.SoftLink("/posterior/x")),
        "external": lambda file: file.__setitem__("x", h5py.ExternalLink("/etc/passwd", "/")),
        "pipe": lambda file: file.__setitem__("x", h5py.ExternalLink("/dev/zero", "/")),
        "loop": lambda file: file.__setitem__("posterior/x", file["/"]),
        "twice": lambda file: file.__setitem__("y", file["posterior/model"]),
        "many groups": lambda file: many(file, int(20_000 * scale) + 2),
        "some groups": lambda file: many(file, int(3000 * scale) + 2),
        "deep groups": lambda file: deep(file, int(4000 * scale) + 2),
        "a scale more": scales,
        "another scale": other_scale,
        "an odd name": lambda file: file.create_group(f"posterior/{HOSTILE_NAME}"),
        "an odd array": lambda file: file.create_dataset(HOSTILE_NAME, data=1.0),
        "a long name": lambda file: file.create_group("n" * 60_000),
        "bytes as a name": lambda file: file.create_group(b"\xff\xfe\xff"),
    }
    for what, change in links.items():
        yield f"link {what}", _posterior(change)
    for group in _GROUPS:
        yield f"without {group}", _posterior(functools.partial(_delete, group))
        yield f"{group} is an array", _posterior(_replaced(group, _set_array))
    attributes: dict[str, Any] = {
        "escapes": HOSTILE_NAME,
        "long": "x" * 60_000,
        "JSON": "[" * 30_000,
        "bytes": np.bytes_(b"\xff\xfe"),
        "texts": np.array(["a", HOSTILE_NAME], dtype=h5py.string_dtype()),
        "numbers": np.arange(8000),
        "compound": np.zeros(2, dtype=[("a", "f8")]),
        "nothing": h5py.Empty("f8"),
    }
    names: tuple[str, ...] = ("dtype", "scale_factor", "_FillValue", "units", "coordinates", "dims")
    names += ("REFERENCE_LIST", "DIMENSION_LIST", "NAME", "_Netcdf4Dimid")
    for name in names:
        for what, value in attributes.items():

            def set_attribute(file: Any, name: str = name, value: Any = value) -> None:
                for place in ("posterior/language_effect", "posterior/language", "posterior", "/"):
                    file[place].attrs[name] = value

            yield f"attribute {name} {what}", _posterior(set_attribute)
    for units in ("days since 0001-01-01", "seconds since 9999-99-99", "eons since x"):
        yield f"units {units}", _posterior(functools.partial(_set_units, units))
    for what, value in attributes.items():
        yield f"all attributes {what}", _posterior(functools.partial(_set_all, value))


def _delete(name: str, file: Any) -> None:
    del file[name]


def _set_array(file: Any, name: str) -> None:
    file[name] = np.zeros(3)


def _set_units(units: str, file: Any) -> None:
    file["posterior/draw"].attrs["units"] = units
    file["posterior/language_effect"].attrs["units"] = units


def _set_all(value: Any, file: Any) -> None:
    for place in ("/", "posterior", "constant_data"):
        for name in [*file[place].attrs]:
            file[place].attrs[name] = value


def posterior_sizes(scale: float) -> Cases:
    """Arrays that are much larger than their file, and files that are not whole."""
    import h5py

    def sized(name: str, shape: tuple[int, ...], dtype: Any, **options: Any) -> Write:
        def change(file: Any) -> None:
            if name in file:
                del file[name]
            file.create_dataset(name, shape=shape, dtype=dtype, **options)

        return _posterior(change)

    def bomb(size: int, **options: Any) -> Write:
        def change(file: Any) -> None:
            file.create_dataset("posterior/bomb", data=np.zeros(size), chunks=True, **options)

        return _posterior(change)

    million = max(1, int(1_000_000 * scale))
    text = h5py.string_dtype()
    for name in ("posterior/x", "posterior/language_effect", "posterior/language"):
        for shape in ((10**11,), (10**6, 10**5), (33 * million,), (4, 100, 50_000), (1, 10**17)):
            for what, dtype in {"f8": "f8", "i1": "i1", "text": text, "S1000": "S1000"}.items():
                chunks = tuple(min(side, 1000) or 1 for side in shape)
                yield f"{name} {shape} {what}", sized(name, shape, dtype, chunks=chunks)
    vlen = h5py.vlen_dtype(np.float64)
    yield "many vlen", sized("posterior/x", (30 * million,), vlen, chunks=(10_000,))
    yield "one long text", sized("posterior/x", (1,), f"S{200 * million}")
    yield "wide compound", sized("posterior/x", (10**9,), [(f"f{i}", "f8") for i in range(50)])
    for chunk in (1, 2, 3 * 10**7):
        # As many chunks as elements, or one that is larger than all of them.
        size = (2 * million) if chunk < 3 else 3 * 10**7
        yield f"chunks of {chunk}", sized("posterior/x", (size,), "f8", chunks=(chunk,))
    for size in (million, 30 * million):
        yield f"gzip {size}", bomb(size, compression="gzip", compression_opts=9)
        yield f"shuffled {size}", bomb(size, compression="gzip", shuffle=True, fletcher32=True)
    yield "lzf", bomb(million, compression="lzf")
    yield "scale and offset", bomb(million, scaleoffset=3)
    for part in range(20):
        cut = part / 20
        yield f"cut at {cut}", _posterior_bytes(functools.partial(_cut, cut))
    for part in range(40):

        def flip(data: bytes, part: int = part) -> bytes:
            # Most of what is not draws stands at the beginning.
            at = (part * 97) % 4000 if part % 2 else (len(data) * part) // 40
            return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]

        yield f"byte {part} flipped", _posterior_bytes(flip)
    heads = {"nothing": b"", "text": b"no HDF5\n", "zip": b"PK\x03\x04", "classic": b"CDF\x01"}
    for what, head in heads.items():
        yield what, _posterior_bytes(functools.partial(_instead, head))
    yield "behind a block", _posterior_bytes(lambda data: b"\0" * 512 + data)
    yield "zeros behind", _posterior_bytes(lambda data: data + bytes(10**6))


def _run_file(change: Callable[[dict[str, Any]], Any]) -> Write:
    def write(folder: Path) -> Path:
        result = copy(folder)
        path = result / "run.json"
        run = json.loads(path.read_text(encoding="utf-8"))
        # Whoever writes a hostile file leaves out its own hash.
        run.pop("run_sha256", None)
        made = change(run)
        text = made if isinstance(made, str) else json.dumps(run if made is None else made)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return result

    return write


def _cut(share: float, data: bytes) -> bytes:
    return data[: int(len(data) * share)]


def _instead(head: bytes, data: bytes) -> bytes:
    return head


def _without(key: str, run: dict[str, Any]) -> None:
    run.pop(key, None)


def _as_text(text: str, run: dict[str, Any]) -> str:
    return text


def _files(names: Sequence[str], before: Sequence[str], run: dict[str, Any]) -> None:
    run["files"] = [*before, *names]


_SOME: Final = ("posterior.nc", "tables/model_ranking.csv", "run.json")
# Of a run file; listed, so that naming a case needs no fit.
_KEYS: Final = (
    *("versions", "benchmark", "source", "citations", "data_hash", "spec_hash", "engine", "seed"),
    *("settings", "spec", "priors", "fixed_effects", "population", "covariates", "levels"),
    *("bounds", "n_records", "language_names", "notes", "gate", "platform", "created_at"),
    *("model_reasons", "engine_reason", "sampling", "predictive", "pairs", "pairs_hash"),
    *("margin", "seconds", "source_options", "ci_kind", "ci_prob", "files", "sha256", "kind"),
)


def run_files(scale: float) -> Cases:
    """Provenance with other types, and texts that are no JSON."""
    for place, key in enumerate(_KEYS):
        yield f"without {key}", _run_file(functools.partial(_without, key))
        # Every value somewhere, not everywhere.
        for step in range(3):
            value = VALUES[(place + 5 * step) % len(VALUES)]

            def change(run: dict[str, Any], key: str = key, value: Any = value) -> None:
                run[key] = value

            def inside(run: dict[str, Any], key: str = key, value: Any = value) -> None:
                held = run.get(key)
                if isinstance(held, dict) and held:
                    first = next(iter(held))
                    run[key] = {**held, first: value}
                elif isinstance(held, list) and held:
                    run[key] = [value, *held[1:]]
                else:
                    run[key] = [value]

            shown = ascii(value)[:30]
            yield f"{key} is {shown}", _run_file(change)
            if step % 2:
                yield f"in {key} is {shown}", _run_file(inside)
    texts = {
        **{"nothing": "", "list": "[]", "number": "3", "open": "{", "NaN": '{"a": NaN}'},
        **{"deep": '{"a":' * 100_000, "huge number": '{"seed": ' + "9" * 5000 + "}"},
        **{"surrogate": '{"benchmark": "\\ud800"}', "twice": '{"a": 1, "a": 2}'},
        **{"long": '{"a": "' + "x" * int(10_000_000 * scale) + '"}'},
    }
    for what, text in texts.items():
        yield what, _run_file(functools.partial(_as_text, text))
    for names in (["../../../etc/passwd"], ["/etc/passwd"], ["tables/../../c.csv"], ["tables"]):
        yield f"files {names}", _run_file(functools.partial(_files, names, ()))
        yield f"more files {names}", _run_file(functools.partial(_files, names, _SOME))


_TABLES: Final = (
    *("language_potential", "model_disparity", "model_language", "model_ranking"),
    *("variance_components", "pairwise_models", "checks"),
)


def result_tables(scale: float) -> Cases:
    """Tables of a result that are not those that were written."""

    def changed(name: str, change: Callable[[str], str | bytes]) -> Write:
        def write(folder: Path) -> Path:
            result = copy(folder)
            path = result / "tables" / f"{name}.csv"
            made = change(path.read_text(encoding="utf-8"))
            path.write_bytes(made if isinstance(made, bytes) else made.encode("utf-8"))
            rehash(result)
            return result

        return write

    def instead(name: str, put: Callable[[Path], object]) -> Write:
        def write(folder: Path) -> Path:
            result = copy(folder)
            path = result / "tables" / f"{name}.csv"
            path.unlink()
            put(path)
            return result

        return write

    wide = max(10, int(50_000 * scale))
    odd = HOSTILE_NAME.replace("\x1b", "\x1b\x9b")
    changes: dict[str, Callable[[str], str | bytes]] = {
        "nothing": lambda text: "",
        "a header": lambda text: text.split("\n")[0] + "\n",
        "no header": lambda text: text.split("\n", 1)[1],
        "a column less": lambda text: "\n".join(x.rpartition(",")[0] for x in text.split("\n")),
        "a column twice": lambda text: "\n".join(f"{x},{x}" for x in text.split("\n")),
        "names": lambda text: text.replace("\na,", f"\n{odd},").replace("\nen,", f"\n{odd},"),
        "formulas": lambda text: text.replace("\na,", "\n=cmd|' /C calc'!A0,"),
        "markup": lambda text: text.replace("\na,", "\n<script>alert(1)</script>$\\input{x}$,"),
        "no numbers": lambda text: text.replace("1", "x").replace("2", "\x1b[31m"),
        "infinite": lambda text: text.replace("0.", "inf"),
        "huge": lambda text: text.replace("0.", "1e308"),
        "long numbers": lambda text: text.replace("0.", "9" * 400),
        "NUL": lambda text: text.replace(",", "\0,", 5),
        "latin-1": lambda text: text.encode() + b"\xe7\xe9,1\n",
        "an open quote": lambda text: text.replace("\n", '\n"', 1),
        "wide": lambda text: text + "," * wide + "\n",
        "all wide": lambda text: text.replace("\n", "," * wide + "\n"),
        "rows": lambda text: text + text.split("\n")[1].join(["", "\n"]) * wide,
        "a long cell": lambda text: text.replace("\n", "\n" + "x" * (20 * wide), 1),
        "empty cells": lambda text: text.split("\n")[0] + "\n" + "," * text.index("\n") + "\n",
    }
    puts: dict[str, Callable[[Path], object]] = {
        "gone": lambda path: None,
        "a folder": lambda path: path.mkdir(),
        "a device": lambda path: path.symlink_to("/dev/zero"),
        "a link out": lambda path: path.symlink_to("/etc/passwd"),
        "a link to itself": lambda path: path.symlink_to(path),
        "a pipe": os.mkfifo,
    }
    for name in _TABLES:
        for what, change in changes.items():
            yield f"{name}: {what}", changed(name, change)
        for what, put in puts.items():
            yield f"{name}: {what}", instead(name, put)

    def linked(folder: Path) -> Path:
        result = copy(folder)
        (result / "tables").rename(folder / "elsewhere")
        (result / "tables").symlink_to(folder / "elsewhere")
        return result

    yield "the folder is a link", linked
