# The functions of the compose file's image for databases, for the scheduler's.

# pg_service SERVICE HOST PORT DATABASE USER PASSWORD describes a database in ~/.pg_service.conf and ~/.pgpass.
pg_service() {
	printf '[%s]\nhost=%s\nport=%s\ndbname=%s\nuser=%s\n\n' "$1" "$2" "$3" "$4" "$5" >>~/.pg_service.conf
	printf '%s:%s:%s:%s:%s\n' "$2" "$3" template1 "$5" "$6" "$2" "$3" "$4" "$5" "$6" >>~/.pgpass
	echo "database service $1: $4 on $2:$3 as $5"
}

# setup_pgsql describes the databases that POSTGRES_DB, or PGCFG_0 and so on, name.
setup_pgsql() {
	local i name of
	[ -n "${POSTGRES_DB:-}${PGCFG_0:-}" ] || return 0
	: >~/.pg_service.conf
	: >~/.pgpass
	chmod 600 ~/.pgpass
	if [ -n "${POSTGRES_DB:-}" ]; then
		pg_service "$POSTGRES_DB" "${PGHOST:-$POSTGRES_DB-db}" "${PGPORT:-5432}" "$POSTGRES_DB" "${PGUSER:-postgres}" "${PGPASSWORD:-testpassword}"
	fi
	for i in {0..10}; do
		of=PGCFG_$i
		name=${!of:-}
		[ -n "$name" ] || break
		local host=PGHOST_$i port=PGPORT_$i database=POSTGRES_DB_$i user=PGUSER_$i password=PGPASSWORD_$i
		pg_service "$name" "${!host:-$name-db}" "${!port:-5432}" "${!database:-$name}" "${!user:-postgres}" "${!password:-testpassword}"
	done
	# Passwords come from the files, for every database.
	unset PGPASSWORD
}

# wait_pgsql waits until the scheduler's database takes connections.
wait_pgsql() {
	echo "waiting for the database"
	until swh -l error db version scheduler >/dev/null 2>&1; do
		sleep 1
	done
}

# swh_setup_db scheduler [OPTION] makes the schema, or brings it up to date.
swh_setup_db() {
	wait_pgsql
	swh db init-admin ${2:+"$2"} "$1"
	swh db init ${2:+"$2"} "$1"
	swh db upgrade ${2:+"$2"} --non-interactive "$1"
}
