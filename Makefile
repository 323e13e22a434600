# `make help` lists the targets. `build`, `lab` and `test` need only Go, git and
# make: the compiled BPF object is committed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

GO ?= go
export CGO_ENABLED ?= 0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The compiler of the data plane. Its output is committed and depends on the
# version to the byte, so this is the one place that names it. Why this one:
# docs/development/testing.md, "The compiler".
CLANG ?= clang-14
LLVM_VERSION := $(patsubst clang-%,%,$(CLANG))
CLANG_FORMAT ?= clang-format-14
BPF_CFLAGS ?= -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 \
	-I/usr/include/$(shell uname -m)-linux-gnu
BPF_OBJECTS := '*_bpfel*.go' '*_bpfel*.o'

# Debian packages beyond Go, git and make. scripts/deps.sh installs what is missing.
DEPS_GENERATE := $(CLANG) llvm-$(LLVM_VERSION) libbpf-dev linux-libc-dev
DEPS_LINT := $(CLANG_FORMAT) shellcheck
DEPS_RACE := gcc libc6-dev
DEPS_TEST := iproute2 procps nftables

# Packages whose tests touch no kernel object.
PURE := ./pkg/admin/... ./pkg/config/... ./pkg/conntrack/... ./pkg/controller/... \
	./pkg/healthcheck/... ./pkg/lb/... ./pkg/metrics/... ./pkg/passive/... ./pkg/selector/...

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(SYSCONFDIR)/systemd/system
FUZZTIME ?= 10s
FRAMES ?= 100000000

##@ Use

.PHONY: build
build: ## build bin/l4lbd, static and stripped (the default; needs no clang)
	$(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/l4lbd ./cmd/l4lbd

.PHONY: lab
lab: build ## run the whole system in network namespaces, with a story (root; LAB_ARGS=--keep leaves it up)
	bin/l4lbd lab $(LAB_ARGS)

.PHONY: install
install: build ## install the binary, man pages, completions, unit and example configuration (DESTDIR, PREFIX)
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' UNITDIR='$(UNITDIR)' scripts/install.sh

##@ Prove

.PHONY: test
test: ## run every test, those that need root included (root)
	@[ "$$(id -u)" = 0 ] || { echo 'make test needs root; make test-unit does not' >&2; exit 1; }
	@scripts/deps.sh $(DEPS_TEST)
	L4LB_REQUIRE_ROOT_TESTS=1 $(GO) test -count=1 -timeout 10m $$($(GO) list ./... | grep -v '/test/')
	L4LB_REQUIRE_ROOT_TESTS=1 $(GO) test -count=1 -timeout 20m -p 1 $$($(GO) list ./... | grep '/test/')

.PHONY: test-unit
test-unit: ## run the tests that need no root
	$(GO) test -short ./internal/house/... $(PURE)

.PHONY: race
race: ## run the pure Go tests under the race detector
	@scripts/deps.sh $(DEPS_RACE)
	CGO_ENABLED=1 $(GO) test -race -p 1 -timeout 15m $(PURE)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

.PHONY: fuzz-long
fuzz-long: ## throw FRAMES (100000000) mutated frames at the program (root)
	L4LB_REQUIRE_ROOT_TESTS=1 $(GO) test -v -count=1 -timeout 0 -run TestMillions ./test/fuzz -args -n $(FRAMES)

.PHONY: bench
bench: build ## print the data plane's ns per packet (root)
	bin/l4lbd bench $(BENCH_ARGS)

.PHONY: docs-check
docs-check: ## check links, addresses, names of targets and the house rules
	$(GO) test -count=1 ./internal/house/...

##@ Develop

.PHONY: generate
generate: ## compile the BPF programs and their Go bindings with the pinned clang
	@scripts/deps.sh $(DEPS_GENERATE)
	BPF2GO_CC='$(CLANG)' BPF2GO_STRIP='llvm-strip-$(LLVM_VERSION)' BPF2GO_CFLAGS='$(BPF_CFLAGS)' \
		$(GO) generate ./...

.PHONY: generate-check
generate-check: generate ## generate, and fail unless that is what is committed
	git diff --exit-code --stat -- $(BPF_OBJECTS)
	@new=$$(git ls-files --others --exclude-standard -- $(BPF_OBJECTS)); \
	[ -z "$$new" ] || { echo "generated but not committed: $$new" >&2; exit 1; }

.PHONY: lint
lint: ## run every linter over Go, C and shell
	@scripts/deps.sh $(DEPS_LINT)
	@CLANG_FORMAT='$(CLANG_FORMAT)' scripts/lint.sh

.PHONY: fmt
fmt: ## format Go and C in place
	@scripts/deps.sh $(CLANG_FORMAT)
	$(GO) tool -modfile=tools/go.mod gofumpt -w .
	$(GO) tool -modfile=tools/go.mod goimports -local l4lb -w $$(git ls-files -co --exclude-standard '*.go' | grep -v _bpfel)
	$(CLANG_FORMAT) -i $$(git ls-files -co --exclude-standard 'bpf/*.[ch]')

.PHONY: deps
deps: ## install every Debian package that any target needs
	@scripts/deps.sh $(DEPS_GENERATE) $(DEPS_LINT) $(DEPS_RACE) $(DEPS_TEST)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{print "\n" substr($$0, 5)} /^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile
