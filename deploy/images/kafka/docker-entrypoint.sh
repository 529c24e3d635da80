#!/bin/sh
# Takes its configuration as the official image does: KAFKA_NODE_ID=1 becomes
# node.id=1.
set -eu
config=$HOME/server.properties
env | awk -F= '/^KAFKA_/ && $1 != "KAFKA_HEAP_OPTS" {
	key = tolower(substr($1, 7)); gsub("_", ".", key)
	print key substr($0, length($1) + 1)
}' >"$config"
echo "log.dirs=$HOME/data" >>"$config"
run() { exec java ${KAFKA_HEAP_OPTS:-} -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' "$@"; }
(run kafka.tools.StorageTool format --cluster-id "$(cat /proc/sys/kernel/random/uuid)" --config "$config")
run kafka.Kafka "$config"
