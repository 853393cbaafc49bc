# make demo    builds, and walks the main job on sources.toml (needs Rust and Node)
# make test    installs what the tests need, and runs all of them (needs Rust, Node and Python)
# make lint    what CI holds besides: format, clippy, docs
# make bench   relayed against direct, cold start, memory
# make agents  Claude Code and Codex on the relay, whole turns with scripted models (about 800 MB from npm)
# make eval    ranks the queries of a folder of labelled sets (DIR) into a run (OUT), for a scorer

include tests/peers/peers.mk
include tests/conformance/conformance.mk
include tests/agents/agents.mk

CARGO ?= cargo
.DEFAULT_GOAL := test
.PHONY: demo test lint bench eval clean

# The sources of sources.toml are started once first, so that what npx has to fetch is there.
demo:
	$(CARGO) build --bin toolrelay --examples
	$(CARGO) run --quiet -- check --connect --config sources.toml
	$(CARGO) run --quiet --example demo -- sources.toml

test: peers conformance
	$(CARGO) build --bins --examples
	$(CARGO) test --no-fail-fast --lib --bins --tests

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

bench:
	$(CARGO) bench --bench relay

DIR ?= ../shared/retrieval/dev
OUT ?= target/run.jsonl
eval:
	$(CARGO) run --release --quiet --example eval -- $(DIR) $(OUT)

clean: clean-peers clean-agents clean-conformance
	$(CARGO) clean
