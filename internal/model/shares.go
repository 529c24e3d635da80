package model

import (
	"strings"
	"time"
)

// ShareKey is the property that groups the work of a queue: one of the constants, or kwargs.<key>, a keyword argument
// of tasks.
type ShareKey string

// The share keys.
const (
	ShareByLister         ShareKey = "lister"          // the lister's name
	ShareByListerInstance ShareKey = "lister_instance" // the lister's name and instance name, as name/instance
	ShareByTaskType       ShareKey = "task_type"       // for a queue of several task types
)

// Kwarg returns the keyword argument that groups tasks, if the key names one.
func (k ShareKey) Kwarg() (string, bool) { return strings.CutPrefix(string(k), "kwargs.") }

// OfVisits reports whether the key can group visits. Every key can group tasks.
func (k ShareKey) OfVisits() bool { return k == ShareByLister || k == ShareByListerInstance }

// DefaultShareHalfLife is the default half-life of a group's past use.
const DefaultShareHalfLife = time.Hour

// Shares configures how a queue is divided between groups.
type Shares struct {
	By       ShareKey           `yaml:"by"`
	Weights  map[string]float64 `yaml:"weights,omitempty"` // by group; all above 0
	Default  float64            `yaml:"default"`           // the weight of all other groups; above 0
	HalfLife time.Duration      `yaml:"half_life"`

	// MaxInFlight is the ceiling by group: the most messages that are claimed without a known end. Other groups have
	// no ceiling.
	MaxInFlight map[string]int `yaml:"max_in_flight,omitempty"`

	// Priorities are the priorities of messages by group; 0 for other groups. RabbitMQ uses them in queues with
	// x-max-priority.
	Priorities map[string]uint8 `yaml:"priority,omitempty"`
}

// Weight returns the weight of a group.
func (s Shares) Weight(group string) float64 {
	if w, ok := s.Weights[group]; ok {
		return w
	}
	return s.Default
}

// MaxGroupArgument is how many characters of an argument make the name of a group. Longer names would not fit into the
// indexes of tasks and groups, and PostgreSQL would refuse their tasks.
const MaxGroupArgument = 200

// ListerGroup returns the group of a lister's origins. by is one of the two keys of visits.
func ListerGroup(by ShareKey, l Lister) string {
	if by == ShareByListerInstance {
		return l.Name + "/" + l.InstanceName
	}
	return l.Name
}
