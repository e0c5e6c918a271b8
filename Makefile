# Everything runs in $(VENV), which scripts/bootstrap.py makes and keeps up to date.

PYTHON ?= python3
VENV ?= .venv
BENCHMARK ?= mega
MODEL ?=
ENGINE ?= auto
WORKERS ?= 2
ARGS ?=
MEASUREMENTS ?= import_time readers whole_command warm_fit ess_per_second parametric_bootstrap scaling replicates recovery

BIN := $(VENV)/bin
BOOTSTRAP := $(PYTHON) scripts/bootstrap.py --venv $(VENV)

.DEFAULT_GOAL := help
.PHONY: help venv venv-test venv-perf venv-docs fit test lint format architecture perf docs audit clean

help:  ## show this
	@echo "usage: make TARGET [PYTHON=python3.12] [VENV=.venv] [ARGS=...]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make fit BENCHMARK=mega MODEL=additive ENGINE=numpyro ARGS='--draws 500 --out results/trial'"

venv:  ## make or update the virtual environment
	@$(BOOTSTRAP)

venv-test:
	@$(BOOTSTRAP) --extra test

venv-perf:
	@$(BOOTSTRAP) --extra perf

venv-docs:
	@$(BOOTSTRAP) --extra docs

fit: venv  ## fit a benchmark and write a result folder
	@$(BIN)/python scripts/fit.py --benchmark $(BENCHMARK) $(if $(MODEL),--model $(MODEL)) --engine $(ENGINE) $(ARGS)

test: venv-test  ## run the tests (WORKERS=2 processes)
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: venv-test  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: venv-test  ## let ruff fix and format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

architecture:  ## write the module table of ARCHITECTURE.md
	@$(PYTHON) scripts/architecture.py

# Every script runs, also when one before it missed its target.
perf: venv-perf  ## run the performance measurements, for an hour or so
	@missed=; for name in $(MEASUREMENTS); do echo "== perf/$$name.py"; \
	  $(BIN)/python perf/$$name.py || missed="$$missed $$name"; done; \
	$(BIN)/python perf/report.py; \
	if [ -n "$$missed" ]; then echo "missed or failed:$$missed" >&2; exit 1; fi

# Pages are read by WORKERS processes; each runs the cells of its pages, or takes them from the cache.
docs: venv-docs  ## build the pages, and run those whose code changed, into docs/_build/html
	@$(BIN)/python -m sphinx -q -T -W --keep-going -j $(WORKERS) -b html $(ARGS) docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Asks a database of advisories, which the other targets do without.
audit:  ## look for published advisories on the pinned versions
	@$(PYTHON) -m venv .venv-audit && .venv-audit/bin/python -m pip install -q pip-audit
	@for file in constraints/*.txt; do echo "== $$file"; \
	  .venv-audit/bin/pip-audit --no-deps --disable-pip -r $$file || missed=1; done; test -z "$$missed"

clean:  ## remove caches and build products, keep results
	rm -rf .venv .venv-* build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src tests scripts perf -name __pycache__ -type d -prune -exec rm -rf {} +
