#!/bin/sh
# Makes a cluster and becomes its server; arguments are as for the official
# image: "postgres" and its options.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
PGDATA=/var/lib/postgresql/data
export PATH PGDATA
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	initdb --username postgres --auth "${POSTGRES_HOST_AUTH_METHOD:-trust}" \
		--encoding UTF8 --locale C.UTF-8 --no-sync
	echo "host all all all ${POSTGRES_HOST_AUTH_METHOD:-trust}" >>"$PGDATA/pg_hba.conf"
fi
exec "$@"
