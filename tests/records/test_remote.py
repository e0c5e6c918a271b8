"""Remote benchmarks, served by a local server: fetched once, checked, explained offline."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.records import list_benchmarks, load, reduce_replicates, remote
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
    """What the server answers, and how often it was asked.

    The path ``/endless`` has no end, ``/drip`` sends a byte now and then, and ``/garbage`` is no
    HTTP. `headers` are those of single paths; a path that has some of ``Location`` leads on.
    """

    address: str = ""
    answers: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str) -> str:
        return self.address.replace("/some/data.jsonl", path)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to this machine, whatever others have to pass."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


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
            headers = found.headers.get(self.path, {})
            if self.path in ("/endless", "/drip"):
                self.goes_on(b"0" * 4096 if self.path == "/endless" else b"0", headers)
                return
            if self.path == "/garbage":
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            self.send_response(302 if "Location" in headers else 404 if body is None else 200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body or b"")

        def goes_on(self, piece: bytes, headers: dict[str, str]) -> None:
            self.send_response(302 if "Location" in headers else 200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not found.closed.wait(0.02 if len(piece) == 1 else 0):
                    self.wfile.write(piece)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.address = f"http://127.0.0.1:{server.server_port}/some/data.jsonl"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.closed.set()
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


def _remote(card: Path) -> Remote:
    found = read_card(card / "benchmark.yaml").remote
    assert found is not None
    return found


def test_a_remote_benchmark_is_fetched_once(
    tmp_path: Path, cache: Path, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    card = _card(tmp_path / "card", site.address)
    records = load(card)
    assert records.name == "far"
    assert records.scores.tolist() == [18.5, 19.0, 41.0]
    assert records.coords["task"] == ("qa:F1",)
    assert reduce_replicates(records).seed.df.tolist() == [4.0] * 3
    (target,) = cache.rglob("data.jsonl")
    assert target.parent.name.startswith("far-")
    assert target.read_bytes() == TABLE
    assert [*target.parent.iterdir()] == [target]
    assert f"downloaded {site.address} to {target}" in records.report.notes
    again = load(card)
    assert again.content_hash == records.content_hash
    assert not [note for note in again.report.notes if "downloaded" in note]
    assert site.asked == ["/some/data.jsonl"]
    assert capfd.readouterr() == ("", "")


def test_the_hash_of_a_first_download_is_recorded(
    tmp_path: Path, cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = _card(tmp_path / "card", "https://host/some/data.jsonl", sha=None)
    target = cached_path(_remote(card), "far")
    target.parent.mkdir(parents=True)
    target.write_bytes(TABLE)
    recorded = [note for note in load(card).report.notes if SHA in note]
    assert recorded == [
        f"data.jsonl has SHA-256 {SHA}; the benchmark states none, so this one is recorded in"
        f" data.jsonl.sha256 and required from now on (remote: sha256: {SHA})"
    ]
    assert target.with_name("data.jsonl.sha256").read_text() == f"{SHA}  data.jsonl\n"
    assert not [note for note in load(card).report.notes if "SHA" in note]
    target.write_bytes(TABLE.replace(b"18.5", b"81.5"))
    with pytest.raises(InputError, match=rf"its SHA-256 is .*, not {SHA}; delete it"):
        load(card)


def test_http_needs_a_hash(tmp_path: Path, cache: Path, site: Site) -> None:
    with pytest.raises(InputError, match="can change a file sent by http; state its sha256"):
        load(_card(tmp_path / "card", site.address, sha=None))
    assert site.asked == []


def test_another_card_has_another_place(tmp_path: Path, cache: Path, site: Site) -> None:
    """Of the same name and file, as a second version of a benchmark is."""
    first = load(_card(tmp_path / "card", site.address))
    other = TABLE.replace(b"18.5", b"20.5")
    site.answers["/other/data.jsonl"] = other
    sha = hashlib.sha256(other).hexdigest()
    second = load(_card(tmp_path / "card 2", site.at("/other/data.jsonl"), sha=sha))
    assert [first.scores[0], second.scores[0]] == [18.5, 20.5]
    assert first.content_hash == load(tmp_path / "card").content_hash
    assert len({cached_path(_remote(tmp_path / c), "far") for c in ("card", "card 2")}) == 2
    # A card that states another hash for the same address does not take this file either.
    with pytest.raises(InputError, match="does not have the expected SHA-256"):
        load(_card(tmp_path / "card 3", site.address, sha=sha))


@pytest.mark.parametrize(
    ("path", "limit", "reason"),
    [
        ("/endless", {"_MAX_DOWNLOAD": 100_000}, "it has more than 100,000 bytes"),
        ("/endless", {"_MAX_SECONDS": 0.3, "_MAX_DOWNLOAD": 1 << 40}, "more than 0.3 seconds"),
        ("/drip", {"_MAX_SECONDS": 0.3}, "it takes more than 0.3 seconds"),
    ],
)
def test_a_body_without_end_is_given_up(
    path: str,
    limit: dict[str, float],
    reason: str,
    tmp_path: Path,
    cache: Path,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in limit.items():
        monkeypatch.setattr(remote, name, value)
    with pytest.raises(InputError) as caught:
        load(_card(tmp_path / "card", site.at(path)))
    assert f"({reason}" in str(caught.value) or f"{reason})" in str(caught.value)
    assert "download http://127.0.0.1" in str(caught.value)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_what_has_come_when_the_time_is_over_is_not_taken_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work: list[threading.Thread] = []

    class Stop(threading.Event):
        def set(self) -> None:
            super().set()
            # The download ends before anybody looks at the time again.
            at_work[0].join()

    def stream(remote: Remote, part: Path, stop: threading.Event) -> str:
        stop.wait()
        return "the hash of a half"

    monkeypatch.setattr(remote, "_MAX_SECONDS", 0.2)
    monkeypatch.setattr(remote, "_stream", stream)

    def thread(**settings: Any) -> threading.Thread:
        at_work.append(threading.Thread(**settings))
        return at_work[0]

    patched = SimpleNamespace(Event=Stop, Thread=thread)
    monkeypatch.setattr(remote, "threading", patched)
    with pytest.raises(remote._RefusedError, match="it takes more than 0.2 seconds"):
        remote._within_time(Remote(address="https://host/x"), tmp_path / "part")


@pytest.fixture
def https(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the site by https: the last step of a request is by http all the same."""
    import requests

    send = requests.adapters.HTTPAdapter.send
    secure, plain = "https://host/", site.at("/")

    def sent_by_http(
        self: requests.adapters.HTTPAdapter, request: requests.PreparedRequest, **settings: Any
    ) -> requests.Response:
        address = str(request.url)
        other = request.copy()
        other.url = address.replace(secure, plain)
        answer = send(self, other, **settings)
        answer.url, answer.request = address, request
        return answer

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", sent_by_http)
    return secure


