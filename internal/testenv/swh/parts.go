package swh

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Parts are the archive's running listers, loaders and storage with a scheduler. They end with the test.
type Parts struct {
	Storage Storage

	t           testing.TB
	dir         string   // of configurations and logs
	python, swh string   // programs
	remote      []string // the beginning of a command for the RPC server
	broker      string   // AMQP's URL
	servers     Servers
}

// Servers are the URLs of the scheduler's RPC server for the parts, perhaps with user and password.
type Servers struct{ Listers, Commands string }

// NewParts creates the files of the parts in dir, and starts nothing.
func NewParts(t testing.TB, dir string, storage Storage, broker string, servers Servers) *Parts {
	t.Helper()
	storage.Objects = filepath.Join(dir, "objects")
	if err := os.Mkdir(storage.Objects, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Parts{Storage: storage, t: t, dir: dir, python: testenv.ArchivePython(t), broker: broker, servers: servers}
	p.swh = filepath.Join(filepath.Dir(p.python), "swh")
	p.remote = p.configured("remote", map[string]any{"scheduler": remote(servers.Commands)})
	return p
}

// StorageCommands returns the commands that create the storage's database.
func (p *Parts) StorageCommands() [][]string {
	return [][]string{
		{p.swh, "db", "init-admin", "--dbname", p.Storage.DSN, "storage"},
		{p.swh, "db", "init", "--dbname", p.Storage.DSN, "storage"},
	}
}

// SchedulerCommand returns a command of the Python scheduler's command line, which uses the RPC server.
func (p *Parts) SchedulerCommand(args ...string) []string {
	return slices.Concat(p.remote, []string{p.swh, "scheduler"}, args)
}

// WebCommand returns a command that runs Python with the settings of swh.web.
func (p *Parts) WebCommand(args ...string) []string {
	p.t.Helper()
	return slices.Concat(p.configured("web", p.Storage.web(p.servers.Commands, filepath.Join(p.dir, "web.sqlite"))), []string{p.python}, args)
}

// DepositCommands returns the beginnings of two commands: Python, and the archive's command line, with the settings
// of swh.deposit. Its tables are in the database of the DSN, a URL.
func (p *Parts) DepositCommands(dsn string) (python, swh []string) {
	p.t.Helper()
	uploads := filepath.Join(p.dir, "uploads")
	config, err := p.Storage.deposit(p.servers.Commands, dsn, uploads)
	if err = cmp.Or(err, os.Mkdir(uploads, 0o755)); err != nil {
		p.t.Fatal(err)
	}
	begin := p.configured("deposit", config)
	return slices.Concat(begin, []string{p.python}), slices.Concat(begin, []string{p.swh})
}

// StartLister starts a worker that lists origins and reports them to the scheduler.
func (p *Parts) StartLister(processes int) *testenv.Child {
	p.t.Helper()
	return p.startWorker("lister", processes, lister(p.broker, p.servers.Listers))
}

// StartLoader starts a worker with the loaders' tasks from the queues.
func (p *Parts) StartLoader(name string, processes int, queues ...string) *testenv.Child {
	p.t.Helper()
	return p.startWorker(name, processes, p.Storage.loader(p.broker, queues...))
}

// startWorker starts a worker in the time zone UTC, as listers assume UTC for a forge's times.
func (p *Parts) startWorker(name string, processes int, config map[string]any) *testenv.Child {
	p.t.Helper()
	name = "worker-" + name
	return testenv.StartChild(p.t, p.dir, name, slices.Concat(p.configured(name, config), []string{p.python}, worker(name, processes))...)
}

// configured returns the beginning of a command with a configuration.
func (p *Parts) configured(name string, config map[string]any) []string {
	p.t.Helper()
	text, err := json.Marshal(config) // which is YAML, too
	path := filepath.Join(p.dir, name+".json")
	if err = cmp.Or(err, os.WriteFile(path, text, 0o600)); err != nil {
		p.t.Fatal(err)
	}
	return []string{"env", "TZ=UTC", "SWH_CONFIG_FILENAME=" + path}
}
