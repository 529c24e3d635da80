package model

import (
	"strings"
	"time"
)

// Lane is a queue of a task type, with a time limit for each message.
type Lane struct {
	Name  string `yaml:"name"`
	Queue string `yaml:"queue"` // routing key; see BackendNameInQueue
	// SoftTimeLimit is the runtime after which Celery raises SoftTimeLimitExceeded in the task, and TimeLimit the one
	// after which it kills the worker process. Both are above 0.
	SoftTimeLimit time.Duration `yaml:"-"`
	TimeLimit     time.Duration `yaml:"-"`
	// Slots is the number of messages that the queue may hold; 0: the task type's limit. When lanes lend each other
	// slots, a lane has from MinSlots to MaxSlots (0: Slots).
	Slots    int `yaml:"slots,omitempty"`
	MinSlots int `yaml:"min_slots"`
	MaxSlots int `yaml:"max_slots,omitempty"`
	// TargetWait is the longest wait intended for its backlog. Beyond it, the lane gets slots from other lanes with a
	// TargetWait. 0: none; lanes then lend only slots that they don't need.
	TargetWait time.Duration `yaml:"target_wait,omitempty"`
	// Retry says that tasks whose runs time out in the last lane are retried, as after other failures.
	Retry bool `yaml:"retry,omitempty"`
}

// BackendNameInQueue is the placeholder in the name of a lane's queue for the task type's backend name or, for tasks
// with priority, for save_code_now:<backend name>.
const BackendNameInQueue = "{backend_name}"

// Sized returns the lane with its defaults for a task type. A lane without slots gets the limit of the type's queue,
// or unlimited if the type has none.
func (l Lane) Sized(tt TaskType, unlimited int) Lane {
	if l.Slots == 0 {
		l.Slots = unlimited
		if tt.MaxQueueLength != nil && *tt.MaxQueueLength != 0 {
			l.Slots = int(max(0, min(*tt.MaxQueueLength, int64(unlimited))))
		}
	}
	if l.MaxSlots == 0 {
		l.MaxSlots = l.Slots
	}
	l.MinSlots = min(l.MinSlots, l.Slots)
	l.MaxSlots = max(l.MaxSlots, l.Slots)
	return l
}

// PriorityLanes returns the key of the lane set for a type's tasks with priority.
func PriorityLanes(taskType string) string { return "save_code_now:" + taskType }

// KeyOf returns the key of the lanes and shares of a queue for a task type: the type's name for its own queue, and
// PREFIX:<type> for the queue PREFIX:<backend name>. Other queues have none.
func KeyOf(queue string, tt TaskType) (key string, ok bool) {
	prefix, ok := strings.CutSuffix(queue, tt.BackendName)
	return prefix + tt.Type, ok && (prefix == "" || strings.HasSuffix(prefix, ":"))
}

// QueueWith returns the type's queue with a prefix of TypeOf.
func (t TaskType) QueueWith(prefix string) string {
	if prefix == "" {
		return t.Queue()
	}
	return prefix + t.BackendName
}

// TypeOf returns the task type of a key of lanes or shares, and the prefix of its queue with the colon, or "".
func TypeOf(key string, types []TaskType) (tt TaskType, prefix string, ok bool) {
	for _, t := range types {
		before, found := strings.CutSuffix(key, t.Type)
		if found && (before == "" || strings.HasSuffix(before, ":")) && len(t.Type) > len(tt.Type) {
			tt, prefix, ok = t, before, true
		}
	}
	return tt, prefix, ok
}

// Prefixed reports whether a key of lanes or shares belongs to a queue with a prefix.
func Prefixed(key string) bool { return strings.Contains(key, ":") }
