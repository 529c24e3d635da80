package main

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// registered adds what is registered with a daemon's registry to found: our
// metrics by name, with their labels in order.
func registered(registry *prometheus.Registry, found map[string]string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	pattern := regexp.MustCompile(`fqName: "(swh_scheduler_\w+)".*constLabels: \{(.*)\}, variableLabels: \{([^}]*)\}`)
	for desc := range descs {
		if m := pattern.FindStringSubmatch(desc.String()); m != nil {
			labels := append(strings.Split(m[3], ","), regexp.MustCompile(`="[^"]*"`).ReplaceAllString(m[2], ""))
			labels = strings.FieldsFunc(strings.Join(labels, ","), func(r rune) bool { return r == ',' })
			slices.Sort(labels)
			found[m[1]] = strings.Join(labels, ", ")
		}
	}
}

// docs/metrics.md lists the metrics that the daemons export, no more and no less,
// with their labels. The daemons run within the test, with all that is optional.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_\\w+)` \\| (?:gauge|counter|histogram) \\| (.*?) ?\\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ")
		slices.Sort(labels)
		documented[m[1]] = strings.Join(labels, ", ")
	}
	config := configFile(t, services(t)+journalSection(t, "")+`
lost_after: {load-git: 1 day}
shares: {load-git: {by: lister, default: 1}}
lanes:
  load-hg:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 s, slots: 6}
  - {name: slow, time_limit: 10 s, slots: 3}
`)
	for _, words := range []string{"task-type add load-git swh.test.git git", "task-type add load-hg swh.test.hg hg", "migrate"} {
		if r := ours(t, append([]string{"-C", config}, strings.Fields(words)...)...); r.code != 0 {
			t.Fatal(r)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	var apps []*app
	for _, command := range []string{
		"start-runner", "start-runner-first-visits", "schedule-recurrent", "start-listener", "journal-client", "rpc-serve --host 127.0.0.1 --port 0",
	} {
		a := newApp(io.Discard, t.Output())
		apps = append(apps, a)
		ended.Go(func() {
			root := newRoot(a)
			root.SetArgs(append([]string{"-C", config, "--metrics-addr", "127.0.0.1:0"}, strings.Fields(command)...))
			a.exitCode(root, root.ExecuteContext(ctx)) // which logs what is wrong
		})
	}
	found := map[string]string{}
	for deadline := time.Now().Add(time.Minute); !maps.Equal(found, documented) && time.Now().Before(deadline); pause(50 * time.Millisecond) {
		for _, a := range apps {
			registered(a.metrics, found)
		}
	}
	stop()
	ended.Wait()
	if diff := cmp.Diff(found, documented); diff != "" {
		t.Errorf("docs/metrics.md (-the daemons +the page):\n%s", diff)
	}
}
