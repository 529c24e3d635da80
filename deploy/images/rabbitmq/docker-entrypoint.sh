#!/bin/sh
# Debian keeps the server proper, as against its wrapper for root, out of PATH.
PATH=/usr/lib/rabbitmq/bin:$PATH
export PATH
exec "$@"
