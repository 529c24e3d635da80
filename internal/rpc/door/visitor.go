package door

import (
	"slices"
	"strings"
)

// Visitor is the client of a request for the door.
type Visitor struct {
	Name string // name of the client whose credentials it has; "" for none
	// Daemons are the commands of the daemons whose roles the visitor may use; none: the door's common role.
	Daemons []string
	// Permitted reports whether the visitor may continue as daemon, or as all if that is ""; nil: always.
	Permitted func(daemon string) bool
}

// daemon returns the daemon of a visitor: that of its application_name, or else the first of Daemons.
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
