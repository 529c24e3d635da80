"""Runs command lines of the Python scheduler: a JSON object {args, env} a line on standard
input, {code, stdout, stderr} a line on standard output. Each runs in a process
of its own, forked from one that has imported the modules already, which is most
of the time that the Python scheduler takes to start."""

import json
import os
import sys
import tempfile
import traceback
from importlib.metadata import entry_points

import dateparser  # noqa: F401
import dateutil.parser  # noqa: F401
import humanize  # noqa: F401
import iso8601  # noqa: F401
import psycopg_pool  # noqa: F401
import sitecustomize
import tabulate  # noqa: F401

import swh.core.cli
import swh.scheduler.backend  # noqa: F401
import swh.scheduler.cli.admin  # noqa: F401
import swh.scheduler.cli.utils  # noqa: F401

# The Python scheduler waits a second for its first connection, and says that its configuration
# is missing if that was too short, as it is on a loaded machine.
open_pool = psycopg_pool.ConnectionPool.open
psycopg_pool.ConnectionPool.open = lambda pool, wait=False, timeout=30: open_pool(
    pool, wait, max(timeout, 30)
)

for plugin in entry_points(group="swh.cli.subcommands"):
    plugin.load()


def child(request, stdout, stderr):
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["swh"] + request["args"]
    code = 1
    try:
        swh.core.cli.main()
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    sitecustomize.close_connections()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


for line in sys.stdin:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            child(json.loads(line), out.fileno(), err.fileno())
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "stdout": out.read().decode(),
            "stderr": err.read().decode(),
        }
    print(json.dumps(answer), flush=True)
