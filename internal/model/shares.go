package model

import (
	"strings"
	"time"
)

// ShareKey is the property by which the work of a queue is grouped: one of the
// constants, or kwargs.<key>, a keyword argument of tasks.
type ShareKey string

// The share keys.
const (
	ShareByLister         ShareKey = "lister"          // the lister's name
	ShareByListerInstance ShareKey = "lister_instance" // its name and instance name, as name/instance
	ShareByTaskType       ShareKey = "task_type"       // for a queue that several task types share
)

// Kwarg returns the keyword argument by which tasks are grouped, if it is one.
func (k ShareKey) Kwarg() (string, bool) { return strings.CutPrefix(string(k), "kwargs.") }

// OfVisits reports whether visits can be grouped by this key. Tasks can be grouped by any key.
func (k ShareKey) OfVisits() bool { return k == ShareByLister || k == ShareByListerInstance }

// DefaultShareHalfLife is the default half-life of what a group used.
const DefaultShareHalfLife = time.Hour

// Shares configures how a queue is divided between groups.
type Shares struct {
	By       ShareKey           `yaml:"by"`
	Weights  map[string]float64 `yaml:"weights,omitempty"` // by group; all above 0
	Default  float64            `yaml:"default"`           // the weight of all other groups; above 0
	HalfLife time.Duration      `yaml:"half_life"`

	// MaxInFlight is the ceiling, by group, of messages that are claimed and not known to have
	// ended. Other groups have no ceiling.
	MaxInFlight map[string]int `yaml:"max_in_flight,omitempty"`

	// Priorities are the priorities of messages by group; of other groups 0. RabbitMQ
	// respects them in queues with x-max-priority.
	Priorities map[string]uint8 `yaml:"priority,omitempty"`
}

// Weight returns the weight of a group.
func (s Shares) Weight(group string) float64 {
	if w, ok := s.Weights[group]; ok {
		return w
	}
	return s.Default
}

// ListerGroup returns the group of a lister's origins by one of the two keys of visits.
func ListerGroup(by ShareKey, l Lister) string {
	if by == ShareByListerInstance {
		return l.Name + "/" + l.InstanceName
	}
	return l.Name
}
