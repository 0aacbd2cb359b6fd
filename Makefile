# Two commands on a fresh machine: make demo, make test. Everything they need is set up in .venv.
PYTHON ?= python3
# another Spark than the one of constraints.txt, in an environment of its own: make test PYSPARK=4.1
PYSPARK ?=
VENV := .venv$(if $(PYSPARK),-pyspark-$(PYSPARK))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs
CODE := src tests benchmarks examples docs/_site
QUICK := "not slow and not interop and not spark and not cluster"
JVM_VENV := .venv-jvm
JVM_STAMP := $(JVM_VENV)/.installed
include tests/interop_jvm/versions.mk

.PHONY: demo demo-cluster test test-cluster test-corpus check quick-modules bench bench-jvm bench-jvm-rows bench-jvm-tpch bench-jvm-queries conformance java interop-jvm interop-jvm-tests golden golden-tables sanitize coverage docs examples format clean help

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/esker/avro/_shred*.[ch] src/esker/otlp/_*.[ch] src/esker/arrow/flat/_*.[ch] src/esker/iceberg/metadata/_*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Esker needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[fast,pandas,polars,spark]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	$(if $(PYSPARK),$(BIN)/python -m pip install --quiet 'pyspark==$(PYSPARK).*')
	@touch $@

demo: $(STAMP) java  ## telemetry into tables, killed on the way, asked, changed and counted by every engine; ends in a report
	@$(BIN)/python -m esker.demo

demo-cluster: $(STAMP) java  ## the same on PostgreSQL, S3, esker serve and a Spark cluster of two workers, which are killed on the way
	@$(BIN)/python -m esker.demo.cluster_tour

test: $(STAMP) java  ## everything: lint, types, import rules, the whole suite but for test-cluster
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 -m "not cluster"

test-cluster: $(STAMP) java  ## what starts Spark in programs of its own: Connect, declarative pipelines, executors, drivers and writers that are killed
	$(BIN)/python -m pytest -m cluster

test-corpus: $(STAMP) java  ## of the suite, the modules that read the corpus of other projects' tables (beside the project, or $$ESKER_CORPUS)
	$(BIN)/python -m pytest -n 2 -m corpus

check: $(STAMP)  ## lint, types, import rules and the quickest tests: under a minute, no JVM
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	HYPOTHESIS_PROFILE=glance $(BIN)/python -m pytest -n 2 -m $(QUICK) @tests/left_out_of_check.txt

quick-modules: $(STAMP)  ## measure the quick tests, and write the list of modules that make check leaves out again
	PYTHONPATH=tests/support HYPOTHESIS_PROFILE=glance $(BIN)/python -m pytest -p quick_modules -m $(QUICK)

sanitize: $(STAMP)  ## the C code under ASan and UBSan: its tests, and a fuzz of FUZZ_ROUNDS=300 rounds from FUZZ_SEED=7
	$(BIN)/python tests/sanitize/run.py

coverage: $(STAMP)  ## branch coverage of the quick tests, the processes they start included; the report is build/coverage/index.html
	$(BIN)/coverage erase
	HYPOTHESIS_PROFILE=glance $(BIN)/coverage run -m pytest -m $(QUICK)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --format=total | sed 's/^/Branch coverage in per cent: /'

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	@touch $@

docs: $(DOCS_STAMP)  ## the documentation site, in build/site/index.html; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

examples: $(STAMP) java  ## run the programs of examples/ again, and store each with its output as a notebook
	$(BIN)/python tests/support/notebooks.py

bench: $(STAMP)  ## side by side with the peers, as ratios in one run
	$(BIN)/python -m benchmarks

bench-jvm: $(STAMP)  ## beside Iceberg's own Spark runtime, in turns; ROWS='delete_mor count' SIZE=100000 RUNS=5 choose, WRITE=1 stores the report in docs/benchmarks.md
	@$(BIN)/python tests/interop_jvm/jars.py $(JVM_VENV)/jars $(JVM_JARS); status=$$?; \
	case $$status in 0) $(MAKE) --no-print-directory bench-jvm-rows ;; 75) ;; *) exit $$status ;; esac

# PySpark of the reference stands before the newest one
bench-jvm-rows: $(STAMP) $(JVM_STAMP)
	PYTHONPATH=$$(echo $(abspath $(JVM_VENV))/lib/python*/site-packages):.:tests/support $(BIN)/python -m benchmarks.jvm \
		$(ROWS) $(if $(SIZE),--size $(SIZE)) $(if $(RUNS),--runs $(RUNS)) $(if $(WRITE),--write) --environment $(JVM_VENV)

