# Every target first installs what it needs and finds missing (deploy/local/run):
# nothing is to be done by hand. `make` alone lists the targets.

# One shell command that runs another with Go alone, or with all services' programs.
GO   := deploy/local/run go
ALL  := deploy/local/run all

# Tools run by `go run`, which keeps their executables in Go's build cache.
SQLC        := env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Builds into bin, one at a time, as two may run at once.
INTO_BIN := mkdir -p bin && flock bin go build

# Not by `go run`, which goes on after Ctrl-C while it builds.
SERVICES := sh -c '$(INTO_BIN) -C test -o ../bin/testservices ./testservices && exec bin/testservices "$$@"' --

# Arguments of `go test`: make test TESTFLAGS='-race' PACKAGES=./celery/...
TESTFLAGS ?=
PACKAGES  ?= ./...

# Go's own limit for a package, ten minutes, is short for a slow machine.
TEST_TIMEOUT ?= 40m
GOTEST       ?= go test

# What `make fuzz` fuzzes (directories; all if empty), and how long each target.
FUZZ     ?=
FUZZTIME ?= 10s

# What `make deploy-check` tests of this module; .ci/run does that with all the rest.
DEPLOY ?= ./deploy

# How long faults fall in `make chaos`, the seed they are drawn from (another one each
# time if it is empty), how many seeds from that on follow one another on the same
# clusters, the kinds of faults (a regular expression; all if it is empty), and the file for the report.
CHAOS  ?= 10m
SEED   ?=
SEEDS  ?= 1
FAULTS ?=
REPORT ?=

# How long `make day` lasts, and the earlier code it upgrades from: a commit of this clone, or a program
# (the commit before the newest migration if it is empty).
DAY  ?= 60m
FROM ?=

# What `make test-debian` tests on.
RELEASE ?= trixie

# Which versions `make test-versions` tries (a regular expression of Bash; all if empty).
ONLY ?=

# Which benchmarks `make bench` runs (a regular expression; those of the table if it is
# empty, and these at small sizes if it is "quick"), and how long each part.
BENCH     ?=
BENCHTIME ?= 1x

# What `make release` makes.
VERSION   ?= $(shell git describe --tags --always --dirty)
PLATFORMS ?= linux/amd64 linux/arm64

# On which releases of Debian `make test-packages` tries them.
PACKAGED ?= bookworm trixie

.PHONY: help build test screenshots docs chaos chaos-weekly chaos-seeds day model test-debian test-versions fuzz conformance attacks bench bench-readme demo demo-stop deploy-check release test-packages vulncheck lint fmt fmt-check generate generate-check install docker-images clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/swh-scheduler, static
	@$(GO) sh -c 'export CGO_ENABLED=0; $(INTO_BIN) -tags grpcnotrace -trimpath -o bin/swh-scheduler ./cmd/swh-scheduler'

test: ## Run every test on real services (TESTFLAGS, PACKAGES)
	@$(ALL) $(SERVICES) $(GOTEST) -timeout=$(TEST_TIMEOUT) $(TESTFLAGS) $(PACKAGES)
ifeq ($(PACKAGES),./...)
	@$(ALL) $(SERVICES) go test -C test $(TESTFLAGS) ./...
endif

screenshots: ## Take the pictures of docs/reference/dashboard.md anew
	@$(ALL) $(SERVICES) env SCREENSHOTS=$(CURDIR)/docs/reference/dashboard go test -count=1 -run '^TestScreenshots$$' ./internal/dashboard

docs: ## Build the documents into bin/docs, with Sphinx; a warning is an error
	@$(ALL) sh -c 'PYTHONDONTWRITEBYTECODE=1 "$${SWH_SCHEDULER_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/swh-scheduler}"/docs/bin/sphinx-build \
		-q -W --keep-going -d bin/docs.cache docs bin/docs'

chaos chaos-weekly chaos-seeds: export FAULTS := $(FAULTS)
chaos: ## Run the scheduler on clusters while faults fall, and check that nothing is lost (CHAOS, SEED, SEEDS, FAULTS, REPORT)
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
day: ## Run a day of 24 hours in an hour, with upgrades and what else operators do, and check that nothing grows (DAY, FROM)
	@mkdir -p bin/day
	@$(ALL) env DAY=$(DAY) FROM=$(if $(wildcard $(FROM)),$(abspath $(FROM)),$(FROM)) REPORT=$(abspath $(REPORT)) \
		go test -C test -count=1 -timeout=24h -v -run '^TestDay$$' -artifacts -outputdir=$(CURDIR)/bin/day ./chaos

