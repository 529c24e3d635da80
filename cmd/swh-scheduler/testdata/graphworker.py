"""Tasks for the steps of graphs, built on the Python scheduler's own task class. The broker's
URL is in the environment."""

import os

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

from swh.scheduler.celery_backend.config import build_app  # noqa: E402

QUEUES = ["swh.test.graph.Step", "swh.test.graph.Fail"]
app = build_app({"task_broker": os.environ["TEST_BROKER"], "task_queues": QUEUES})


@app.task(name="swh.test.graph.Step")
def step(*args, **kwargs):
    return {"status": "eventful"}


@app.task(name="swh.test.graph.Fail")
def fail():
    raise ValueError("this step always fails")
