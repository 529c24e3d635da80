#!/usr/bin/env bash
# Installs missing dependencies, with a line of output for each step:
#
#   install.sh go     what `make build` needs: Go, of the version in go.mod
#   install.sh all    also what tests and the demonstration need (the default)
#   install.sh kafka  only Kafka, for ../images
#
# System packages come from apt-get, by sudo unless root; no server of the
# system is started, enabled or configured. The rest goes to the cache
# directory, $SWH_SCHEDULER_CACHE or else swh-scheduler in the user's cache: Go
# by way of the Go module proxy, Kafka by Maven, swh.scheduler and Sphinx by pip, axe by npm, each with the
# settings that the environment gives it (GOPROXY, ~/.m2/settings.xml, PIP_…, ~/.npmrc).
#
# Other versions than the default ones are kept beside them, if these variables name some:
# SWH_TEST_POSTGRES_VERSION (13.23.0; by Maven), SWH_TEST_KAFKA_VERSION (4.4.0)
# and SWH_TEST_CELERY_VERSION (5.3: one of python/celery-*.txt).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SWH_SCHEDULER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swh-scheduler}
log=$cache/install.log
mkdir -p "$cache"

# Several may run at once (make -j, two terminals): one installs, others wait.
exec 9>"$cache/install.lock"
flock 9

fail() {
	printf 'install: %s\n' "$*" >&2
	exit 1
}

# step SAYS COMMAND... runs a command quietly, and shows its output if it fails, and $advice. A
# function stops at its first failing command: so the subshell is no part of an
# "if", a "!" or a list, where Bash ignores "set -e" in all that it runs. What it
# starts doesn't inherit the lock.
step() {
	local code
	printf 'install: %s\n' "$1" >&2
	shift
	set +e
	(set -e && "$@") >"$log" 2>&1 </dev/null 9>&-
	code=$?
	set -e
	[ $code = 0 ] || {
		tail -n 40 "$log" >&2
		fail "failed: $* (all of its output: $log)${advice:+
install: $advice}"
	}
}

have() { command -v "$1" >/dev/null 2>&1; }

# --- system packages -------------------------------------------------------

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

# Packages start their servers at installation and at boot; these settings prevent that.
keep_servers_down() {
	undo=()
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
		as_root chmod 755 /usr/sbin/policy-rc.d
		undo+=(/usr/sbin/policy-rc.d)
	fi
	local dropin=/etc/postgresql-common/createcluster.d/swh-scheduler.conf
	as_root mkdir -p "${dropin%/*}"
	echo 'create_main_cluster = false' | as_root tee "$dropin" >/dev/null
	undo+=("$dropin")
	trap 'as_root rm -f "${undo[@]}"' EXIT
}

# Services that packages enable; only their programs are needed.
daemons="epmd.socket epmd.service pgbouncer.service postgresql.service prometheus.service rabbitmq-server.service"

# enabled lists those of them that start at boot.
enabled() {
	local unit
	for unit in $daemons; do
		if have systemctl; then
			systemctl --root=/ --quiet is-enabled "$unit" 2>/dev/null
		else
			compgen -G "/etc/rc[2-5].d/S??${unit%.service}" >/dev/null
		fi && echo "$unit"
	done
	return 0
}

disable() {
	if have systemctl; then as_root systemctl --root=/ disable "$1"; else as_root update-rc.d "${1%.service}" disable; fi
}

apt_install() {
	local before unit
	if ! have apt-get; then
		echo "install: missing, and no apt-get to install them with: $*" >&2
		exit 3 # ./run then tries a container
	fi
	[ "$(id -u)" = 0 ] || have sudo || fail "as root, run: apt-get install $*"
	export DEBIAN_FRONTEND=noninteractive
	before=$(enabled)
	keep_servers_down
	step "reading the package lists" as_root apt-get -q update
	step "installing packages: $*" as_root apt-get -q -y --no-install-recommends \
		-o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 install "$@"
	for unit in $(enabled); do
		grep -qx "$unit" <<<"$before" || step "keeping $unit from starting at boot" disable "$unit"
	done
}

# --- Go --------------------------------------------------------------------

go_wanted=$(sed -n 's/^go //p' "$here/../../go.mod")
go_dir=$cache/go$go_wanted

go_is_new_enough() {
	local version
	version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
	printf '%s\n%s\n' "$go_wanted" "${version#go}" | sort --check=quiet --version-sort
}

