"""A pytest plugin that runs the peer's own tests of its backend on databases
that our migrate made, in place of those that pytest-postgresql would make.

SWH_TEST_TEMPLATE_DSN is such a database; each test gets a copy of it.
"""

from datetime import timedelta
import os
from types import SimpleNamespace
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
import pytest

from swh.scheduler import get_scheduler
from swh.scheduler.model import TaskType

TEMPLATE = os.environ["SWH_TEST_TEMPLATE_DSN"]


@pytest.fixture
def postgresql_scheduler():
    params = conninfo_to_dict(TEMPLATE)
    template = params.pop("dbname")
    name = f"{template}_{uuid4().hex[:12]}"
    server = make_conninfo(**params, dbname="postgres")
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f'create database "{name}" template "{template}"')
    try:
        dsn = make_conninfo(**params, dbname=name)
        yield SimpleNamespace(info=SimpleNamespace(dsn=dsn))
    finally:
        with psycopg.connect(server, autocommit=True) as conn:
            conn.execute(f'drop database "{name}" with (force)')


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
