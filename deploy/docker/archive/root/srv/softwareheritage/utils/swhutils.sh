# The functions of the compose file's image that the scheduler's entry point calls.

swh_start_rpc() {
	exec gunicorn --bind "0.0.0.0:${RPC_PORT:-5008}" --log-level "${LOG_LEVEL:-info}" --workers "${GUNICORN_WORKERS:-4}" \
		--threads "${GUNICORN_THREADS:-2}" --timeout "${GUNICORN_TIMEOUT:-3600}" "swh.$1.api.server:make_app_from_configfile()"
}

# wait-for-http URL waits until a URL answers.
wait-for-http() {
	until curl --silent --output /dev/null --fail --location "$1"; do
		sleep 1
	done
}

# wait-for-topic URL TOPIC waits until a topic is there, by Kafka's REST proxy.
wait-for-topic() {
	local cluster
	cluster=$(curl --silent "$1/v3/clusters/" | jq -r '.data[0].cluster_id')
	wait-for-http "$1/v3/clusters/$cluster/topics/$2"
}
