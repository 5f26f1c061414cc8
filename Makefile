# `make quick`: the core of the tests in under two minutes on two cores. For each edit.
# `make check`: bin/test, which is every check that CI runs: formatter, linter, types, import arrows and all tests.
#               CI also runs failed tests once more and tries the same examples of properties in each run (.ci/run).
# `make full`:  the same checks with larger matrices: 200 simulation seeds of each kind, ten times as many examples of
#               each property, and the tests that are marked `full`. For a night, or before a release.
PY := .venv/bin/python
.PHONY: quick check full format lint types arrows test sim stories generate bench house hooks

# Quick tests need no whole broker, no client and no Spark (that is tests/integration and the rest), and try a tenth of the usual examples.
QUICK := tests/unit tests/property tests/scenario
# These run pytest themselves, or read every file of the project.
SLOW := tests/unit/ci tests/unit/test_tidy_prose.py tests/unit/test_tidy_rigs.py

quick:
	$(PY) -m pytest -n 2 --hypothesis-profile=quick $(QUICK) $(SLOW:%=--ignore=%)

check:
	bin/test

# Ten times the usual time-out of a test, because a property takes ten times as long.
full: lint types arrows
	$(PY) -m pytest -n 2 --full --hypothesis-profile=full --sim-seeds 200 --timeout 3000

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

# Stories of clusters of one to seven nodes, so many of each kind. One again: make sim SEEDS="--sim-seed 48".
SEEDS ?= --sim-seeds 200
sim:
	$(PY) -m pytest -n 2 tests/sim/test_sim_stories.py $(SEEDS)

# The same stories on all processors, from a first seed on.
FIRST ?= 0
STORIES ?= 2000
stories:
	PYTHONPATH=tests $(PY) -m simulation.world.story $(FIRST) $(STORIES)

# Files that are written by code and checked in; a test fails when one is stale.
generate:
	PYTHONPATH=tests $(PY) -m rigs.generate_messages
	$(PY) -m kcli.cli.man
	$(PY) -m kcli.cli.shims

bench:
	$(PY) bench/run.py

# Measures of the source tree, with their goals; `-m rigs.house --verbose` lists every place.
house:
	PYTHONPATH=tests $(PY) -m rigs.house

# Lets git refuse commit messages that break the rules. Worktrees of one clone share this setting.
hooks:
	git config core.hooksPath bin/hooks
