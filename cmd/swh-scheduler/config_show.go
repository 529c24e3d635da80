package main

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newConfigShow(a *app) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "show [OPTIONS]",
		Short: "Show the configuration that is in force",
		Long: `Show the configuration that is in force: the file with its defaults, and what the
command line and the environment change. Of addresses the passwords are left out, and
other secrets are shown as [redacted].`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().Var(choice{&output, []string{"text", "json"}}, "output", "form of the output: text (which is YAML) or json")
	cmd.RunE = a.configured(func(*cobra.Command, []string) error {
		view := viewConfig(a.config)
		if output == "json" {
			return a.printJSON(view)
		}
		var text bytes.Buffer
		encoder := yaml.NewEncoder(&text)
		encoder.SetIndent(2)
		if err := encoder.Encode(view); err != nil {
			return err
		}
		return a.print(text.String())
	})
	return cmd
}

// configView is a configuration without secrets, by the file's keys. Durations
// are texts that the file can have too.
type configView struct {
	File      string `yaml:"-" json:"file,omitempty"`
	Scheduler struct {
		Cls          string `yaml:"cls,omitempty" json:"cls,omitempty"`
		DB           string `yaml:"db,omitempty" json:"db,omitempty"`
		URL          string `yaml:"url,omitempty" json:"url,omitempty"`
		MaxPoolConns int    `yaml:"max_pool_conns,omitempty" json:"max_pool_conns,omitempty"`
	} `yaml:"scheduler" json:"scheduler"`
	Celery struct {
		TaskBroker string `yaml:"task_broker" json:"task_broker"`
	} `yaml:"celery" json:"celery"`
	RabbitMQ struct {
		ManagementURL string `yaml:"management_url,omitempty" json:"management_url,omitempty"`
	} `yaml:"rabbitmq" json:"rabbitmq"`
	Journal  journalView `yaml:"journal" json:"journal"`
	RPCServe struct {
		TLSCertificate string `yaml:"tls_certificate,omitempty" json:"tls_certificate,omitempty"`
		TLSKey         string `yaml:"tls_key,omitempty" json:"tls_key,omitempty"`
		Token          string `yaml:"token,omitempty" json:"token,omitempty"`
		Username       string `yaml:"username,omitempty" json:"username,omitempty"`
		Password       string `yaml:"password,omitempty" json:"password,omitempty"`
		MaxBodySize    int    `yaml:"max_body_size" json:"max_body_size"`
	} `yaml:"rpc_serve" json:"rpc_serve"`
	SchedulingPolicy          map[string][]policyView `yaml:"scheduling_policy" json:"scheduling_policy"`
	NoOriginsScheduledBackoff float64                 `yaml:"no_origins_scheduled_backoff" json:"no_origins_scheduled_backoff"`
	QueueFullBackoff          float64                 `yaml:"queue_full_backoff" json:"queue_full_backoff"`
	LostAfter                 map[string]string       `yaml:"lost_after,omitempty" json:"lost_after,omitempty"`
	FailuresKeepDate          bool                    `yaml:"failures_keep_date,omitempty" json:"failures_keep_date,omitempty"`
	Shares                    map[string]sharesView   `yaml:"shares,omitempty" json:"shares,omitempty"`
	Lanes                     map[string][]laneView   `yaml:"lanes,omitempty" json:"lanes,omitempty"`
}

type journalView struct {
	Brokers          []string          `yaml:"brokers,omitempty" json:"brokers,omitempty"`
	GroupID          string            `yaml:"group_id,omitempty" json:"group_id,omitempty"`
	Prefix           string            `yaml:"prefix" json:"prefix"`
	Privileged       bool              `yaml:"privileged,omitempty" json:"privileged,omitempty"`
	BatchSize        int               `yaml:"batch_size" json:"batch_size"`
	AutoOffsetReset  string            `yaml:"auto_offset_reset" json:"auto_offset_reset"`
	OnEOF            string            `yaml:"on_eof" json:"on_eof"`
	StopAfterObjects int               `yaml:"stop_after_objects,omitempty" json:"stop_after_objects,omitempty"`
	ConsumerSettings map[string]string `yaml:"consumer_settings,omitempty" json:"consumer_settings,omitempty"`
}

type policyView struct {
	Policy            scheduler.VisitPolicy `yaml:"policy" json:"policy"`
	Weight            float64               `yaml:"weight" json:"weight"`
	TableSample       float64               `yaml:"tablesample,omitempty" json:"tablesample,omitempty"`
	AbsoluteCooldown  string                `yaml:"absolute_cooldown" json:"absolute_cooldown"`
	ScheduledCooldown string                `yaml:"scheduled_cooldown" json:"scheduled_cooldown"`
	FailedCooldown    string                `yaml:"failed_cooldown" json:"failed_cooldown"`
	NotFoundCooldown  string                `yaml:"not_found_cooldown" json:"not_found_cooldown"`
}

