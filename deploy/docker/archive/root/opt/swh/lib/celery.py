"""Celery's class as far as the compose file's entry point uses it: Celery(..., broker=URL).control.inspect().active().

Workers are asked by "swh scheduler celery-monitor".
"""

import subprocess


class Celery:
    def __init__(self, name=None, broker=None, **_):
        self.control = Control(broker)


class Control:
    def __init__(self, broker):
        self.broker = broker

    def inspect(self, *_, timeout=1.0, **__):
        return Inspect(self.broker, timeout)


class Inspect:
    def __init__(self, broker, timeout):
        self.broker, self.timeout = broker, timeout

    def active(self):
        """Returns a dictionary by the names of the workers that reply, with empty lists; None if none replies."""
        command = ["swh", "-l", "error", "-o", f"celery.task_broker={self.broker}", "scheduler", "celery-monitor"]
        reply = subprocess.run([*command, "--timeout", str(self.timeout), "active-queues"], stdout=subprocess.PIPE, text=True)
        names = [line.split(": ")[0] for line in reply.stdout.splitlines()]
        return {name: [] for name in names} or None
