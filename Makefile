# Every target works on every module of go.work, and on tools. The tools are
# pinned in tools/go.mod and built into .bin.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/.bin
# staticcheck must be built by the Go that it is used with.
TOOLS := $(BIN)/$(firstword $(shell go env GOVERSION))
BENCHTIME ?= 1s
# Most tests wait for leases to end, so more of them can run than there are processors.
PARALLEL := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n > 4 ? n : 4)))

# The processors have more to do than the memory, so garbage is collected less often: by what is below here, and still
# less often by the tests and their compiler. The largest linter takes 2.4 GB; at 400 it takes 3.9, and no less time.
lint test-all test-browser: export GOGC = 200

.PHONY: help
help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Every package of every module in one go, with the newest versions that any of them requires. All are compiled
# before: compilers take the processors from tests that tell a slow server from a dead one. SQLite is translated
# from C, and its own memory is none of the race detector's business: with it, its tests took 15 times as long.
# With the lowest versions, which "make lint" has compiled, there is no race detector: the code is the same.
RACE := -race -gcflags=modernc.org/...=-race=false
TEST := GOGC=400 scripts/test-packages $(RACE) -vet=off -parallel $(PARALLEL)
COMPILE := GOGC=400 go list $(RACE) -test -export
# Those first that take longest, which wait for most of their time.
EVERYTHING = $(CURDIR)/store/... $$(go list -m -f '{{.Dir}}/...' | sort -r)

# The simulator has a clock of its own, so it runs beside the tests. With a low priority it ended a minute after them.
.PHONY: test
test: packages ## Run the tests of every package with the race detector, in some minutes
	@$(COMPILE) $(EVERYTHING) >/dev/null
	@$(MAKE) simulate & simulation=$$!; code=0; \
		$(TEST) -short $(EVERYTHING) || code=$$?; wait $$simulation || code=$$?; exit $$code

# The tests of core decide by -short how much they do, not only whether: so they also run with it.
.PHONY: test-all
test-all: packages $(TOOLS) ## Also the histories, the long tests, the lowest versions, and each module from outside
	@scripts/check-modules $(BIN)
	@$(COMPILE) $(EVERYTHING) >/dev/null
	@$(TEST) -timeout 25m $(EVERYTHING)
	@$(TEST) -short $(CURDIR)/core/...
	@$(MAKE) simulate
	@scripts/each-module -2 -released $(CURDIR)/scripts/test-lowest -short -vet=off -parallel $(PARALLEL)
	@cd tools && GOWORK=off go test ./...

.PHONY: simulate
simulate: ## Simulate fleets: 100 000 operations, the same ones each time
	@cd proof && GOWORK=off ../scripts/reproducible go test ./sim

.PHONY: test-core
test-core: ## Run the tests of core and of the Redis store only, which need no databases
	@scripts/ensure-packages core
	@GOWORK=off go test -race -parallel $(PARALLEL) ./core/... ./keytmpl ./internal/gather ./internal/waitloop ./store/memstore ./store/redisstore/...

.PHONY: test-browser
test-browser: $(TOOLS) ## Test the console's pages in a real browser
	@scripts/ensure-packages browser
	@cd proof && GOWORK=off go vet -tags browser ./browsertest && GOWORK=off $(BIN)/staticcheck -tags browser ./browsertest
	@cd proof && GOWORK=off ../scripts/test-packages -tags browser ./browsertest

.PHONY: screenshots
screenshots: ## Make the pictures of docs/console.md, which takes some minutes
	@scripts/ensure-packages browser
	@cd proof && GOWORK=off go test -tags browser -timeout 20m ./browsertest -run Screenshots -screenshots $(CURDIR)/docs

# Without what is in .bin: a part of Go's runtime is there.
FILES := find . -name '.?*' -prune -o -name '*.go' -print0

.PHONY: lint
lint: $(TOOLS) ## Check format, vet, staticcheck, generated code, go.mod files, imports, docs, API
	@list=$$($(FILES) | xargs -0 $(BIN)/gofumpt -l); [[ -z $$list ]] || { printf 'not formatted, run make format:\n%s\n' "$$list"; exit 1; }
	@scripts/proto $(BIN) -check
	@scripts/check-imports
	@find . -name '.?*' -prune -o -type f \( -name '*.go' -o -name '*.md' \) -print0 | xargs -0 $(BIN)/checkdocs
	@scripts/pin-modules -check
	@scripts/each-module go mod tidy -diff
	@scripts/each-module go vet ./...
	@scripts/each-module $(BIN)/staticcheck ./...
	@scripts/check-readme
	@scripts/check-translation
	@scripts/check-api $(BIN)
	@$(BIN)/actionlint

.PHONY: bench
bench: packages ## Run every benchmark (BENCHTIME=1s)
	@scripts/each-module go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: bench-compare
bench-compare: packages $(TOOLS) ## Compare the benchmarks with those of the last release (REF=commit)
	@BENCHTIME=$(BENCHTIME) scripts/bench-compare $(BIN) $(REF)

.PHONY: cover
cover: packages ## Show each package's coverage; fail below 90 % in core and the middlewares
	@scripts/cover

.PHONY: format
format: $(TOOLS) ## Format the Go files
	@$(FILES) | xargs -0 $(BIN)/gofumpt -w

.PHONY: generate
generate: $(TOOLS) ## Generate the Go code of the .proto files
	@scripts/proto $(BIN)

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)

.PHONY: packages
packages:
	@scripts/ensure-packages

$(TOOLS): tools/go.mod tools/go.sum $(wildcard tools/protogen/*.go tools/checkdocs/*.go tools/modproxy/*.go)
	@mkdir -p $(BIN) && rm -f $(BIN)/go[0-9]*
	@cd tools && GOWORK=off GOBIN=$(BIN) go install -buildvcs=false tool ./protogen ./checkdocs ./modproxy
	@touch $@
