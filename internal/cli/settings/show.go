package settings

import (
	"bytes"
	"maps"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/sql/db"
)

func newConfigShow(a *command.App) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "show [OPTIONS]",
		Short: "Show the configuration in force",
		Long: `Show the configuration in force: the file with defaults and the changes of the command
line and the environment. Addresses are shown without passwords, other secrets as
[redacted].`,
	}
	cmd.Flags().Var(command.Choice(&output, "text", "json"), "output", "form of the output: text (which is YAML) or json")
	cmd.RunE = a.Configured(func(*cobra.Command, []string) error {
		view := viewConfig(a.Config)
		var text bytes.Buffer
		encoder := yaml.NewEncoder(&text)
		encoder.SetIndent(2)
		if err := encoder.Encode(view); err != nil {
			return err
		}
		return a.Show(output, view, text.String())
	})
	return cmd
}

// configView is a configuration without secrets, by the file's keys. Durations are texts
// that the file accepts.
type configView struct {
	File      string `yaml:"-" json:"file,omitempty"`
	Scheduler struct {
		Cls          string `yaml:"cls,omitempty" json:"cls,omitempty"`
		DB           string `yaml:"db,omitempty" json:"db,omitempty"`
		URL          string `yaml:"url,omitempty" json:"url,omitempty"`
		MaxPoolConns int    `yaml:"max_pool_conns,omitempty" json:"max_pool_conns,omitempty"`
	} `yaml:"scheduler" json:"scheduler"`
	Database struct {
		Direct  string `yaml:"direct,omitempty" json:"direct,omitempty"`
		Replica string `yaml:"replica,omitempty" json:"replica,omitempty"`
	} `yaml:"database,omitempty" json:"database,omitzero"`
	Celery   map[string]any `yaml:"celery" json:"celery"`
	RabbitMQ struct {
		ManagementURL string  `yaml:"management_url,omitempty" json:"management_url,omitempty"`
		StatsAge      float64 `yaml:"stats_age" json:"stats_age"`
	} `yaml:"rabbitmq" json:"rabbitmq"`
	Journal                   config.Journal          `yaml:"journal" json:"journal"`
	RPCServe                  config.RPCServe         `yaml:"rpc_serve" json:"rpc_serve"`
	Dashboard                 config.Dashboard        `yaml:"dashboard,omitempty" json:"dashboard,omitzero"`
	SchedulingPolicy          map[string][]policyView `yaml:"scheduling_policy" json:"scheduling_policy"`
	NoOriginsScheduledBackoff float64                 `yaml:"no_origins_scheduled_backoff" json:"no_origins_scheduled_backoff"`
	QueueFullBackoff          float64                 `yaml:"queue_full_backoff" json:"queue_full_backoff"`
	LostAfter                 map[string]string       `yaml:"lost_after,omitempty" json:"lost_after,omitempty"`
	Archive                   *archiveView            `yaml:"archive,omitempty" json:"archive,omitempty"`
	Sentry                    config.Sentry           `yaml:"sentry,omitempty" json:"sentry,omitzero"`
	FailuresKeepDate          bool                    `yaml:"failures_keep_date,omitempty" json:"failures_keep_date,omitempty"`
	VisitRules                visitRulesView          `yaml:"visit_rules" json:"visit_rules"`
	UpdateMetricsAfter        string                  `yaml:"update_metrics_after,omitempty" json:"update_metrics_after,omitempty"`
	Shares                    map[string]sharesView   `yaml:"shares,omitempty" json:"shares,omitempty"`
	Hosters                   *hostersView            `yaml:"hosters,omitempty" json:"hosters,omitempty"`
	PriorityAgeing            string                  `yaml:"priority_ageing" json:"priority_ageing"`
	Lanes                     map[string][]laneView   `yaml:"lanes,omitempty" json:"lanes,omitempty"`
}

type archiveView struct {
	After     map[string]string `yaml:"after" json:"after"`
	Directory string            `yaml:"directory,omitempty" json:"directory,omitempty"`
}

type policyView struct {
	Policy            model.VisitPolicy `yaml:"policy" json:"policy"`
	Weight            float64           `yaml:"weight" json:"weight"`
	TableSample       float64           `yaml:"tablesample,omitempty" json:"tablesample,omitempty"`
	Exact             bool              `yaml:"exact" json:"exact"`
	AbsoluteCooldown  string            `yaml:"absolute_cooldown" json:"absolute_cooldown"`
	ScheduledCooldown string            `yaml:"scheduled_cooldown" json:"scheduled_cooldown"`
	FailedCooldown    string            `yaml:"failed_cooldown" json:"failed_cooldown"`
	NotFoundCooldown  string            `yaml:"not_found_cooldown" json:"not_found_cooldown"`
	Forks             float64           `yaml:"forks,omitempty" json:"forks,omitempty"`
	LongestWait       string            `yaml:"longest_wait,omitempty" json:"longest_wait,omitempty"`
}

type sharesView struct {
	By          model.ShareKey     `yaml:"by" json:"by"`
	Weights     map[string]float64 `yaml:"weights,omitempty" json:"weights,omitempty"`
	Default     float64            `yaml:"default" json:"default"`
	HalfLife    string             `yaml:"half_life" json:"half_life"`
	MaxInFlight map[string]int     `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"`
	Priority    map[string]uint8   `yaml:"priority,omitempty" json:"priority,omitempty"`
}

type visitRulesView struct {
	Intervals         []string `yaml:"intervals,flow" json:"intervals"`
	Fudge             float64  `yaml:"fudge" json:"fudge"`
	DisableAfter      int      `yaml:"disable_after" json:"disable_after"`
	DisableAfterMixed int      `yaml:"disable_after_mixed,omitempty" json:"disable_after_mixed,omitempty"`
}

