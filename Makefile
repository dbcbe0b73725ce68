# `make` lists the targets. Everything happens in .venv; nothing outside the checkout changes.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
PYTEST := $(PY) -m pytest -q
JOBS   ?= 2
N      ?= 20000
CASES  ?= 60
GPU_CASES ?= 2000

# The tests that run programs of patterns.
PATTERN_TESTS = tests/skeletons/test_listings.py tests/skeletons/test_bridges.py tests/skeletons/test_extremes.py tests/skeletons/test_rewriting.py \
	tests/skeletons/test_units.py
# The tests that run generated kernels.
KERNEL_TESTS = tests/random/test_property.py tests/whole/test_numbers.py tests/whole/test_statements.py tests/whole/test_golden.py tests/program/lower/walk/test_look_ahead.py \
	tests/tensor/kernel/test_calls.py tests/render/c/test_threads.py tests/loops/schedule/test_commands.py \
	tests/loops/schedule/test_corner_cases.py tests/program/lower/base/test_rows_in_registers.py tests/tensor/functions/test_einsum.py tests/tensor/test_arithmetic.py \
	tests/tensor/files/test_files.py tests/tensor/files/test_files_broken.py tests/tensor/files/test_files_fuzz.py \
	tests/tensor/exchange/test_arrays_fuzz.py $(PATTERN_TESTS)
# The tests that run kernels under the emulator.
EMULATED_TESTS = tests/found tests/program/device tests/program/lower/result tests/random/test_emulated.py tests/random/test_recipes.py \
	tests/recipes tests/render/cuda tests/runtime/gpu tests/tensor/kernel/test_told_gpu.py $(PATTERN_TESTS)
# Python itself is not sanitized, so the sanitizers' libraries have to be loaded before it.
SANITIZER = ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)"

