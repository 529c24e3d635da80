"""A directory that stands for the archive: what was visited, and what was run.

The real one is swh-storage, with databases of its own that a demo of the
scheduler can do without.
"""

import hashlib
import json
from pathlib import Path
import time


class Archive:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.executed = self.directory / "executed.jsonl"

    def log_start(self, request, subject):
        """Note that a task starts. The demo compares these lines with what
        was scheduled: they tell work lost and work done twice."""
        line = {
            "id": request.id,
            "task": request.task,
            "subject": subject,
            "queue": request.delivery_info["routing_key"],
            "started": time.time(),
        }
        # One write of less than a page, in append mode: lines of several
        # processes do not mix.
        with self.executed.open("ab", buffering=0) as log:
            log.write(json.dumps(line).encode() + b"\n")

    def start_visit(self, url):
        """Count a visit; return its number and the last snapshot seen."""
        state = self._read(url)
        state["visit"] += 1
        self._write(url, state)
        snapshot = state["snapshot"]
        return state["visit"], snapshot and bytes.fromhex(snapshot)

    def record_snapshot(self, url, visit, snapshot):
        self._write(url, {"visit": visit, "snapshot": snapshot.hex()})

    def _path(self, url):
        name = hashlib.sha1(url.encode()).hexdigest() + ".json"
        return self.directory / name

    def _read(self, url):
        try:
            return json.loads(self._path(url).read_text())
        except FileNotFoundError:
            return {"visit": 0, "snapshot": None}

    def _write(self, url, state):
        self._path(url).write_text(json.dumps(state))
