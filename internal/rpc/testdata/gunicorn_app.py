"""The peer's RPC server as it is deployed: under gunicorn, on the database SWH_TEST_DSN."""

import os

from swh.scheduler.api import server

app = server.app
app.config["scheduler"] = {"cls": "postgresql", "db": os.environ["SWH_TEST_DSN"]}