type sharesView struct {
	By       scheduler.ShareKey `yaml:"by" json:"by"`
	Weights  map[string]float64 `yaml:"weights,omitempty" json:"weights,omitempty"`
	Default  float64            `yaml:"default" json:"default"`
	HalfLife string             `yaml:"half_life" json:"half_life"`
}

type laneView struct {
	Name      string         `yaml:"name" json:"name"`
	Queue     string         `yaml:"queue" json:"queue"`
	TimeLimit timeLimitsView `yaml:"time_limit" json:"time_limit"`
	Slots     int            `yaml:"slots,omitempty" json:"slots,omitempty"`
	MinSlots  int            `yaml:"min_slots" json:"min_slots"`
	MaxSlots  int            `yaml:"max_slots,omitempty" json:"max_slots,omitempty"`
}

type timeLimitsView struct {
	Soft string `yaml:"soft" json:"soft"`
	Hard string `yaml:"hard" json:"hard"`
}

func viewConfig(c *config.Config) configView {
	v := configView{File: c.File, NoOriginsScheduledBackoff: c.NoOriginsScheduledBackoff.Seconds(), QueueFullBackoff: c.QueueFullBackoff.Seconds()}
	v.Scheduler.Cls, v.Scheduler.MaxPoolConns = c.Scheduler.Cls, c.Scheduler.MaxPoolConns
	if c.Scheduler.DB != "" {
		v.Scheduler.DB = sql.Redacted(string(c.Scheduler.DB))
	}
	v.Scheduler.URL = shownURL(c.Scheduler.URL)
	v.Celery.TaskBroker = c.Celery.TaskBroker.String()
	if broker, err := celery.ParseBroker(string(c.Celery.TaskBroker)); err == nil {
		v.Celery.TaskBroker = broker.String()
	}
	v.RabbitMQ.ManagementURL = shownURL(c.RabbitMQ.ManagementURL)
	j := c.Journal
	v.Journal = journalView{
		Brokers: j.Brokers, GroupID: j.GroupID, Prefix: j.Prefix, Privileged: j.Privileged, BatchSize: j.BatchSize,
		AutoOffsetReset: j.AutoOffsetReset, OnEOF: j.OnEOF, StopAfterObjects: j.StopAfterObjects, ConsumerSettings: j.ConsumerSettings.Public(),
	}
	r := c.RPCServe
	v.RPCServe.TLSCertificate, v.RPCServe.TLSKey = r.TLSCertificate, r.TLSKey
	v.RPCServe.Token, v.RPCServe.Username, v.RPCServe.Password = r.Token.String(), r.Username, r.Password.String()
	v.RPCServe.MaxBodySize = r.MaxBodySize
	v.SchedulingPolicy = map[string][]policyView{}
	for visitType, policies := range c.SchedulingPolicy {
		for _, p := range policies {
			v.SchedulingPolicy[visitType] = append(v.SchedulingPolicy[visitType], viewPolicy(p))
		}
	}
	v.LostAfter = map[string]string{}
	for taskType, after := range c.LostAfter {
		v.LostAfter[taskType] = after.String()
	}
	v.FailuresKeepDate = c.FailuresKeepDate
	v.Shares = map[string]sharesView{}
	for taskType, s := range c.Shares {
		v.Shares[taskType] = sharesView{s.By, s.Weights, s.Default, s.HalfLife.String()}
	}
	v.Lanes = map[string][]laneView{}
	for taskType, lanes := range c.Lanes {
		for _, l := range lanes {
			limits := timeLimitsView{l.SoftTimeLimit.String(), l.TimeLimit.String()}
			v.Lanes[taskType] = append(v.Lanes[taskType], laneView{l.Name, l.Queue, limits, l.Slots, l.MinSlots, l.MaxSlots})
		}
	}
	return v
}

// shownURL is a URL without its password.
func shownURL(secret config.Secret) string {
	client, err := rpc.NewClient(string(secret))
	if secret == "" || err != nil {
		return secret.String()
	}
	defer client.Close()
	return client.String()
}

func viewPolicy(p scheduler.WeightedPolicy) policyView {
	cooldown := func(d time.Duration) string { return d.String() }
	c := p.Filter.Cooldowns
	return policyView{
		Policy: p.Filter.Policy, Weight: p.Weight, TableSample: p.Filter.TableSample,
		AbsoluteCooldown: cooldown(c.Absolute), ScheduledCooldown: cooldown(c.Scheduled),
		FailedCooldown: cooldown(c.Failed), NotFoundCooldown: cooldown(c.NotFound),
	}
}

// namesOf are the keys of a map, sorted.
func namesOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
