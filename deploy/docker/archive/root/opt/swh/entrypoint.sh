#!/bin/bash
# The entry point of the archive image: "shell [COMMAND...]", "swh ARGUMENT..." or, with anything else, the RPC
# server, on PORT. SWH_LOG_LEVEL, SWH_LOG_CONFIG_JSON (a file) and STATSD_... are as in the Python scheduler's
# image. WORKERS times THREADS bound the connections to the database. TIMEOUT has no effect.
set -e

case ${1:-} in
shell)
	shift
	[ $# -gt 0 ] || set -- bash -i
	exec "$@"
	;;
swh)
	exec "$@"
	;;
esac
options=(--bind "0.0.0.0:${PORT:-5008}" --log-level "${SWH_LOG_LEVEL:-info}")
[ -z "${SWH_LOG_CONFIG_JSON:-}" ] || options+=(--log-config-json "$SWH_LOG_CONFIG_JSON")
exec gunicorn "${options[@]}" --workers "${WORKERS:-2}" --threads "${THREADS:-2}" --timeout "${TIMEOUT:-3600}" \
	'swh.scheduler.api.server:make_app_from_configfile()'