@pytest.mark.parametrize("leads_to", ["http", "HTTP", "other", "loop", "https"])
def test_a_redirect_stays_with_https(
    leads_to: str, tmp_path: Path, cache: Path, site: Site, https: str
) -> None:
    plain = site.at("/some/data.jsonl")
    places = {"http": plain, "HTTP": plain.replace("http:", "HTTP:"), "loop": f"{https}first"}
    places |= {"other": "ftp://host/data.jsonl", "https": f"{https}some/data.jsonl"}
    site.headers["/first"] = {"Location": places[leads_to]}
    card = _card(tmp_path / "card", f"{https}first", sha=None)
    if leads_to == "https":
        # The control: another address by https is followed, and the hash is recorded.
        assert load(card).scores.tolist() == [18.5, 19.0, 41.0]
        return
    with pytest.raises(InputError, match="could not be downloaded") as caught:
        load(card)
    if leads_to.lower() == "http":
        assert "(the server leads to an address without https)" in str(caught.value)
    assert "/some/data.jsonl" not in site.asked
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_http_that_a_hash_protects_may_lead_on(tmp_path: Path, cache: Path, site: Site) -> None:
    site.headers["/first"] = {"Location": site.at("/some/data.jsonl")}
    assert len(load(_card(tmp_path / "card", site.at("/first")))) == 3
    site.answers["/some/data.jsonl"] = b"something else"
    site.headers["/again"] = site.headers["/first"]
    with pytest.raises(InputError, match="does not have the expected SHA-256"):
        load(_card(tmp_path / "card 2", site.at("/again")))


def test_the_body_of_a_redirect_is_not_read(
    tmp_path: Path, cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_MAX_SECONDS", 60.0)
    site.headers["/endless"] = {"Location": "/some/data.jsonl"}
    assert len(load(_card(tmp_path / "card", site.at("/endless")))) == 3
    assert site.asked == ["/endless", "/some/data.jsonl"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://[::1", "the server leads to 'http://[::1', no address"),
        (
            "file:///etc/passwd",
            "the server leads to 'file:///etc/passwd', no address by http or https",
        ),
        (f"http://a{'b' * 64}/x", f"'http://a{'b' * 48}... is no address by http or https"),
        ("/first", "the server leads on more than 30 times"),
        ("/garbage", "the transfer broke off"),
    ],
    ids=["brackets", "file", "long", "loop", "garbage"],
)
def test_a_redirect_that_leads_nowhere(
    location: str, reason: str, tmp_path: Path, cache: Path, site: Site
) -> None:
    site.headers["/first"] = {"Location": location}
    with pytest.raises(InputError) as caught:
        load(_card(tmp_path / "card", site.at("/first")))
    assert f"could not be downloaded ({reason}): download http" in str(caught.value)
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ({"Content-Encoding": "gzip"}, gzip.compress(bytes(10**6)), "more than 100,000 bytes"),
        ({"Content-Encoding": "gzip"}, b"no gzip", "the transfer broke off"),
        ({"Content-Length": "1000"}, TABLE, "the transfer broke off"),
    ],
    ids=["bomb", "no gzip", "cut"],
)
def test_a_body_that_is_not_what_its_headers_say(
    headers: dict[str, str],
    body: bytes,
    reason: str,
    tmp_path: Path,
    cache: Path,
    site: Site,
    https: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "_MAX_DOWNLOAD", 100_000)
    site.answers["/some/data.jsonl"] = body
    site.headers["/some/data.jsonl"] = headers
    # Without a hash, which would refuse all of them.
    with pytest.raises(InputError) as caught:
        load(_card(tmp_path / "card", f"{https}some/data.jsonl", sha=None))
    assert reason in str(caught.value)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_what_a_killed_download_left_is_removed(tmp_path: Path, cache: Path, site: Site) -> None:
    card = _card(tmp_path / "card", site.address)
    folder = cached_path(_remote(card), "far").parent
    folder.mkdir(parents=True)
    old, new = folder / ".part-old", folder / ".part-new"
    for part in (old, new):
        part.write_text("half")
    os.utime(old, (0, 0))
    load(card)
    # Another process may be writing the new one.
    assert sorted(path.name for path in folder.iterdir()) == [".part-new", "data.jsonl"]


