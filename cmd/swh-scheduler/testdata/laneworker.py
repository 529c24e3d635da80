"""A loader for lanes, built on the Python scheduler's own task class: its arguments say how long
a visit takes, whether it finds anything new, and what it does when its time is over. It writes to the journal how
visits end, as loaders and the archive do, and to a file which tries there were."""

import datetime
import json
import os
import signal
import time

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from celery.exceptions import SoftTimeLimitExceeded  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
import msgpack  # noqa: E402

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

QUEUES = os.environ["TEST_QUEUES"].split(",")
app = build_app({"task_broker": os.environ["TEST_BROKER"], "task_queues": QUEUES})


def note_try(task, url):
    request = task.request
    line = {
        "id": request.id,
        "root": request.root_id,
        "queue": request.delivery_info["routing_key"],
        "hard": request.timelimit[0],
        "soft": request.timelimit[1],
        "url": url,
        "pid": os.getpid(),
    }
    with open(os.environ["TEST_TRIES"], "a") as f:
        f.write(json.dumps(line) + "\n")


def write_visit(url, status, snapshot=bytes(20)):
    record = {
        "origin": url,
        "visit": 1,
        "date": datetime.datetime.now(tz=datetime.timezone.utc),
        "status": status,
        "snapshot": snapshot if status == "full" else None,
        "type": "git",
        "metadata": None,
    }
    producer = Producer({"bootstrap.servers": os.environ["TEST_KAFKA"]})
    producer.produce(os.environ["TEST_TOPIC"], msgpack.packb(record, datetime=True))
    producer.flush(30)


def load(self, url, seconds=0, at_limit="raised", ends="well", news=False, **_):
    note_try(self, url)
    if ends == "killed":
        # As the kernel does it where memory runs out.
        os.kill(os.getpid(), signal.SIGKILL)
    if ends == "failed":
        write_visit(url, "failed")
        raise ValueError("no such repository")
    try:
        time.sleep(seconds)
    except SoftTimeLimitExceeded as e:
        write_visit(url, "failed")
        if at_limit == "ignored":
            time.sleep(3600)  # until the hard limit
        if at_limit == "reported":
            return {"status": "failed", "error": str(e)}
        if at_limit == "unnamed":
            return {"status": "failed"}
        raise
    write_visit(url, "full", os.urandom(20) if news else bytes(20))
    return {"status": "eventful"}


app.task(name="swh.test.lanes.Git", bind=True)(load)
app.task(name="swh.test.lanes.Hg", bind=True)(load)
