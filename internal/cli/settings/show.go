package settings

import (
	"bytes"
	"maps"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/sql/postgres"
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
		var text bytes.Buffer
		encoder := yaml.NewEncoder(&text)
		encoder.SetIndent(2)
		if err := encoder.Encode(viewConfig(a.Config)); err != nil {
			return err
		}
		keys := map[string]any{}
		if a.Config.File != "" {
			keys["file"] = a.Config.File
		}
		if err := yaml.Unmarshal(text.Bytes(), &keys); err != nil {
			return err
		}
		return a.Show(output, keys, text.String())
	})
	return cmd
}

// configView is a configuration by the file's keys, without secrets. Its fields are those whose form in the file
// differs from that in config.Config.
type configView struct {
	Scheduler struct {
		Cls          string `yaml:"cls,omitempty"`
		DB           string `yaml:"db,omitempty"`
		URL          string `yaml:"url,omitempty"`
		MaxPoolConns int    `yaml:"max_pool_conns,omitempty"`

		SessionKwargs map[string]any `yaml:"session_kwargs,omitempty"`
	} `yaml:"scheduler"`
	Database struct {
		Direct  string `yaml:"direct,omitempty"`
		Replica string `yaml:"replica,omitempty"`
	} `yaml:"database,omitempty"`
	Celery   map[string]any `yaml:"celery"`
	RabbitMQ struct {
		ManagementURL string  `yaml:"management_url,omitempty"`
		StatsAge      float64 `yaml:"stats_age"`
	} `yaml:"rabbitmq"`
	SchedulingPolicy          map[string][]policyView `yaml:"scheduling_policy"`
	NoOriginsScheduledBackoff float64                 `yaml:"no_origins_scheduled_backoff"`
	QueueFullBackoff          float64                 `yaml:"queue_full_backoff"`
	Lanes                     map[string][]laneView   `yaml:"lanes,omitempty"`

	*config.Config `yaml:",inline"`
}

type policyView struct {
	Policy            model.VisitPolicy `yaml:"policy"`
	Weight            float64           `yaml:"weight"`
	TableSample       float64           `yaml:"tablesample,omitempty"`
	Exact             bool              `yaml:"exact"`
	AbsoluteCooldown  time.Duration     `yaml:"absolute_cooldown"`
	ScheduledCooldown time.Duration     `yaml:"scheduled_cooldown"`
	FailedCooldown    time.Duration     `yaml:"failed_cooldown"`
	NotFoundCooldown  time.Duration     `yaml:"not_found_cooldown"`
	Forks             float64           `yaml:"forks,omitempty"`
	LongestWait       time.Duration     `yaml:"longest_wait,omitempty"`
}

type laneView struct {
	model.Lane `yaml:",inline"`
	TimeLimit  struct {
		Soft time.Duration `yaml:"soft"`
		Hard time.Duration `yaml:"hard"`
	} `yaml:"time_limit"`
}

func viewConfig(c *config.Config) configView {
	v := configView{
		Config: c, NoOriginsScheduledBackoff: c.NoOriginsScheduledBackoff.Seconds(), QueueFullBackoff: c.QueueFullBackoff.Seconds(),
		SchedulingPolicy: map[string][]policyView{}, Lanes: map[string][]laneView{},
	}
	v.Scheduler.Cls, v.Scheduler.MaxPoolConns = c.Scheduler.Cls, c.Scheduler.MaxPoolConns
	for shown, dsn := range map[*string]config.Secret{
		&v.Scheduler.DB: c.Scheduler.DB, &v.Database.Direct: c.Database.Direct, &v.Database.Replica: c.Database.Replica,
	} {
		if dsn != "" {
			*shown = postgres.Redacted(string(dsn))
		}
	}
	v.Scheduler.URL, v.Scheduler.SessionKwargs = shownURL(c.Scheduler.URL), map[string]any{}
	if s := c.Scheduler.SessionKwargs; s.Cert != "" {
		v.Scheduler.SessionKwargs["cert"] = []string{s.Cert, s.Key}
	}
	if s := c.Scheduler.SessionKwargs; s.Verify != "" {
		v.Scheduler.SessionKwargs["verify"] = s.Verify
	}
	if s := c.Scheduler.SessionKwargs; s.Authorization != "" {
		v.Scheduler.SessionKwargs["headers"] = map[string]string{"Authorization": s.Authorization.String()}
	}
	v.Celery = map[string]any{"task_broker": c.Celery.TaskBroker.String()}
	maps.Copy(v.Celery, c.Celery.Given)
	if broker, err := c.Broker(); err == nil {
		v.Celery["task_broker"] = broker.String()
	}
	v.RabbitMQ.ManagementURL, v.RabbitMQ.StatsAge = shownURL(c.RabbitMQ.ManagementURL), c.RabbitMQ.StatsAge.Seconds()
	for visitType, policies := range c.SchedulingPolicy {
		for _, p := range policies {
			f := p.Filter.Cooldowns
			v.SchedulingPolicy[visitType] = append(v.SchedulingPolicy[visitType], policyView{
				p.Filter.Policy, p.Weight, p.Filter.TableSample, !p.Filter.Inexact, f.Absolute, f.Scheduled, f.Failed, f.NotFound, p.Forks, p.LongestWait,
			})
		}
	}
	for taskType, lanes := range c.Lanes {
		for _, l := range lanes {
			view := laneView{Lane: l}
			view.TimeLimit.Soft, view.TimeLimit.Hard = l.SoftTimeLimit, l.TimeLimit
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
