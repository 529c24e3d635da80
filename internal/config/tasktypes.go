package config

import (
	"errors"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
)

// DefaultTaskType returns a task type with the Python scheduler's defaults, which depend on the name.
func DefaultTaskType(name, backendName string) model.TaskType {
	interval, factor, length := 2*24*time.Hour, 1.0, int64(1000)
	if strings.HasSuffix(name, "-full") { // a full listing
		interval = 90 * 24 * time.Hour
	}
	return model.TaskType{
		Type: name, BackendName: backendName, DefaultInterval: &interval, MinInterval: &interval, MaxInterval: &interval,
		BackoffFactor: &factor, MaxQueueLength: &length,
	}
}

// ReadTaskTypes reads a file of task types: a mapping from their names to mappings of the fields of the Python
// scheduler's TaskType. DefaultTaskType has the defaults of all fields but backend_name. ReadTaskTypes returns all
// errors joined, each an *Error.
func ReadTaskTypes(file string, text []byte) ([]model.TaskType, []Warning, error) {
	root, err := parseRoot(file, text, "a mapping of task types")
	if err != nil {
		return nil, nil, err
	}
	r := &reader{file: file, lines: map[string]int{}}
	var types []model.TaskType
	for _, e := range (value{reader: r, node: root}).entries("a mapping of task types") {
		types = append(types, e.taskType())
	}
	return types, r.warnings, errors.Join(r.errors...)
}

func (e entry) taskType() model.TaskType {
	t := DefaultTaskType(e.name, "")
	whole := func(field **int64) func(value) {
		return func(v value) { *field = new(int64(v.whole(0))) }
	}
	duration := func(field **time.Duration) func(value) {
		return func(v value) { *field = new(v.duration("a duration, such as 12 hours or 64 days")) }
	}
	fields := map[string]func(value){
		"backend_name":     func(v value) { t.BackendName = v.text() },
		"description":      func(v value) { t.Description = v.text() },
		"default_interval": duration(&t.DefaultInterval),
		"min_interval":     duration(&t.MinInterval),
		"max_interval":     duration(&t.MaxInterval),
		"backoff_factor":   func(v value) { t.BackoffFactor = new(v.number()) },
		"max_queue_length": whole(&t.MaxQueueLength),
		"num_retries":      whole(&t.NumRetries),
		"retry_delay":      duration(&t.RetryDelay),
	}
	e.sectionWith(fields, func(unknown entry) {
		value{e.reader, unknown.keyNode, unknown.key}.problem("is not a field of a task type" + didYouMean(unknown.name, keysOf(fields)))
	})
	if t.BackendName == "" && (e.node.Kind == yaml.MappingNode || e.isNull()) {
		e.problem("lacks backend_name, the name of its Celery task")
	}
	return t
}
