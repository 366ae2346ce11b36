# Thin: everything is done by CMake; see CMakePresets.json. Results go to build/.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
CLANG ?= clang
RELEASE = cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS)

MAKEFLAGS += --no-print-directory

all: setup
	@$(RELEASE)

# What is missing is installed with apt-get; nothing happens when all is there.
setup:
	@sh scripts/setup.sh

# The backend for NVIDIA GPUs, build/libtigon_cuda.so: needs nvcc, no card.
cuda: all
	@cmake --build --preset release -j $(JOBS) --target tigon_cuda

# On a card, with NVIDIA's compute-sanitizer over the checker's quick cases: some minutes on 16
# processors; OPERATORS="rms_norm dyt" takes these alone.
cuda-sanitizer: cuda
	@sh tests/cuda/sanitizer.sh build/tigon build . $(OPERATORS)

# The Python package as a wheel for other machines, in build/dist: oneDNN and the compiler's
# libraries are inside. CUDA=1: libtigon_cuda.so as well, compiled here.
wheel:
	@sh scripts/setup.sh python
	@sh scripts/wheel.sh

# A folder in the layout of Hugging Face's `kernels`, build/hub-kernel/tigon, for the CPU, and with
# CUDA=1 for NVIDIA GPUs as well. oneDNN is built as a static library first, once.
hub-kernel:
	@sh scripts/setup.sh python
	@sh scripts/hub_kernel.sh

# Train a small Llama on this repository's own text, fused and unfused, side by side. Where an
# NVIDIA GPU is, its backend is built as well.
demo: setup
	@$(RELEASE) --target llama
	@sh scripts/card.sh $(JOBS)
	@build/llama --demo --plot build/loss.svg

# What users run, in some ten minutes with the build; the rest is test-long.
test:
	@sh scripts/setup.sh test
	@$(RELEASE)
	@sh scripts/test.sh build $(JOBS) -LE '^long$$'

# The longer tests of CTest, or those of one area: AREA=levels, npu, sanitizers, builds, documents,
# python, trainer.
AREA ?=
test-long:
	@sh scripts/setup.sh test
	@$(RELEASE)
	@sh scripts/test.sh build $(JOBS) -L '^long$(AREA:%=-%)$$'

# Everything: all tests of CTest, other compilers and processors, Liger-Kernel's own tests,
# convergence. Two hours or so on two cores.
test-all:
	@.ci/run all

# What sees the processor, as on smaller ones: the tests under each ceiling of its levels.
test-levels: all
	@for level in v2 v3 v4 v4bf16; do echo "TIGON_CPU_MAX=$$level"; TIGON_CPU_MAX=$$level ctest --test-dir build -j $(JOBS) \
	    --output-on-failure -R '^(check|core|ops|npu|gemm|oom|threads|fuzz|convergence|llama)' || exit 1; done

# Cross-built for aarch64; the checker, the unit tests and the bits on several threads, under QEMU.
test-aarch64:
	@sh scripts/setup.sh aarch64
	@cmake --preset aarch64 >/dev/null && cmake --build --preset aarch64 -j $(JOBS)
	@sh scripts/test.sh build-aarch64 $(JOBS)

# Built with Clang, and checked: CLANG=clang-19 make test-clang takes another than the system's.
test-clang:
	@CLANG=$(CLANG) sh scripts/setup.sh clang
	@cmake --preset clang -DCMAKE_C_COMPILER=$(CLANG) >/dev/null && cmake --build --preset clang -j $(JOBS)
	@build-clang/tigon check --quick --strict >build-clang/check.txt || { grep FAILED build-clang/check.txt; exit 1; }
	@tail -1 build-clang/check.txt

# The kernels for NVIDIA GPUs compiled for one kind of card, and their tests, most of which need a
# card. Without nvcc it says so.
test-cuda: all
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	    cmake --preset release -DTIGON_CUDA_ARCHITECTURES=90a >/dev/null && cmake --build --preset release -j $(JOBS) --target tigon_cuda && \
	    sh scripts/test.sh build $(JOBS) -R '^cuda'; \
	else echo "skipped: no nvcc is on this machine"; fi

# Hours of what make test does in minutes.
soak: all
	@sh scripts/soak.sh

# Faults of one line (tests/mutants/faults.txt), each planted in a copy of the tree: a test must see
# it. A quarter of an hour on two cores; FAULTS="src/core rounded" takes those alone whose file or
# words have one of these.
mutants:
	@sh scripts/setup.sh test
	@python3 tests/mutants/mutants.py --jobs $(JOBS) . build/mutants $(FAULTS)

# Random shapes of every Ascend kernel on the model, two chips, other sizes of the Unified Buffer:
# half an hour or so.
SHAPES ?= 2000
sweep: all
	@sh tests/ascend/sweep/sweep.sh build/tests/ascend_sweep $(SHAPES)

# Whole courses of training, default implementations against unfused, and long accumulations:
# minutes.
test-convergence:
	@sh scripts/setup.sh test
	@$(RELEASE)
	@sh scripts/test.sh build 1 -C convergence -L convergence --verbose

# A checkpoint of the trainer in Hugging Face's own model; installs transformers into build/.
test-hf: all
	@cmake --build --preset release --target test-hf

# Liger-Kernel's own tests on Tigon's operators, on the CPU: installs PyTorch and their sources into
# build/liger/. LONG=0 leaves out the largest shapes, tests/liger/long.txt.
LONG ?= 1
test-liger:
	@sh scripts/setup.sh test
	@$(RELEASE)
	@sh tests/liger/run.sh build $(LONG)

# Lines and branches of the CPU's kernels that no case of the checker reaches: half an hour.
coverage: setup
	@sh tests/coverage/coverage.sh . build-coverage

bench: all
	build/tigon bench

# Beside PyTorch, eager and compiled: installs torch into build/peers/.
bench-peers: setup
	@sh bench/peers/run.sh

check: all
	build/tigon check

lint:
	@sh tests/rules/includes.sh .
	@python3 tests/rules/headers.py .
	@[ ! -e build/compile_commands.json ] || python3 tests/rules/arrows.py . build
	@sh tests/rules/documents.sh .
	@sh tests/rules/format.sh .

format:
	git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

install: all
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-dev build-tsan build-aarch64

.PHONY: all setup cuda cuda-sanitizer wheel hub-kernel demo test test-long test-all test-cuda sweep test-levels test-aarch64 test-clang test-convergence soak mutants test-hf test-liger coverage bench bench-peers check lint format install clean
