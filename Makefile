# Every target first installs its missing dependencies (deploy/local/run).
# `make` alone lists the targets.

# Commands that run another one with only Go, or with all services' programs.
GO   := deploy/local/run go
ALL  := deploy/local/run all

# Tools run by `go run`, which keeps their executables in Go's build cache.
SQLC        := env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Builds into bin. The lock lets one of several targets build at a time.
INTO_BIN := mkdir -p bin && flock bin go build

# Not `go run`, which continues to build after Ctrl-C.
SERVICES := sh -c '$(INTO_BIN) -C test -o ../bin/testservices ./testservices && exec bin/testservices "$$@"' --

# Arguments of `go test`: make test TESTFLAGS='-race' PACKAGES=./celery/...
TESTFLAGS ?=
PACKAGES  ?= ./...

# Go's default limit for a package, ten minutes, is too short for a slow machine.
TEST_TIMEOUT ?= 20m
GOTEST       ?= go test

# Directories that `make fuzz` fuzzes (all if empty), and the time for each target.
FUZZ     ?=
FUZZTIME ?= 10s

# This module's package that `make deploy-check` tests. .ci/run sets it empty, as it tests all packages.
DEPLOY ?= ./deploy

# Options of `make chaos`: the duration of the faults, the seed (a random one if empty), the number
# of consecutive seeds on the same clusters, the kinds of faults (a regular expression; all if
# empty), and the file for the report.
CHAOS  ?= 10m
SEED   ?=
SEEDS  ?= 1
FAULTS ?=
REPORT ?=

# Options of `make day`: its duration, and the earlier code that it upgrades from: a commit of this
# clone, or a program (the commit before the newest migration if empty).
DAY  ?= 60m
FROM ?=

# The Debian release of `make test-debian`.
RELEASE ?= trixie

# The versions of `make test-versions` (a regular expression of Bash; all if empty).
ONLY ?=

# Options of `make bench`: the benchmarks (a regular expression; those of the table if empty, and
# these at small sizes if it is "quick"), and the duration of each part.
BENCH     ?=
BENCHTIME ?= 1x

# The version and the platforms of `make release`.
VERSION   ?= $(shell git describe --tags --always --dirty)
PLATFORMS ?= linux/amd64 linux/arm64

# The Debian releases of `make test-packages`.
PACKAGED ?= bookworm trixie

.PHONY: help build test screenshots docs chaos chaos-weekly chaos-seeds day model test-debian test-versions fuzz conformance attacks bench bench-readme demo demo-stop deploy-check release test-packages vulncheck lint fmt fmt-check generate generate-check install docker-images clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/swh-scheduler, static
	@$(GO) sh -c 'export CGO_ENABLED=0; $(INTO_BIN) -trimpath -o bin/swh-scheduler ./cmd/swh-scheduler'

test: ## Run every test on real services (TESTFLAGS, PACKAGES)
	@$(ALL) $(SERVICES) $(GOTEST) -timeout=$(TEST_TIMEOUT) $(TESTFLAGS) $(PACKAGES)
ifeq ($(PACKAGES),./...)
	@$(ALL) $(SERVICES) go test -C test $(TESTFLAGS) ./...
endif

screenshots: ## Take the pictures of docs/reference/dashboard.md again
	@$(ALL) $(SERVICES) env SCREENSHOTS=$(CURDIR)/docs/reference/dashboard go test -count=1 -run '^TestScreenshots$$' ./internal/dashboard

docs: ## Build the documents into bin/docs, with Sphinx; a warning is an error
	@$(ALL) sh -c 'PYTHONDONTWRITEBYTECODE=1 "$${SWH_SCHEDULER_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/swh-scheduler}"/docs/bin/sphinx-build \
		-q -W --keep-going -d bin/docs.cache docs bin/docs'

chaos chaos-weekly chaos-seeds: export FAULTS := $(FAULTS)
chaos: ## Run the scheduler on clusters with faults, and check that nothing is lost (CHAOS, SEED, SEEDS, FAULTS, REPORT)
	@mkdir -p bin/chaos
	@$(ALL) env CHAOS=$(CHAOS) SWH_TEST_SEED=$(SEED) SEEDS=$(SEEDS) REPORT=$(abspath $(REPORT)) \
		go test -C test -count=1 -timeout=24h -v -run '^TestChaos$$' -artifacts -outputdir=$(CURDIR)/bin/chaos ./chaos

chaos-weekly: CHAOS = 15m
chaos-weekly: REPORT = bin/chaos/weekly.md
chaos-weekly: chaos ## The same for fifteen minutes, with the report in bin/chaos/weekly.md

chaos-seeds: CHAOS = 30s
chaos-seeds: SEEDS = 300
chaos-seeds: REPORT = bin/chaos/seeds.md
chaos-seeds: chaos ## The same with many seeds of 30 s each, with the report in bin/chaos/seeds.md (SEED, SEEDS)

