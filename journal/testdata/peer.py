"""Has the Python scheduler serialise and apply visit statuses.

Reads a JSON object from standard input: "dsn" of a database of the Python scheduler's,
"batch_size", and "records", each with the fields of a visit status ("date" as
ISO 8601, "snapshot" in hexadecimal), "old" for the date to be encoded as it was
before msgpack had one. Prints each record's value in base64, a line each.
"""

import base64
from datetime import datetime
import json
import random
import sys

from swh.journal.serializers import kafka_to_value, value_to_kafka
from swh.scheduler import get_scheduler
from swh.scheduler.journal_client import process_journal_objects

random.uniform = lambda a, b: 0.0


def value(record):
    fields = {k: v for k, v in record.items() if k != "old"}
    for key, numbers in (fields["metadata"] or {}).items():
        if key == "beyond 64 bits":
            fields["metadata"][key] = [int(n) for n in numbers]
    if fields.get("snapshot"):
        fields["snapshot"] = bytes.fromhex(fields["snapshot"])
    if record["old"]:
        fields["date"] = {b"swhtype": "datetime", b"d": fields["date"]}
    else:
        fields["date"] = datetime.fromisoformat(fields["date"])
    return value_to_kafka(fields)


job = json.load(sys.stdin)
values = [value(record) for record in job["records"]]
scheduler = get_scheduler(cls="postgresql", db=job["dsn"])
for start in range(0, len(values), job["batch_size"]):
    batch = [kafka_to_value(v) for v in values[start : start + job["batch_size"]]]
    process_journal_objects({"origin_visit_status": batch}, scheduler=scheduler)
for v in values:
    print(base64.b64encode(v).decode())