def test_another_file_than_expected_is_not_kept(tmp_path: Path, cache: Path, site: Site) -> None:
    card = _card(tmp_path / "card", site.address)
    site.answers["/some/data.jsonl"] = TABLE.replace(b"18.5", b"81.5")
    with pytest.raises(
        InputError, match=rf"does not have the expected SHA-256 {SHA}.* it was not kept"
    ):
        load(card)
    assert not [path for path in cache.rglob("*") if path.is_file()]
    # The same for a file that was put there by hand, or changed later.
    target = cached_path(_remote(card), "far")
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
    target = cached_path(_remote(card), "far")
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


@pytest.mark.parametrize(
    "address",
    ["https://host/a\u202eb", "ftp://a/b", "data.jsonl", "https://host/", "file:///etc/x"],
)
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match="remote.address"):
        load(_card(tmp_path / "card", address))


@pytest.mark.parametrize(
    "host", ["[::1", "127.0.0.1:8@[::1", "host:99999", "...", f"{'a' * 64}.com", "a..b", ":8"]
)
def test_a_host_that_is_none(tmp_path: Path, cache: Path, host: str) -> None:
    with pytest.raises(
        InputError, match=r"benchmark.yaml: remote: .* is not the URL .* port of its host"
    ):
        load(_card(tmp_path / "card", f"'http://{host}/x'"))


def test_a_name_never_leads_out_of_the_cache(cache: Path) -> None:
    for end, name in {
        "a/../data.csv?raw=1": "data.csv",
        "a/..": "data",
        "%2e%2e%2fx": "_2e_2e_2fx",
        "a/.hidden": "hidden",
    }.items():
        path = cached_path(Remote(address=f"https://host/{end}"), "../../x/..")
        assert path.parent.parent == cache / "benchmarks"
        assert path.parent.name.startswith("_x_-")
        assert path.name == name


def test_shipped_cards_of_remote_benchmarks(cache: Path) -> None:
    listed = {one.name: one for one in list_benchmarks()}
    for name in ("xquad", "flores"):
        card = read_card(ROOT / "benchmarks" / name / "benchmark.yaml")
        assert card.name == name
        assert card.remote is not None
        assert "/j0ma/reuben/87a3126/examples/experiments-for-paper/" in card.remote.address
        assert card.remote.sha256 is not None
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


def test_the_shipped_flores_card_reads_such_a_table(cache: Path, tmp_path: Path) -> None:
    """With the table beside the card, because the published file is not shipped."""
    shipped = ROOT / "benchmarks" / "flores" / "benchmark.yaml"
    text = shipped.read_text(encoding="utf-8")
    text = re.sub(r"^remote:\n(?:  .*\n)+", "files: [data.jsonl]\n", text, flags=re.MULTILINE)
    (tmp_path / "benchmark.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "data.jsonl").write_text(
        "".join(
            f'{{"model": "{m}", "src": "{pair[:2]}", "tgt": "{pair[3:]}", "lang_pair": "{pair}",'
            f' "n_seeds": 5, "bleu_mean": {x}, "bleu_seed_sd": 0.5, "bleu_boot_sd": 0.6,'
            f' "chrf_mean": 50.0, "chrf_seed_sd": 0.1, "chrf_boot_sd": 0.2}}\n'
            for m, pair, x in (("a", "de-en", 31.0), ("a", "en-de", 25.0), ("b", "de-en", 18.0))
        )
    )
    records = load(tmp_path)
    assert records.coords["language"] == ("de-en", "en-de")
    assert records.coords["task"] == ("flores:bleu",)
    assert records.scores.tolist() == [31.0, 25.0, 18.0]
    table = reduce_replicates(records)
    assert table.seed.df.tolist() == [4.0] * 3
    assert table.boot.mean_square.tolist() == pytest.approx([0.36] * 3)
