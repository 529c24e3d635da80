"""Calls a scheduler as parts of the archive do: archive_client.py URL WHAT ORIGIN.

"list" schedules a listing of the forge ORIGIN. "save" saves an origin now and waits for
the end, with the calls of swh.web; "others" are the further calls of swh.web and those of
swh.deposit.
"""

import sys
import time
from datetime import datetime, timezone

from swh.scheduler import get_scheduler
from swh.scheduler.model import ListedOrigin, TaskType
from swh.scheduler.utils import create_oneshot_task

url, what, origin = sys.argv[1:]
scheduler = get_scheduler(cls="remote", url=url)


def create(*args, **kwargs):
    task = scheduler.create_tasks([create_oneshot_task(*args, **kwargs)])[0]
    assert task.id is not None
    return task


if what == "list":
    create("list-gitweb", url=origin)
elif what == "save":
    assert "load-git" in [t.type for t in scheduler.get_task_types()]
    task = create("load-git", priority="high", url=origin)
    deadline = time.time() + 300
    while True:
        (run,) = scheduler.get_task_runs([task.id]) or [None]
        if run and run.status in ("eventful", "uneventful", "failed", "lost"):
            break
        assert time.time() < deadline, run
        time.sleep(0.2)
    assert run.status == "eventful" and run.started and run.ended, run
    (task,) = scheduler.get_tasks([task.id])
    assert task.status == "completed", task
else:
    # Recurrent visits of what was saved, the progress of a bulk request, coverage.
    lister = scheduler.get_or_create_lister(name="save-code-now", instance_name="here")
    listed = ListedOrigin(lister_id=lister.id, visit_type="git", url=origin)
    assert len(scheduler.record_listed_origins([listed])) == 1
    assert scheduler.get_lister("save-code-now", instance_name="here").id == lister.id
    (stats,) = scheduler.origin_visit_stats_get(key for key in [(origin, "git")])
    assert stats.last_visit_status.value == "successful", stats
    assert {x.name for x in scheduler.get_listers()} == {"gitweb", "save-code-now"}
    scheduler.update_metrics()
    assert {m.visit_type for m in scheduler.get_metrics()} == {"git"}
    for task_type in scheduler.get_task_types():
        for task in scheduler.search_tasks(task_type=task_type.type):
            assert task.type == task_type.type
    # A deposit is to be loaded, and to be loaded again: by its task's number as text.
    scheduler.create_task_type(
        TaskType(type="load-deposit", backend_name="swh.loader.core.tasks.deposit", description="")
    )
    task = create("load-deposit", url=origin, deposit_id=1, retries_left=3)
    now = datetime.now(tz=timezone.utc)
    scheduler.set_status_tasks([str(task.id)], status="next_run_not_scheduled", next_run=now)
    (task,) = scheduler.get_tasks([task.id])
    assert task.retries_left == 3 and task.next_run == now, task
