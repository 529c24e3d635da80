package model

import "time"

// DefaultTargetWait is the longest wait for a worker intended if none is configured.
const DefaultTargetWait = 10 * time.Minute

// WantedWorkers are the inputs for the number of workers of a task type's queues. Fields that are 0 come from the
// entry "default".
type WantedWorkers struct {
	TargetWait time.Duration `yaml:"target_wait,omitempty"` // within which waiting work should begin
	Runtime    time.Duration `yaml:"runtime,omitempty"`     // mean runtime of the work, until workers report one
	Max        int           `yaml:"max,omitempty"`         // most workers of a queue; 0: unlimited
}

// WantedOf returns the inputs for a task type.
func WantedOf(all map[string]WantedWorkers, taskType string) WantedWorkers {
	w := all[taskType]
	for _, other := range []WantedWorkers{all["default"], {TargetWait: DefaultTargetWait}} {
		if w.TargetWait == 0 {
			w.TargetWait = other.TargetWait
		}
		if w.Runtime == 0 {
			w.Runtime = other.Runtime
		}
		if w.Max == 0 {
			w.Max = other.Max
		}
	}
	return w
}
