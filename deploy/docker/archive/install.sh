#!/bin/sh
# install.sh prepares a Debian for the archive image: the tools that the archive's charts and compose file
# run in the scheduler's containers, the user swh, and its directories.
set -eu

export DEBIAN_FRONTEND=noninteractive
apt-get update
# bash, awk and tee: scripts of the charts (check-backend-version.sh). curl: health checks. wait-for-it, jq and
# python3: the entry point of the compose file. envsubst and hostname: prepare-configuration.sh.
apt-get install -y --no-install-recommends \
	bash ca-certificates curl gettext-base hostname jq mawk python3-minimal wait-for-it
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old

groupadd --gid 1000 swh
useradd --uid 1000 --gid 1000 --home-dir /opt/swh --no-create-home --shell /bin/bash swh
mkdir -p /etc/swh /opt/swh /srv/softwareheritage
chown swh:swh /etc/swh /opt/swh /srv/softwareheritage
# Charts mount a directory over /etc/swh, compose a file at the second path.
ln -s /srv/softwareheritage/config.yml /etc/swh/config.yml
ln -s /opt/swh/entrypoint.sh /srv/softwareheritage/entrypoint.sh
# Links with the names of the Python commands.
ln -s swh-scheduler /usr/bin/swh
ln -s swh-scheduler /usr/bin/gunicorn
