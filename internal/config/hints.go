package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
)

// Hints are the settings for hints that origins have changed.
type Hints struct {
	Sources map[string]HintSource `yaml:",inline"` // of webhooks, by name
	Unknown UnknownHints          `yaml:"unknown,omitempty"`
}

// HintSource is a source of webhooks.
type HintSource struct {
	Forge        string   `yaml:"forge,omitempty"`
	Secret       []Secret `yaml:"secret,omitempty"` // two while one replaces the other
	Hosts        []string `yaml:"hosts,omitempty"`
	MaxPerSecond int      `yaml:"max_per_second,omitempty"`
}

// UnknownHints are the settings for hints of origins that no lister lists.
type UnknownHints struct {
	Lister     string `yaml:"lister,omitempty"`
	Instance   string `yaml:"instance,omitempty"`
	VisitType  string `yaml:"visit_type,omitempty"`
	MaxOrigins int    `yaml:"max_origins,omitempty"`
}

// Model returns the settings as the store has them.
func (u UnknownHints) Model() model.UnknownHints {
	return model.UnknownHints{Lister: u.Lister, Instance: u.Instance, VisitType: u.VisitType, Max: u.MaxOrigins}
}

// WebhookSources returns the sources of webhooks.
func (h Hints) WebhookSources() (sources []hints.Source) {
	for name, s := range h.Sources {
		one := hints.Source{Name: name, Forge: s.Forge, Hosts: s.Hosts, MaxPerSecond: s.MaxPerSecond}
		for _, secret := range s.Secret {
			one.Secrets = append(one.Secrets, string(secret))
		}
		sources = append(sources, one)
	}
	slices.SortFunc(sources, func(a, b hints.Source) int { return strings.Compare(a.Name, b.Name) })
	return sources
}

// leastSecret is the least length of a secret of webhooks.
const leastSecret = 20

const (
	maxHintSources = 100
	maxHintOrigins = 10_000_000
)

func (h *Hints) read(v value) {
	if v.node.Kind != yaml.MappingNode {
		v.fail("a mapping from sources of hints to their secrets")
		return
	}
	h.Sources = map[string]HintSource{}
	v.sectionWith(map[string]func(value){"unknown": func(v value) { h.Unknown = unknownHints(v) }}, func(e entry) {
		if !clientName.MatchString(e.name) {
			e.problem("must have the name of a source: up to 63 letters, digits, dots, dashes and underscores")
			return
		}
		h.Sources[e.name] = hintSource(e.name, e.value)
	})
	if len(h.Sources) > maxHintSources {
		v.problem(fmt.Sprintf("has more than %d sources", maxHintSources))
	}
}

func unknownHints(v value) UnknownHints {
	u := UnknownHints{VisitType: "git", MaxOrigins: 100_000}
	before := len(v.errors)
	v.section(fieldsOf(&u, nil), nil)
	switch {
	case len(v.errors) > before:
	case u.Lister == "":
		v.problem("needs lister, the name of the lister of the origins that hints create")
	case u.VisitType == "":
		v.problem("needs visit_type, such as git")
	case u.MaxOrigins < 1 || u.MaxOrigins > maxHintOrigins:
		v.problem(fmt.Sprintf("has max_origins %d: it must be between 1 and %d", u.MaxOrigins, maxHintOrigins))
	}
	return u
}

var hintHost = regexp.MustCompile(`^(\*|(\*\.)?[\p{Ll}\p{Lm}\p{Lo}\p{M}\p{Nd}_.-]+)$`)

func hintSource(name string, v value) HintSource {
	s := HintSource{MaxPerSecond: hints.DefaultMaxPerSecond}
	if slices.Contains(hints.Forges(), name) {
		s.Forge = name
	}
	before := len(v.errors)
	v.section(fieldsOf(&s, map[string]func(value){
		"forge": func(v value) { s.Forge = v.oneOf(hints.Forges()...) },
		"secret": func(v value) {
			s.Secret = credentials(v, func(text string) error {
				if len(text) < leastSecret {
					return fmt.Errorf("could be guessed: give a secret of %d characters or more", leastSecret)
				}
				return nil
			})
		},
		"hosts": func(v value) {
			s.Hosts = patterns(v, "a host in lower case without a port, such as gitlab.example, *.gitlab.example or *", hintHost.MatchString)
		},
	}), nil)
	if s.Hosts == nil {
		s.Hosts = hints.DefaultHosts(s.Forge)
	}
	switch {
	case len(v.errors) > before:
	case s.Forge == "":
		v.problem("needs forge: " + strings.Join(hints.Forges(), ", "))
	case len(s.Secret) == 0:
		v.problem("needs a secret, which the forge has, too")
	case len(s.Hosts) == 0:
		v.problem("needs hosts: those of the origins that it may name")
	case s.MaxPerSecond < 1:
		v.problem("has max_per_second below 1")
	}
	return s
}
