# Quorate: `make demo` shows the main job, `make test` proves it. Everything is built in one profile (release).
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help build setup demo test lint unit cluster-tests bench deny clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Install the Debian packages that building, demo and tests need (as root)
	@tests/setup

build: setup ## Build the quorate binary
	$(CARGO) build --release -p quorate -p quorate-tests --bins

demo: build ## Bring up a cluster, run the main job end to end, clean up
	$(CARGO) run --release --quiet -p quorate-tests --bin quorate-demo

test: setup lint unit cluster-tests ## All tests of the first tier

lint: ## Format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --quiet -- -D warnings

unit: setup ## Unit, property, contract and architecture tests
	$(CARGO) build --release -p quorate
	$(CARGO) test --release --workspace --exclude quorate-tests
	$(CARGO) test --release -p quorate-tests --lib --test architecture

cluster-tests: setup ## Scenarios on real clusters with unmodified clients
	$(CARGO) build --release -p quorate
	$(CARGO) test --release -p quorate-tests --test cluster

bench: build ## The figures of docs/benchmarks.md
	bench/run

deny: ## Bans, licences and sources of the dependencies (needs cargo-deny)
	cargo deny check bans licenses sources

clean: ## Remove what was built
	$(CARGO) clean
