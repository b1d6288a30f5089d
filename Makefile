# Needs Python 3.11 or later, make, and a network to the package registries; nothing else.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
CLASSES := $(VENV)/spark-classes.jsa
# An environment that was copied or moved here, or that has lost its Python, is made anew.
USABLE := $(shell [ "$$(cat $(STAMP) 2>/dev/null)" = "$$(pwd -P)" ] && \
	$(BIN)/python -c '' 2>/dev/null && echo yes)
# Java is found, or installed, when a recipe needs it.
WITH_JAVA = export JAVA_HOME="$$($(BIN)/python scripts/ensure_java.py)" && \
	[ -n "$$JAVA_HOME" ] && export PATH="$$JAVA_HOME/bin:$$PATH"
# So is Chromium, for the tests of the page; they are left out without one.
WITH_CHROMIUM = export HOLDFAST_CHROMIUM="$$($(BIN)/python scripts/ensure_chromium.py)"
ARGS ?=
# The versions of Spark that Holdfast runs on, each in an environment of its own, and the Python for
# each: those that PySpark takes, one after the other, where they are there.
VERSIONS ?= 4.0 4.1 4.2 4.3
NIGHTLY_VERSIONS := 4.0 4.1 4.2
FOR_VERSIONS := build/spark-
PYTHON_FOR_4.0 = python3.10
PYTHON_FOR_4.1 = python3.12
PYTHON_FOR_4.2 = python3.13
PYTHON_FOR_4.3 = $(BIN)/python
# The Spark of $(VENV) under another version of Python, to share results with it.
OTHER_PYTHON := build/other-python

.PHONY: help setup demo check test nightly test-versions smoke-4.0 other-python lint types bench-cache bench-attach bench-taskexecutor bench-datastream bench-eventstore bench-catalog bench-implicit bench-recovery bench-ui screenshots page-scripts soak fuzz clean anew

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv, install everything, make sure of Java 17 or later
	@$(WITH_JAVA) && echo "Java: $$JAVA_HOME"

$(STAMP): pyproject.toml $(if $(USABLE),,anew)
	@if [ -z "$(PYTHON)" ]; then \
		echo "Holdfast needs Python 3.11 or later, and none was found on the PATH." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; fi
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Holdfast needs Python 3.11 or later, and $(PYTHON) is not one." >&2; \
		echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; fi
	@"$(PYTHON)" scripts/ensure_venv.py
	@echo "Installing Holdfast and what it needs into $(VENV): some minutes the first time"
	"$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,dev]'
	@pwd -P > $(STAMP)

anew:

demo: setup ## Play a tour of Holdfast (ARGS="--rows 50000000")
	@$(WITH_JAVA) && $(BIN)/holdfast demo $(ARGS)

lint: $(STAMP) ## Check the style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check the types
	$(BIN)/mypy --strict src

# An archive of classes that doesn't fit, as Java or Spark is another one, is passed over.
$(CLASSES): $(STAMP)
	@$(WITH_JAVA) && $(BIN)/python -m tests.share_classes $@

# The newest patch release of a version of Spark, and what the suite needs.
.PRECIOUS: $(FOR_VERSIONS)%/.complete
$(FOR_VERSIONS)%/.complete: pyproject.toml | $(STAMP)
	@echo "Installing PySpark $* and what the suite needs into $(@D): some minutes the first time"
	"$$($(PYTHON_FOR_$*) -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null || \
		echo $(BIN)/python)" -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark==$*.*' \
		--editable '.[demo,dev]'
	@$(WITH_JAVA) && $(@D)/bin/python -m tests.share_classes $(@D)/spark-classes.jsa
	@touch $@

PYTEST := -m pytest --dist loadfile --no-loadscope-reorder

check: $(STAMP) lint types $(CLASSES) ## Style, types, the pure tests, and each promise in one JVM: before a commit
	@$(WITH_JAVA) && $(BIN)/python $(PYTEST) -n 2 -p tests.where_time_goes -m "not soak and not slow" \
		tests/promises tests/unit $(ARGS)

# What takes minutes in one piece begins early, so that no process waits long for the others. Three on
# two cores: whoever kills processes, or waits for leases, uses half a core.
test: setup lint types $(CLASSES) smoke-4.0 ## Everything that guards a promise, in real processes: what CI runs
	@$(WITH_JAVA) && $(WITH_CHROMIUM) && $(BIN)/python $(PYTEST) -n 3 -p tests.where_time_goes \
		$(wildcard tests/taskexecutor tests/catalog tests/chaos tests/cluster tests/ui tests/promises tests/spark tests/unit tests/versions) $(ARGS)

