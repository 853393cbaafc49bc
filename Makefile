# make demo    builds, and walks the main job on sources.toml (needs Rust and Node)
# make test    installs what the tests need, and runs all of them (needs Rust, Node and Python)
# make lint    what CI holds besides: format, clippy, docs
# make bench   relayed against direct, cold start, memory
# make soak    1,000,000 calls over 20 sources with faults at random (CALLS, SEED), 90 minutes at most
# make fuzz    each fuzz target for a minute (SECONDS); needs a C++ compiler, and takes a nightly Rust where there is one
# make agents  Claude Code and Codex on the relay, whole turns with scripted models (about 800 MB from npm)
# make eval    ranks the queries of a folder of labelled sets (DIR) into a run (OUT), for a scorer

include tests/peers/peers.mk
include tests/conformance/conformance.mk
include tests/agents/agents.mk

CARGO ?= cargo
.DEFAULT_GOAL := test
.PHONY: demo test lint bench soak fuzz eval clean

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

CALLS ?= 1000000
SEED ?= $(shell date +%s)
soak:
	$(CARGO) build --release --bins --example fixture
	SOAK_CALLS=$(CALLS) SOAK_SEED=$(SEED) SOAK_SECS=5400 $(CARGO) test --release --test soak -- --nocapture

# What is found goes to target/, the corpus that is kept is only read.
SECONDS ?= 60
FUZZ_TARGETS ?= message lines sse config lock
# A stable compiler has what fuzzing needs as well, if it is told to give it.
NIGHTLY := $(shell $(CARGO) +nightly --version >/dev/null 2>&1 && echo +nightly)
fuzz: export RUSTC_BOOTSTRAP = $(if $(NIGHTLY),,1)
fuzz:
	$(CARGO) fuzz --version || $(CARGO) install cargo-fuzz --locked --version 0.13.2
	set -e; for name in $(FUZZ_TARGETS); do \
		mkdir -p target/fuzz/$$name; \
		$(CARGO) $(NIGHTLY) fuzz run --fuzz-dir fuzz $$name target/fuzz/$$name fuzz/corpus/$$name -- \
			-max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=8192; \
	done

DIR ?= ../shared/retrieval/dev
OUT ?= target/run.jsonl
eval:
	$(CARGO) run --release --quiet --example eval -- $(DIR) $(OUT)

clean: clean-peers clean-agents clean-conformance
	$(CARGO) clean
