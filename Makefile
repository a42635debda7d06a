# Quorate: `make demo` shows the main job, `make test` proves it. Everything is built in one profile (release).
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help build setup demo test format lint unit cluster-tests test-peers bench deny clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Install the Debian packages that building, demo and tests need (as root)
	@tests/setup

# Always the whole workspace: another selection would unify features differently and build the dependencies again.
build: setup ## Build everything
	$(CARGO) build --release --workspace --all-targets

demo: build ## Bring up a cluster, run the main job end to end, clean up
	$(CARGO) run --release --quiet --bin quorate-demo

test: build format unit cluster-tests ## All tests of the first tier

format: setup ## Whether the code is formatted
	$(CARGO) fmt --all --check

lint: format ## Clippy, over everything
	$(CARGO) clippy --release --workspace --all-targets --quiet -- -D warnings

unit: build ## Unit, property, contract and architecture tests
	$(CARGO) test --release --workspace --lib --bins --test it --test simulated --test containerd --test architecture

cluster-tests: build ## Scenarios on real clusters with unmodified clients
	$(CARGO) test --release --workspace --test cluster

test-peers: build ## Upstream's kubectl and kube-apiserver against and beside ours (needs Go; compiles them once)
	tests/peers/build
	$(CARGO) test --release --workspace --test peers

bench: build ## The figures of docs/benchmarks.md; PEER=1 puts kube-apiserver and etcd beside them
	bench/run $(if $(PEER),--peer)

deny: ## Bans, licences and sources of the dependencies (needs cargo-deny)
	cargo deny check bans licenses sources

clean: ## Remove what was built
	$(CARGO) clean
