# Needs Go (see go.mod), Python 3.10 or later, git and make; everything else is
# fetched by the tools' own clients, pinned, into a cache.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.ONESHELL:
.DEFAULT_GOAL := build

GO      ?= go
VERSION ?= $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 10

BIN     := $(CURDIR)/bin/astropile
LDFLAGS := -s -w -X main.version=$(VERSION)
STEP    := scripts/step.sh
PYTEST_PATHS := $(wildcard python/tests tests)

export GO
export GOFLAGS := -mod=readonly -buildvcs=false
export CGO_ENABLED := 0

# Interpreter of the environment NAME; made when it is not there yet.
venv = $$(scripts/venv.sh $(1) | tail -n 1)

.PHONY: help build build-arm64 preflight venvs lint format test test-fast test-go test-arm64 test-python test-torch demo bench-local bench-survey bench-loaders fuzz clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

preflight: ## say what the machine lacks
	@scripts/preflight.sh

build: ## build bin/astropile, static
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/astropile

build-arm64: ## check that the program builds for linux/arm64
	GOOS=linux GOARCH=arm64 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o /dev/null ./cmd/astropile

venvs: ## make the Python environments that tests use
	@scripts/venv.sh test >/dev/null
	@scripts/venv.sh torch >/dev/null

lint: ## gofmt, vet, staticcheck, ruff, mypy
	@scripts/lint.sh

format: ## let gofmt and ruff rewrite the files
	git -c safe.directory='*' ls-files --cached --others --exclude-standard -- '*.go' | xargs -r "$$($(GO) env GOROOT)/bin/gofmt" -w
	python="$(call venv,test)"
	"$$python" -m ruff check --fix --quiet . || true
	"$$python" -m ruff format .

test-go: build ## every Go test
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) ASTROPILE_TEST_PYTHON="$$python" $(GO) test -count=1 -timeout 20m ./...

test-arm64: build ## the same bits on arm64, under qemu
	@scripts/test-arm64.sh

test-python: build ## every Python test but those of torch
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) "$$python" -m pytest -m "not torch" $(PYTEST_PATHS)

test-torch: build ## the Python tests that need torch
	ASTROPILE_BIN=$(BIN) scripts/pytest-torch.sh

# Once there is something to test, every step runs, so that one run tells all.
test: ## everything: build, environments, lint, Go, Python, torch
	@$(STEP) preflight scripts/preflight.sh
	@$(STEP) build $(MAKE) build build-arm64
	@$(STEP) "Python environments" $(MAKE) venvs
	@failed=0
	@$(STEP) lint $(MAKE) lint || failed=1
	@$(STEP) "Go tests" $(MAKE) test-go || failed=1
	@$(STEP) "arm64 tests" $(MAKE) test-arm64 || failed=1
	@$(STEP) "Python tests" $(MAKE) test-python || failed=1
	@$(STEP) "torch tests" $(MAKE) test-torch || failed=1
	@exit $$failed

test-fast: preflight build ## what a change is checked with while it is made: no torch, no slow clients
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) ASTROPILE_TEST_PYTHON="$$python" $(GO) test -short ./...
	ASTROPILE_BIN=$(BIN) "$$python" -m pytest -m "not slow and not torch" $(PYTEST_PATHS)

demo: preflight build ## from HDF5 to batches, on a survey made up on the spot
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) ASTROPILE_PYTHON="$$python" bash scripts/demo.sh

bench-local: preflight build ## measure reading and importing on this machine; writes bench/out/local.json
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) "$$python" bench/local.py

bench-survey: preflight build ## measure decoding and importing of every format; writes bench/out/survey.json
	python="$(call venv,test)"
	ASTROPILE_BIN=$(BIN) "$$python" bench/survey.py

bench-loaders: preflight build ## measure training loops beside other loaders; writes bench/out/loaders.json
	python="$(call venv,peers)"
	ASTROPILE_BIN=$(BIN) "$$python" bench/loaders.py

fuzz: ## every fuzz target for FUZZTIME seconds
	@scripts/fuzz.sh $(FUZZTIME)

clean: ## remove what was built here (the cache of Python environments stays)
	rm -rf bin dist demo .cache bench/out python/build .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
