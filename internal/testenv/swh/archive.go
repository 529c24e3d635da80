package swh

import (
	"fmt"
	"net/url"
	"strings"
)

// Storage has the places of the archive's storage.
type Storage struct {
	DSN     string   // its own database
	Objects string   // directory of contents, which NewParts makes
	Brokers []string // of its journal
	Prefix  string   // of the journal's topics
}

// ObjectTypes are the object types of the storage's journal beside visit statuses. The storage doesn't create their
// topics.
var ObjectTypes = []string{
	"content", "directory", "extid", "metadata_authority", "metadata_fetcher", "origin", "origin_visit", "raw_extrinsic_metadata", "release", "revision", "skipped_content", "snapshot",
}

// The tasks of the listers and the loaders; their queues have the same names.
const (
	ListTask         = "swh.lister.gitweb.tasks.GitwebListerTask"
	ListArchivesTask = "swh.lister.gnu.tasks.GNUListerTask"
	LoadTask         = "swh.loader.git.tasks.UpdateGitRepository"
	LoadArchivesTask = "swh.loader.package.archive.tasks.LoadTarball"
)

// lister returns the configuration of a worker of swh.lister, which reports origins to the scheduler at the URL.
func lister(broker, scheduler string) map[string]any {
	return map[string]any{"scheduler": remote(scheduler), "celery": celery(broker, ListTask, ListArchivesTask)}
}

func remote(scheduler string) map[string]any {
	return map[string]any{"cls": "remote", "url": scheduler}
}

// loader returns the configuration of a worker with the tasks of swh.loader.git and swh.loader.core from the queues.
// As in production, it retries additions that the storage refuses, such as of a person or content that another visit
// adds at the same time.
func (s Storage) loader(broker string, queues ...string) map[string]any {
	return map[string]any{"storage": s.config(), "celery": celery(broker, queues...)}
}

func (s Storage) config() map[string]any {
	return map[string]any{"cls": "pipeline", "steps": []any{
		map[string]any{"cls": "retry"},
		map[string]any{
			"cls": "postgresql", "db": s.DSN,
			"objstorage": map[string]any{"cls": "pathslicing", "root": s.Objects, "slicing": "0:2/2:4"},
			"journal_writer": map[string]any{
				"cls": "kafka", "brokers": s.Brokers, "prefix": s.Prefix, "client_id": "storage", "anonymize": false,
			},
		},
	}}
}

// web returns the configuration of swh.web, which uses the scheduler at the URL and has its own tables in a file of
// SQLite.
func (s Storage) web(scheduler, file string) map[string]any {
	return map[string]any{"scheduler": remote(scheduler), "storage": s.config(), "development_db": file}
}

// deposit returns the configuration of swh.deposit, with its own tables in the PostgreSQL database of the DSN, a URL,
// and its uploads in the directory.
func (s Storage) deposit(scheduler, dsn, uploads string) (map[string]any, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	return map[string]any{
		"scheduler": remote(scheduler), "storage": s.config(), "storage_metadata": s.config(),
		"swh_authority_url": scheduler, "authentication_provider": "basic", "max_upload_size": 1 << 20,
		"private": map[string]any{"secret_key": "secret", "media_root": uploads, "db": map[string]any{
			"name": strings.TrimPrefix(u.Path, "/"), "host": u.Hostname(), "port": u.Port(),
			"user": u.User.Username(), "password": password,
		}},
	}, nil
}

// celery names no modules: a worker has the tasks of all packages of the archive.
func celery(broker string, queues ...string) map[string]any {
	return map[string]any{"task_broker": broker, "task_queues": queues}
}

// worker returns the arguments for Python that run a worker.
func worker(name string, processes int) []string {
	return []string{"-m", "celery", "-A", "swh.scheduler.celery_backend.config.app", "worker", "--loglevel=info",
		"--events", "--without-gossip", "--without-mingle", "--hostname", name + "@%h", "--concurrency", fmt.Sprint(processes)}
}
