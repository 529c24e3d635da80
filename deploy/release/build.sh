#!/usr/bin/env bash
# build.sh VERSION [PLATFORM]... makes a release in bin/release: for each platform
# an archive of the program, its licence and those of the modules in it, units and sample
# configurations, a .deb and a .rpm of the same (../packages), and a bill of materials
# (CycloneDX). It writes the checksums of all, signed if RELEASE_KEY names a key (see sign).
#
# Everything is built twice, the second time from a copy of the sources elsewhere
# and with an empty cache, and must have the same bytes. So a build of the same commit
# with the same Go equals the release. With RELEASE_CACHE=shared the second build uses
# the first one's compiled packages, and takes seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1
shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64
[[ $version =~ ^[0-9A-Za-z][0-9A-Za-z.+-]*$ ]] || {
	echo "build.sh: \"$version\" is no version" >&2
	exit 1
}
# A release requires a check for known vulnerabilities.
if [[ $version =~ ^v?[0-9]+(\.[0-9]+)+$ || -n ${RELEASE_KEY:-} ]]; then
	.ci/vulncheck --strict
fi
# The time of all files in the archives: that of the commit.
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
out=bin/release
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out" "$work/copy" "$work/cache"
cache=$work/cache
[ "${RELEASE_CACHE:-}" != shared ] || cache=$(go env GOCACHE)
go build -C test -o "$work/sbom" ./sbom
go build -C deploy/packages -o "$work/packages" .
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/copy"

# licences DIRECTORY puts the licence of Go, and those of the modules in its program, into
# LICENSES, by their names.
licences() {
	local module version source
	mkdir "$1/LICENSES"
	cp "$(go env GOROOT)/LICENSE" "$1/LICENSES/go"
	go version -m "$1/swh-scheduler" | awk '$1 == "dep" { print $2, $3 }' | while read -r module version; do
		source=$(go list -m -f '{{.Dir}}' "$module@$version")
		mkdir -p "$1/LICENSES/$module"
		find "$source" -maxdepth 1 -type f -regextype posix-extended -iregex '.*/((un)?licen[cs]e|copying|notice|patents)([.-].*)?' \
			-exec cp --no-preserve=mode {} "$1/LICENSES/$module/" \;
		if rmdir "$1/LICENSES/$module" 2>/dev/null; then
			echo "build.sh: $module@$version has no licence" >&2
			exit 1
		fi
	done
}

# build OS/ARCHITECTURE TARGET: of the sources in the current directory.
build() {
	local name=swh-scheduler-$version-${1/\//-}
	local dir=$2/$name
	mkdir -p "$dir"
	# The flags of deploy/docker/Dockerfile.
	CGO_ENABLED=0 GOOS=${1%/*} GOARCH=${1#*/} GOFLAGS= GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
		go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.release=$version" \
		-o "$dir/swh-scheduler" ./cmd/swh-scheduler
	[ "$(wc -c <"$dir/swh-scheduler")" -lt 40000000 ] || {
		echo "build.sh: the program has grown to $(wc -c <"$dir/swh-scheduler") bytes; an image of it is to stay under 41 MB (what is new in it: go tool nm -size -sort size)" >&2
		exit 1
	}
	cp -R LICENSE README.md CHANGELOG.md docs deploy/systemd deploy/config "$dir/"
	cp -RL deploy/prometheus deploy/grafana "$dir/" # links to files of the chart
	rm -rf "$dir"/docs/{*.go,conf.py,testdata} # of the checks and of Sphinx
	rm "$dir/prometheus/alerts_test.yml"
	licences "$dir"
	"$work/sbom" "$dir/swh-scheduler" >"$2/$name.cdx.json"
	tar --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w,a+X --format=ustar \
		-C "$2" -c "$name" | gzip -9 -n >"$2/$name.tar.gz"
	SOURCE_DATE_EPOCH=$when "$work/packages" "$dir" "$version" "${1#*/}" "$2"
	rm -rf "$dir"
}

for platform in "$@"; do
	echo "building $version for $platform, twice" >&2
	build "$platform" "$PWD/$out"
	mkdir "$work/again"
	(cd "$work/copy" && GOCACHE=$cache build "$platform" "$work/again")
	for file in "$work/again"/*; do
		cmp "$file" "$out/${file##*/}" || {
			echo "build.sh: ${file##*/} did not come out the same twice" >&2
			exit 1
		}
	done
	rm -rf "$work/again"
done
deploy/release/sign "$out"
cat "$out/SHA256SUMS"
