"""swh.deposit, whose API calls the scheduler: archive_deposit.py FORGE ORIGIN.

Its configuration is in SWH_CONFIG_FILENAME. A client deposits the metadata of an origin,
which is to be checked; then the checks have ended well, and it is to be loaded.
"""

import sys

import archive_django

archive_django.start("swh.deposit.settings.production")

from django.urls import reverse  # noqa: E402
from rest_framework.test import APIClient  # noqa: E402

from swh.deposit.config import COL_IRI, PRIVATE_PUT_DEPOSIT, APIConfig  # noqa: E402
from swh.deposit.models import (  # noqa: E402
    Deposit,
    DepositClient,
    DepositCollection,
)

forge, origin = sys.argv[1:]
collection = DepositCollection.objects.create(name="papers")
user = DepositClient.objects.create(
    username="depositor", provider_url=forge, collections=[collection.id]
)
client = APIClient()
client.force_authenticate(user)
entry = f"""<entry xmlns="http://www.w3.org/2005/Atom"
  xmlns:swh="https://www.softwareheritage.org/schema/2018/deposit">
  <title>A program</title><author>somebody</author>
  <swh:deposit><swh:create_origin><swh:origin url="{origin}"/></swh:create_origin></swh:deposit>
</entry>"""
answer = client.post(
    reverse(COL_IRI, args=[collection.name]),
    data=entry,
    content_type="application/atom+xml;type=entry",
)
assert answer.status_code == 201, answer.content
deposit = Deposit.objects.get()
(check,) = APIConfig().scheduler.get_tasks([int(deposit.check_task_id)])
assert check.type == "check-deposit" and check.policy == "oneshot", check
assert check.arguments.kwargs == {"collection": "papers", "deposit_id": deposit.id}, check


def put(status):
    page = reverse(PRIVATE_PUT_DEPOSIT, args=[collection.name, deposit.id])
    answer = client.put(page, data={"status": status}, format="json")
    assert answer.status_code == 204, answer.content
    deposit.refresh_from_db()


put("verified")
(load,) = APIConfig().scheduler.get_tasks([int(deposit.load_task_id)])
assert load.type == "load-deposit" and load.retries_left == 3, load
assert load.arguments.kwargs == {"url": origin, "deposit_id": deposit.id}, load
put("failed")  # for `swh deposit admin deposit reschedule`
print(deposit.id)
