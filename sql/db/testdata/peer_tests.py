"""A pytest plugin that runs the Python scheduler's own tests of its backend on a database
that our migrate made (SWH_TEST_DSN), in place of those that pytest-postgresql
would make. The tests share it, emptied for each.
"""

from datetime import timedelta
import os
from types import SimpleNamespace

import psycopg
import pytest

from swh.scheduler import get_scheduler
from swh.scheduler.model import TaskType

DSN = os.environ["SWH_TEST_DSN"]


@pytest.fixture
def postgresql_scheduler():
    with psycopg.connect(DSN) as conn:
        conn.execute(
            """truncate task_type, task, task_run, listers, listed_origins, scheduler_metrics,
            origin_visit_stats, visit_scheduler_queue_position restart identity"""
        )
    return SimpleNamespace(info=SimpleNamespace(dsn=DSN))


@pytest.fixture
def swh_scheduler(swh_scheduler_class, swh_scheduler_config):
    scheduler = get_scheduler(swh_scheduler_class, **swh_scheduler_config)
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
    scheduler._pool.close()
