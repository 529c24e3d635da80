"""Makes one round of the Python scheduler's schedule-recurrent for a visit type.

usage: SWH_CONFIG_FILENAME=... send_visits.py VISIT_TYPE; the config file's
scheduling_policy must have that visit type.
"""

import os
import sys

import yaml

from swh.scheduler import get_scheduler
from swh.scheduler.celery_backend.config import app
from swh.scheduler.celery_backend.recurrent_visits import send_visits_for_visit_type

with open(os.environ["SWH_CONFIG_FILENAME"]) as f:
    config = yaml.safe_load(f)
scheduler = get_scheduler(**config["scheduler"])
visit_type = sys.argv[1]
send_visits_for_visit_type(
    scheduler=scheduler,
    app=app,
    visit_type=visit_type,
    task_type=scheduler.get_task_type(f"load-{visit_type}"),
    policy_cfg=config["scheduling_policy"][visit_type],
)
