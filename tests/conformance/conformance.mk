# The conformance suite of the protocol and the client that it drives through the relay, from npm, pinned by a lock file.
# Needs Node 20 or newer with npm; the suite itself runs under the Node 22 that the package `node` brings. Included by the
# Makefile of the package.

CONFORMANCE := tests/conformance

.PHONY: conformance clean-conformance

conformance: $(CONFORMANCE)/.stamp-npm

$(CONFORMANCE)/.stamp-npm: $(CONFORMANCE)/package.json $(CONFORMANCE)/package-lock.json
	cd $(CONFORMANCE) && npm ci --no-audit --no-fund --loglevel=error
	$(CONFORMANCE)/node_modules/node/bin/node --version
	touch $@

clean-conformance:
	rm -rf $(CONFORMANCE)/node_modules $(CONFORMANCE)/.stamp-npm
