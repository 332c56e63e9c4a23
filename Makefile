# The menu. Two commands do all the set-up: `make demo` and `make test`.
#
#   make demo    builds Sluice (without the slowest optimisations: target/demo/sluice) and the C programs, and serves the demo
#                site at http://127.0.0.1:8080/; make demo LISTEN=127.0.0.1:8081 for another address
#   make check   what an edit may have broken, within a minute: form, rules, lints, and unit tests of what has changed since the
#                last commit (CHECK=main: since the branch began)
#   make test    checks and runs everything: lints, unit, property, model, integration and SDK tests
#   make test-fresh  both commands on a minimal Debian 12, in a chroot that is removed afterwards; as root
#   make build   the server: target/release/sluice; its debug information: target/release/sluice.debug. PGO=1 optimises it with a profile
#                of its work (tools/pgo), as deb and dist do, in more than twice the time; PGO=0 leaves it out there
#   make sdk     the C library and its programs: sdk/c/build/; the native part for Perl: sdk/perl/build/; the PHP engine, if libphp is
#                installed: sdk/php/build/;
#                the agents for PAM and LDAP, if libpam and libldap are installed: sdk/agents/build/
#   make install the server with its manual, completions, unit and documentation, and the engines and libraries in PREFIX/lib/sluice;
#                after make build sdk; PREFIX=/usr/local, DESTDIR. make uninstall removes it
#   make deb     Debian packages: target/deb/; test-deb installs, upgrades and purges them in a chroot, test-systemd runs them under systemd,
#                both as root
#   make dist    a static tarball for any Linux, with checksums: target/dist/; test-container runs the image that is made of it, as root
#   make lint    rustfmt, clippy and tidy (the rules of CONTRIBUTING.md that no lint knows), warnings are errors
#   make docs    the reference page of the configuration, and the crates' own documentation
#   make bench   Sluice beside Apache, nginx, lighttpd, h2o and Caddy: tables and pictures in bench/results/ (bench-quick: a few of them);
#                BENCH="--processors 2,4" passes options on
#   make bench-watch  how long other requests wait beside one that is watched (bench/README.md): five minutes; BENCH="--rounds 1"
#   make instructions  instructions of each kind of request, beside the peers that are installed (bench/instructions/README.md);
#                UPDATE=1 writes them to bench/instructions/table.md, PROFILE=file-0 names the functions; test-instructions is a part of make test
#   make fuzz    every parser of untrusted bytes against mutated input, FUZZ_SECONDS=60 each (fuzz/README.md)
#   make soak    ten minutes of everything at once in every language and mode, scripts killed at random (SOAK_SECONDS=600)
#   make chaos   faults of every kind under load: kills, full disks, exhausted limits, reloads, upgrades (CHAOS_SECONDS=600, or CHAOS="--exchanges 1000000")
#   make bounds  memory with slow clients and uploads, for each process and waiting request; requests while processes are recycled
#   make clean   removes what was built
#
# What is needed beside Rust, make and a C compiler is named by `needs`, which installs it where it may (root, apt-get).

CARGO ?= cargo
OBJCOPY ?= objcopy
# As cargo has it.
TARGET = $(or $(CARGO_TARGET_DIR),target)
SLUICE = $(TARGET)/release/sluice
COUNTER = $(abspath $(TARGET)/demo/instructions)
PREFIX ?= /usr/local
LISTEN ?= 127.0.0.1:8080
SOAK_SECONDS ?= 600
CHAOS_SECONDS ?= 600
CHAOS ?= --seconds $(CHAOS_SECONDS)
FUZZ_SECONDS ?= 60
CHECK ?= HEAD

.PHONY: demo check test test-fresh build sdk install uninstall deb deb-needs test-deb test-systemd dist test-container lint lint-form lint-code docs bench bench-quick bench-watch instructions soak chaos bounds fuzz \
	clean server build-demo test-build test-compile test-rust test-models test-sdk test-conformance test-bench test-instructions test-packaging test-fuzz test-h2spec

# The profile `demo` (Cargo.toml) builds in half the time of `release`.
demo:
	@tools/needs rust cc
	@echo "Step 1 of 3: the C library and its programs (a few seconds)"
	@$(MAKE) --no-print-directory --silent -C sdk/c all
	@echo "Step 2 of 3: the server, target/demo/sluice (a first build takes two to three minutes on two cores)"
	@$(CARGO) build --profile demo --locked --bin sluice
	@tools/needs python3 perl || echo "The demo site goes without the scripts in these languages."
	@echo "Step 3 of 3: serving the demo site at http://$(LISTEN)/ (Ctrl-C ends it)"
	@target/demo/sluice demo --listen $(LISTEN)

check:
	@tools/check $(CHECK)