need_go() {
	[ -x "$go_dir/bin/go" ] || go_is_new_enough || {
		have go || echo golang-go
		[ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates # to fetch a newer one
	}
}

# Any Go can fetch the module that holds a newer one; where Go would use it from
# the module cache by itself, it needs to be 1.21 or more and allowed to.
install_go() {
	[ -x "$go_dir/bin/go" ] || go_is_new_enough || step "fetching Go $go_wanted from the Go module proxy" fetch_go
}

fetch_go() {
	local new=$go_dir.new module
	module="golang.org/toolchain@v0.0.1-go$go_wanted.$(go env GOOS)-$(go env GOARCH)"
	rm -rf "$new"
	mkdir "$new"
	# Away from our go.mod, which an old Go cannot read.
	(cd "$new" && GOFLAGS=-modcacherw GOPATH=$new GOMODCACHE=$new/mod GOTOOLCHAIN=local go mod download "$module")
	mv "$new/mod/$module" "$new/go"
	# Module files are never executable.
	chmod -R u+w "$new/go"
	chmod +x "$new/go"/bin/* "$new/go"/pkg/tool/*/*
	"$new/go/bin/go" version
	rm -rf "$go_dir"
	mv "$new/go" "$go_dir"
	rm -rf "$new"
}

# --- servers ---------------------------------------------------------------

# servers_given: the environment names servers, or Docker has or gets images of
# them (the same choice as internal/testenv/throwaway makes).
servers_given() {
	[ -z "${SWH_TEST_POSTGRES_URL:-}" ] || [ -z "${SWH_TEST_RABBITMQ_URL:-}" ] ||
		[ -z "${SWH_TEST_RABBITMQ_MANAGEMENT_URL:-}" ] || [ -z "${SWH_TEST_KAFKA_BROKERS:-}" ] || return 0
	[ "${SWH_TEST_SERVICES:-}" != local ] && have docker && timeout 10 docker info >/dev/null 2>&1 &&
		image "${SWH_TEST_POSTGRES_IMAGE:-}" postgres:15 swh-scheduler-postgres:local &&
		image "${SWH_TEST_RABBITMQ_IMAGE:-}" rabbitmq:3.13-management swh-scheduler-rabbitmq:local &&
		image "${SWH_TEST_KAFKA_IMAGE:-}" apache/kafka:3.9.1 swh-scheduler-kafka:local
}

image() {
	local name
	for name in ${1:-$2 $3}; do
		docker image inspect "$name" >/dev/null 2>&1 && return 0
	done
	printf 'install: pulling the image %s\n' "${1:-$2}" >&2
	timeout 600 docker pull -q "${1:-$2}" >"$log" 2>&1 </dev/null
}

kafka=$cache/kafka${SWH_TEST_KAFKA_VERSION:+-$SWH_TEST_KAFKA_VERSION}
kafka_is_current() { cmp -s "$here/kafka/pom.xml" "$kafka/pom.xml"; }

postgres=${SWH_TEST_POSTGRES_VERSION:+$cache/postgresql-$SWH_TEST_POSTGRES_VERSION}

need_servers() {
	if [ -n "$postgres" ]; then
		[ -d "$postgres" ] || { have mvn || echo maven; have xz || echo xz-utils; }
	else
		ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || have postgres || echo postgresql
	fi
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || have rabbitmq-server || echo rabbitmq-server
}

# Also where Kafka runs in Docker: some tests start clusters of their own, to kill
# their brokers.
need_kafka() {
	have java || echo default-jre-headless
	kafka_is_current || have mvn || echo maven
}

dependency=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

fetch_kafka() {
	rm -rf "$kafka.new"
	mvn -B -q -C -f "$here/kafka/pom.xml" ${SWH_TEST_KAFKA_VERSION:+"-Dkafka.version=$SWH_TEST_KAFKA_VERSION"} \
		$dependency:copy-dependencies -DoutputDirectory="$kafka.new"
	cp "$here/kafka/pom.xml" "$kafka.new/"
	rm -rf "$kafka"
	mv "$kafka.new" "$kafka"
}

install_kafka() { kafka_is_current || step "fetching Kafka${SWH_TEST_KAFKA_VERSION:+ $SWH_TEST_KAFKA_VERSION} by Maven" fetch_kafka; }

# Only the servers' programs, of any version, in an archive in an archive.
fetch_postgres() {
	local machine
	machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64v8/')
	rm -rf "$postgres.new" "$postgres.jar"
	mkdir "$postgres.new" "$postgres.jar"
	cd "$postgres.jar" # where the plugin leaves notes of what it has unpacked
	mvn -B -q -C $dependency:unpack -DoutputDirectory="$postgres.jar" \
		-Dartifact="io.zonky.test.postgres:embedded-postgres-binaries-linux-$machine:$SWH_TEST_POSTGRES_VERSION"
	tar -C "$postgres.new" -xJf "$postgres.jar"/*.txz
	rm -rf "$postgres.jar"
	mv "$postgres.new" "$postgres"
}

install_postgres() {
	[ -z "$postgres" ] || [ -d "$postgres" ] || step "fetching PostgreSQL $SWH_TEST_POSTGRES_VERSION by Maven" fetch_postgres
}

# --- Python ----------------------------------------------------------------

python=$cache/python${SWH_TEST_CELERY_VERSION:+-$SWH_TEST_CELERY_VERSION}
requirements=("$here/python/requirements.txt" ${SWH_TEST_CELERY_VERSION:+"$here/python/celery-$SWH_TEST_CELERY_VERSION.txt"})
archive_requirements=$here/python/archive.txt
docs_requirements=$here/python/docs.txt

# is_current ENVIRONMENT REQUIREMENTS...
is_current() { cat "${@:2}" | cmp -s - "$1/requirements.txt"; }

need_python() {
	have psql || echo postgresql-client # the Python scheduler makes its tables with it
	ls /usr/lib/*/libmagic.so.1 >/dev/null 2>&1 || echo libmagic1 # the archive's listers load it
	{ [ -n "${SWH_TEST_PYTHON:-}" ] || is_current "$python" "${requirements[@]}"; } &&
		is_current "$cache/archive" "$archive_requirements" &&
		is_current "$cache/docs" "$docs_requirements" ||
		python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

# make_python ENVIRONMENT REQUIREMENTS... makes it in place, as its programs hold its
# path; the copy of the requirements, which says that it is whole, comes last.
make_python() {
	local file
	rm -rf "$1"
	python3 -m venv "$1"
	for file in "${@:2}"; do # a later one replaces packages
		"$1/bin/pip" install --require-hashes -r "$file"
	done
	"$1/bin/pip" check
	cat "${@:2}" >"$1/new"
	mv "$1/new" "$1/requirements.txt"
}

pip_advice="the package that pip names must be on its index (PIP_INDEX_URL names another) for this Python \
and this machine; one that is built here needs a compiler and Python's headers (apt-get install gcc python3-dev)"

install_python() {
	local advice=$pip_advice
	[ -n "${SWH_TEST_PYTHON:-}" ] || is_current "$python" "${requirements[@]}" ||
		step "installing the Python scheduler and Celery by pip" make_python "$python" "${requirements[@]}"
	is_current "$cache/archive" "$archive_requirements" ||
		step "installing the archive's own parts by pip" make_python "$cache/archive" "$archive_requirements"
	is_current "$cache/docs" "$docs_requirements" ||
		step "installing Sphinx by pip" make_python "$cache/docs" "$docs_requirements"
}

# --- a browser -------------------------------------------------------------

# The checker of pages' accessibility, and its checksum.
axe=axe-core-4.14.1
axe_sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

need_browser() {
	have chromium-headless-shell || have chromium || echo chromium-headless-shell
	[ -e "$cache/$axe.js" ] || have npm || echo npm
}

fetch_axe() {
	rm -rf "$cache/axe.new"
	mkdir "$cache/axe.new"
	cd "$cache/axe.new"
	npm pack "${axe%-*}@${axe##*-}"
	echo "$axe_sum $axe.tgz" | sha256sum --check
	tar -xzf "$axe.tgz" package/axe.min.js
	mv package/axe.min.js "$cache/$axe.js"
	rm -rf "$cache/axe.new"
}

install_axe() { [ -e "$cache/$axe.js" ] || step "fetching $axe by npm" fetch_axe; }

# ---------------------------------------------------------------------------

need_tools() {
	have git || echo git
	[ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
	# Units, and alerts and dashboards, are checked by their own tools.
	have systemd-analyze || echo systemd
	have promtool || echo prometheus
	# Releases are signed with it.
	have ssh-keygen || echo openssh-client
	# Between our daemons and PostgreSQL, in a test.
	[ -x /usr/sbin/pgbouncer ] || have pgbouncer || echo pgbouncer
	# The forge for the archive's lister and loader.
	[ -e /usr/share/gitweb/gitweb.cgi ] || echo gitweb
	perl -MCGI -e 1 2>/dev/null || echo libcgi-pm-perl
	# The race detector needs a C compiler.
	if ! have gcc || [ ! -e /usr/include/stdlib.h ]; then echo gcc libc6-dev; fi
}

case ${1:-all} in
go)
	packages=$(need_go)
	;;
all)
	packages=$(need_go; need_tools; need_python; need_kafka; need_browser; servers_given || need_servers)
	;;
kafka)
	packages=$(need_kafka)
	;;
*)
	fail "usage: install.sh [go|all|kafka]"
	;;
esac
# shellcheck disable=SC2086 # one word a package
[ -z "$packages" ] || apt_install $packages
case ${1:-all} in
go) install_go ;;
all)
	install_go
	install_python
	install_kafka
	install_postgres
	install_axe
	;;
kafka) install_kafka ;;
esac
