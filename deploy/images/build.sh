#!/usr/bin/env bash
# Builds images of PostgreSQL, RabbitMQ and Kafka from Debian packages and Maven
# artifacts, for tests on machines whose Docker can reach no registry. They take
# the same settings as the official images; tests use them where those are
# missing. Needs root (for debootstrap) and a Docker daemon.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SWH_SCHEDULER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swh-scheduler}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
base=swh-scheduler-debian:local

if ! docker image inspect $base >/dev/null 2>&1; then
	command -v debootstrap >/dev/null || {
		echo "build.sh: debootstrap is missing: apt-get install debootstrap" >&2
		exit 1
	}
	root=$(mktemp -d)
	trap 'rm -rf "$root"' EXIT
	debootstrap --variant=minbase "$suite" "$root" "$mirror"
	tar -C "$root" -c . | docker import - $base
fi

"$here/../local/install.sh" kafka
for service in postgres rabbitmq kafka; do
	context=$here/$service
	if [ $service = kafka ]; then
		# The jars are not in the repository: send them along.
		context=$(mktemp -d)
		trap 'rm -rf "${root:-}" "$context"' EXIT
		cp "$here/kafka/"* "$context/"
		cp -R "$cache/kafka" "$context/libs"
	fi
	# The host's network: where there is no registry, there may be no bridge.
	docker build --network host --build-arg BASE=$base \
		-t "swh-scheduler-$service:local" "$context"
done
