# Each target does its own set-up on a machine that has Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LISTEN ?= 127.0.0.1:9092
DATA ?= ./data
OUT ?= ./lag

# COMPILED=1 with run, test, bench or bench-quick: from build/compiled, where the modules that setup.py names are C.
COMPILED ?=
ifeq ($(COMPILED),1)
BUILD := compiled
BENCH_OUT := --out ../../build/bench-compiled
QUICK_HERE = $(QUICK) and not interpreted
IN_TREE = python="$$(cd $(BIN) && pwd)/python" && cd build/compiled && export PYTHONPATH="$$PWD/protocol" && exec "$$python"
else
QUICK_HERE = $(QUICK)
IN_TREE = exec $(BIN)/python
endif

# The codecs of the wire, from their declarations; nothing happens when they are what the declarations say.
GENERATE := $(BIN)/python -m kafka_wire generate

QUICK := not full and not reference and not clients and not compose and not slow and not spark and not browser and not hostile and not postgresql

.PHONY: help run demo pipeline pyspark-consumer-offsets test lint bench bench-quick compiled wheel docs generate format clean

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-25s %s\n", $$1, $$2}'

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

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "installing Zensical into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing what the benchmarks draw with into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/.run

$(VENV)/.spark: pyproject.toml | $(BIN)/python
	@echo "installing Spark into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,spark]'
	@touch $@ $(VENV)/.run $(VENV)/.test

# What `make pipeline` needs. Java first: nobody downloads Spark to be told that there is none.
$(VENV)/.pipeline: pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import runpy, sys; sys.exit(runpy.run_path("coordinatord/monitoring/pipeline/source/java.py")["java_problem"]())'
	@echo "installing Spark into $(VENV): 0.6 GB to download, 1.2 GB on disk (make pipeline, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@ $(VENV)/.run

$(VENV)/.postgresql: pyproject.toml | $(BIN)/python
	@echo "installing PostgreSQL's driver into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,postgresql]'
	@touch $@ $(VENV)/.run $(VENV)/.test

$(VENV)/.compile: pyproject.toml | $(BIN)/python
	@echo "installing mypyc into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compile,test]'
	@touch $@ $(VENV)/.run $(VENV)/.test

$(VENV)/.wheel: pyproject.toml | $(BIN)/python
	@echo "installing auditwheel into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[wheel]'
	@touch $@ $(VENV)/.run

# Everything that .ci/run needs, in one go: pip looks at each package once.
$(VENV)/.ci: pyproject.toml | $(BIN)/python
	@echo "installing what all tiers of the tests need into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint,clients,spark,compile,wheel,postgresql,browser]'
	@touch $@ $(addprefix $(VENV)/.,run test lint clients spark compile wheel postgresql)

SOURCES = setup.py pyproject.toml $(shell find coordinatord protocol -type f -not -path "*/__pycache__/*")
# Renamed when it is whole. The stamp is older than the copies: sources that change meanwhile are compiled again.
build/compiled/.stamp: $(SOURCES) | $(VENV)/.compile
	@$(GENERATE)
	@rm -rf build/compiling && mkdir -p build/compiling && touch build/compiling/.stamp
	@cp -r setup.py pyproject.toml README.md coordinatord protocol build/compiling
	@python="$$(cd $(BIN) && pwd)/python" && cd build/compiling && export COORDINATORD_COMPILE=1 && \
		{ "$$python" setup.py -q build_ext --inplace && "$$python" -m compileall -q coordinatord protocol; } \
		>../compile.log 2>&1 || { tail -n 20 ../compile.log; exit 1; }
	@rm -rf build/compiled && mv build/compiling build/compiled

compiled: build/compiled/.stamp ## a copy in build/compiled whose hot modules are C, for COMPILED=1; needs a C compiler
	@cd build/compiled && rm -rf bench tests deploy Makefile Dockerfile LICENSE .ci
	@cp -r bench tests deploy Makefile Dockerfile LICENSE ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md .ci build/compiled