day: REPORT = bin/day/report.md
day: ## Run a day of 24 hours in an hour, with upgrades and other work of operators, and check that nothing grows (DAY, FROM)
	@mkdir -p bin/day
	@$(ALL) env DAY=$(DAY) FROM=$(if $(wildcard $(FROM)),$(abspath $(FROM)),$(FROM)) REPORT=$(abspath $(REPORT)) \
		go test -C test -count=1 -timeout=24h -v -run '^TestDay$$' -artifacts -outputdir=$(CURDIR)/bin/day ./chaos

model: ## Explore the models of the protocol, and compare the program with them, further than CI does: about an hour, 2 GB
	@$(ALL) $(SERVICES) env SWH_MODEL=long go test -C test -count=1 -timeout=2h -v ./model/...

fuzz: ## Run each fuzz target for a while (FUZZ, FUZZTIME)
	@$(ALL) env FUZZTIME=$(FUZZTIME) .ci/fuzz $(FUZZ)

test-debian: ## Run every test on another Debian, as root (RELEASE=trixie)
	@deploy/local/on-debian $(RELEASE) make test # with the variables given, by MAKEFLAGS

test-versions: export ONLY := $(ONLY)
test-versions: export TESTFLAGS := $(TESTFLAGS)
test-versions: ## Run the tests with the services' versions that operators run (ONLY="PostgreSQL|Kafka 4")
	@deploy/local/versions

conformance: ## Run the Python scheduler's own tests through its RPC client against our server
	@$(ALL) $(SERVICES) go test -count=1 -v -run '^TestConformance$$' ./internal/rpc

attacks: ## Run the tests of the attacks that docs/devel/attacks.md lists; then those on rpc-serve at full size, with a table of their costs
	@$(ALL) $(SERVICES) sh -c 'go test -count=1 -run "^($$(grep -ohE "\bTest[A-Za-z0-9]+" docs/devel/attacks.md docs/how-to/secure.md | sort -u | paste -sd"|"))\$$" ./... && \
		go test -count=1 -run=NONE -bench=Attacks -benchtime=1x -timeout=1h ./internal/rpc'

bench bench-readme: export BENCH := $(BENCH)
bench bench-readme: export BENCHTIME := $(BENCHTIME)
bench bench-readme: export PACKAGES := $(PACKAGES)
bench bench-readme: export TESTFLAGS := $(TESTFLAGS)

bench: ## Measure ours and the Python scheduler in turns, and print tables (PACKAGES, BENCH, BENCHTIME)
	@$(ALL) internal/bench/run

bench-readme: ## The same, and put the tables into the README and the documents, with a plot
	@$(ALL) internal/bench/run -write .

demo: build ## Run the archive's own parts with this scheduler, with faults (CALM=1: none); KEEP=1 leaves it running, SHORT=1 is a small one
	@$(ALL) sh -c '$(INTO_BIN) -C test -o ../bin/demo ./demo && exec bin/demo'

demo-stop: ## Stop the demo that `make demo KEEP=1` left running
	@$(GO) sh -c '$(INTO_BIN) -C test -o ../bin/demo ./demo && exec bin/demo -stop'

deploy-check: ## Check the chart, systemd units, configurations, dashboards and alerts of deploy/
	@$(ALL) sh -c '{ [ -z "$(DEPLOY)" ] || go test -count=1 $(DEPLOY); } && \
		for module in check packages; do (cd deploy/$$module && go vet ./... && go test -vet=off -count=1 ./...) || exit; done'

release: ## Build archives, packages, bills of materials and checksums in bin/release (VERSION, PLATFORMS, RELEASE_KEY), each twice
	@$(GO) deploy/release/build.sh "$(VERSION)" $(PLATFORMS)

test-packages: ## Install, start, upgrade and purge the packages of make release, as root, on fresh Debians (PACKAGED="bookworm trixie")
	@$(ALL) $(SERVICES) deploy/packages/try $(PACKAGED)

vulncheck: ## Check the program's code for known vulnerabilities (GOVULNDB)
	@$(GO) .ci/vulncheck

lint: ## Run go vet and staticcheck
	@$(GO) sh -c 'for module in . test; do (cd $$module && go vet ./... && $(STATICCHECK) ./...) || exit; done'

fmt: ## Format the Go code
	@$(GO) gofmt -w $$(git ls-files '*.go')

fmt-check: ## Fail if a Go file is not formatted
	@unformatted=$$($(GO) gofmt -l $$(git ls-files '*.go')); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt): $$unformatted"; exit 1; }

generate: ## Generate Go from sql/queries (sqlc)
	@$(GO) $(SQLC) -f sql/sqlc.yaml generate

generate-check: ## Fail if the generated Go differs from sql/queries
	@$(GO) $(SQLC) -f sql/sqlc.yaml diff

install: ## Install the dependencies of the other targets
	@$(ALL) true

docker-images: ## Build images of the services, on a machine that reaches no registry
	@deploy/images/build.sh

clean: ## Remove built files, but not the cache (see deploy/local/install.sh)
	@rm -rf bin
