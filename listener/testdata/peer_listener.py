"""The Python scheduler's own handling of event messages, without a broker.

usage: peer_listener.py DSN

Reads message bodies, one a line, from standard input, passes each to the
callback that the Python scheduler's listener gives to pika, and answers each with a line.
"""

import logging
import sys

from swh.scheduler import get_scheduler
from swh.scheduler.celery_backend.pika_listener import get_on_message


class Channel:
    """Stands for pika's channel, of which the callback uses one method."""

    def basic_ack(self, delivery_tag):
        print("done", flush=True)


class Frame:
    delivery_tag = 1


logging.disable(logging.WARNING)  # unknown runs
on_message = get_on_message(get_scheduler("postgresql", db=sys.argv[1]))
for line in sys.stdin.buffer:
    on_message(Channel(), Frame(), None, line)
