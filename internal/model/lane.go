package model

import "time"

// Lane is a queue of a task type, with a time limit for each message.
type Lane struct {
	Name  string
	Queue string // routing key; see BackendNameInQueue
	// SoftTimeLimit is when a worker raises SoftTimeLimitExceeded in the task, and
	// TimeLimit when it kills it. Both are above 0.
	SoftTimeLimit, TimeLimit time.Duration
	// Slots is how many messages the queue may hold; 0 leaves it to the task type. By
	// lending, it becomes MinSlots to MaxSlots (0: Slots).
	Slots, MinSlots, MaxSlots int
	// Retry has the runs of tasks that time out in the last lane retried, like other failures.
	Retry bool
}

// BackendNameInQueue is replaced, in the name of a lane's queue, by the task type's
// backend name; for tasks with priority, by save_code_now:<backend name>.
const BackendNameInQueue = "{backend_name}"

// Sized returns the lane with its slots filled in for a task type: without slots it has
// the type's, or unlimited if that has no limit.
func (l Lane) Sized(tt TaskType, unlimited int) Lane {
	if l.Slots == 0 {
		l.Slots = unlimited
		if tt.MaxQueueLength != nil && *tt.MaxQueueLength > 0 {
			l.Slots = int(min(*tt.MaxQueueLength, int64(unlimited)))
		}
	}
	if l.MaxSlots == 0 {
		l.MaxSlots = l.Slots
	}
	l.MinSlots = min(l.MinSlots, l.Slots)
	l.MaxSlots = max(l.MaxSlots, l.Slots)
	return l
}

// PriorityLanes returns the key, among lane sets by task type, of the one for a type's
// tasks with priority.
func PriorityLanes(taskType string) string { return "save_code_now:" + taskType }
