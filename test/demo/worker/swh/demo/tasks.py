"""The Celery tasks that the demo's workers run.

Their configuration is the file that the scheduler's daemons read, named by
SWH_CONFIG_FILENAME. DEMO_ARCHIVE names the directory that stands for the
archive (see ``archive``).
"""

import os
import time

from celery import shared_task

from swh.core.config import load_from_envvar
from swh.demo.archive import Archive
from swh.demo.lister import list_repositories
from swh.demo.loader import load_git
from swh.journal.writer import get_journal_writer
from swh.scheduler import get_scheduler
from swh.scheduler.task import SWHTask


class DemoTask(SWHTask):
    """A task with what listers and loaders need.

    Connections are made on first use: the parent process of a prefork worker
    imports this module too, and a connection must not be shared by a fork.
    """

    abstract = True
    _services = None

    @property
    def services(self):
        if DemoTask._services is None:
            DemoTask._services = Services(load_from_envvar())
        return DemoTask._services


class Services:
    def __init__(self, config):
        self.scheduler = get_scheduler(**config["scheduler"])
        self.archive = Archive(os.environ["DEMO_ARCHIVE"])
        self.journal = get_journal_writer(
            "kafka",
            brokers=config["journal"]["brokers"],
            prefix=config["journal"]["prefix"],
            client_id="swh.demo.loader",
        )


@shared_task(name="swh.demo.tasks.ListRepositories", base=DemoTask, bind=True)
def list_demo(self, directory, fetch_seconds=0):
    """List the git repositories under a directory as origins."""
    self.services.archive.log_start(self.request, directory)
    return list_repositories(self.services.scheduler, directory, fetch_seconds)


@shared_task(name="swh.demo.tasks.LoadGit", base=DemoTask, bind=True)
def load_git_demo(
    self, url, lister_name=None, lister_instance_name=None, fetch_seconds=0
):
    """Visit one git repository."""
    self.services.archive.log_start(self.request, url)
    # Stands for the time that fetching from another machine would take.
    time.sleep(fetch_seconds)
    return load_git(self.services.archive, self.services.journal, url)
