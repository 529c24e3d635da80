"""The Python scheduler's Celery app, which sends a task a line: JSON with the text of the
configuration file, the task's name, its id, and the queue if one is given."""

import json
import os
import sys

os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)

import yaml  # noqa: E402

from swh.scheduler.celery_backend import config  # noqa: E402

for line in sys.stdin:
    asked = json.loads(line)
    try:
        for queue in config.CELERY_QUEUES:  # an app leaves its arguments behind in them
            queue.queue_arguments = None
        app = config.build_app(yaml.safe_load(asked["file"])["celery"])
        app.send_task(
            asked["name"],
            args=json.loads(asked["args"]),
            kwargs=json.loads(asked["kwargs"]),
            task_id=asked["id"],
            queue=asked["queue"],
        )
        answer = {}
    except Exception as e:
        answer = {"error": repr(e)}
    print(json.dumps(answer), flush=True)
