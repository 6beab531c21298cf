# `make run` and `make test` need nothing but Python 3.11 and make: they build .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS := 1
export RAY_USAGE_STATS_ENABLED := 0
# Who is asked for known vulnerabilities.
OSV := https://api.osv.dev/v1/query
VULNERABLE := PIP_AUDIT_LOGLEVEL=error $(BIN)/pip-audit --vulnerability-service osv --osv-url $(OSV) \
	--no-deps --disable-pip --progress-spinner off --requirement

.PHONY: run test faults bench lint audit clean

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
	$(MAKE) audit

# Of what constraints.txt pins: licences that pyproject.toml does not allow, and known vulnerabilities.
# Whether anybody answers is seen from an old version whose holes are known to all.
audit: $(VENV)/.installed
	$(BIN)/pip-licenses --packages $$(cut -d= -f1 constraints.txt) > /dev/null
	@if echo jinja2==2.4.1 | $(VULNERABLE) /dev/stdin 2> /dev/null | grep -q '^jinja2'; \
	then $(VULNERABLE) constraints.txt; \
	else echo "audit: known vulnerabilities were NOT checked: no answer from $(OSV)"; fi

clean:
	rm -rf $(VENV) build *.egg-info
