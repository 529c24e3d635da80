"""A pytest plugin that runs the Python scheduler's own tests through its own RPC client
against our server (SWH_TEST_URL). They share its database (SWH_TEST_DSN), which
is emptied for each.
"""

from datetime import timedelta
import os

import psycopg
import pytest

from swh.scheduler.api.client import RemoteScheduler
from swh.scheduler.model import TaskType


@pytest.fixture
def swh_scheduler():
    with psycopg.connect(os.environ["SWH_TEST_DSN"]) as conn:
        conn.execute(
            """truncate task_type, task, task_run, listers, listed_origins, scheduler_metrics,
            origin_visit_stats, visit_scheduler_queue_position restart identity"""
        )
    scheduler = RemoteScheduler(url=os.environ["SWH_TEST_URL"])
    # The types that some tests expect to be there already.
    for name in ("ping", "multiping", "add", "error", "echo"):
        scheduler.create_task_type(
            TaskType(
                type=f"swh-test-{name}",
                description=f"test task {name}",
                backend_name=f"swh.scheduler.tests.tasks.{name}",
                default_interval=timedelta(days=1),
                min_interval=timedelta(hours=6),
                max_interval=timedelta(days=12),
            )
        )
    yield scheduler
    scheduler.session.close()
