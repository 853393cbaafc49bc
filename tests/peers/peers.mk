# The servers and clients which the tests run beside the relay, from npm and PyPI, pinned by lock files.
# Needs Node 20 or newer with npm, and Python 3.11 or newer with venv. Included by the Makefile of the package.

PEERS := tests/peers
PEERS_PYTHON ?= python3

.PHONY: peers clean-peers

peers: $(PEERS)/.stamp-npm $(PEERS)/.stamp-py $(PEERS)/.stamp-unifi

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

# UniFi's server wants Python 3.13 or newer. Where there is none, the tests say so and take its recorded behaviour instead.
$(PEERS)/.stamp-unifi: $(PEERS)/requirements-unifi.txt $(PEERS)/newer-python.sh
	rm -rf $(PEERS)/.venv-unifi
	python=$$(sh $(PEERS)/newer-python.sh); \
	if [ -z "$$python" ]; then echo "no Python of 3.13 or newer: unifi-network-mcp is left out"; else \
		"$$python" -m venv $(PEERS)/.venv-unifi && \
		$(PEERS)/.venv-unifi/bin/pip install --quiet --disable-pip-version-check --no-deps -r $(PEERS)/requirements-unifi.txt && \
		$(PEERS)/.venv-unifi/bin/pip check; \
	fi
	touch $@

clean-peers:
	rm -rf $(PEERS)/node_modules $(PEERS)/.venv $(PEERS)/.venv-unifi $(PEERS)/.stamp-*
