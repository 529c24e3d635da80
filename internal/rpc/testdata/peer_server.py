"""The Python scheduler's RPC server on a database (peer_server.py DSN). It prints its port,
and ends with its standard input."""

import logging
import sys
import threading

from werkzeug.serving import make_server

from swh.scheduler import get_scheduler
from swh.scheduler.api import server

logging.disable(logging.CRITICAL)
server.scheduler = get_scheduler("postgresql", db=sys.argv[1])
http = make_server("127.0.0.1", 0, server.app, threaded=True)
print(http.server_port, flush=True)
threading.Thread(target=http.serve_forever, daemon=True).start()
sys.stdin.read()
