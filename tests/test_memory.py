"""Draws that no memory holds are refused before anything is sampled."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayeseval as be
from bayeseval import _memory
from bayeseval.fitting import prepare, prepared
from bayeseval.simulation import simulate

RECORDS = simulate("additive", n_languages=3, n_tasks=2, n_models=2, seed=1).records


def test_more_draws_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "free_memory", lambda: 8_000_000)
    # An intercept, four sds, and effects of 3 languages, 2 tasks and 2 models, in two copies.
    parameters = 1 + 4 + 7
    with pytest.raises(be.BayesevalError) as caught:
        be.fit(RECORDS, "additive", draws=50_000)
    assert str(caught.value) == (
        f"200,000 draws of {parameters} parameters take at least 38 MB of memory, and 8 MB are "
        "free; give fewer draws (at most 10,416 per chain) or a smaller model"
    )
    assert 8_000_000 // (2 * 8 * parameters * 4) == 10_416
    prepare(RECORDS, "additive", settings=prepared.SamplerSettings(draws=10_416))
    prepare(RECORDS, "paper", engine="ml")
    # A system that does not say what is free refuses nothing.
    monkeypatch.setattr(prepared, "free_memory", lambda: None)
    prepare(RECORDS, "additive", settings=prepared.SamplerSettings(draws=50_000))


def test_free_memory_is_the_least_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  24684092 kB\nMemAvailable:   2000 kB\n")
    monkeypatch.setattr(_memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(_memory, "_CGROUP", tmp_path)
    assert _memory.free_memory() == 2_048_000
    for most, free in (("max", 2_048_000), ("1500000", 1_000_000), ("900000000", 2_048_000)):
        (tmp_path / "memory.max").write_text(f"{most}\n")
        (tmp_path / "memory.current").write_text("500000\n")
        assert _memory.free_memory() == free
    # Cached files are used memory, too, which is taken back where it is needed.
    (tmp_path / "memory.max").write_text("1500000\n")
    for cached, free in ((300_000, 1_300_000), (600_000, 1_500_000)):
        (tmp_path / "memory.stat").write_text(
            f"anon 1\ninactive_anon 7\nactive_file 200000\ninactive_file {cached - 200_000}\n"
        )
        assert _memory.free_memory() == free
