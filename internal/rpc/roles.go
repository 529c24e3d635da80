package rpc

import (
	"fmt"
	"strings"

	"swh-scheduler/internal/config"
)

// roles are a set of roles: of a client, or of the clients that may make a call.
type roles uint8

const (
	reader   roles = 1 << iota // reads
	lister                     // writes its listers and their origins, and reads these
	web                        // reads, and creates tasks of its types
	operator                   // makes all calls
	daemon                     // uses the door, and makes the calls of the Python scheduler's daemons
	hinter                     // sends hints of changed origins
)

const (
	// readers may make the calls that change nothing.
	readers  = reader | web | operator | daemon
	allRoles = reader | lister | web | operator | daemon | hinter
)

// roleNames are the names of roles, in the order of their bits.
var roleNames = config.Roles

// rolesOf returns the set of some names.
func rolesOf(names []string) (set roles) {
	for i, name := range roleNames {
		for _, one := range names {
			if one == name {
				set |= 1 << i
			}
		}
	}
	return set
}

// names returns the names of a set.
func (r roles) names() (names []string) {
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String is the set as a text: "reader, web or operator".
func (r roles) String() string {
	names := r.names()
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// missing returns the error of a client that lacks a role.
func (r roles) missing(client, what string) string {
	one := "the role"
	if len(r.names()) > 1 {
		one = "one of the roles"
	}
	return fmt.Sprintf("The client %s may not call %s: it needs %s %s.", client, what, one, r)
}

// pattern is a text in which * stands for any text.
type pattern string

// matches reports whether a text has the form of the pattern.
func (p pattern) matches(text string) bool {
	parts := strings.Split(string(p), "*")
	if len(parts) == 1 {
		return text == parts[0]
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
