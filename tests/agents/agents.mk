# Whole turns of real agents, Claude Code and Codex from npm, on the relay, with scripted models on loopback: no account and
# no network but the package registry. About 800 MB are installed, so it is no part of the tests. Included by the Makefile.

AGENTS := tests/agents
AGENTS_TARGET := $(or $(CARGO_TARGET_DIR),target)/debug
AGENTS_CATALOGS ?= ../shared/catalogs

.PHONY: agents clean-agents

agents: $(AGENTS)/.stamp-npm
	$(CARGO) build --bins --examples
	PYTHONDONTWRITEBYTECODE=1 $(PEERS_PYTHON) $(AGENTS)/run.py $(AGENTS_TARGET)/toolrelay $(AGENTS_TARGET)/examples \
		$(AGENTS)/node_modules/.bin $(AGENTS_CATALOGS)

$(AGENTS)/.stamp-npm: $(AGENTS)/package.json $(AGENTS)/package-lock.json
	cd $(AGENTS) && npm ci --no-audit --no-fund --loglevel=error
	touch $@

clean-agents:
	rm -rf $(AGENTS)/node_modules $(AGENTS)/.stamp-npm
