#!/usr/bin/env bash
# Builds images of PostgreSQL, RabbitMQ, Kafka and Go from Debian packages, Maven
# artifacts and the Go module proxy, for machines whose Docker reaches no
# registry. They have the same settings as the official images. Tests use them
# if those are missing, and ../docker has an option for them. It needs root (for
# debootstrap) and a Docker daemon.
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

"$here/../local/install.sh" go
"$here/../local/install.sh" kafka
PATH=$cache/go$(sed -n 's/^go //p' "$here/../../go.mod")/bin:$PATH
contexts=$(mktemp -d)
trap 'rm -rf "${root:-}" "$contexts"' EXIT
for service in postgres rabbitmq kafka golang; do
	context=$contexts/$service
	cp -R "$here/$service" "$context"
	# The context includes files from outside the repository.
	case $service in
	kafka) cp -R "$cache/kafka" "$context/libs" ;;
	golang)
		cp -R "$(go env GOROOT)" "$context/go"
		(cd "$here/../.." && GOFLAGS=-modcacherw GOMODCACHE=$contexts/modules go mod download)
		mv "$contexts/modules/cache/download" "$context/modules"
		;;
	esac
	# The host's network: a machine without a registry may have no bridge.
	docker build --network host --build-arg BASE=$base \
		-t "swh-scheduler-$service:local" "$context"
done
