# `make run` and `make test` need nothing but Python 3.11 and make: they build .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS := 1
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: run test faults bench lint clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

run: $(VENV)/.installed
	$(BIN)/mapspace run

test: $(VENV)/.installed
	$(BIN)/pytest -m 'not slow and not faults'

# Kills processes of its own cluster, so it runs apart from the other tests.
faults: $(VENV)/.installed
	$(BIN)/pytest -m faults

bench: $(VENV)/.installed
	$(BIN)/python tests/bench_costmodel.py
	$(BIN)/python tests/bench_structured.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info
