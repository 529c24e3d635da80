package scheduler

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// VisitPolicy is a rule that says which origins are visited next, and in which
// order (the peer's grab_next_visits).
type VisitPolicy string

// The peer's policies.
const (
	OldestScheduledFirst          VisitPolicy = "oldest_scheduled_first"
	StopAfterSuccess              VisitPolicy = "stop_after_success"
	NeverVisitedOldestUpdateFirst VisitPolicy = "never_visited_oldest_update_first"
	AlreadyVisitedOrderByLag      VisitPolicy = "already_visited_order_by_lag"
	OriginsWithoutLastUpdate      VisitPolicy = "origins_without_last_update"
	FirstVisitsAfterListing       VisitPolicy = "first_visits_after_listing"
)

// What the peer's design describes and the peer does not have.
const (
	// Pools stands for four policies, which share the slots: origins without a
	// known last update, and, of those with one, the never loaded, those that
	// changed since they were, and the others.
	Pools VisitPolicy = "pools"
	// OthersByVisitTarget is the last of these: origins with a known last update
	// that were loaded since, by visit target (next_visit_queue_position).
	OthersByVisitTarget VisitPolicy = "others_by_visit_target"
)

// Cooldowns keep an origin from being visited again too soon. Zero turns one
// off, as an explicit null or 0 does with the peer.
type Cooldowns struct {
	Absolute  time.Duration // since it was last scheduled, whatever came of it
	Scheduled time.Duration // since it was last scheduled, while no result is known
	Failed    time.Duration // since its last visit, if that failed
	NotFound  time.Duration // since its last visit, if that found nothing
}

// DefaultCooldowns are the peer's.
var DefaultCooldowns = Cooldowns{
	Absolute:  12 * time.Hour,
	Scheduled: 7 * 24 * time.Hour,
	Failed:    14 * 24 * time.Hour,
	NotFound:  31 * 24 * time.Hour,
}

// VisitFilter says which origins a grab may return.
type VisitFilter struct {
	VisitType          string
	Policy             VisitPolicy
	Disabled           bool // only origins that their lister no longer lists
	ListerID           uuid.NullUUID
	ListerName         string
	ListerInstanceName string
	Cooldowns          Cooldowns
	TableSample        float64 // per cent of the table's pages; 0 reads it all
}

// WeightedPolicy is one way to pick origins, and its weight beside the others of
// its visit type, which whoever uses the filter sets.
type WeightedPolicy struct {
	Weight float64 // 0 or more
	Filter VisitFilter
}

// loaderPrefix makes a visit type's task type.
const loaderPrefix = "load-"

// defaultQueue is Celery's queue for tasks without a route.
const defaultQueue = "celery"

// Queue is where messages of the type's tasks and visits go, unless they have
// priority: the peer's routes send Celery tasks named swh.… to the queue of their
// own name.
func (t TaskType) Queue() string {
	if strings.HasPrefix(t.BackendName, "swh.") {
		return t.BackendName
	}
	return defaultQueue
}

// LoaderTaskType is the task type that visits origins of a visit type.
func LoaderTaskType(visitType string) string { return loaderPrefix + visitType }

// LoadedVisitType is the visit type that a task type visits, if it is a
// loader's.
func LoadedVisitType(taskType string) (string, bool) {
	return strings.CutPrefix(taskType, loaderPrefix)
}
