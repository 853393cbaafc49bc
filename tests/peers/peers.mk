# The servers and clients which the tests run beside the relay, from npm and PyPI, pinned by lock files.
# Needs Node 20 or newer with npm, and Python 3.11 or newer with venv. Included by the Makefile of the package.

PEERS := tests/peers
PEERS_PYTHON ?= python3

.PHONY: peers clean-peers

peers: $(PEERS)/.stamp-npm $(PEERS)/.stamp-py

# The package `node` brings a Node 24 for the clients that want one; npm's warnings about the running one do not matter.
$(PEERS)/.stamp-npm: $(PEERS)/package.json $(PEERS)/package-lock.json
	cd $(PEERS) && npm ci --no-audit --no-fund --loglevel=error
	$(PEERS)/node_modules/node/bin/node --version
	touch $@

$(PEERS)/.stamp-py: $(PEERS)/requirements.txt
	rm -rf $(PEERS)/.venv
	$(PEERS_PYTHON) -m venv $(PEERS)/.venv
	$(PEERS)/.venv/bin/pip install --quiet --disable-pip-version-check --no-deps -r $(PEERS)/requirements.txt
	$(PEERS)/.venv/bin/pip check
	touch $@

clean-peers:
	rm -rf $(PEERS)/node_modules $(PEERS)/.venv $(PEERS)/.stamp-npm $(PEERS)/.stamp-py
