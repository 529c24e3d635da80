package model

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// VisitPolicy is the name of a policy of the Python scheduler's grab_next_visits, or of this program.
type VisitPolicy string

// The Python scheduler's policies.
const (
	OldestScheduledFirst          VisitPolicy = "oldest_scheduled_first"
	StopAfterSuccess              VisitPolicy = "stop_after_success"
	NeverVisitedOldestUpdateFirst VisitPolicy = "never_visited_oldest_update_first"
	AlreadyVisitedOrderByLag      VisitPolicy = "already_visited_order_by_lag"
	OriginsWithoutLastUpdate      VisitPolicy = "origins_without_last_update"
	FirstVisitsAfterListing       VisitPolicy = "first_visits_after_listing"
)

// Policies that the Python scheduler's design describes but its code lacks.
const (
	// Pools divides the slots between PoolPolicies.
	Pools VisitPolicy = "pools"
	// OthersByVisitTarget picks origins with a known last update and a visit since, by visit target
	// (next_visit_queue_position).
	OthersByVisitTarget VisitPolicy = "others_by_visit_target"
	// Freshness picks origins whose visit is worth its cost (docs/explanation/freshness.md).
	Freshness VisitPolicy = "freshness"
)

// Cooldowns are the least times between visits of an origin. Zero turns a cooldown off, like an explicit null or 0 of
// the Python scheduler.
type Cooldowns struct {
	Absolute  time.Duration // since it was last scheduled, with any result
	Scheduled time.Duration // since it was last scheduled, without a result
	Failed    time.Duration // since its last visit, if that failed
	NotFound  time.Duration // since its last visit, if that found no origin
}

// DefaultCooldowns are the Python scheduler's.
var DefaultCooldowns = Cooldowns{
	Absolute:  12 * time.Hour,
	Scheduled: 7 * 24 * time.Hour,
	Failed:    14 * 24 * time.Hour,
	NotFound:  31 * 24 * time.Hour,
}

// ShorterCooldown describes a cooldown that is shorter than the default.
type ShorterCooldown struct {
	Name string // absolute, scheduled, or visited: after a visit that failed or found no origin
	By   time.Duration
	Off  bool // turned off
}

// Shorter returns the cooldowns that are shorter than the defaults.
func (c Cooldowns) Shorter() []ShorterCooldown {
	var shorter []ShorterCooldown
	d := DefaultCooldowns
	for _, s := range []ShorterCooldown{
		{"absolute", d.Absolute - c.Absolute, c.Absolute == 0},
		{"scheduled", d.Scheduled - c.Scheduled, c.Scheduled == 0},
		{"visited", max(d.Failed-c.Failed, d.NotFound-c.NotFound), c.Failed == 0 || c.NotFound == 0},
	} {
		if s.By > 0 {
			shorter = append(shorter, s)
		}
	}
	return shorter
}

// VisitFilter selects the origins of a grab.
type VisitFilter struct {
	VisitType          string
	Policy             VisitPolicy
	Disabled           bool // only origins that their lister has stopped listing
	ListerID           uuid.NullUUID
	ListerName         string
	ListerInstanceName string
	Cooldowns          Cooldowns
	TableSample        float64 // per cent of the table's pages to search; 0: all
	Inexact            bool    // use TableSample even if searching all origins costs no more
	Forks              Forks
	// OfPools says that the policy pools uses the filter. Then an update counts as later than the last successful
	// visit if its date allows that (UpdateEnds). The Python scheduler's policies don't count such an update.
	OfPools bool
}

// Forks selects forks, originals or both.
type Forks string

const (
	ForksToo  Forks = ""          // both
	Originals Forks = "originals" // origins that no lister reports as forks
	ForksOnly Forks = "forks"
)

// WeightedPolicy is a policy of a visit type with its weight. Callers set the visit type of the filter.
type WeightedPolicy struct {
	Weight float64 // 0 or more
	// Forks is the fraction of its visits that is for forks; the others are for originals. 0: the policy doesn't
	// distinguish them.
	Forks float64
	// LongestWait is the longest wait of an origin for a visit, with the policy freshness.
	LongestWait time.Duration
	// Rest says that the policy only gets slots that the others leave (see WithRest).
	Rest   bool
	Filter VisitFilter
}

