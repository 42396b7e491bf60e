# Everything runs in .venv, which is made here; a fresh machine needs only Python 3.11+, make and the package index.
PYTHON ?= python3
SEEDS ?= 500
STATES ?= 1000000
MINUTES ?= 1
FAULTS ?= all
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
.DEFAULT_GOAL := help
# Each of a cluster's processes would compile the sources anew, and the tests start hundreds of them.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo examples test check compat hosts hosts-tools postgres-tools browser-tools bench bench-recovery bench-restart bench-joining bench-spark simulate explore chaos lock format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make .venv and install everything into it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else "mantamq needs Python 3.11 or newer, this is %d.%d: try make PYTHON=python3.12" % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar on -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(STAMP) ## A local cluster moves a year of New York's flights and counts every one
	@$(BIN)/python -m mantamq.client.demo.demo

examples: $(STAMP) ## Each program of examples/, a kind of queue each, in a cluster of its own
	@for one in examples/*.py; do echo "== $$one"; $(BIN)/python $$one || exit 1; done

check: $(STAMP) ## Lint, format, types and the fast tests (some minutes)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest -q -n 2 tests/unit

test: $(STAMP) ## Lint, types, and all tests, real Ray clusters among them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	@$(MAKE) --no-print-directory postgres-tools
	@$(MAKE) --no-print-directory hosts-tools
	@$(MAKE) --no-print-directory browser-tools
	$(BIN)/pytest -q -n 2 tests/unit tests/scenarios tests/store
	@# RayDP needs a Java of its own, and a process has one for its life: so test_on_ray.py has one to itself.
	@$(BIN)/python -m tests.in_gaps \
	  --meanwhile '$(BIN)/pytest -q -n 2 --timeout 1200 tests/simulation' \
	  --meanwhile '$(BIN)/python -m tests.simulation --seeds $(SEEDS) --no-gate' \
	  '$(BIN)/pytest -q tests/jobs --ignore tests/jobs/test_on_ray.py' \
	  '$(BIN)/pytest -q tests/jobs/test_on_ray.py' \
	  '$(BIN)/pytest -q tests/cluster' \
	  "$(BIN)/pytest -q -m 'not long' tests/hosts"

hosts: $(STAMP) hosts-tools ## Every story on several hosts that are cut off, killed, paused (needs root)
	$(BIN)/pytest -q tests/hosts

# What makes hosts, where we may install it; the stories are skipped, saying why, where it is missing.
hosts-tools:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v ip && command -v nft; } >/dev/null; then \
	  { apt-get install -y -qq iproute2 nftables || { apt-get update -qq && apt-get install -y -qq iproute2 nftables; }; } \
	    >/dev/null 2>&1 || echo "iproute2 and nftables could not be installed: no stories on several hosts"; fi

# A server for the tests of the catalogue, where we may install it; those are skipped, saying why, where it is missing.
postgres-tools:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  { apt-get install -y -qq postgresql || { apt-get update -qq && apt-get install -y -qq postgresql; }; } \
	    >/dev/null 2>&1 || echo "PostgreSQL could not be installed: its tests are skipped"; fi

# A browser for the tests of the management page, where we may install it; those are skipped, saying why, where it is missing.
browser-tools:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v chromium && command -v chromedriver; } >/dev/null; then \
	  { apt-get install -y -qq chromium chromium-driver || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; }; } \
	    >/dev/null 2>&1 || echo "Chromium could not be installed: the tests in a browser are skipped"; fi

compat: $(STAMP) ## The tests that touch Ray, on the oldest and newest that the pin allows, or on RAYS='2.57.1 2.58.0'
	$(BIN)/python -m tests.compat $(RAYS)

bench: $(STAMP) ## Ours and the installed peers in one run, with ratios
	$(BIN)/python -m mantamq.benchmarks

bench-recovery: $(STAMP) ## Time from a kill to the next completion and delivery, peers beside
	$(BIN)/python -m mantamq.benchmarks.recovery

bench-restart: $(STAMP) ## A cluster with 1 GiB in its stores is killed and started again; how large stores become
	$(BIN)/python -m mantamq.benchmarks.restart

bench-joining: $(STAMP) ## What a joining broker costs the publishers, and how long it takes
	$(BIN)/python -m mantamq.benchmarks.joining

chaos: $(STAMP) ## Real processes under FAULTS=names for MINUTES=n: nothing completed is lost
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --faults '$(FAULTS)' $(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep $(KEEP))

bench-spark: $(STAMP) ## Spark over 10 million events, against other ways to get at them
	$(BIN)/python -m mantamq.benchmarks.spark $(PARTS)

simulate: $(STAMP) ## The whole cluster in one process under SEEDS=n seeds, then planted bugs
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

explore: $(STAMP) ## Every order of deliver, drop, flush and crash in small worlds, up to STATES=n of them
	@$(BIN)/python -m tests.simulation.exploration --states $(STATES)

format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: $(STAMP) ## Renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra bench --extra spark --extra postgres --no-header --no-annotate --quiet --output-file requirements.lock

clean: ## Remove what was made
	find actors benchmarks client examples jobs management protocol store tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) .compat build *.egg-info .pytest_cache .ruff_cache .hypothesis
