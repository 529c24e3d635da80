"""Times the peer's own writers.

usage: bench_writers.py DSN; a line "write N" on standard input has the Nth 1,000
origins written: recorded as listed, their visit stats upserted, and both again
with changes. The answer on standard output is how many milliseconds each took.
"list N" has N new origins recorded, 1,000 at a time; the answer is how many
milliseconds it took.
"""

import datetime
import json
import sys
import time

from swh.scheduler import get_scheduler
from swh.scheduler.model import LastVisitStatus, ListedOrigin, OriginVisitStats

scheduler = get_scheduler("postgresql", db=sys.argv[1])
lister = scheduler.get_or_create_lister(name="bench", instance_name="writers")


def milliseconds(write, objects):
    began = time.perf_counter()
    write(objects)
    return (time.perf_counter() - began) * 1000


def listed(urls, last_update):
    return [
        ListedOrigin(lister_id=lister.id, url=u, visit_type="git", last_update=last_update)
        for u in urls
    ]


def visited(urls, date):
    return [
        OriginVisitStats(
            url=u, visit_type="git", last_visit=date, last_successful=date,
            last_visit_status=LastVisitStatus.successful, last_snapshot=b"0" * 20,
        )
        for u in urls
    ]


for line in sys.stdin:
    command, n = line.split()
    times = []
    if command == "write":
        urls = [f"https://writers.example.org/{n}/{i}" for i in range(1000)]
        for day in (1, 2):
            date = datetime.datetime(2026, 1, day, tzinfo=datetime.timezone.utc)
            times.append(milliseconds(scheduler.record_listed_origins, listed(urls, date)))
            times.append(milliseconds(scheduler.origin_visit_stats_upsert, visited(urls, date)))
    else:
        began = time.perf_counter()
        for first in range(0, int(n), 1000):
            urls = [
                f"https://new.example.org/user{i * 7919 % 100003}/repository-{i}"
                for i in range(first, first + 1000)
            ]
            date = datetime.datetime(2025, 1, 1, tzinfo=datetime.timezone.utc)
            date += datetime.timedelta(seconds=first)
            scheduler.record_listed_origins(listed(urls, date))
        times.append((time.perf_counter() - began) * 1000)
    print(json.dumps(times), flush=True)