# SLUICE_TEST_REQUIRE_ALL: a test that cannot run fails; without it, it is skipped with a message.
test: export SLUICE_TEST_REQUIRE_ALL = 1
test:
	@tools/needs rust cc c++ chromium curl dash git git-http-backend gitweb go kill lua5.4 nsenter openssl perl pkg-config prlimit python3 script systemd-analyze valgrind
	@tools/needs python3-bottle python3-django python3-flask python3-setuptools python3-venv python3-wheel perl-headers perl-modules
	@tools/needs libphp php php-cgi adminer dokuwiki
	@tools/needs libpam libldap pam-matrix slapd ldapmodify hg radicale
	@tools/needs apparmor_parser groff logrotate mandoc systemd-analyze
	@$(MAKE) --no-print-directory lint-form sdk test-build
	@$(MAKE) --no-print-directory -j3 --output-sync=target SERVER_IS_BUILT=1 \
		test-rust test-compile test-sdk test-conformance test-bench test-packaging test-h2spec
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-instructions test-models
	@echo "All tests passed."

# Tests wait for processes and timers most of the time, so what only compiles runs beside them, with a lower priority. The build comes first,
# because clippy locks target/debug, which test-rust needs for a moment at its start. The count of instructions is no test to run
# beside others: it takes a processor with a real-time priority.
test-compile:
	@nice -n 10 $(MAKE) --no-print-directory build-demo
	@nice -n 10 $(MAKE) --no-print-directory lint-code

# Both commands of the README, on a minimal Debian 12.
test-fresh:
	@tools/test-fresh

# The debug information goes to a file of its own, to which the binary has a link (.gnu_debuglink). cargo keeps the whole binary in
# target/release/deps and puts it back at each build, so this works however often it runs.
build:
	@tools/needs rust cc objcopy
	@echo "Building the server (a first build takes some minutes)"
	@$(if $(filter 1,$(PGO)),CARGO='$(CARGO)' tools/pgo host '$(SLUICE)',$(CARGO) build --release --locked --bin sluice)
	@$(OBJCOPY) --only-keep-debug $(SLUICE) $(SLUICE).debug
	@$(OBJCOPY) --strip-all --add-gnu-debuglink=$(SLUICE).debug $(SLUICE) $(SLUICE).stripped
	@mv $(SLUICE).stripped $(SLUICE)

sdk:
	@echo "Building the libraries and engines for script authors: sdk/"
	@$(MAKE) --no-print-directory --silent -C sdk/c all
	@$(MAKE) --no-print-directory --silent -C sdk/shell all
	@tools/needs python3
	@$(MAKE) --no-print-directory --silent -C sdk/python all
	@tools/needs perl-headers
	@$(MAKE) --no-print-directory --silent -C sdk/perl all
	@$(MAKE) --no-print-directory --silent -C sdk/php all
	@$(MAKE) --no-print-directory --silent -C sdk/agents all

