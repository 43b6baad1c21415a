# Every target makes the virtual environment it needs under .venv/ and can be repeated: an
# environment is installed again only when pyproject.toml has changed since.
PYTHON ?= python3
PYTHON_HERE = $(PYTHON)
PIP_INSTALL = -m pip install --disable-pip-version-check

.PHONY: help demo test test-all check-mode golden golden-diff ulp fuzz slow bench clean

help:
	@echo 'make demo    train a network on real digits, export it, classify with the artifact'
	@echo 'make test    lint, type check and the test suite'
	@echo 'make test-all  the same with every Python that is found and the newest releases of what'
	@echo '             graphc depends on, and with the oldest ones; test-3.12, test-oldest: one of them'
	@echo 'make ulp     sweep every float32 input of the vector functions (long)'
	@echo 'make check-mode  the programs of the tests, and random ones, under GRAPHC=check'
	@echo 'make fuzz    long random tests'
	@echo 'make slow    all tests that the suite leaves out, fuzzing among them (hours)'
	@echo 'make golden  record the texts of the levels anew, by their hashes (tests/golden);'
	@echo '             golden-diff PROGRAM=softmaxes: how texts differ from those recorded'
	@echo 'make bench   compare with ten peers, on one thread and on two (an hour)'
	@echo 'make clean   remove the environments and caches'

demo: .venv/demo/.installed
	.venv/demo/bin/python examples/digits.py

# The suite, in an environment.
define SUITE
	$(1)/bin/ruff check graphc passes tests
	$(1)/bin/mypy --strict graphc passes
	$(1)/bin/python -m pytest -n 2
endef

test: .venv/test/.installed
	$(call SUITE,.venv/test)

test-%: .venv/test-%/.installed
	$(call SUITE,.venv/test-$*)

# What is found, as 3.12=/usr/bin/python3.12 and so on; looked for when it is first needed.
FOUND = $(eval FOUND := $(shell $(PYTHON) tests/support/pythons.py))$(FOUND)

# A make of its own goes on after a suite that fails, and lists those that did.
test-all:
	$(MAKE) --keep-going FOUND="$(FOUND)" $(foreach pair,$(FOUND),test-$(firstword $(subst =, ,$(pair))))

ulp: .venv/test/.installed
	.venv/test/bin/python tests/support/ulp_sweep.py

# Tests of programs are marked; others look at caches, processes or options, and set GRAPHC.
check-mode: .venv/test/.installed
	GRAPHC=check,cache=off .venv/test/bin/python -m pytest -n 2 -m "check_mode and not slow"
	.venv/test/bin/python -m pytest -m slow -k fuzz tests/checking/test_check_truth.py

GOLDEN = PYTHONPATH=.:tests .venv/test/bin/python -m golden

golden: .venv/test/.installed
	$(GOLDEN) write

golden-diff: .venv/test/.installed
	$(GOLDEN) diff $(PROGRAM) $(BASE)

slow: .venv/test/.installed
	.venv/test/bin/python -m pytest -n 2 -m slow

fuzz: .venv/test/.installed
	.venv/test/bin/python -m pytest -m slow -k fuzz

BENCH = .venv/test/bin/python -m benchmarks --peers all --python .venv/peers/bin/python

bench: .venv/test/.installed .venv/peers/.installed
	$(BENCH) --json figures-1.json --chart docs/performance-1.svg
	$(BENCH) --threads 2 --json figures-2.json --chart docs/performance-2.svg

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build graphc.egg-info

.venv/demo/.installed: EXTRA = examples
.venv/test/.installed .venv/test-%/.installed: EXTRA = dev
.venv/test-%/.installed: WANTED = $(@:.venv/test-%/.installed=%)
.venv/test-%/.installed: PYTHON_HERE = $(or $(patsubst $(WANTED)=%,%,$(filter $(WANTED)=%,$(FOUND))),\
	$(error no Python $(WANTED) is found, only $(FOUND)))
.venv/test-oldest/.installed: RELEASES = $(shell $(PYTHON) tests/support/pythons.py releases)
.venv/peers/.installed: benchmarks/requirements.txt
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python $(PIP_INSTALL) -r benchmarks/requirements.txt
	@touch $@

# Else make would take what test-% asks for as its own file, and remove it.
.PRECIOUS: .venv/%/.installed

.venv/%/.installed: pyproject.toml
	@echo "== making the environment .venv/$* (graphc from this checkout, extra: $(EXTRA))"
	$(PYTHON_HERE) -m venv .venv/$*
	.venv/$*/bin/python $(PIP_INSTALL) -e '.[$(EXTRA)]' $(RELEASES)
	@touch $@