# What build_ext left in build/compiled is up to date for bdist_wheel: nothing is compiled twice. It knows the tag of this
# machine alone, which no index takes; auditwheel reads from the C modules which Linuxes have what they need.
wheel: build/compiled/.stamp $(VENV)/.wheel ## the same modules in a wheel in build/wheels, for this Python on systems like this one
	@cp LICENSE build/compiled && rm -rf build/compiled/dist
	@python="$$(cd $(BIN) && pwd)/python" && cd build/compiled && \
		COORDINATORD_COMPILE=1 "$$python" setup.py -q bdist_wheel --dist-dir dist >wheel.log 2>&1 || { tail -n 20 wheel.log; exit 1; }
	@mkdir -p build/wheels
	@if test "$$(uname)" != Linux; then mv build/compiled/dist/*.whl build/wheels; \
	elif ! PATH="$$(cd $(BIN) && pwd):$$PATH" $(BIN)/auditwheel repair --strip --wheel-dir build/wheels build/compiled/dist/*.whl \
		>build/compiled/repair.log 2>&1; then tail -n 3 build/compiled/repair.log; \
		echo "auditwheel does not vouch for other Linuxes: this wheel is for systems like this one"; \
		mv build/compiled/dist/*.whl build/wheels; fi
	@ls -t build/wheels/*.whl | head -n 1

run: $(VENV)/.run $(BUILD) ## start the daemon on 127.0.0.1:9092 with its data in ./data
	@$(GENERATE)
	@$(IN_TREE) -m coordinatord serve --listen "$(LISTEN)" --data-dir "$(if $(BUILD),$(abspath $(DATA)),$(DATA))"

pipeline: $(VENV)/.pipeline ## who is behind, from the log of any cluster: SOURCE=DIR or BOOTSTRAP=HOST:PORT, OUT=./lag
	@test -n "$(SOURCE)$(BOOTSTRAP)" || { echo "Say where the log is: make pipeline SOURCE=/var/lib/kafka/data, or BOOTSTRAP=broker:9092"; exit 2; }
	@$(GENERATE)
	@$(BIN)/python -m coordinatord pipeline run $(if $(SOURCE),--source "$(SOURCE)",--bootstrap "$(BOOTSTRAP)") --out "$(OUT)" $(ARGS)
	@$(BIN)/python -m coordinatord pipeline report --out "$(OUT)" --html "$(OUT)/lag.html"

pyspark-consumer-offsets: $(VENV)/.run ## a wheel in build/ with the Spark data source alone
	@$(GENERATE)
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build deploy/pyspark-consumer-offsets
	@ls build/pyspark_consumer_offsets-*.whl

demo: $(VENV)/.test ## three consumers, a killed one, a killed daemon, nothing lost
	@$(GENERATE)
	@exec $(BIN)/python -m tests.demo

# Half of the time the tests wait, for timeouts of groups and for processes: four of them keep two cores busy.
test: $(VENV)/.test $(BUILD) ## the quick tests: Python alone, under five minutes; TESTS="tests/broker/log" for some
	@$(GENERATE)
	@$(IN_TREE) -m pytest -q -n 4 -m "$(QUICK_HERE)" $(TESTS)

lint: $(VENV)/.lint ## ruff, mypy --strict, import rules
	@$(GENERATE)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check --no-respect-gitignore protocol/kafka_wire/generated
	@$(BIN)/ruff format --check --no-respect-gitignore protocol/kafka_wire/generated
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry .

bench: $(VENV)/.bench $(BUILD) ## beside Apache Kafka (needs Java 17, Maven) and kfake (Go); ARGS="--only heartbeat"
	@$(GENERATE)
	@$(IN_TREE) -m bench $(BENCH_OUT) $(ARGS)

bench-quick: $(VENV)/.bench $(BUILD) ## our side alone, in about a minute
	@$(GENERATE)
	@$(IN_TREE) -m bench --quick $(BENCH_OUT) $(ARGS)

docs: $(VENV)/.docs ## the pages of docs/ as a site in build/site
	@$(BIN)/python docs/collect.py
	@$(BIN)/zensical build --clean --strict

generate: $(VENV)/.run ## write the codecs of the wire from their declarations; the other targets do so by themselves
	@$(GENERATE)

format: $(VENV)/.lint ## ruff, in place
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove the virtual environment and caches, keep the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	find protocol/kafka_wire/generated -type f -not -name __init__.py -delete
