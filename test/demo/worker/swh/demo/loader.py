"""A loader that reads a git repository's refs and reports the visit."""

from datetime import datetime, timezone
from pathlib import Path
import subprocess
from urllib.parse import unquote, urlsplit

from swh.model.hashutil import hash_to_bytes
from swh.model.model import (
    OriginVisitStatus,
    Snapshot,
    SnapshotBranch,
    SnapshotTargetType,
)

TARGET_TYPES = {
    "commit": SnapshotTargetType.REVISION,
    "tag": SnapshotTargetType.RELEASE,
    "tree": SnapshotTargetType.DIRECTORY,
    "blob": SnapshotTargetType.CONTENT,
}


class NotFound(Exception):
    """There is no such repository."""


def load_git(archive, journal, url):
    """Visit a repository: write what came of it to the journal, and return
    what a Software Heritage loader returns."""
    visit, last_snapshot = archive.start_visit(url)

    def report(status, snapshot=None):
        journal.write_addition(
            "origin_visit_status",
            OriginVisitStatus(
                origin=url,
                visit=visit,
                date=datetime.now(tz=timezone.utc),
                status=status,
                snapshot=snapshot,
                type="git",
            ),
        )

    report("created")
    try:
        snapshot = read_snapshot(Path(unquote(urlsplit(url).path)))
    except NotFound:
        report("not_found")
        return {"status": "uneventful"}
    except subprocess.CalledProcessError as exc:
        report("failed")
        return {"status": "failed", "error": exc.stderr.strip()}
    archive.record_snapshot(url, visit, snapshot.id)
    report("full", snapshot.id)
    return {
        "status": "uneventful" if snapshot.id == last_snapshot else "eventful",
        "snapshot_id": snapshot.id.hex(),
    }


def read_snapshot(repository):
    if not repository.is_dir():
        raise NotFound(repository)
    # Asking for the type makes git open each object, so that a ref to a
    # missing or damaged one is an error.
    refs = git(
        repository, "for-each-ref", "--format=%(objecttype) %(objectname) %(refname)"
    )
    branches = {}
    for line in refs.splitlines():
        kind, target, name = line.split(" ", 2)
        branches[name.encode()] = SnapshotBranch(
            target=hash_to_bytes(target), target_type=TARGET_TYPES[kind]
        )
    head = git(repository, "symbolic-ref", "HEAD").strip().encode()
    if head in branches:
        branches[b"HEAD"] = SnapshotBranch(
            target=head, target_type=SnapshotTargetType.ALIAS
        )
    return Snapshot(branches=branches)


def git(repository, *command):
    return subprocess.run(
        # The repository may belong to someone else than the worker.
        ["git", "-c", "safe.directory=*", "--git-dir", repository, *command],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
