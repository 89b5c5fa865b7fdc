# The front door. CMake does the work, in build/<preset>; this file only names the ways in.
#   V=1 shows commands; J=n sets the number of jobs; see `make help`.

J ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
STEP ?= 1
RUNS ?= 20
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.PHONY: build setup demo test check tests-of coverage-map seeds bench bench-against bench-peers portable arm64 asan \
  tsan clang debug lint format tidy size fuzz torture stress ulp mutants exports install docs clean help
# Each target drives its own parallel build.
.NOTPARALLEL:

ifeq ($(V),1)
quiet = VERBOSE=1
else
quiet = -s
endif

# $(call configure,preset) and $(call build,preset[,target])
configure = @[ -f build/$(1)/Makefile ] || cmake --preset $(1) $(if $(V),,--log-level=NOTICE >/dev/null)
build = @echo "building build/$(1)$(if $(2),: $(2))"; \
  cmake --build build/$(1) -j $(J) $(if $(2),--target $(2)) -- $(quiet) $(if $(V),,>/dev/null)
run_tests = @ctest --preset $(1) -j $(J) $(2)
# Two tests more than cores: those of several processes mostly wait for deadlines.
more = $$(($(J) + 2))

build: ## build everything (build/release)
	@scripts/setup build
	$(call configure,release)
	$(call build,release)

setup: ## see that the needed packages are there (installs them when root)
	@scripts/setup build test

demo: ## the main job on real data, then on 100 million rows; digits learnt
	@scripts/setup build
	$(call configure,release)
	$(call build,release,tessera_tool example_weather example_large example_train_digits)
	@scripts/demo.sh build/release

test: ## build, then run every test
	@scripts/setup test
	$(call configure,release)
	$(call build,release)
	@ctest --preset release -j $(more)

check: ## the fast tests, in under two minutes
	@scripts/setup test
	$(call configure,release)
	$(call build,release)
	@TEST_QUICK=1 ctest --preset release -j $(more) -L fast

tests-of: ## the tests that see FILE=src/..., quick and fastest first
	@scripts/setup test docs
	$(call configure,release)
	$(call build,release)
	@scripts/coverage.py tests build/release $(J) '$(FILE)'

coverage-map: ## what tests-of goes by: which functions each test runs (some minutes)
	@scripts/setup test clang docs
	$(call configure,coverage)
	$(call build,coverage)
	@scripts/coverage.py map build/coverage $(more)

seeds: ## the programs of the founding documents' blocks, built and run
	@scripts/setup test
	$(call configure,release)
	$(call build,release,$(patsubst examples/seeds/%.c,example_%,$(wildcard examples/seeds/*.c)))
	@ctest --preset release -j $(J) -R '^example_00[0-4]_'

bench: ## measure; ONLY=name runs one line
	@scripts/setup build
	$(call configure,release)
	$(call build,release,bench tessera_tool)
	@build/release/bench/bench $(ONLY)

bench-against: ## this tree beside commit REV, line by line in turns, by the clock and processor time; ONLY=regex
	@scripts/setup build
	$(call configure,release)
	$(call build,release,bench tessera_tool)
	@bench/against.py $(REV) --jobs $(J) --only '$(ONLY)'

bench-peers: ## measure against the peers that are installed; ONLY=name
	@scripts/setup build
	$(call configure,release)
	$(call build,release,bench tessera_tool)
	@bench/peers.sh $(ONLY)

portable: ## build with clang and for another C library, and run the tests of goldens
	@scripts/setup build clang musl
	$(call configure,clang)
	$(call build,clang,tessera tessera_static tessera_tool portable_tests)
	$(call run_tests,portable)
	$(call configure,musl)
	$(call build,musl,tessera_static $(patsubst %.c,%.o,$(wildcard tools/tessera/*.c)))

arm64: ## build for 64-bit ARM with a cross compiler; the law tests and goldens in qemu-user
	@scripts/setup arm64
	$(call configure,arm64)
	$(call build,arm64)
	$(call run_tests,arm64)

asan tsan clang debug: ## build and test under that preset
	@scripts/setup test $(filter clang,$@)
	$(call configure,$@)
	$(call build,$@)
	$(call run_tests,$@)

lint: ## formatting, layers, documentation of the API, banned things
	@scripts/setup lint
	$(call configure,release)
	$(call build,release,tessera_static)
	@scripts/lint.py build/release

format: ## rewrite the sources as clang-format would
	@scripts/setup lint
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' | xargs -r clang-format -i --style=file

size: ## lengths of functions and files against the bars
	@scripts/setup docs
	@scripts/size.py

tidy: ## clang-tidy
	@scripts/setup tidy
	$(call configure,release)
	@scripts/tidy.sh build/release $(J)

fuzz: ## each fuzz target for FUZZ_SECONDS (60; 600 before a release); ONLY=name runs one
	@scripts/setup fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(ONLY)

torture: ## the long runs: cancelling, hostile sizes, failures, 10,000 tool lines (an hour or so)
	@scripts/setup test
	$(call configure,release)
	$(call build,release)
	@scripts/torture.sh build/release

stress: ## the tests of several processes, RUNS times (20) each beside ten busy loops; ONLY=regex
	@scripts/setup test
	$(call configure,release)
	$(call build,release)
	@scripts/stress.sh build/release $(RUNS) '$(ONLY)'

ulp: ## every f32 of each function of one number, and a hundred million f64 (hours); STEP=n: every n-th
	@scripts/setup test
	$(call configure,release)
	$(call build,release,formula_test)
	@TEST_TIMEOUT_SCALE=100 ULP_STEP=$(STEP) ULP_MILLIONS=100 build/release/tests/unit/formula_test --filter within_what_is_stated

mutants: ## break a new row of the table of operations in five ways: a test must name it each time (minutes)
	@scripts/setup test
	@scripts/mutants.py build/mutants $(J)

exports: ## rewrite tests/exports.txt from the library
	@scripts/setup build
	$(call configure,release)
	$(call build,release,tessera)
	@tests/exports.sh write build/release/lib/libtessera.so tests/exports.txt

install: ## library and tool into PREFIX (/usr/local), under DESTDIR if set
	@scripts/setup build
	$(call configure,release)
	$(call build,release,tessera tessera_static tessera_tool)
	@cmake --install build/release --strip --prefix $(PREFIX) $(if $(V),,>/dev/null)

docs: ## rewrite docs/reference/ from the public headers
	@scripts/setup docs
	@scripts/docs.py

clean: ## remove build/
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9 -]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done
