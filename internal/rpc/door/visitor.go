package door

import (
	"slices"
	"strings"
)

// Visitor is who comes in by a request.
type Visitor struct {
	Name string // whose credentials it has; "" for none
	// Daemons are the daemons, by their commands, as whose roles the visitor works; none: as the door's role for all.
	Daemons []string
	// Permitted reports whether the visitor may go on as a daemon, or as all if that is ""; nil: always.
	Permitted func(daemon string) bool
}

// daemon returns as which daemon a visitor works: that of its application_name, or else the first.
func (v Visitor) daemon(application string) string {
	if len(v.Daemons) == 0 {
		return ""
	}
	if command := strings.TrimPrefix(application, "swh-scheduler "); slices.Contains(v.Daemons, command) {
		return command
	}
	return v.Daemons[0]
}

func (v Visitor) permitted(daemon string) bool { return v.Permitted == nil || v.Permitted(daemon) }
