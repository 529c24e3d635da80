package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// load adds tasks and origins until ctx ends.
type load struct {
	c      *cluster
	rounds int
	added  []string             // keys and URLs whose commit was confirmed
	urgent map[string]time.Time // tasks with priority, and when they were added
	graphs int
}

// Numbers of plain tasks, tasks with priority, and origins in a round. They load two workers on a small machine
// fully.
const (
	plainTasks, urgentTasks, gitOrigins, hgOrigins = 6, 2, 8, 4
	roundEvery                                     = 2 * time.Second
	graphEvery                                     = 5 // rounds
)

// run adds work in rounds. It doesn't repeat a failed round, which may have been committed.
func (l *load) run(ctx context.Context) {
	if l.urgent == nil {
		l.urgent = map[string]time.Time{}
	}
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		l.rounds++
		began := time.Now()
		if keys, err := l.round(ctx); err == nil {
			l.added = append(l.added, keys...)
			for _, key := range keys[plainTasks : plainTasks+urgentTasks] {
				l.urgent[key] = began
			}
		}
		if l.rounds%graphEvery == 0 {
			l.submit(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (l *load) round(ctx context.Context) (keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var statement strings.Builder
	for i := range plainTasks + urgentTasks {
		key, kind, priority := fmt.Sprintf("task/%d/%d", l.rounds, i), "list-chaos", "null"
		if i%3 == 0 {
			kind = "index-chaos"
		}
		if i >= plainTasks {
			kind, priority = "list-chaos", "'high'"
		}
		fmt.Fprintf(&statement, `insert into task (type, arguments, next_run, status, policy, priority, retries_left)
			values ('%s', '{"args": [], "kwargs": {"key": "%s"}}', now(), 'next_run_not_scheduled', 'oneshot', %s, 5);`, kind, key, priority)
		keys = append(keys, key)
	}
	for i := range gitOrigins + hgOrigins {
		visitType, lister := "git", 1+i%2
		if i >= gitOrigins {
			visitType = "hg"
		}
		url := fmt.Sprintf("https://example.org/%s/%d/%d", visitType, l.rounds, i)
		fmt.Fprintf(&statement, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-00000000000%d', '%s', '%s', '{}', true, now());`, lister, url, visitType)
		keys = append(keys, url)
	}
	// Statements without parameters are one transaction.
	_, err = l.c.pool.Exec(ctx, statement.String())
	return keys, err
}

// submit submits a graph: one task, three tasks that depend on it, and one that depends on these.
func (l *load) submit(ctx context.Context) {
	l.graphs++
	task := func(name, dependsOn string) string {
		return fmt.Sprintf("- {name: %s, type: index-chaos, kwargs: {key: graph/%d/%s}, depends_on: [%s]}\n", name, l.graphs, name, dependsOn)
	}
	text := "tasks:\n" + task("first", "") + task("a", "first") + task("b", "first") + task("c", "first") + task("last", "a, b, c")
	path := filepath.Join(l.c.dir, "graph.yml")
	if os.WriteFile(path, []byte(text), 0o600) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_ = exec.CommandContext(ctx, l.c.program, "-C", l.c.config, "task", "graph", "submit", path).Run()
}