# Each version of Spark has its environment first, so that no step waits for the network.
nightly: setup $(CLASSES) other-python $(NIGHTLY_VERSIONS:%=$(FOR_VERSIONS)%/.complete) ## All variants, versions of Spark, random programs and kills, in one table (ARGS="--minutes 30 --seed 1")
	@$(WITH_JAVA) && $(WITH_CHROMIUM) && $(BIN)/python -m tests.nightly $(ARGS)

other-python: $(STAMP) # Make an environment of another Python that is there, if one is
	@version() { "$$1" -c 'import sys, ensurepip; print(*sys.version_info[:2])' 2>/dev/null; }; \
	[ $(OTHER_PYTHON)/.complete -nt pyproject.toml ] && exit; \
	for other in python3.12 python3.13 python3.11 \
			"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[1-3].*/bin/python; do \
		case "$$(version "$$other")" in ""|"$$(version $(BIN)/python)") continue;; esac; \
		echo "Installing Spark and Holdfast for $$other into $(OTHER_PYTHON): some minutes"; \
		"$$other" -m venv --clear $(OTHER_PYTHON) && \
		$(OTHER_PYTHON)/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
			"pyspark==$$($(BIN)/python -c 'import pyspark; print(pyspark.__version__)')" && \
		touch $(OTHER_PYTHON)/.complete && exit; \
	done; echo "No other Python takes this Spark: programs under two of them are not tried"

smoke-4.0: $(FOR_VERSIONS)4.0/.complete ## Try the oldest Spark that Holdfast runs on
	@$(WITH_JAVA) && $(FOR_VERSIONS)4.0/bin/python -m pytest -n 0 -q tests/versions

test-versions: $(VERSIONS:%=$(FOR_VERSIONS)%/.complete) ## Run the Spark part of the suite on Spark 4.0 to 4.3 (VERSIONS="4.1 4.2")
	@$(WITH_JAVA) && failed= && for version in $(VERSIONS); do \
		echo "== Spark $$version"; \
		$(FOR_VERSIONS)$$version/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
			tests/unit/test_members.py tests/versions tests/spark $(ARGS) || \
			failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "Failed on Spark$$failed" >&2; exit 1; }

bench-cache: setup ## Measure cache() against persist, checkpoint and Parquet by hand
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.cache $(ARGS)

bench-attach: setup ## Measure what an attached session costs beside plain Spark (ARGS="--only readers")
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.attach $(ARGS)

bench-taskexecutor: setup ## Measure task executors against nginx and local files
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.taskexecutor $(ARGS)

bench-datastream: setup ## Measure cached streams against a cached RDD and PyFlink
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.datastream $(ARGS)

bench-eventstore: $(STAMP) ## Measure how fast a job's events are recorded and replayed
	@$(BIN)/python -m benchmarks.eventstore $(ARGS)

bench-catalog: setup ## Measure the catalog among very many results and processes
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.catalog $(ARGS)

bench-implicit: setup ## Measure what programs that cache nothing gain from implicit caching
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.implicit $(ARGS)

bench-recovery: setup ## Measure what recovery costs and saves (ARGS="--only log")
	@$(WITH_JAVA) && $(BIN)/python -m benchmarks.recovery $(ARGS)

bench-ui: $(STAMP) ## Measure how soon the page answers, among very many results and jobs
	@$(BIN)/python -m benchmarks.ui $(ARGS)

screenshots: setup ## Make the pictures of the page in docs/images
	@mkdir -p docs/images && $(WITH_JAVA) && $(WITH_CHROMIUM) && HOLDFAST_SCREENSHOTS=docs/images \
		$(BIN)/python -m pytest -n 0 -q tests/ui/test_in_browser.py

page-scripts: ## Bring the scripts that the page uses from npm, as they are committed
	$(PYTHON) scripts/vendor_scripts.py

soak: setup ## Kill drivers and count rows (ARGS="--minutes 60 --seed 1 --scale 0.05 --cluster")
	@$(WITH_JAVA) && $(BIN)/python -m tests.chaos.soak $(ARGS)

fuzz: setup ## Compare generated pairs of computations (ARGS="--minutes 60 --seed 1", --prove)
	@$(WITH_JAVA) && $(BIN)/python -m tests.fuzz.fuzz $(ARGS)

clean: ## Remove what make has made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
