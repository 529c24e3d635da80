"""Runs the Python scheduler's journal client, with the settings that standard input holds."""

from functools import partial
import json
import sys

from swh.journal.client import get_journal_client
from swh.scheduler import get_scheduler
from swh.scheduler.journal_client import process_journal_objects
import yaml

config = json.load(sys.stdin)
with open(config.pop("config")) as file:
    scheduler = get_scheduler(**yaml.safe_load(file)["scheduler"])
client = get_journal_client(cls="kafka", object_types=["origin_visit_status"], **config)
client.process(partial(process_journal_objects, scheduler=scheduler))
client.close()
