# `make run` and `make test` need nothing but Python 3.11 and make: they build .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# As a path, which type checkers follow; setuptools' own way is an import hook that they do not see.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	--config-settings editable_mode=compat
export OMP_NUM_THREADS := 1
export RAY_USAGE_STATS_ENABLED := 0
# Who is asked for known vulnerabilities.
OSV := https://api.osv.dev/v1/query
VULNERABLE := PIP_AUDIT_LOGLEVEL=error $(BIN)/pip-audit --vulnerability-service osv --osv-url $(OSV) \
	--no-deps --disable-pip --progress-spinner off --requirement

.PHONY: run test test-slow test-tvm faults mutants bench bench-anytime lint audit site pages clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[dev]'
	touch $@

run: $(VENV)/.installed
	$(BIN)/mapspace run

# Two processes: a file's tests stay together, and each process has a Ray of its own.
JOBS ?= 2
BESIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed
	$(BIN)/pytest $(BESIDE) -m 'not slow and not faults'

# All of the slow tests, or those that run every time and the PART-th of the others: PART=2/6.
test-slow: $(VENV)/.installed
	$(BIN)/pytest $(BESIDE) -m slow $(if $(PART),--part $(PART))

$(VENV)/.tvm-installed: $(VENV)/.installed
	$(INSTALL) --editable '.[dev,tvm]'
	touch $@

# What measures with TVM, which `make test` leaves out where nobody has installed it.
test-tvm: $(VENV)/.tvm-installed
	$(BIN)/pytest -m tvm --require-tvm

# Kills processes, so it runs apart from the other tests; each of two processes those of its own cluster.
# PART=1/2 runs the first half of them.
# Nodes that vanish do so by the clock, so nothing runs beside those tests.
NODES := tests/cluster/test_faults_nodes.py
faults: $(VENV)/.installed
	$(BIN)/pytest $(BESIDE) -m faults --ignore $(NODES) $(if $(PART),--part $(PART))
	$(BIN)/pytest -m faults $(NODES) $(if $(PART),--part $(PART))

# Hours of one core for all of it; goes on where it stopped.
mutants: $(VENV)/.installed
	$(BIN)/python tests/mutants.py --count 200 --output mutants.jsonl

bench-anytime: $(VENV)/.installed
	$(BIN)/python tests/benchmarks/bench_anytime.py

bench: $(VENV)/.installed
	$(BIN)/python tests/benchmarks/bench_costmodel.py
	$(BIN)/python tests/benchmarks/bench_structured.py

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

# Into build/site, notebooks run; `python -m http.server --directory build/site` shows it, search included.
site: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Tables of pages from the results that are kept beside them.
pages: $(VENV)/.installed
	$(BIN)/python -m orchestrator.kept README.md docs

clean:
	rm -rf $(VENV) build *.egg-info
