"""Tasks for the chaos test, built on the Python scheduler's own task class. Each
execution is noted in a file as it begins and as it ends or fails; a visit is written to the
journal in between, as loaders and the archive do."""

import datetime
import json
import os
import time
import zlib

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from celery.worker.consumer.delayed_delivery import DelayedDelivery  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from kombu import Exchange, Queue  # noqa: E402
import msgpack  # noqa: E402

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

# Nothing here has an ETA; without this Celery makes 28 more quorum queues.
DelayedDelivery.include_if = lambda self, c: False

app = build_app({"task_broker": os.environ["TEST_BROKER"]})
app.conf.task_queues = [
    Queue(name, Exchange(name), routing_key=name, queue_arguments={"x-queue-type": "quorum"} if quorum else None)
    for name, quorum in json.loads(os.environ["TEST_QUEUES"]).items()
]
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_connection_max_retries = None
app.conf.broker_heartbeat = 5
# As the archive's listers have it: a message is acknowledged once its task has ended.
app.conf.task_acks_late = bool(os.environ.get("TEST_ACKS_LATE"))

producer = None


def note(task, key, what):
    request = task.request
    line = {
        "what": what,
        "id": request.id,
        "root": request.root_id,
        "key": key,
        "queue": request.delivery_info["routing_key"],
        "redelivered": bool(request.delivery_info.get("redelivered")),
        "at": time.time(),
        "pid": os.getpid(),
    }
    with open(os.environ["TEST_NOTES"], "a") as f:
        f.write(json.dumps(line) + "\n")


def write_visit(url, visit_type):
    global producer
    if producer is None:
        producer = Producer({"bootstrap.servers": os.environ["TEST_KAFKA"]})
    record = {
        "origin": url,
        "visit": 1,
        "date": datetime.datetime.now(tz=datetime.timezone.utc),
        "status": "full",
        "snapshot": bytes(20),
        "type": visit_type,
        "metadata": None,
    }
    producer.produce(os.environ["TEST_TOPIC"], msgpack.packb(record, datetime=True))
    if producer.flush(120):
        raise RuntimeError("the journal does not take the visit")


def seconds_of(key):
    """One in twenty takes longer than the express lane allows, always the same."""
    return 3 if zlib.crc32(key.encode()) % 20 == 0 else 0.05


def run(task, key, visit_type=None):
    note(task, key, "begin")
    try:
        time.sleep(seconds_of(key))
        if visit_type:
            write_visit(key, visit_type)
    except BaseException:  # a time limit, among others
        note(task, key, "fail")
        raise
    note(task, key, "end")
    return {"status": "eventful"}


@app.task(name="swh.chaos.Git", bind=True)
def git(self, url, **_):
    return run(self, url, "git")


@app.task(name="swh.chaos.Hg", bind=True)
def hg(self, url, **_):
    return run(self, url, "hg")


def step(self, key):
    return run(self, key)


app.task(name="swh.chaos.List", bind=True)(step)
app.task(name="swh.chaos.Index", bind=True)(step)
