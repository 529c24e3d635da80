package config

import (
	"errors"
	"math/big"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/scheduler"
)

// Intervals of a task type of which nothing is said, the peer's: long for full
// listings, short for all else.
const (
	fullInterval    = 90 * 24 * time.Hour
	defaultInterval = 2 * 24 * time.Hour
)

// DefaultTaskType is the task type of which only the name is known, and the name
// of its Celery task.
func DefaultTaskType(name, backendName string) scheduler.TaskType {
	interval, factor, length := defaultInterval, 1.0, int64(1000)
	if strings.HasSuffix(name, "-full") {
		interval = fullInterval
	}
	return scheduler.TaskType{
		Type: name, BackendName: backendName, DefaultInterval: &interval, MinInterval: &interval, MaxInterval: &interval,
		BackoffFactor: &factor, MaxQueueLength: &length,
	}
}

// ReadTaskTypes reads a file of task types: a mapping of their names to mappings
// of the fields of the peer's TaskType, of which backend_name must be there, and
// the others are DefaultTaskType's where they are not. All that is wrong with it
// comes back at once, each an *Error, joined.
func ReadTaskTypes(file string, text []byte) ([]scheduler.TaskType, []Warning, error) {
	root, err := parseRoot(file, text, "a mapping of task types")
	if err != nil {
		return nil, nil, err
	}
	r := &reader{file: file, lines: map[string]int{}}
	var types []scheduler.TaskType
	for _, e := range (value{reader: r, node: root}).entries("a mapping of task types") {
		types = append(types, e.taskType())
	}
	return types, r.warnings, errors.Join(r.errors...)
}

func (e entry) taskType() scheduler.TaskType {
	t := DefaultTaskType(e.name, "")
	whole := func(field **int64) func(value) {
		return func(v value) {
			n := int64(v.whole(0))
			*field = &n
		}
	}
	duration := func(field **time.Duration) func(value) {
		return func(v value) {
			d := v.duration()
			*field = &d
		}
	}
	fields := map[string]func(value){
		"backend_name":     func(v value) { t.BackendName = v.text() },
		"description":      func(v value) { t.Description = v.text() },
		"default_interval": duration(&t.DefaultInterval),
		"min_interval":     duration(&t.MinInterval),
		"max_interval":     duration(&t.MaxInterval),
		"backoff_factor": func(v value) {
			f := v.number()
			t.BackoffFactor = &f
		},
		"max_queue_length": whole(&t.MaxQueueLength),
		"num_retries":      whole(&t.NumRetries),
		"retry_delay":      duration(&t.RetryDelay),
	}
	e.section(fields, func(unknown entry) {
		value{e.reader, unknown.keyNode, unknown.key}.problem("is not a field of a task type" + didYouMean(unknown.name, keysOf(fields)))
	})
	if t.BackendName == "" && (e.node.Kind == yaml.MappingNode || e.isNull()) {
		e.problem("lacks backend_name, the name of its Celery task")
	}
	return t
}

// duration is a text that ParseDuration takes, or a number of seconds, which
// 12:30:00 is in YAML.
func (v value) duration() time.Duration {
	switch scalar := v.scalar().(type) {
	case *big.Int, float64:
		return v.seconds()
	case string:
		if d, err := ParseDuration(scalar); err == nil {
			return d
		}
	}
	v.fail("a duration, such as 12 hours or 64 days")
	return 0
}
