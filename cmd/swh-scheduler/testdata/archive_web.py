"""swh.web, whose functions and pages call the scheduler: archive_web.py FORGE ORIGIN.

Its configuration is in SWH_CONFIG_FILENAME. It saves an origin of the forge now and waits
for the end, has it visited from then on, asks for a bulk of origins to be saved, and looks
at the coverage. The lister of bulk requests is not here: what it would record is recorded.
"""

import sys
import time

import archive_django

archive_django.start("swh.web.settings.development")

from django.contrib.auth.models import Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from rest_framework.test import APIClient  # noqa: E402

from swh.scheduler.model import ListedOrigin  # noqa: E402
from swh.web.archive_coverage.views import (  # noqa: E402
    get_instance_urls,
    get_listers_metrics,
)
from swh.web.auth.utils import API_SAVE_BULK_PERMISSION  # noqa: E402
from swh.web.config import scheduler  # noqa: E402
from swh.web.save_code_now import origin_save  # noqa: E402
from swh.web.save_code_now.models import (  # noqa: E402
    SaveAuthorizedOrigin,
    SaveOriginRequest,
)
from swh.web.utils import reverse  # noqa: E402

forge, origin = sys.argv[1:]
SaveAuthorizedOrigin.objects.create(url=forge)

# Save code now. The storage tells how the visit ended, the scheduler how the run did.
assert "git" in origin_save.get_savable_visit_types()
request = origin_save.create_save_origin_request("git", origin)
assert request["save_request_status"] == "accepted", request
deadline = time.time() + 300
while request["visit_status"] not in ("full", "failed"):
    assert time.time() < deadline, request
    time.sleep(0.2)
    (request,) = origin_save.get_save_origin_requests("git", origin)
info = origin_save.get_save_origin_task_info(request["id"])
while info.get("status") not in ("eventful", "failed"):
    assert time.time() < deadline, info
    time.sleep(0.2)
    info = origin_save.get_save_origin_task_info(request["id"])
assert info["status"] == "eventful" and info["started"] and info["ended"], info
assert info["type"] == "load-git" and info["arguments"]["kwargs"] == {"url": origin}, info
assert request["save_task_status"] == "succeeded", request
assert origin_save.schedule_origins_recurrent_visits([request]) == 1

# A bulk of origins, and what becomes of it.
user = User.objects.create_user("bulk")
user.user_permissions.add(
    Permission.objects.create(
        codename=API_SAVE_BULK_PERMISSION.removeprefix("swh.web."),
        content_type=ContentType.objects.create(app_label="swh.web", model="bulk"),
    )
)
client = APIClient()
client.force_login(user)
bulk = client.post(
    reverse("api-1-save-origin-bulk"),
    data=[{"origin_url": origin, "visit_type": "git"}],
    format="json",
).data
assert bulk["status"] == "accepted", bulk
(task,) = scheduler().search_tasks(task_type="list-save-bulk")
assert task.arguments.kwargs["instance"] == bulk["request_id"], task
page = reverse("api-1-save-origin-bulk-request-info", {"request_id": bulk["request_id"]})
(progress,) = client.get(page).data
assert progress["status"] == "pending", progress
lister = scheduler().get_or_create_lister("save-bulk", bulk["request_id"])
scheduler().record_listed_origins(
    [ListedOrigin(lister_id=lister.id, visit_type="git", url=origin)]
)
deadline = time.time() + 300
while progress["last_visit_status"] != "successful":  # told by the journal
    assert time.time() < deadline, progress
    time.sleep(0.2)
    (progress,) = client.get(page).data
assert progress["status"] == "accepted", progress
assert progress["last_snapshot_swhid"] == request["snapshot_swhid"], progress

# Coverage.
scheduler().update_metrics()
metrics = get_listers_metrics()
assert set(metrics) == {"gitweb", "save-code-now", "save-bulk"}, metrics
((instance, visits),) = metrics["save-code-now"]
assert visits.visit_type == "git" and visits.origins_known == 1, visits
assert forge in get_instance_urls().values(), get_instance_urls()
