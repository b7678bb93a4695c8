# `make` alone prints the targets. Everything that needs a set-up does it first; a set-up that is up to date takes no time.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Timings and the one set-up are for one job at a time, whatever -j says.
.NOTPARALLEL:

PY := .venv/bin/python
# Set-up records the Java it found to be good; Spark is told to use that one. Read when a recipe runs, not before.
SPARKED = JAVA_HOME="$$(cat .venv/java-home)" $(PY)
# Arguments for `make test ARGS=...`, `make demo ARGS=...` and `make bench-NAME ARGS=...`; `make demo SF=1` is a larger demo.
ARGS ?=

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-zA-Z%-]+:.*## / {sub("%", "NAME", $$1); printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '  %s\n' '' 'ARGS="..." is passed on, e.g. make test-fast ARGS="-k intervals -x"'

.PHONY: setup
setup: ## make .venv with all packages, and find or install Java 17
	@scripts/setup.sh

.PHONY: demo
demo: setup ## a short tour on TPC-H data: index, query, explain, measure
	@$(SPARKED) -m bench.demo $(if $(SF),--sf $(SF)) $(ARGS)

.PHONY: test
test: lint types ## lint, types, and every test, in two processes side by side; then what differs between versions, on the oldest Spark
	@scripts/test.sh $(ARGS)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-spark VERSION=$(OLDEST) ARGS=$(firstword $(SHORT)))

.PHONY: test-long
test-long: setup ## the tests that take minutes, which make test leaves out
	$(SPARKED) -m pytest -m long --timeout=0 $(ARGS)

OLDEST := 4.0
# What `make test-spark` runs if ARGS says nothing else: each difference between versions, and the main ways through.
SHORT := tests/spark/jvm/test_versions.py tests/spark/rule/test_skipping.py tests/spark/rule/test_induced.py \
  tests/spark/rule/test_column_groups.py tests/spark/table/test_load.py tests/spark/table/test_merge.py

.PHONY: test-spark
test-spark: ## on another Spark, VERSION=4.0 to 4.3 in .venv-spark-VERSION: a short suite, or ARGS="-m spark" for all of it
	@scripts/setup.sh $(or $(VERSION),4.0)
	JAVA_HOME="$$(cat .venv-spark-$(or $(VERSION),4.0)/java-home)" .venv-spark-$(or $(VERSION),4.0)/bin/python -m pytest $(or $(ARGS),$(SHORT))

.PHONY: test-lakes
test-lakes: ## Delta and Iceberg by their own readers, on Spark VERSION=4.0 to 4.2 (4.1) in .venv-spark-VERSION; jars are fetched
	@scripts/lakes.sh $(or $(VERSION),4.1)
	LAKES=.venv-spark-$(or $(VERSION),4.1)/lakes JAVA_HOME="$$(cat .venv-spark-$(or $(VERSION),4.1)/java-home)" \
	  .venv-spark-$(or $(VERSION),4.1)/bin/python -m pytest $(or $(ARGS),tests/lakes tests/bench/test_lakes.py)

.PHONY: test-fast
test-fast: setup ## the tests that need no Spark
	$(PY) -m pytest -m "not spark and not stores" $(ARGS)

.PHONY: test-stores
test-stores: setup ## the life of a table on s3a:// against a server on 127.0.0.1; fetches hadoop-aws and Amazon's SDK (700 MB) once
	$(SPARKED) -m pytest -m stores --timeout=0 tests/stores $(ARGS)

.PHONY: test-tpc
test-tpc: setup ## all queries of TPC-H and TPC-DS, on = off, at scale factor SF (1; long)
	TPC_SF=$(or $(SF),1) TEST_MEMORY=8g $(SPARKED) -m pytest --timeout=0 tests/spark/soundness/test_tpch.py tests/spark/soundness/test_tpcds.py $(ARGS)

.PHONY: load
load: setup ## what is large at full size: lists, texts, plans, columns, files, folders (long)
	LOAD_SCALE=$(or $(SCALE),1) TEST_MEMORY=8g $(SPARKED) -m pytest --timeout=0 tests/spark/load $(ARGS)

.PHONY: lint
lint: setup ## ruff: rules and formatting
	$(PY) -m ruff check
	$(PY) -m ruff format --check

.PHONY: types
types: setup ## mypy, strict
	$(PY) -m mypy

.PHONY: format
format: setup ## put every file into ruff's format and fix what it can
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

.PHONY: fuzz
fuzz: setup ## random tables, histories and SQL, on = off, for SECONDS (600) from SEED (1); what differs is kept as a test
	$(SPARKED) -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1) $(ARGS)

.PHONY: fuzz-properties
fuzz-properties: setup ## every property with many random examples (long)
	HYPOTHESIS_PROFILE=fuzz $(SPARKED) -m pytest --timeout=0 $(ARGS)

.PHONY: faults
faults: setup ## every write cut short at every point, real kills and many processes for SECONDS (300) from SEED (1); a table
	FAULTS=all $(SPARKED) -m pytest -q --timeout=0 tests/faults tests/spark/table/test_life_crash.py tests/test_shared_session.py
	$(SPARKED) -m tests.faults --seconds $(or $(SECONDS),300) --seed $(or $(SEED),1) $(ARGS)

.PHONY: bench
bench: setup ## every benchmark, one after the other
	@for name in $$($(PY) -m bench --names); do $(SPARKED) -m bench "$$name" $(ARGS); done

bench-%: setup ## one benchmark, by name; .venv/bin/python -m bench lists them
	$(SPARKED) -m bench $* $(ARGS)

.PHONY: notebook
notebook: setup ## run docs/tutorial.ipynb in a kernel of its own; build/tutorial.html shows how it went
	$(SPARKED) -m nbconvert --to html --execute docs/tutorial.ipynb --output-dir build --output tutorial.html

.PHONY: structure
structure: setup ## figures of the source: modules by folder, names, the way of a query; ARGS="--root DIR"
	@$(PY) scripts/structure.py $(ARGS)

.PHONY: clean
clean: ## remove what was built and cached; data/ and .venv stay
	rm -rf dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -path './.venv*' -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
