package daemons

import (
	"context"
	"errors"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/service"
	"swh-scheduler/journal"
)

// Journal records the outcomes of visits from a Kafka journal.
type Journal struct {
	process.Options
	StopAfterObjects int64 // 0 is no limit
	FailIfMissing    bool  // return an error if the topic doesn't exist, instead of waiting for it
	// Read reads the journal until ctx ends or client is done.
	Read     func(ctx context.Context, client *journal.Client) error
	Progress func(processed, remaining int64)
}

// Run runs it until ctx ends or Read returns. Unsupported settings are an error at once.
func (j *Journal) Run(ctx context.Context) error {
	if err := checkJournal(j.Options); err != nil {
		return err
	}
	return process.Run(ctx, j.Options, func(_ context.Context, p *process.Process) ([]service.Component, error) {
		o := JournalOptions(p.Options, p.Store)
		o.StopAfterObjects, o.FailIfMissing, o.Progress = j.StopAfterObjects, j.FailIfMissing, j.Progress
		client, err := NewJournalClient(p.Options, o)
		if err != nil {
			return nil, err
		}
		read := func(ctx context.Context) error { return j.Read(ctx, client) }
		return []service.Component{{Name: "journal client", Run: read}, keeper(p, maintenance.Gone(p.Store, p.Config.GoneOrigins, p.Log), maintenance.Hints(p.Store))}, nil
	})
}

// JournalOptions returns the configured options of the journal client.
func JournalOptions(o process.Options, store journal.Store) journal.Options {
	c := o.Config.Journal
	return journal.Options{
		Brokers: c.Brokers, GroupID: c.GroupID, Store: store,
		Prefix: c.Prefix, Privileged: c.Privileged, CreateTopics: c.CreateTopics, BatchSize: c.BatchSize,
		AutoOffsetReset: journal.Reset(c.AutoOffsetReset), OnEOF: journal.EOF(c.OnEOF),
		StopAfterObjects: int64(c.StopAfterObjects), ConsumerSettings: c.ConsumerSettings,
		Rules: journal.Rules{Visits: &o.Config.VisitRules, FailuresKeepDate: o.Config.FailuresKeepDate}, Log: o.Log, Registry: o.Metrics,
	}
}

// NewJournalClient makes a client and logs its warnings. It returns an error for unsupported settings of the file.
func NewJournalClient(o process.Options, options journal.Options) (*journal.Client, error) {
	if err := checkJournal(o); err != nil {
		return nil, err
	}
	client, warnings, err := journal.New(options)
	for _, w := range warnings {
		o.Log.Warn(w)
	}
	return client, err
}

// checkJournal returns the error of settings of the file that the journal client can't support.
func checkJournal(o process.Options) error {
	err := o.Config.Journal.Refused
	if err == nil {
		err = journal.CheckSettings(o.Config.Journal.ConsumerSettings)
	}
	if wrong, ok := errors.AsType[*journal.SettingError](err); ok {
		err = o.Config.WrongConsumerSetting(wrong.Setting, wrong.Problem)
	}
	return err
}
