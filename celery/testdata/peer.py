"""Celery itself, to compare with: one JSON request a line on standard input,
one JSON answer a line on standard output. The broker's URL is the argument."""

import base64
from datetime import datetime
import json
import os
import sys
import time

# Keep the Python scheduler's own configuration files out of it.
os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from celery.utils.saferepr import saferepr  # noqa: E402
from kombu import Connection, compression  # noqa: E402
from kombu.utils.json import dumps  # noqa: E402

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

app = build_app({"task_broker": sys.argv[1]})
connection = app.connection_for_read()  # connects when first used


def send(name, args, kwargs, options):
    for key in ("eta", "expires"):
        if key in options:
            options[key] = datetime.fromisoformat(options[key])
    # As JSON texts, the arguments reach Celery through Python's own parser.
    args = None if args is None else json.loads(args)
    kwargs = None if kwargs is None else json.loads(kwargs)
    app.send_task(name, args=args, kwargs=kwargs, **options)


def get(queue):
    """The next message of a queue, down to which properties it has."""
    # Celery publishes without confirms: its message may not be in the queue yet.
    deadline = time.monotonic() + 30
    while True:
        message = connection.default_channel.basic_get(queue, no_ack=True)
        if message is not None:
            break
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    properties = dict(message.properties)
    headers = properties.pop("application_headers", None)
    body = message.body
    if isinstance(body, str):
        body = body.encode()
    return {
        "properties": properties,
        "headers": headers,
        "body": base64.b64encode(body).decode(),
    }


def represent(text):
    """How Celery shows and encodes a JSON text."""
    value = json.loads(text)
    return {"repr": saferepr(value, 1024), "json": dumps(value)}


def addresses(urls):
    """Where Celery would connect to, one address after the other."""
    c = Connection(urls)
    found = []
    for i in range(len(c.alt) or 1):
        if i > 0:
            c.maybe_switch_next()
        params = c.transport.default_connection_params
        found.append(
            {
                "host": c.hostname or params["hostname"],
                "port": c.port or params["port"],
                "user": c.userid or params["userid"],
                "password": c.password or params["password"],
                "vhost": c.virtual_host,
            }
        )
        # Connecting leaves the defaults behind, which the next address inherits.
        c.port = c.port or params["port"]
    return found


def compressions():
    """The content types of the ways to compress, by all their names."""
    return compression._aliases | {t: t for t in compression.encoders()}


def decompress(body, content_type):
    return compression.decompress(base64.b64decode(body), content_type).decode()


operations = {
    "send": send,
    "get": get,
    "represent": represent,
    "addresses": addresses,
    "compressions": compressions,
    "decompress": decompress,
}

for line in sys.stdin:
    request = json.loads(line)
    operation = operations[request.pop("operation")]
    try:
        answer = {"answer": operation(**request)}
    except Exception as e:
        answer = {"error": repr(e)}
    print(json.dumps(answer), flush=True)
