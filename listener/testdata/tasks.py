"""The tasks of a real worker, built on the peer's own task class. The broker's
URL is in the environment."""

import os

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from celery.exceptions import Reject  # noqa: E402

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

app = build_app({"task_broker": os.environ["TEST_BROKER"], "task_queues": ["swh.test"]})


@app.task(name="swh.test.Return")
def echo(result):
    return result


@app.task(name="swh.test.Fail")
def fail():
    raise ValueError("no\x00good")


@app.task(name="swh.test.Retry", bind=True, max_retries=1, default_retry_delay=0)
def retry(self):
    if self.request.retries == 0:
        # To the queue it came from, whatever the routes say.
        raise self.retry(exc=ValueError("again"), queue="swh.test")
    return {"status": "success", "eventful": True}


@app.task(name="swh.test.Reject", acks_late=True)
def reject():
    raise Reject("not mine", requeue=False)
