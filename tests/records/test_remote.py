"""Remote benchmarks, served by a local server: fetched once, checked, explained offline."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.records import list_benchmarks, load, reduce_replicates
from bayeseval.records.registry import read_card
from bayeseval.records.remote import CACHE_VARIABLE, Remote, cached_path

ROOT = Path(__file__).parents[2]
# Made up, in the columns of the published file.
TABLE = (
    b'{"Model": "a", "Language": "ar", "F1": 18.5, "SD_seed": 0.5, "SD_boot_avg": 0.7}\n'
    b'{"Model": "a", "Language": "de", "F1": 19.0, "SD_seed": 0.3, "SD_boot_avg": 0.6}\n'
    b'{"Model": "b", "Language": "ar", "F1": 41.0, "SD_seed": 0.2, "SD_boot_avg": 1.1}\n'
)
SHA = hashlib.sha256(TABLE).hexdigest()


@dataclass
class Site:
    """What the server answers, and how often it was asked."""

    address: str = ""
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site(answers={"/some/data.jsonl": TABLE})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            body = found.answers.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.address = f"http://127.0.0.1:{server.server_port}/some/data.jsonl"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def _card(folder: Path, address: str, sha: str | None = SHA) -> Path:
    folder.mkdir(exist_ok=True)
    line = "" if sha is None else f"  sha256: {sha}\n"
    (folder / "benchmark.yaml").write_text(
        f"name: far\ntitle: Far away\nremote:\n  address: {address}\n{line}"
        "constants: {dataset: qa, n_seeds: 5}\n"
    )
    return folder


def test_a_remote_benchmark_is_fetched_once(
    tmp_path: Path, cache: Path, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    card = _card(tmp_path / "card", site.address)
    records = load(card)
    assert records.name == "far"
    assert records.scores.tolist() == [18.5, 19.0, 41.0]
    assert records.coords["task"] == ("qa:F1",)
    assert reduce_replicates(records).seed.df.tolist() == [4.0] * 3
    target = cache / "benchmarks" / "far" / "data.jsonl"
    assert target.read_bytes() == TABLE
    assert f"downloaded {site.address} to {target}" in records.report.notes
    again = load(card)
    assert again.content_hash == records.content_hash
    assert not [note for note in again.report.notes if "downloaded" in note]
    assert site.asked == ["/some/data.jsonl"]
    assert capfd.readouterr() == ("", "")


def test_a_hash_that_is_not_stated_is_reported(tmp_path: Path, cache: Path, site: Site) -> None:
    notes = load(_card(tmp_path / "card", site.address, sha=None)).report.notes
    assert f"data.jsonl has SHA-256 {SHA}; the benchmark states none to compare it with" in notes


def test_another_file_than_expected_is_not_kept(tmp_path: Path, cache: Path, site: Site) -> None:
    card = _card(tmp_path / "card", site.address)
    site.answers["/some/data.jsonl"] = TABLE.replace(b"18.5", b"81.5")
    with pytest.raises(
        InputError, match=rf"does not have the expected SHA-256 {SHA}.* it was not kept"
    ):
        load(card)
    assert not [path for path in cache.rglob("*") if path.is_file()]
    # The same for a file that was put there by hand, or changed later.
    target = cache / "benchmarks" / "far" / "data.jsonl"
    target.write_bytes(b"something else")
    with pytest.raises(InputError, match="delete it to download it again") as caught:
        load(card)
    assert hashlib.sha256(b"something else").hexdigest() in str(caught.value)
    assert target.read_bytes() == b"something else"


def test_without_a_network_one_line_says_what_to_do(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Port 9 (discard) of this machine: nobody listens, and nothing leaves the machine.
    address = "http://127.0.0.1:9/some/data.jsonl"
    card = _card(tmp_path / "card", address)
    assert main(["validate", str(card)]) == 2
    message = capsys.readouterr().err.strip()
    target = cache / "benchmarks" / "far" / "data.jsonl"
    assert message.endswith(
        f"benchmark 'far' could not be downloaded (no connection): download {address} and put it"
        f" at {target}"
    )
    assert len(message.splitlines()) == 1
    # Following the advice is enough.
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(TABLE)
    assert len(load(card)) == 3


def test_an_answer_that_is_no_file(tmp_path: Path, cache: Path, site: Site) -> None:
    site.answers.clear()
    with pytest.raises(InputError, match=r"\(the server answered 404\): download http"):
        load(_card(tmp_path / "card", site.address))


def test_a_cache_that_cannot_be_written(tmp_path: Path, cache: Path, site: Site) -> None:
    cache.write_text("a file where a folder should be")
    with pytest.raises(InputError, match=rf"cannot be written: .*{CACHE_VARIABLE}"):
        load(_card(tmp_path / "card", site.address))


@pytest.mark.parametrize("address", ["ftp://a/b", "data.jsonl", "https://host/", "file:///etc/x"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match="remote.address"):
        load(_card(tmp_path / "card", address))


def test_a_name_never_leads_out_of_the_cache(cache: Path) -> None:
    remote = Remote(address="https://host/a/../data.csv?raw=1")
    assert cached_path(remote, "../../x/..") == cache / "benchmarks" / "_x_" / "data.csv"


def test_shipped_cards_of_remote_benchmarks(cache: Path) -> None:
    listed = {one.name: one for one in list_benchmarks()}
    for name in ("xquad", "flores"):
        card = read_card(ROOT / "benchmarks" / name / "benchmark.yaml")
        assert card.name == name
        assert card.remote is not None
        assert "/j0ma/reuben/87a3126/examples/experiments-for-paper/" in card.remote.address
        assert listed[name].shape == "downloaded when first used"
    assert not cache.exists()


def test_the_shipped_xquad_card_reads_such_a_table(cache: Path) -> None:
    """With the hash left out, because the published file is not shipped."""
    card = read_card(ROOT / "benchmarks" / "xquad" / "benchmark.yaml")
    assert card.remote is not None
    target = cached_path(card.remote, "xquad")
    target.parent.mkdir(parents=True)
    target.write_bytes(TABLE)
    with pytest.raises(InputError, match=f"its SHA-256 is {SHA}, not {card.remote.sha256}"):
        load("xquad")


def test_the_shipped_flores_card_reads_such_a_table(cache: Path) -> None:
    card = read_card(ROOT / "benchmarks" / "flores" / "benchmark.yaml")
    assert card.remote is not None
    target = cached_path(card.remote, "flores")
    target.parent.mkdir(parents=True)
    target.write_text(
        "".join(
            f'{{"model": "{m}", "src": "{pair[:2]}", "tgt": "{pair[3:]}", "lang_pair": "{pair}",'
            f' "n_seeds": 5, "bleu_mean": {x}, "bleu_seed_sd": 0.5, "bleu_boot_sd": 0.6,'
            f' "chrf_mean": 50.0, "chrf_seed_sd": 0.1, "chrf_boot_sd": 0.2}}\n'
            for m, pair, x in (("a", "de-en", 31.0), ("a", "en-de", 25.0), ("b", "de-en", 18.0))
        )
    )
    records = load("flores")
    assert records.coords["language"] == ("de-en", "en-de")
    assert records.coords["task"] == ("flores:bleu",)
    assert records.scores.tolist() == [31.0, 25.0, 18.0]
    table = reduce_replicates(records)
    assert table.seed.df.tolist() == [4.0] * 3
    assert table.boot.mean_square.tolist() == pytest.approx([0.36] * 3)
