# Sluice. "make" lists the targets.

SHELL := /bin/bash
GO ?= go
VERSION ?= dev

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## Build ./bin/sluice
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/sluice .

.PHONY: demo
demo: ## See Sluice at work, in one process
	$(GO) run . demo

.PHONY: test
test: packages lint ## Run all tests, installing what they need
	$(GO) test -race -shuffle=on -timeout 30m ./...
	@# The race detector allocates, so promises about memory are kept without it.
	$(GO) test -run 'Alloc|Tenants|Retain' -timeout 10m ./admission/... ./priority/... ./proxy/... ./gateway/... ./admin/... ./idempotency/... ./shedding/...
	$(GO) run . test examples
	$(MAKE) scenarios
	$(MAKE) dashboard-test

.PHONY: dashboard-test
dashboard-test: packages ## Test the dashboard in a real browser
	cd admin/dashboard/test && npm install --no-audit --no-fund --silent && npm test

.PHONY: lint
lint: ## gofmt, vet and staticcheck
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: packages
packages: ## Install the Debian packages that tests start services from
	@.ci/packages

.PHONY: fuzz
fuzz: ## Fuzz everything that parses outside input, 30 s each (FUZZTIME=5m for longer)
	@.ci/fuzz $(or $(FUZZTIME),30s)

.PHONY: bench
bench: ## Micro-benchmarks of the request path
	$(GO) test -run '^$$' -bench . -benchmem ./admission/... ./priority/... ./proxy/... ./admin/... ./idempotency/... ./shedding/...

.PHONY: chaos
chaos: packages ## Break everything under a million keyed requests, and judge what comes of it (CHAOS_REQUESTS, CHAOS_SEEDS, CHAOS_SEED, CHAOS_RACE=1)
	CHAOS_REQUESTS=$(or $(CHAOS_REQUESTS),1000000) CHAOS_SEEDS=$(or $(CHAOS_SEEDS),40) $(GO) test -count=1 -timeout 0 -v ./chaos

.PHONY: scenarios
scenarios: packages ## Rehearse every shipped scenario, judged by counts and invariants (2 minutes)
	@# Four beside each other take a third of two cores; the rest is for a machine that is slower.
	$(GO) run ./bench run bench/scenarios/*.yaml --counts-only --at-once 4

.PHONY: peers
peers: ## Measure CPU, throughput and latency beside a bare proxy, nginx, HAProxy and Fiber: on a quiet machine
	$(GO) run ./bench peers --rounds 7 --span 5s
