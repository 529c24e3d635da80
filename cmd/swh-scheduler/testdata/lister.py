"""What listers and the web API do with a scheduler, by the Python scheduler's RPC client: for
each JSON object on standard input, makes its tasks and records its origins, each by
a call to the next of its servers, and asks the one after that for the tasks. Prints
how many tasks were not there, or not as they were made."""

import json
import sys
from datetime import datetime, timezone
from itertools import cycle
from uuid import UUID

from swh.scheduler import get_scheduler
from swh.scheduler.model import ListedOrigin, Task, TaskArguments

for line in sys.stdin:
    job = json.loads(line)
    servers = cycle([get_scheduler("remote", url=url) for url in job["servers"]])
    wrong = 0
    for task in job["tasks"]:
        [made] = next(servers).create_tasks(
            [
                Task(
                    type=task["type"],
                    arguments=TaskArguments(args=[task["number"]]),
                    next_run=datetime.now(tz=timezone.utc),
                    policy="oneshot",
                    priority=task["priority"] or None,
                )
            ]
        )
        [found] = next(servers).get_tasks([made.id])
        wrong += found.arguments != made.arguments or found.priority != made.priority
        next(servers)  # so that each of two is written to
    for url in job["origins"]:
        next(servers).record_listed_origins(
            [ListedOrigin(lister_id=UUID(job["lister"]), url=url, visit_type="git")]
        )
    print(wrong, flush=True)
