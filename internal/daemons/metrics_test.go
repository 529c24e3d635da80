package daemons_test

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/dashboard"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/journal"
	"swh-scheduler/sql/db"
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

// docs/reference/metrics.md lists the metrics that the daemons export, no more and no less,
// with their labels, and the daemons' loops. The daemons run with all that is optional. Alerts use these metrics and
// labels.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_\\w+)` \\| (?:gauge|counter|histogram) \\| (.*?) ?\\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ")
		slices.Sort(labels)
		documented[m[1]] = strings.Join(labels, ", ")
	}
	_, loops, _ := strings.Cut(string(page), "### Loops\n")
	loops, _, _ = strings.Cut(loops, "\n### ")
	for _, m := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(loops, -1) {
		documented["the loop "+m[1]] = ""
	}

	all := options(t, "test")
	all.MetricsAddr = "127.0.0.1:0"
	all.Config.LostAfter = map[string]time.Duration{"load-git": 24 * time.Hour}
	all.Config.Archive.After = map[string]time.Duration{"load-git": 24 * time.Hour}
	all.Config.Shares = map[string]model.Shares{"load-git": {By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour}}
	all.Config.Hosters.Default.MaxInFlight = 5
	all.Config.Lanes = map[string][]model.Lane{"load-hg": {
		{Name: "express", Queue: "express:swh.test.hg", SoftTimeLimit: time.Second, TimeLimit: time.Minute, Slots: 6},
		{Name: "slow", Queue: "swh.test.hg", SoftTimeLimit: 10 * time.Second, TimeLimit: time.Minute, Slots: 3},
	}}
	all.Config.Journal.Brokers = testenv.Kafka(t)
	all.Config.Journal.Prefix = testenv.Journal(t, 2)
	all.Config.Journal.GroupID = all.Config.Journal.Prefix
	store, err := all.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, backend := range map[string]string{"load-git": "swh.test.git", "load-hg": "swh.test.hg"} {
		if err := store.CreateTaskType(t.Context(), config.DefaultTaskType(name, backend)); err != nil {
			t.Fatal(err)
		}
	}

	testenv.Exec(t, store.Pool(), "insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-4000-8000-000000000001', 'gitweb', 'a.example', '{}', now())")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.full_listings (lister_id, run, ended, cutoff, state, enabled, missing, allowed)
		values ('00000000-0000-4000-8000-000000000001', 7, now(), now(), 'held', 2, 2, 1)`)

	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	var registries []*prometheus.Registry
	start := func(run func(process.Options) error) {
		o := all
		o.Metrics = prometheus.NewRegistry()
		registries = append(registries, o.Metrics)
		ended.Go(func() {
			if err := run(o); err != nil {
				t.Error(err)
			}
		})
	}
	start(func(o process.Options) error {
		r := daemons.Runner{Options: o, Period: time.Minute}
		return r.Run(ctx)
	})
	start(func(o process.Options) error {
		v := daemons.FirstVisits{Options: o, Period: time.Minute}
		return v.Run(ctx)
	})
	start(func(o process.Options) error {
		r := daemons.Recurrent{Options: o}
		return r.Run(ctx)
	})
	start(func(o process.Options) error {
		l := daemons.Listener{Options: o}
		return l.Run(ctx)
	})
	start(func(o process.Options) error {
		j := daemons.Journal{Options: o, Read: func(ctx context.Context, client *journal.Client) error {
			_, err := client.Run(ctx)
			return err
		}}
		return j.Run(ctx)
	})
	start(func(o process.Options) error {
		r := daemons.RPC{Options: o, Address: "127.0.0.1:0"}
		return r.Run(ctx)
	})
	start(func(o process.Options) error {
		d := daemons.Dashboard{Options: o, Address: "127.0.0.1:0", NewSite: func(_ context.Context, store *db.Store, metrics prometheus.Registerer) (rpc.Site, func() error, error) {
			site, err := dashboard.New(dashboard.Options{Reads: store, Acts: store, Config: config.Default(), Log: o.Log, Metrics: metrics})
			return site, func() error { return nil }, err
		}}
		return d.Run(ctx)
	})

	found, held := map[string]string{}, map[string]float64{}
	for deadline := time.Now().Add(time.Minute); (!maps.Equal(found, documented) || held["gitweb"] != 1) && time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		for _, r := range registries {
			registered(r, found)
			for loop := range gauge(t, r, "swh_scheduler_loop_overdue_seconds", "loop") {
				found["the loop "+loop] = ""
			}
			maps.Copy(held, gauge(t, r, "swh_scheduler_listings_held", "lister"))
		}
	}
	stop()
	ended.Wait()
	if diff := cmp.Diff(found, documented); diff != "" {
		t.Errorf("docs/reference/metrics.md (-the daemons +the page):\n%s", diff)
	}
	alertsUse(t, found)
	if held["gitweb"] != 1 {
		t.Errorf("held listings are %v, want one of gitweb", held)
	}
}

var (
	selected  = regexp.MustCompile(`(swh_scheduler_\w+)(?:\{([^}]*)\})?`)
	grouped   = regexp.MustCompile(`\b(?:by|on|group_left|group_right) ?\(([^)]*)\)`)
	labelName = regexp.MustCompile(`(\w+) ?[=!]~?`)
	shown     = regexp.MustCompile(`\$labels\.(\w+)`)
)

// alertsUse checks that the alerts use metrics that daemons export, and labels that these have.
func alertsUse(t *testing.T, exported map[string]string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(testenv.Read(t, filepath.Join("..", "..", "deploy", "prometheus", "alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all := map[string]bool{"job": true, "instance": true} // Prometheus adds these
			for _, m := range selected.FindAllStringSubmatch(rule.Expr, -1) {
				name := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(m[1], "")
				if _, ok := exported[m[1]]; ok {
					name = m[1]
				}
				labels, ok := exported[name]
				if !ok {
					t.Errorf("%s: no daemon exports %s", rule.Alert, m[1])
				}
				has := map[string]bool{"job": true, "instance": true, "le": name != m[1]}
				for label := range strings.SplitSeq(labels, ", ") {
					has[label], all[label] = true, true
				}
				for _, of := range labelName.FindAllStringSubmatch(m[2], -1) {
					if !has[of[1]] {
						t.Errorf("%s: %s has no label %s", rule.Alert, m[1], of[1])
					}
				}
			}
			kept := map[string]bool{}
			for _, m := range grouped.FindAllStringSubmatch(rule.Expr, -1) {
				for label := range strings.SplitSeq(strings.ReplaceAll(m[1], " ", ""), ",") {
					if kept[label] = true; label != "" && !all[label] && label != "le" {
						t.Errorf("%s: no metric of %s has a label %s", rule.Alert, rule.Expr, label)
					}
				}
			}
			for _, text := range rule.Annotations {
				for _, m := range shown.FindAllStringSubmatch(text, -1) {
					if !all[m[1]] || len(kept) > 0 && !kept[m[1]] {
						t.Errorf("%s: its alerts have no label %s", rule.Alert, m[1])
					}
				}
			}
			names[rule.Alert] = true
		}
	}
	for _, alert := range []string{"HostersRefuse", "ListingHeld"} {
		if !names[alert] {
			t.Errorf("alerts.yml lacks %s", alert)
		}
	}
}
