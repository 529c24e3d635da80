"""Has a worker write to a file which tasks it runs: celery worker --include notes."""

import json
import os

from celery.signals import task_prerun


@task_prerun.connect
def note(task_id, task, args, kwargs, **_):
    line = {"id": task_id, "name": task.name, "args": args, "kwargs": kwargs}
    with open(os.environ["TEST_NOTES"], "a") as f:
        f.write(json.dumps(line) + "\n")