bench-jvm-tpch: $(STAMP)  ## TPC-H beside Iceberg's own Spark runtime and plain Parquet; QUERIES='q01 q06' SCALE=0.1 RUNS=3 SCRATCH=folder choose, WRITE=1 stores the report
	@$(BIN)/python tests/interop_jvm/jars.py $(JVM_VENV)/jars $(JVM_JARS); status=$$?; \
	case $$status in 0) $(MAKE) --no-print-directory bench-jvm-queries ;; 75) ;; *) exit $$status ;; esac

bench-jvm-queries: $(STAMP) $(JVM_STAMP)
	PYTHONPATH=$$(echo $(abspath $(JVM_VENV))/lib/python*/site-packages):.:tests/support $(BIN)/python -m benchmarks.jvm.tpch \
		$(QUERIES) $(if $(SCALE),--scale $(SCALE)) $(if $(RUNS),--runs $(RUNS)) $(if $(SCRATCH),--scratch $(SCRATCH)) \
		$(if $(WRITE),--write) --environment $(JVM_VENV)

conformance: $(STAMP)  ## write the tests column of docs/conformance.md again
	$(BIN)/python tests/support/conformance.py

interop-jvm: $(STAMP)  ## the reference as judge: Iceberg's own Spark runtime and REST server, Nessie, Kafka's broker, Hadoop's S3; skipped, aloud, where Maven cannot bring their jars
	@$(BIN)/python tests/interop_jvm/jars.py --with-dependencies $(JVM_VENV)/kafka $(KAFKA); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py --with-dependencies $(JVM_VENV)/rest $(REST_SERVER); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py --with-dependencies $(JVM_VENV)/rest-kit $(REST_KIT); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py $(JVM_VENV)/nessie $(NESSIE); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py --with-dependencies $(JVM_VENV)/s3a $(HADOOP_AWS); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py --with-dependencies $(JVM_VENV)/paimon $(PAIMON); status=$$?; \
	case $$status in 0|75) ;; *) exit $$status ;; esac
	@$(BIN)/python tests/interop_jvm/jars.py $(JVM_VENV)/jars $(JVM_JARS); status=$$?; \
	case $$status in 0) $(MAKE) --no-print-directory interop-jvm-tests ;; 75) ;; *) exit $$status ;; esac

$(JVM_STAMP): tests/interop_jvm/versions.mk
	test -x $(JVM_VENV)/bin/python || $(PYTHON) -m venv $(JVM_VENV)
	$(JVM_VENV)/bin/python -m pip install --quiet pyspark==$(JVM_PYSPARK)
	@touch $@

$(JVM_VENV)/pypaimon/.installed $(JVM_VENV)/pypaimon-rust/.installed: tests/interop_jvm/versions.mk $(STAMP)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet $(if $(findstring rust,$@),$(PYPAIMON_RUST),$(PYPAIMON)) && touch $@ || \
		{ rm -rf $(@D); echo "$(notdir $(@D)) cannot be installed for this Python: the tests with it are skipped."; }

interop-jvm-tests: $(STAMP) $(JVM_STAMP) $(JVM_VENV)/pypaimon/.installed $(JVM_VENV)/pypaimon-rust/.installed
	ESKER_JVM_ENVIRONMENT=$(JVM_VENV) timeout 3000 $(BIN)/python -m pytest tests/interop_jvm

golden: $(STAMP)  ## make the golden tables of tests/golden again; where Maven cannot bring the jars, they stay as they are
	@$(BIN)/python tests/interop_jvm/jars.py $(JVM_VENV)/jars $(JVM_JARS); status=$$?; \
	case $$status in 0) $(MAKE) --no-print-directory golden-tables ;; 75) ;; *) exit $$status ;; esac

golden-tables: $(STAMP) $(JVM_STAMP)
	PYTHONPATH=.:tests/support $(BIN)/python -m tests.golden.making $(JVM_VENV)

java:  ## what Spark needs: Java 17 or newer, installed where apt-get may do so, else asked for in one line
	@newest() { for java in "$${JAVA_HOME:-/none}/bin/java" java; do "$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; done | sort -n | tail -1; }; \
	install() { test "$$(id -u)" = 0 && command -v apt-get && apt-get -qq update && apt-get -qq install --yes --no-install-recommends $$1; }; \
	enough() { test "$$(newest)" -ge 17; }; \
	{ enough || install openjdk-17-jre-headless || install openjdk-21-jre-headless; } >/dev/null 2>&1; \
	enough 2>/dev/null || echo "Java 17 or newer was not found; what runs on Spark needs it: install a JDK and put java on the PATH, or set JAVA_HOME."

format: $(STAMP)  ## put every file in shape
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

clean:  ## forget the environment and all caches
	rm -rf .venv .venv-* build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info src/esker/*/*.so
