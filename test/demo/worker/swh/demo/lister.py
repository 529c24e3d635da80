"""A lister of the git repositories of one directory."""

from datetime import datetime, timezone
from pathlib import Path

from swh.scheduler.model import ListedOrigin

# Repositories under this folder are listed without the date of their last
# update, as many forges do.
UNDATED = "undated"


def list_repositories(scheduler, directory, fetch_seconds):
    lister = scheduler.get_or_create_lister(name="demo", instance_name="local")
    extra = {"fetch_seconds": fetch_seconds} if fetch_seconds else {}
    origins = [
        ListedOrigin(
            lister_id=lister.id,
            url=path.as_uri(),
            visit_type="git",
            extra_loader_arguments=extra,
            last_update=None if path.parent.name == UNDATED else last_update(path),
            is_fork=(parent := forked_from(path)) is not None,
            forked_from_url=parent,
        )
        for path in sorted(Path(directory).glob("*/*.git"))
    ]
    scheduler.record_listed_origins(origins)
    scheduler.update_lister(
        lister.evolve(last_listing_finished_at=datetime.now(tz=timezone.utc))
    )
    return {"pages": 1, "origins": len(origins)}


def last_update(repository):
    """When a branch last moved; for an empty repository, when it was made."""
    branches = [p for p in (repository / "refs/heads").rglob("*") if p.is_file()]
    newest = max(p.stat().st_mtime for p in branches or [repository / "HEAD"])
    return datetime.fromtimestamp(newest, tz=timezone.utc)


def forked_from(repository):
    """The repository that this one borrows its objects from, as forges do for
    forks; None if it has its own."""
    alternates = repository / "objects/info/alternates"
    if not alternates.exists():
        return None
    return Path(alternates.read_text().strip()).parent.as_uri()