type hostersView struct {
	Limits    map[string]hosterLimitView `yaml:"limits,omitempty" json:"limits,omitempty"`
	Default   *hosterLimitView           `yaml:"default,omitempty" json:"default,omitempty"`
	LostAfter string                     `yaml:"lost_after" json:"lost_after"`
}

type hosterLimitView struct {
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"`
	PerMinute   int `yaml:"per_minute,omitempty" json:"per_minute,omitempty"`
}

type laneView struct {
	Name      string `yaml:"name" json:"name"`
	Queue     string `yaml:"queue" json:"queue"`
	TimeLimit struct {
		Soft string `yaml:"soft" json:"soft"`
		Hard string `yaml:"hard" json:"hard"`
	} `yaml:"time_limit" json:"time_limit"`
	Slots    int  `yaml:"slots,omitempty" json:"slots,omitempty"`
	MinSlots int  `yaml:"min_slots" json:"min_slots"`
	MaxSlots int  `yaml:"max_slots,omitempty" json:"max_slots,omitempty"`
	Retry    bool `yaml:"retry,omitempty" json:"retry,omitempty"`

	TargetWait string `yaml:"target_wait,omitempty" json:"target_wait,omitempty"`
}

func viewConfig(c *config.Config) configView {
	v := configView{
		File: c.File, Journal: c.Journal, RPCServe: c.RPCServe, Sentry: c.Sentry, FailuresKeepDate: c.FailuresKeepDate,
		NoOriginsScheduledBackoff: c.NoOriginsScheduledBackoff.Seconds(), QueueFullBackoff: c.QueueFullBackoff.Seconds(), PriorityAgeing: c.PriorityAgeing.String(),
		SchedulingPolicy: map[string][]policyView{}, LostAfter: map[string]string{}, Shares: map[string]sharesView{}, Lanes: map[string][]laneView{},
	}
	v.Scheduler.Cls, v.Scheduler.MaxPoolConns = c.Scheduler.Cls, c.Scheduler.MaxPoolConns
	for shown, dsn := range map[*string]config.Secret{
		&v.Scheduler.DB: c.Scheduler.DB, &v.Database.Direct: c.Database.Direct, &v.Database.Replica: c.Database.Replica,
	} {
		if dsn != "" {
			*shown = db.Redacted(string(dsn))
		}
	}
	v.Scheduler.URL = shownURL(c.Scheduler.URL)
	v.Celery = map[string]any{"task_broker": c.Celery.TaskBroker.String()}
	maps.Copy(v.Celery, c.Celery.Given)
	if broker, err := c.Broker(); err == nil {
		v.Celery["task_broker"] = broker.String()
	}
	v.RabbitMQ.ManagementURL = shownURL(c.RabbitMQ.ManagementURL)
	v.RabbitMQ.StatsAge = c.RabbitMQ.StatsAge.Seconds()
	for visitType, policies := range c.SchedulingPolicy {
		for _, p := range policies {
			f := p.Filter.Cooldowns
			longest := ""
			if p.LongestWait > 0 {
				longest = p.LongestWait.String()
			}
			v.SchedulingPolicy[visitType] = append(v.SchedulingPolicy[visitType], policyView{
				p.Filter.Policy, p.Weight, p.Filter.TableSample, !p.Filter.Inexact, f.Absolute.String(), f.Scheduled.String(), f.Failed.String(), f.NotFound.String(),
				p.Forks, longest,
			})
		}
	}
	if c.UpdateMetricsAfter > 0 {
		v.UpdateMetricsAfter = c.UpdateMetricsAfter.String()
	}
	for taskType, after := range c.LostAfter {
		v.LostAfter[taskType] = after.String()
	}
	if c.Archive.After != nil {
		v.Archive = &archiveView{After: map[string]string{}, Directory: c.Archive.Directory}
		for taskType, after := range c.Archive.After {
			v.Archive.After[taskType] = after.String()
		}
	}
	for taskType, s := range c.Shares {
		v.Shares[taskType] = sharesView{s.By, s.Weights, s.Default, s.HalfLife.String(), s.MaxInFlight, s.Priorities}
	}
	r := c.VisitRules
	v.VisitRules = visitRulesView{Fudge: r.Fudge, DisableAfter: r.DisableAfter, DisableAfterMixed: r.DisableAfterMixed}
	for _, interval := range r.Intervals {
		v.VisitRules.Intervals = append(v.VisitRules.Intervals, interval.String())
	}
	if h := c.Hosters; h.Any() {
		v.Hosters = &hostersView{Limits: map[string]hosterLimitView{}, LostAfter: h.LostAfter.String()}
		for hoster, limit := range h.Limits {
			v.Hosters.Limits[hoster] = hosterLimitView(limit)
		}
		if h.Default.Limited() {
			v.Hosters.Default = new(hosterLimitView(h.Default))
		}
	}
	for taskType, lanes := range c.Lanes {
		for _, l := range lanes {
			view := laneView{Name: l.Name, Queue: l.Queue, Slots: l.Slots, MinSlots: l.MinSlots, MaxSlots: l.MaxSlots, Retry: l.Retry}
			if l.TargetWait > 0 {
				view.TargetWait = l.TargetWait.String()
			}
			view.TimeLimit.Soft, view.TimeLimit.Hard = l.SoftTimeLimit.String(), l.TimeLimit.String()
			v.Lanes[taskType] = append(v.Lanes[taskType], view)
		}
	}
	return v
}

// shownURL returns a URL without its password.
func shownURL(secret config.Secret) string {
	client, err := rpc.NewClient(string(secret))
	if secret == "" || err != nil {
		return secret.String()
	}
	defer client.Close()
	return client.String()
}
