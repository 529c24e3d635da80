"""Python imports this module when it starts, as tests have this directory in PYTHONPATH.

At its end a process closes its connections to the broker. The Python scheduler just exits, and the
broker may lose the last messages, or has not read them when a test looks."""

import atexit
import gc
import sys


@atexit.register
def close_connections():
    if amqp := sys.modules.get("amqp"):
        for found in gc.get_objects():
            if isinstance(found, amqp.Connection) and found.connected:
                found.close()
