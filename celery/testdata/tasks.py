"""A worker's tasks, built on the Python scheduler's own task class. The broker's URL is in
the environment, so that workers of several tests can run side by side."""

import os
import time

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from celery.exceptions import Reject  # noqa: E402

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

app = build_app(
    {
        "task_broker": os.environ["TEST_BROKER"],
        "task_queues": [q for q in os.environ.get("TEST_QUEUES", "").split(",") if q],
    }
)


@app.task(name="swh.test.Echo")
def echo(*args, **kwargs):
    return {"status": "success", "eventful": True, "args": args, "kwargs": kwargs}


@app.task(name="swh.test.Fail")
def fail(message="no\x00good"):
    raise ValueError(message)


@app.task(name="swh.test.Retry", bind=True, max_retries=1, default_retry_delay=0)
def retry(self):
    if self.request.retries == 0:
        raise self.retry(exc=ValueError("again"))


@app.task(name="swh.test.Reject", acks_late=True)
def reject():
    raise Reject("not mine", requeue=False)


@app.task(name="swh.test.Sleep")
def sleep(seconds, **_):
    time.sleep(seconds)
