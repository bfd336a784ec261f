# `make demo` and `make test` do everything from nothing: a virtual environment in .venv, the install,
# the run. The stamps in .venv say what is installed; a change of pyproject.toml installs again.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-quick test-ecosystem fuzz faults lint check count bench docs clean

demo: .venv/app.stamp
	$(BIN)/minitorch check --html certificate.html
	$(BIN)/minitorch train grammar --fresh
	$(BIN)/minitorch train digits --fresh
	@echo "Look at certificate.html, runs/grammar-onehot/curves.png, runs/grammar-forms/curves.png, runs/digits/curves.png"

# One BLAS thread per worker: the workers share the cores already.
test: lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Two to three minutes on two cores: every test, of those with many cases each twentieth, none that is marked as slow; no doctests.
test-quick: .venv/test.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --quick tests

# Packages built on PyTorch, installed without it, on minitorch: numbers against those PyTorch gave. ECOSYSTEM names some:
# make test-ecosystem ECOSYSTEM='timm_ pyro_'
ECOSYSTEM ?=
test-ecosystem: .venv-ecosystem/stamp
	.venv-ecosystem/bin/python ecosystem/check.py $(ECOSYSTEM)

# Random programs with changes between their calls, compiled against eager: goes on where it was stopped, and exits with
# 1 if anything differed. FUZZ passes options on: make fuzz FUZZ='--count 500 --state runs/other.json'
FUZZ ?= --count 20000
fuzz: .venv/test.stamp
	PYTHONPATH=tests/support OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m histories $(FUZZ)

# Ranks of a training run killed at random moments: all others must end, and the run go on from its checkpoint.
FAULTS ?= --count 50
faults: .venv/test.stamp
	PYTHONPATH=tests/support OMP_NUM_THREADS=1 $(BIN)/python -m faults $(FAULTS)

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: .venv/base.stamp
	$(BIN)/minitorch check

# How much there is to read: code lines of the core and of every room.
count: .venv/base.stamp
	@$(BIN)/python -m minitorch.app.count

# The peers have an environment of their own. BENCH passes options on: make bench BENCH=--quick
BENCH ?=
bench: .venv-bench/stamp
	mkdir -p runs
	.venv-bench/bin/minitorch bench --json runs/bench.json --html runs/bench.html $(BENCH)
	@echo "Look at runs/bench.html"

docs: .venv/test.stamp
	$(BIN)/python -c "from minitorch.proof.conventions import markdown; print(markdown(), end='')" > docs/conventions.md
	$(BIN)/python docs/operators.py > docs/operators.md
	$(BIN)/minitorch bench --from docs/benchmarks.json --html docs/benchmarks.html > /dev/null
	$(BIN)/python docs/site/build.py --certificate
	@echo "Look at docs/_site/index.html"

clean:
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis certificate.html

.venv/base.stamp: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/app.stamp: .venv/base.stamp
	$(BIN)/python -m pip install --quiet --editable '.[app]'
	touch $@

.venv/test.stamp: .venv/base.stamp
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $@

# packages.txt come without what they require, which would be PyTorch itself; needs.txt is the rest of that.
.venv-ecosystem/stamp: pyproject.toml ecosystem/packages.txt ecosystem/needs.txt
	$(PYTHON) -m venv .venv-ecosystem
	.venv-ecosystem/bin/python -m pip install --quiet --editable '.[bfloat16,compile,tensorboard,vision]'
	.venv-ecosystem/bin/python -m pip install --quiet --no-deps --requirement ecosystem/packages.txt
	.venv-ecosystem/bin/python -m pip install --quiet --requirement ecosystem/needs.txt
	! .venv-ecosystem/bin/python -m pip show --quiet torch 2>/dev/null
	touch $@

# tinygrad makes its kernels with clang, and is asked only where that is.
.venv-bench/stamp: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable '.[bench]'
	if command -v clang >/dev/null; then .venv-bench/bin/python -m pip install --quiet tinygrad; fi
	touch $@
