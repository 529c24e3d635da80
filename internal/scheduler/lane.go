package scheduler

import "time"

// Lane is one of the ways on which a task type's work goes to workers: a queue,
// whose workers give each piece of work a time of its own.
type Lane struct {
	Name string
	// Queue is its routing key; see BackendNameInQueue.
	Queue string
	// SoftTimeLimit is when a worker tells the task that its time is over, and
	// TimeLimit when it kills it: Celery's names. Both are above 0.
	SoftTimeLimit, TimeLimit time.Duration
	// Slots is how many messages the queue may hold; 0 leaves it to the task type.
	// As work comes and goes it is between MinSlots and MaxSlots; the latter 0 is
	// Slots.
	Slots, MinSlots, MaxSlots int
}

// BackendNameInQueue stands, in the name of a lane's queue, for the task type's
// backend name; for tasks with priority, for save_code_now:<backend name>.
const BackendNameInQueue = "{backend_name}"

// Sized is the lane with its slots filled in for a task type: one without slots
// has the type's, 10,000 if it has no limit.
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

// PriorityLanes is the key, among lanes by task type, of those for a type's tasks
// with priority.
func PriorityLanes(taskType string) string { return "save_code_now:" + taskType }
