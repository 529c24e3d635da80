"""The Python scheduler's simulator, for the tests that hold ours to it.

simulate.py model                       reads a list of [url, seconds since 1970] as JSON,
                                    and says what the Python scheduler's model makes of each
simulate.py run DSN SCHEDULER POLICY ORIGINS RUNTIME WORKERS START
                                    fills the database DSN, runs the statement that it reads
                                    as JSON (or null), simulates from START (seconds since
                                    1970) on, and prints the totals and how long the
                                    simulation took, as JSON

The Python scheduler's workers are of the visit type git and its origins of the type test-git, so
that it visits nothing; here its workers are of test-git.
"""

import contextlib
from datetime import datetime, timedelta, timezone
import json
import logging
import sys
import time

from swh.scheduler import get_scheduler, simulator
from swh.scheduler.model import TaskType
from swh.scheduler.simulator import origins as simulated_origins
from swh.scheduler.simulator.origins import OriginModel


def model():
    answers = []
    for url, at in json.load(sys.stdin):
        now = datetime.fromtimestamp(at, tz=timezone.utc)
        origin = OriginModel("test-git", url)
        loads = [origin.load_task_characteristics(t) for t in (now, now + timedelta(hours=13))]
        answers.append({
            "interval": origin.seconds_between_commits(),
            "updated": (origin.get_last_update(now) - OriginModel.EPOCH) // timedelta(microseconds=1),
            "loads": [[run_time, status, snapshot.hex() if snapshot else ""] for run_time, status, snapshot in loads],
        })
    json.dump(answers, sys.stdout)


def run(dsn, kind, policy, origins, runtime, workers, start):
    logging.disable()

    class At(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromtimestamp(float(start), tz=tz)

    simulator.datetime = simulated_origins.datetime = At
    scheduler = get_scheduler("postgresql", db=dsn)
    scheduler.create_task_type(TaskType(
        type="load-test-git", backend_name="swh.test.LoadTestGit", description="",
        default_interval=timedelta(days=64), min_interval=timedelta(hours=12), max_interval=timedelta(days=64),
        backoff_factor=2.0, num_retries=7, retry_delay=timedelta(hours=2)))
    set_up = simulator.setup
    simulator.setup = lambda env, **options: set_up(env, **options | {"workers_per_type": {"test-git": int(workers)}})
    with contextlib.redirect_stdout(sys.stderr):
        began = time.monotonic()
        simulator.fill_test_data(scheduler, num_origins=int(origins))
        if statement := json.load(sys.stdin):
            with scheduler.get_db() as db, db.transaction() as cur:
                cur.execute(statement)
        filled = time.monotonic()
        report = simulator.run(
            scheduler, scheduler_type=kind, policy=policy if kind == "origin_scheduler" else None, runtime=float(runtime))
    text = dict(line.split(": ") for line in report.format(with_plots=False).splitlines())
    json.dump({
        "visits": int(text["Total visits"]), "eventful": int(text["Eventful visits"]),
        "uneventful": int(text["Uneventful visits"]), "very_long": int(text["Very long running tasks"]),
        "series": [[sum(m.origins_known for m in ms), sum(m.origins_enabled for m in ms)] for _, ms in report.scheduler_metrics],
        "fill_seconds": filled - began, "run_seconds": time.monotonic() - filled,
    }, sys.stdout)


{"model": model, "run": run}[sys.argv[1]](*sys.argv[2:])