# It builds nothing of the server, because root often has no cargo. Each language that can be installed has a target `install`. Nothing is
# written outside PREFIX: the configuration of the service is an example, share/doc/sluice/examples.
install:
	@[ -x '$(SLUICE)' ] || { echo "There is no $(SLUICE): run \`make build sdk\` first" >&2; exit 1; }
	@echo "Installing in $(DESTDIR)$(PREFIX)"
	@install -d '$(DESTDIR)$(PREFIX)/bin'
	@install -m 755 '$(SLUICE)' '$(DESTDIR)$(PREFIX)/bin/sluice'
	@packaging/install-files '$(PREFIX)' '$(DESTDIR)'
	@for makefile in $$(grep -l '^install:' sdk/*/Makefile); do \
		$(MAKE) --no-print-directory --silent -C "$${makefile%/Makefile}" install PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' || exit; \
	done

# What `make install` with the same PREFIX and DESTDIR would install is removed, and then the directories that are empty.
uninstall:
	@packaging/uninstall '$(PREFIX)' '$(DESTDIR)'

# With a profile; PGO=0 builds in less than half the time.
deb: PGO ?= 1
deb: deb-needs build sdk
	@packaging/make-deb $(SLUICE) $(TARGET)/deb

# Before the build, because a package without its program would be made otherwise. packaging/licenses reads every crate of the lock file, of which
# a build fetches only those that it compiles.
deb-needs:
	@tools/needs rust debhelper dh_apparmor dpkg-buildpackage git lintian python3 libpam libldap libphp-embed perl-headers
	@$(CARGO) fetch --locked --quiet

test-deb: deb
	@tools/needs debootstrap ip
	@packaging/test-deb $(SLUICE) $(TARGET)/deb

test-systemd: deb
	@tools/needs debootstrap nsenter systemd-nspawn
	@packaging/test-systemd $(TARGET)/deb

dist:
	@packaging/make-dist $(TARGET)/dist

test-container: dist
	@packaging/test-container $(TARGET)/dist

lint: lint-form lint-code

lint-form:
	@echo "Checking form and rules"
	@$(CARGO) fmt --all --check
	@$(CARGO) run --quiet --locked --package tidy

lint-code:
	@echo "Checking lints"
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@tools/check-musl

# The server and all tests, compiled once. `cargo build` would compile most of it again, because tests use more features of tokio.
test-build:
	@echo "Building the server and its tests"
	@$(CARGO) test --locked --workspace --tests --no-run --quiet

# target/debug/sluice
server:
	@[ "$(SERVER_IS_BUILT)" = 1 ] || $(CARGO) build --locked --bin sluice

# Unit, property and integration tests; the last with the real binary. Of examples in doc comments there is one, in sluice-membuf; rustdoc would read
# every other crate for nothing.
test-rust:
	@$(CARGO) test --locked --workspace --tests
	@$(CARGO) test --locked --package sluice-membuf --doc

# What packages contain, without building one.
test-packaging: server sdk
	@packaging/check $(TARGET)/debug/sluice

# The committed inputs of the fuzz targets, through their checks; the fuzzing engine is not needed. `test-rust` does it, too.
test-fuzz:
	@$(CARGO) test --locked --package sluice-fuzz

# Every interleaving of the memory buffer's two sides, within bounds.
test-models:
	@RUSTFLAGS="--cfg loom" $(CARGO) test --locked --package sluice-membuf --lib --release --target-dir target/loom loom

# The conformance of HTTP/2.
test-h2spec: server
	@tools/h2spec target/debug/sluice

test-sdk: sdk server
	@python3 -B -m unittest discover -s sdk/testing/tests
	@$(MAKE) --no-print-directory -C sdk/c test
	@$(MAKE) --no-print-directory -C sdk/python test
	@$(MAKE) --no-print-directory -C sdk/perl test
	@$(MAKE) --no-print-directory -C sdk/php test
	@$(MAKE) --no-print-directory -C sdk/lua test
	@$(MAKE) --no-print-directory -C sdk/shell test
	@$(MAKE) --no-print-directory -C sdk/agents test

# The same behaviours in every language and mode (conformance/README.md), and the page that says so; then, for less than
# a minute together, all of them at once, faults of many kinds, and the bounds of memory. `make soak chaos bounds` are the long forms.
test-conformance: sdk server
	@python3 -B -m unittest discover -s conformance/tests
	@SLUICE=target/debug/sluice conformance/run --check docs/reference/conformance.md
	@SLUICE=target/debug/sluice conformance/soak --seconds 5 --quiet
	@SLUICE=target/debug/sluice conformance/chaos --rounds 1 --seconds 25 --clients 16 --column c-cgi --column rte --quiet
	@SLUICE=target/debug/sluice conformance/bounds --seconds 2 --queue 300 --recycled 50

# The benchmark's reading of its tools, its arithmetic and its plan; no other server is needed.
test-bench:
	@python3 -m unittest discover -s bench/tests -t bench

# The server as `make demo` builds it, and the program that counts its instructions.
build-demo:
	@$(CARGO) build --quiet --profile demo --locked --package sluice --package sluice-instructions --bin sluice --bin instructions

# Instructions of each request of Sluice against the bounds in bench/instructions/table.md.
test-instructions: sdk build-demo
	@tools/needs openssl python3
	@cd bench && python3 -B -m sluicebench.instructions --sluice '$(abspath $(TARGET)/demo/sluice)' --counter '$(COUNTER)' --check

docs: build
	@$(SLUICE) reference > docs/reference/configuration.md
	@$(CARGO) doc --locked --workspace --no-deps

bench: build sdk
	@echo "Measuring for some 33 minutes: let the machine be quiet (bench/README.md)"
	@bench/setup
	@python3 bench $(BENCH)

bench-quick: build sdk
	@bench/setup
	@python3 bench --quick $(BENCH)

bench-watch: build sdk
	@cd bench && python3 -B -m sluicebench.beside_watch --sluice '$(abspath $(SLUICE))' $(BENCH)

soak: build sdk
	@tools/needs python3 perl php php-cgi
	@SLUICE=$(SLUICE) conformance/soak --seconds $(SOAK_SECONDS)

chaos: build sdk
	@tools/needs python3 perl php php-cgi openssl
	@SLUICE=$(SLUICE) conformance/chaos $(CHAOS)

bounds: build sdk
	@tools/needs python3
	@SLUICE=$(SLUICE) conformance/bounds --seconds 60

fuzz:
	@fuzz/run $(FUZZ_SECONDS)

# The limit is built like the server. SERVERS and ROWS: some of them, with commas; PROFILE: a row.
instructions: build sdk
	@tools/needs openssl python3
	@$(CARGO) build --profile demo --locked --package sluice-instructions
	@$(MAKE) --no-print-directory --silent -C bench/programs ../build/limit
	@$(MAKE) --no-print-directory --silent -C bench/programs ../build/fastcgi_test || echo "No FastCGI program: the peers go without it."
	@cd bench && python3 -B -m sluicebench.instructions --sluice '$(abspath $(SLUICE))' --counter '$(COUNTER)' \
		$(if $(SERVERS),--servers '$(SERVERS)') $(if $(ROWS),--rows '$(ROWS)') $(if $(PROFILE),--profile '$(PROFILE)')

clean:
	@$(CARGO) clean
	@$(MAKE) --no-print-directory -C sdk/c clean
	@$(MAKE) --no-print-directory -C sdk/python clean
	@$(MAKE) --no-print-directory -C sdk/perl clean
	@$(MAKE) --no-print-directory -C sdk/php clean
	@$(MAKE) --no-print-directory -C sdk/agents clean
