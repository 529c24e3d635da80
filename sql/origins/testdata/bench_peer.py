"""Times calls of the Python scheduler's own code.

usage: bench_peer.py CLASS TARGET, where the class is "postgresql" and the target a DSN, or
"remote" and a URL. Each line of standard input is a JSON object whose key "call" names a
function below and whose other keys are its arguments; the answer on standard output is how
many milliseconds the calls in it took. What they are given is made before. Only "grabbed" and
"sampled" answer with an object.
"""

import datetime
import json
import sys
import time
import uuid

from swh.scheduler import get_scheduler
from swh.scheduler.model import LastVisitStatus, ListedOrigin, OriginVisitStats

target = {"postgresql": "db", "remote": "url"}[sys.argv[1]]
scheduler = get_scheduler(sys.argv[1], **{target: sys.argv[2]})


def milliseconds(call, *args, **kwargs):
    began = time.perf_counter()
    result = call(*args, **kwargs)
    return (time.perf_counter() - began) * 1000, result


def grab(keep=None, **kwargs):
    """keep names a file for the content of the HTTP answer."""

    def keep_content(response, **_):
        with open(keep, "wb") as file:
            file.write(response.content)

    if keep:
        scheduler.session.hooks["response"] = [keep_content]
    took, origins = milliseconds(scheduler.grab_next_visits, "git", 1000, **kwargs)
    if keep:
        scheduler.session.hooks["response"] = []
    assert len(origins) == 1000, len(origins)
    return took


def sampled(**kwargs):
    """What a dry grab of a sample took, and how many origins it returned."""
    took, origins = milliseconds(scheduler.grab_next_visits, "git", 1000, dry_run=True, **kwargs)
    return {"ms": took, "origins": len(origins)}


def grabbed(now, **kwargs):
    """What a grab at a date took, and the URLs it returned, in order. Cooldowns are in seconds."""
    for name in kwargs:
        if name.endswith("_cooldown"):
            kwargs[name] = datetime.timedelta(seconds=kwargs[name])
    took, origins = milliseconds(
        scheduler.grab_next_visits, "git", 1000, timestamp=datetime.datetime.fromisoformat(now), **kwargs
    )
    return {"ms": took, "urls": [origin.url for origin in origins]}


def listing(origins, day):
    """origins are pairs of a lister's id and a URL."""
    date = datetime.datetime.fromtimestamp(day * 86400, datetime.timezone.utc)
    listed = [
        ListedOrigin(lister_id=uuid.UUID(str(lister)), url=url, visit_type="git", last_update=date)
        for lister, url in origins
    ]
    return milliseconds(scheduler.record_listed_origins, listed)[0]


def visits(urls, day):
    date = datetime.datetime.fromtimestamp(day * 86400, datetime.timezone.utc)
    stats = [
        OriginVisitStats(
            url=url, visit_type="git", last_visit=date, last_successful=date,
            last_visit_status=LastVisitStatus.successful, last_snapshot=b"0" * 20,
            next_visit_queue_position=12345, successive_visits=1,
        )
        for url in urls
    ]
    known, _ = milliseconds(scheduler.origin_visit_stats_get, [(url, "git") for url in urls])
    return known + milliseconds(scheduler.origin_visit_stats_upsert, stats)[0]


def new_listings(count):
    """Records new origins, 1,000 at a time."""
    lister = scheduler.get_or_create_lister(name="bench", instance_name="writers")
    took = 0.0
    for first in range(0, count, 1000):
        new = range(first, first + 1000)
        urls = [f"https://new.example.org/user{i * 7919 % 100003}/repository-{i}" for i in new]
        took += listing([(lister.id, url) for url in urls], 20000 + first // 1000)
    return took


for line in sys.stdin:
    arguments = json.loads(line)
    print(json.dumps(globals()[arguments.pop("call")](**arguments)), flush=True)
