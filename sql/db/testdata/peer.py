"""Calls the Python scheduler's backend for tests, one JSON line a call.

Usage: peer.py DSN. A line {"method": m, "kwargs": {...}} on standard input is
answered by {"result": ...}, or {"error": class name} with the message. JSON has
too few types, so {"$": type, "v": value} stands for the others in a call; in an
answer, times are ISO texts in UTC, durations whole microseconds, objects of the
peer's model maps.
"""

from datetime import datetime, timedelta, timezone
from enum import Enum
import json
import sys
from uuid import UUID

import attr

from swh.scheduler import get_scheduler, model

DECODERS = {
    "datetime": datetime.fromisoformat,
    "timedelta": lambda v: timedelta(microseconds=v),
    "uuid": UUID,
    "float": float,
    "tuple": tuple,
}


def decode(value):
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {k: decode(v) for k, v in value.items()}
    kind, inner = value["$"], decode(value["v"])
    if kind in DECODERS:
        return DECODERS[kind](inner)
    return getattr(model, kind)(**inner)


def encode(value):
    if isinstance(value, model.BaseSchedulerModel):
        return {f.name: getattr(value, f.name) for f in attr.fields(type(value))}
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if hasattr(value, "next_page_token"):
        return {"results": value.results, "next_page_token": value.next_page_token}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def main():
    scheduler = get_scheduler("postgresql", db=sys.argv[1])
    for line in sys.stdin:
        call = json.loads(line)
        try:
            result = getattr(scheduler, call["method"])(**decode(call["kwargs"]))
            answer = {"result": result}
        except Exception as e:
            answer = {"error": type(e).__name__, "message": str(e)}
        print(json.dumps(answer, default=encode), flush=True)


if __name__ == "__main__":
    main()
