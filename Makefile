# Names for the usual commands. Nothing here is needed: `go test ./...` and `go run ./bench/smallbank`
# work on their own. The same sections, with pinned tools, are in .ci/run.

.DEFAULT_GOAL := help
.PHONY: help test race fuzz lint bench compare ci fmt

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

test: ## all tests
	go test ./...

race: ## all tests under the race detector
	go test -race -timeout 20m ./...

fuzz: ## every fuzz target for FUZZ_TIME each (5s)
	bash .ci/run fuzz

lint: ## golangci-lint, installed into bin/ if the pinned version is not there
	bash .ci/run lint

bench: ## SmallBank on an embedded cluster; ARGS="--replicas 1" passes flags
	go run ./bench/smallbank $(ARGS)

compare: ## SmallBank on fjord and on other embedded engines, about a quarter of an hour
	cd bench/compare && go run . $(ARGS)

ci: ## everything that has to hold before a change is taken
	bash .ci/run

fmt: ## format the code and tidy go.mod
	gofmt -w .
	go mod tidy
	cd bench/compare && go mod tidy
	cd docs/benchmarks && go mod tidy
