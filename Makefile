# Each target does its own set-up on a machine that has Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LISTEN ?= 127.0.0.1:9092
DATA ?= ./data

QUICK := not reference and not clients and not compose and not slow and not spark and not browser

.PHONY: help run demo test lint bench bench-quick format clean

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "coordinatord needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Say which: make PYTHON=python3.12"; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# One stamp per set of packages: a second start installs nothing and needs no network.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "installing coordinatord into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing coordinatord and what its tests need into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.run

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	@echo "installing linters into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	@touch $@ $(VENV)/.run $(VENV)/.test

$(VENV)/.clients: pyproject.toml | $(BIN)/python
	@echo "installing foreign clients into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,clients]'
	@touch $@ $(VENV)/.run $(VENV)/.test

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing what the benchmarks draw with into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/.run

$(VENV)/.spark: pyproject.toml | $(BIN)/python
	@echo "installing Spark into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,spark]'
	@touch $@ $(VENV)/.run $(VENV)/.test

run: $(VENV)/.run ## start the daemon on 127.0.0.1:9092 with its data in ./data
	@exec $(BIN)/coordinatord serve --listen $(LISTEN) --data-dir $(DATA)

demo: $(VENV)/.test ## three consumers, a killed one, a killed daemon, nothing lost
	@exec $(BIN)/python -m tests.demo

test: $(VENV)/.test ## the quick tests: Python alone, under five minutes
	@$(BIN)/python -m pytest -q -n 2 -m "$(QUICK)"

lint: $(VENV)/.lint ## ruff, mypy --strict, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry .

bench: $(VENV)/.bench ## beside Apache Kafka (needs Java 17, Maven) and kfake (Go); ARGS="--only heartbeat"
	@exec $(BIN)/python -m tests.bench $(ARGS)

bench-quick: $(VENV)/.bench ## our side alone, in about a minute
	@exec $(BIN)/python -m tests.bench --quick $(ARGS)

format: $(VENV)/.lint ## ruff, in place
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove the virtual environment and caches, keep the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
