# `make` lists the targets. Everything runs in .venv, which the first target that needs it creates; each part of
# tests/real has an environment of its own in .venv-real.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lists of packages are complete, so pip need not look for dependencies.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps

help:
	@echo "make demo       play one agent session in a small window, with and without refold"
	@echo "make test       format, lint, strict types, every test that needs no other program"
	@echo "make test-real  tests against real packages and servers, each in an environment of its own"
	@echo "make soak       the long runs: kill tests, power cuts, large property tests"
	@echo "make bench      print the benchmark tables and write bench/RESULTS.md"
	@echo "make dist       build the wheel and the source archive into dist/"
	@echo "make clean      remove the environments and caches"

$(VENV)/.base: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements.txt
	$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.base requirements-pytest.txt requirements-test.txt
	$(INSTALL) -r requirements-test.txt
	@touch $@

demo: $(VENV)/.base
	@$(BIN)/refold demo

test: $(VENV)/.test
	$(BIN)/ruff format --check --quiet src tests bench
	$(BIN)/ruff check --quiet src tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

test-real:
	$(PYTHON) tests/real/run.py

soak: $(VENV)/.test
	$(BIN)/python -m pytest -m soak
	REFOLD_FAILOVERS=20 REFOLD_KILLS=60 REFOLD_SYNC_S=1800 REFOLD_TESTS_S=7200 $(PYTHON) tests/real/run.py postgres

bench: $(VENV)/.test
	$(BIN)/python -m bench

dist: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) .venv-real .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info

.PHONY: help demo test test-real soak bench dist clean
