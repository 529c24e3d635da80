"""The Python scheduler's journal client, by a configuration that names its topics' prefix:
journal_client.py FILE. The Python scheduler's command line knows the usual prefix only."""

import sys
from functools import partial

import yaml

from swh.journal.client import get_journal_client
from swh.scheduler import get_scheduler
from swh.scheduler.journal_client import process_journal_objects

with open(sys.argv[1]) as f:
    config = yaml.safe_load(f)
client = get_journal_client(
    cls="kafka", object_types=["origin_visit_status"], **config["journal"]
)
scheduler = get_scheduler(**config["scheduler"])
client.process(partial(process_journal_objects, scheduler=scheduler))
