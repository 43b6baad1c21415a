# Every target makes the virtual environment it needs under .venv/ and can be repeated: an
# environment is installed again only when pyproject.toml has changed since.
PYTHON ?= python3
PIP_INSTALL = -m pip install --disable-pip-version-check

.PHONY: help demo test ulp fuzz bench clean

help:
	@echo 'make demo    train a network on real digits, export it, classify with the artifact'
	@echo 'make test    lint, type check and the test suite'
	@echo 'make ulp     sweep every float32 input of the vector functions (long)'
	@echo 'make fuzz    long random tests'
	@echo 'make bench   compare with ten peers, on one thread and on two (an hour)'
	@echo 'make clean   remove the environments and caches'

demo: .venv/demo/.installed
	.venv/demo/bin/python examples/digits.py

test: .venv/test/.installed
	.venv/test/bin/ruff check graphc passes
	.venv/test/bin/mypy --strict graphc passes
	.venv/test/bin/python -m pytest -n 2

ulp: .venv/test/.installed
	.venv/test/bin/python tests/ulp_sweep.py

fuzz: .venv/test/.installed
	.venv/test/bin/python -m pytest -m slow -k fuzz

BENCH = .venv/test/bin/python -m benchmarks --peers all --python .venv/peers/bin/python

bench: .venv/test/.installed .venv/peers/.installed
	$(BENCH) --json figures-1.json --chart docs/performance-1.svg
	$(BENCH) --threads 2 --json figures-2.json --chart docs/performance-2.svg

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build graphc.egg-info

.venv/demo/.installed: EXTRA = examples
.venv/test/.installed: EXTRA = dev
.venv/peers/.installed: benchmarks/requirements.txt
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python $(PIP_INSTALL) -r benchmarks/requirements.txt
	@touch $@

.venv/%/.installed: pyproject.toml
	@echo "== making the environment .venv/$* (graphc from this checkout, extra: $(EXTRA))"
	$(PYTHON) -m venv .venv/$*
	.venv/$*/bin/python $(PIP_INSTALL) -e '.[$(EXTRA)]'
	@touch $@