# Tests start many Pythons, each of which would compile our modules again if none might keep them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fuzz test-gpu bench-gpu sanitize guard tsan golden bench docs doctor clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv and install Openwork with its tools; does nothing the second time

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
	  { echo "$(PYTHON) was not found; name another: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Openwork needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	         "Name another: make PYTHON=python3.12"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make virtual environments;" \
	         "on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PY) -m pip install --quiet --upgrade pip
	@$(PY) -m pip install --quiet -e '.[dev]'
	@touch $@

demo: setup ## compile five kernels and compare them with SciPy
	$(PY) -m openwork demo

test: setup ## run the tests, the docstring examples and the examples of the docs (JOBS=2)
	$(PYTEST) -n $(JOBS) --dist worksteal

.PHONY: test-optimized
test-optimized: setup ## the same, with every kernel compiled as for users, which takes half as long again
	OPENWORK_TEST_OPTIMIZE=-O3 $(PYTEST) -n $(JOBS) --dist worksteal

.PHONY: test-choices
test-choices: setup ## the tests with every combination of what they else take in pairs
	OPENWORK_EVERY_CHOICE=1 $(PYTEST) -n $(JOBS) --dist worksteal

.PHONY: test-layouts
test-layouts: setup ## run every combination of entry type, layouts, format, statement and target (20 minutes of a core)
	$(PYTEST) -n $(JOBS) --dist worksteal -m layouts tests/whole/test_layouts.py

check: setup ## lint, formatting, types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict src
	$(PY) -m mypy --strict examples
	$(PY) -m mypy --strict tests/tensor/test_usual_calls.py

fuzz: setup ## random expressions, formats and types against the reference (N=20000)
	OPENWORK_FUZZ_CASES=$(N) $(PYTEST) -n $(JOBS) --dist worksteal -m fuzz tests

# SECONDS=3600 goes on for an hour; SEED=1 goes on with other cases than SEED=0.
.PHONY: fuzz-files
fuzz-files: setup
	OPENWORK_FUZZ_SECONDS=$(or $(SECONDS),60) OPENWORK_FUZZ_SEED=$(or $(SEED),0) \
	  $(PYTEST) -s tests/tensor/files/test_files_fuzz.py

.PHONY: fuzz-arrays
fuzz-arrays: setup guard-library ## corrupt one array at a time, on every way in, under the guarding allocator (N=20000)
	OPENWORK_TEST_TINYCC=0 OPENWORK_KEPT_BYTES=0 LD_PRELOAD=$(CURDIR)/build/guard.so OPENWORK_FUZZ_CASES=$(N) OPENWORK_FUZZ_SEED=$(or $(SEED),0) \
	  $(PYTEST) -s -n $(JOBS) tests/tensor/exchange/test_arrays_fuzz.py

.PHONY: array-api
array-api: setup ## compare our array API namespace with the reference, function by function
	$(PY) -m pip install --quiet --no-deps --upgrade --target out/array-api array-api-strict
	PYTHONPATH=out/array-api $(PYTEST) tests/array_api

test-gpu: setup ## run the recipes and random cases on a GPU; needs CuPy: pip install -e '.[cuda]'
	$(PYTEST) tests/gpu
	OPENWORK_GPU_TARGET=cuda OPENWORK_GPU_CASES=$(GPU_CASES) $(PYTEST) tests/random/test_emulated.py \
	  tests/random/test_recipes.py
	$(MAKE) sanitize-gpu

# Kernels under compute-sanitizer: enough of them to stand for all, since each takes a hundred times as long.
GPU_CHECKED = test_repeated or test_spmv and (skewed or wide) or test_spmm and skewed and 32 or test_sddmm and random or test_tensors \
	or test_sparse_results and (skewed or random) or test_products or test_others and skewed and float or real_units \
	or real_patterns and test_listings
.PHONY: sanitize-gpu
sanitize-gpu: setup ## run kernels on a GPU under compute-sanitizer: memory, races, barriers
	for tool in memcheck racecheck synccheck; do OPENWORK_PLAIN_MEMORY=1 compute-sanitizer --tool $$tool \
	  --error-exitcode 9 $(PYTEST) tests/gpu -k "$(GPU_CHECKED)" || exit 1; done

.PHONY: races-gpu
races-gpu: setup ## run the GPU emulator with race detection, in global and shared memory
	OPENWORK_EMULATED_RACES=1 $(PYTEST) -n $(JOBS) $(EMULATED_TESTS)

bench-gpu: setup ## measure on a GPU against cuSPARSE, called directly, through CuPy and through torch
	$(PY) bench/gpu.py $(BENCH)
	$(PY) bench/gpu.py --held-out $(BENCH)
	$(PY) bench/gpu_results.py
	$(PY) bench/gpu_moves.py

.PHONY: study-gpu
study-gpu: setup ## the studies of the papers on a GPU; FILE=out/studies.json plots saved measurements
	$(PY) bench/gpu_studies.py $(FILE)

sanitize: setup ## run the kernel tests under ASan and UBSan
	OPENWORK_SANITIZE=1 $(SANITIZER) $(PY) -m pytest -q -s -p no:faulthandler $(KERNEL_TESTS)

.PHONY: guard-library
guard-library:
	mkdir -p build
	$(CC) -O2 -shared -fPIC -o build/guard.so tests/guard/guard.c

guard: setup guard-library ## run random cases under the guarding allocator
	OPENWORK_TEST_TINYCC=0 OPENWORK_KEPT_BYTES=0 LD_PRELOAD=$(CURDIR)/build/guard.so $(PYTEST) -n $(JOBS) -k "not gpu" \
	  tests/random/test_property.py tests/found tests/program/lower/result tests/skeletons/test_listings.py tests/skeletons/test_random.py

tsan: setup ## run parallel kernels, and injected races, under ThreadSanitizer (CASES=60, CLANG=)
	$(PY) -m tests.tsan --random $(CASES) $(if $(CLANG),--cc $(CLANG))

golden: setup ## rewrite tests/golden from the current output
	$(PYTEST) -m golden --update-golden tests

.PHONY: mutate
mutate: setup ## break the compiler in fifty places, one at a time: a test must fail for each (JOBS=2)
	$(PY) tools/mutate.py --jobs $(JOBS) --out out/mutations.txt

bench: setup ## measure against C and libraries; also: bench-core bench-peers bench-sparse bench-studies bench-formats
	$(PY) bench/run.py $(BENCH)

bench-formats: setup # measure sparse results, conversions, and products by format
	$(PY) bench/formats.py $(BENCH)

# BENCH=--quick shows that everything runs. Peers are optional: pip install -e '.[bench]'
.PHONY: bench-core bench-peers bench-sparse bench-studies bench-formats
bench-core bench-peers bench-sparse bench-studies: bench-%: setup
	$(PY) bench/run.py $* $(BENCH)

docs: setup ## rewrite the generated pages: docs/errors.md, the tree in docs/architecture.md
	$(PY) tools/make_errors_page.py
	$(PY) tools/make_tree.py

doctor: setup ## report compilers and caches
	$(PY) -m openwork doctor

clean: ## remove caches and build outputs; keeps .venv
	rm -rf build dist out bench/out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
