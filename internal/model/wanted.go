package model

import "time"

// DefaultTargetWait is how long work should wait for a worker at most, where nothing else is configured.
const DefaultTargetWait = 10 * time.Minute

// WantedWorkers says what counts for the number of workers that the queues of a task type should have. Of what is 0, the
// entry "default" says it.
type WantedWorkers struct {
	TargetWait time.Duration `yaml:"target_wait,omitempty"` // within which work that waits should have begun
	Runtime    time.Duration `yaml:"runtime,omitempty"`     // mean time of the work, where workers have not told any
	Max        int           `yaml:"max,omitempty"`         // most workers of a queue; 0: no bound
}

// WantedOf returns what counts for a task type.
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
