package archive

import "fmt"

// Storage says where the archive's storage keeps what.
type Storage struct {
	DSN     string   // its own database
	Objects string   // directory of contents, which NewParts makes
	Brokers []string // of its journal
	Prefix  string   // of the journal's topics
}

// ObjectTypes are what the storage's journal has topics for, beside visit statuses; it makes
// none itself.
var ObjectTypes = []string{
	"content", "directory", "extid", "metadata_authority", "metadata_fetcher", "origin", "origin_visit", "raw_extrinsic_metadata", "release", "revision", "skipped_content", "snapshot",
}

// The tasks of the listers and the loaders, which are the names of their queues, too.
const (
	ListTask         = "swh.lister.gitweb.tasks.GitwebListerTask"
	ListArchivesTask = "swh.lister.gnu.tasks.GNUListerTask"
	LoadTask         = "swh.loader.git.tasks.UpdateGitRepository"
	LoadArchivesTask = "swh.loader.package.archive.tasks.LoadTarball"
)

// lister returns the configuration of a worker of swh.lister, which tells the scheduler at the
// URL what it listed.
func lister(broker, scheduler string) map[string]any {
	return map[string]any{"scheduler": remote(scheduler), "celery": celery(broker, ListTask, ListArchivesTask)}
}

func remote(scheduler string) map[string]any {
	return map[string]any{"cls": "remote", "url": scheduler}
}

// loader returns the configuration of a worker that takes the tasks of swh.loader.git and
// swh.loader.core from the queues. As in production, what the storage can't add is tried
// again: it refuses a person or content that another visit adds at that moment.
func (s Storage) loader(broker string, queues ...string) map[string]any {
	return map[string]any{
		"storage": map[string]any{"cls": "pipeline", "steps": []any{
			map[string]any{"cls": "retry"},
			map[string]any{
				"cls": "postgresql", "db": s.DSN,
				"objstorage": map[string]any{"cls": "pathslicing", "root": s.Objects, "slicing": "0:2/2:4"},
				"journal_writer": map[string]any{
					"cls": "kafka", "brokers": s.Brokers, "prefix": s.Prefix, "client_id": "storage", "anonymize": false,
				},
			},
		}},
		"celery": celery(broker, queues...),
	}
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