// WithRest adds a policy after freshness, if that is among the policies. The added policy fills the slots that
// freshness leaves while some origins have no moments, with the origins that have waited longest.
func WithRest(policies []WeightedPolicy) []WeightedPolicy {
	const weight = 1e-9 // so small, relative to freshness, that it gets only the rest
	i := slices.IndexFunc(policies, func(p WeightedPolicy) bool { return p.Filter.Policy == Freshness })
	if i < 0 {
		return policies
	}
	rest := policies[i]
	rest.Filter.Policy, rest.Weight, rest.Rest = OldestScheduledFirst, rest.Weight*weight, true
	return append(slices.Clone(policies), rest)
}

// DefaultLongestWait is the default of WeightedPolicy.LongestWait.
const DefaultLongestWait = 365 * 24 * time.Hour

// HasFreshness reports whether any visit type has the policy freshness.
func HasFreshness(policies map[string][]WeightedPolicy) bool {
	for _, list := range policies {
		if slices.ContainsFunc(list, func(p WeightedPolicy) bool { return p.Filter.Policy == Freshness }) {
			return true
		}
	}
	return false
}

// Name returns the policy's name and, if the filter has one, the kind of origins.
func (p WeightedPolicy) Name() string {
	if p.Filter.Forks == ForksToo {
		return string(p.Filter.Policy)
	}
	return string(p.Filter.Policy) + " (" + string(p.Filter.Forks) + ")"
}

// SplitForks replaces each policy with a fraction for forks by one policy for originals and one for forks, which
// divide its weight.
func SplitForks(policies []WeightedPolicy) []WeightedPolicy {
	var split []WeightedPolicy
	for _, p := range policies {
		if p.Forks == 0 {
			split = append(split, p)
			continue
		}
		originals, forks := p, p
		originals.Forks, originals.Filter.Forks, originals.Weight = 0, Originals, p.Weight*(1-p.Forks)
		forks.Forks, forks.Filter.Forks, forks.Weight = 0, ForksOnly, p.Weight*p.Forks
		split = append(split, originals, forks)
	}
	return split
}

// PoliciesOf returns the policies of a visit type, or the default ones.
func PoliciesOf(policies map[string][]WeightedPolicy, visitType string) []WeightedPolicy {
	if own, ok := policies[visitType]; ok {
		return own
	}
	return policies["default"]
}

// ExpandPolicies replaces the policy pools by its four policies with equal weights, as their real weights depend on
// the origins. Then it splits policies by forks.
func ExpandPolicies(policies []WeightedPolicy) []WeightedPolicy {
	if len(policies) != 1 || policies[0].Filter.Policy != Pools {
		return SplitForks(policies)
	}
	var all []WeightedPolicy
	for _, p := range PoolPolicies {
		w := policies[0]
		w.Weight, w.Filter.Policy, w.Filter.OfPools = w.Weight/4, p, true
		all = append(all, w)
	}
	return SplitForks(all)
}

// loaderPrefix is the prefix of a visit type in the name of its task type.
const loaderPrefix = "load-"

// Queue returns the queue of the type's tasks without priority.
func (t TaskType) Queue() string {
	if t.Routed != "" {
		return t.Routed
	}
	return QueueOf(t.BackendName, DefaultQueue)
}

// QueueFor returns the queue of a type's tasks, with or without a priority.
func (t TaskType) QueueFor(withPriority bool) string {
	if withPriority {
		return PriorityLanes(t.BackendName)
	}
	return t.Queue()
}

// DefaultQueue is Celery's queue of tasks without a queue of their own.
const DefaultQueue = "celery"

// QueueOf returns the queue of a task by the Python scheduler's routes: the task's name if that begins with swh.,
// otherwise others.
func QueueOf(task, others string) string {
	if strings.HasPrefix(task, "swh.") {
		return task
	}
	return others
}

// LoaderTaskType returns the task type that visits origins of a visit type.
func LoaderTaskType(visitType string) string { return loaderPrefix + visitType }

// LoadedVisitType returns the visit type of a loader's task type.
func LoadedVisitType(taskType string) (string, bool) {
	return strings.CutPrefix(taskType, loaderPrefix)
}
