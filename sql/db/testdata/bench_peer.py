"""Times dry grabs of 1,000 origins through the peer's RPC client.

usage: bench_rpc.py URL; a policy on a line of standard input is answered with how
many milliseconds the fastest of five calls took.
"""

import sys
import time

from swh.scheduler.api.client import RemoteScheduler

scheduler = RemoteScheduler(url=sys.argv[1])
for line in sys.stdin:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        origins = scheduler.grab_next_visits("git", 1000, policy=line.strip(), dry_run=True)
        took.append((time.perf_counter() - began) * 1000)
        assert len(origins) == 1000, len(origins)
    print(min(took), flush=True)