model: ## Explore the models of the protocol, and hold the program to them, further than CI does: about an hour, 2 GB
	@$(ALL) $(SERVICES) env SWH_MODEL=long go test -C test -count=1 -timeout=2h -v ./model/...

fuzz: ## Run each fuzz target for a while (FUZZ, FUZZTIME)
	@$(ALL) env FUZZTIME=$(FUZZTIME) .ci/fuzz $(FUZZ)

test-debian: ## The same on another Debian, as root (RELEASE=trixie)
	@deploy/local/on-debian $(RELEASE) make test # with the variables given, by MAKEFLAGS

test-versions: export ONLY := $(ONLY)
test-versions: export TESTFLAGS := $(TESTFLAGS)
test-versions: ## Try the versions of the services that operators run (ONLY="PostgreSQL|Kafka 4")
	@deploy/local/versions

conformance: ## Run the Python scheduler's own tests through its RPC client against our server
	@$(ALL) $(SERVICES) go test -count=1 -v -run '^TestConformance$$' ./internal/rpc

attacks: ## Run the attacks that docs/devel/attacks.md lists, each by its test; then those on rpc-serve at full size, with a table of what they cost
	@$(ALL) $(SERVICES) sh -c 'go test -count=1 -run "^($$(grep -ohE "\bTest[A-Za-z0-9]+" docs/devel/attacks.md docs/how-to/secure.md | sort -u | paste -sd"|"))\$$" ./... && \
		go test -count=1 -run=NONE -bench=Attacks -benchtime=1x -timeout=1h ./internal/rpc'

bench bench-readme: export BENCH := $(BENCH)
bench bench-readme: export BENCHTIME := $(BENCHTIME)
bench bench-readme: export PACKAGES := $(PACKAGES)
bench bench-readme: export TESTFLAGS := $(TESTFLAGS)

bench: ## Measure ours and the Python scheduler in turns, and print tables (PACKAGES, BENCH, BENCHTIME)
	@$(ALL) internal/bench/run

bench-readme: ## The same, and put the tables into the README and docs/explanation/performance.md, with a plot
	@$(ALL) internal/bench/run -write .

demo: build ## Run the archive's own parts on ours, with faults (CALM=1: none); KEEP=1 leaves it running, SHORT=1 is a small one
	@$(ALL) sh -c '$(INTO_BIN) -C test -o ../bin/demo ./demo && exec bin/demo'

demo-stop: ## Stop what `make demo KEEP=1` left running
	@bin/demo -stop

deploy-check: ## Check the chart, systemd units, configurations, dashboards and alerts of deploy/
	@$(ALL) sh -c '{ [ -z "$(DEPLOY)" ] || go test -count=1 $(DEPLOY); } && \
		for module in check packages; do (cd deploy/$$module && go vet ./... && go test -vet=off -count=1 ./...) || exit; done'

release: ## Build archives, packages, bills of materials and checksums in bin/release (VERSION, PLATFORMS, RELEASE_KEY), each twice
	@$(GO) deploy/release/build.sh "$(VERSION)" $(PLATFORMS)

test-packages: ## Install, start, upgrade and purge the packages that make release made, as root, on fresh Debians (PACKAGED="bookworm trixie")
	@$(ALL) $(SERVICES) deploy/packages/try $(PACKAGED)

vulncheck: ## Look for known vulnerabilities in what the program calls (GOVULNDB)
	@$(GO) .ci/vulncheck

lint: ## Look for mistakes: go vet and staticcheck
	@$(GO) sh -c 'for module in . test; do (cd $$module && go vet ./... && $(STATICCHECK) ./...) || exit; done'

fmt: ## Format the Go code
	@$(GO) gofmt -w $$(git ls-files '*.go')

fmt-check: ## Fail if a Go file is not formatted
	@unformatted=$$($(GO) gofmt -l $$(git ls-files '*.go')); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt): $$unformatted"; exit 1; }

generate: ## Generate Go from sql/queries (sqlc)
	@$(GO) $(SQLC) -f sql/sqlc.yaml generate

generate-check: ## Fail if the generated Go is not what sql/queries says
	@$(GO) $(SQLC) -f sql/sqlc.yaml diff

install: ## Install all that the other targets need
	@$(ALL) true

docker-images: ## Build images of the services where no registry can be reached
	@deploy/images/build.sh

clean: ## Remove what was built; not the cache (deploy/local/install.sh says where that is)
	@rm -rf bin
