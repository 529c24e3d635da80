"""The tasks of a real worker, built on the Python scheduler's own task class. The broker's
URL is in the environment."""

import os
import signal
import time

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


@app.task(name="swh.test.Sleep")
def nap(seconds):
    time.sleep(seconds)
    return {"status": "success"}


@app.task(name="swh.test.Load")
def load(seconds):
    """A visit that catches what interrupts it, as loaders of swh.loader.core do."""
    try:
        time.sleep(seconds)
    except Exception as e:
        return {"status": "failed", "error": str(e)}


@app.task(name="swh.test.LoadPackage")
def load_package(seconds):
    """The same as loaders of packages do it: they don't say what it was."""
    try:
        time.sleep(seconds)
    except Exception:
        return {"status": "failed"}


@app.task(name="swh.test.Stubborn")
def stubborn(seconds):
    """Goes on with the next branch after whatever happened to one."""
    try:
        time.sleep(seconds)
    except Exception:
        time.sleep(seconds)


@app.task(name="swh.test.Wrap")
def wrap(seconds):
    try:
        time.sleep(seconds)
    except Exception as e:
        raise ValueError("interrupted") from e


def be_killed(task):
    """As the kernel does it where memory runs out; but only once."""
    if not task.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"status": "success"}


app.task(name="swh.test.Killed", bind=True)(be_killed)
app.task(name="swh.test.KilledLate", bind=True, acks_late=True)(be_killed)
app.task(
    name="swh.test.KilledRedelivered",
    bind=True,
    acks_late=True,
    reject_on_worker_lost=True,
)(be_killed)


@app.task(name="swh.test.SleepLate", bind=True, acks_late=True)
def nap_late(self, seconds):
    if not self.request.delivery_info["redelivered"]:
        time.sleep(seconds)
    return {"status": "success"}


@app.task(name="swh.test.SleepRedelivered", bind=True, acks_late=True, acks_on_timeout=False)
def nap_redelivered(self, seconds):
    if not self.request.delivery_info["redelivered"]:
        time.sleep(seconds)
    return {"status": "success"}
