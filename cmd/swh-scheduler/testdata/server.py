"""A Python RPC server: the Python scheduler's scheduler on a database (server.py scheduler
DSN [PORT]), or an archive's storage in memory that knows some origins (server.py storage
URL...). It prints its port, and ends with its standard input."""

import logging
import sys
import threading

from werkzeug.serving import make_server

logging.disable(logging.CRITICAL)
what, *arguments = sys.argv[1:]
port = 0
if what == "scheduler":
    from swh.scheduler import get_scheduler
    from swh.scheduler.api import server

    server.scheduler = get_scheduler("postgresql", db=arguments[0])
    port = int(arguments[1]) if arguments[1:] else 0
else:
    from swh.model.model import Origin
    from swh.storage import get_storage
    from swh.storage.api import server

    server.storage = get_storage("memory")
    server.storage.origin_add([Origin(url=url) for url in arguments])
http = make_server("127.0.0.1", port, server.app, threaded=True)
print(http.server_port, flush=True)
threading.Thread(target=http.serve_forever, daemon=True).start()
sys.stdin.read()
