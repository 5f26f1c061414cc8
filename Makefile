# `make check` is what bin/test runs; the rest are its parts.
PY := .venv/bin/python
.PHONY: check format lint types arrows test sim generate bench house

check: lint types arrows test sim

format:
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lint:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

types:
	.venv/bin/mypy

arrows:
	.venv/bin/lint-imports

test:
	$(PY) -m pytest

# Stories of a whole broker under crashes. One again: make sim SEEDS="--sim-seed 48".
SEEDS ?= --sim-seeds 200
sim:
	$(PY) -m pytest -n 2 tests/sim/test_sim_cluster.py $(SEEDS)

# Files that are written by code and checked in; a test fails when one is stale.
generate:
	$(PY) -m kcli.protocol.generate
	$(PY) -m kcli.cli.man
	$(PY) -m kcli.cli.shims

bench:
	$(PY) bench/run.py

# Measures of the source tree, with their goals; bench/house.py --verbose lists every place.
house:
	$(PY) bench/house.py
