# Two commands on a fresh machine: make demo, make test. Everything they need is set up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check bench format clean

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/esker/avro/_shred.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Esker needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[fast,pandas,polars]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@

demo: $(STAMP)  ## a tour: make a table, look at it, read it
	@$(BIN)/python -m esker.demo

test: $(STAMP)  ## everything: lint, types, import rules, the whole suite
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(STAMP)  ## the same without the slow tests: under a minute, no JVM
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not interop"

bench: $(STAMP)  ## side by side with the peers, as ratios in one run
	$(BIN)/python -m benchmarks

format: $(STAMP)  ## put every file in shape
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

clean:  ## forget the environment and all caches
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info src/esker/avro/*.so
