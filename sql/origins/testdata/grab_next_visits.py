"""Answers grab_next_visits calls with the Python scheduler's own backend.

usage: grab_next_visits.py DSN; a JSON object of arguments a line on standard
input, an answer a line on standard output: [[lister_id, url], ...].
"""

import datetime
import json
import sys

from swh.scheduler import get_scheduler

scheduler = get_scheduler("postgresql", db=sys.argv[1])
for line in sys.stdin:
    call = json.loads(line)
    call["timestamp"] = datetime.datetime.fromisoformat(call["timestamp"])
    for name in ("absolute", "scheduled", "failed", "not_found"):
        key = name + "_cooldown"
        call[key] = datetime.timedelta(seconds=call[key])
    origins = scheduler.grab_next_visits(**call)
    print(json.dumps([[str(o.lister_id), o.url] for o in origins]), flush=True)
