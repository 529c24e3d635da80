package config

import (
	"slices"
	"unicode"
)

// DashboardUser is a person who may log in to the dashboard, or a program that uses it.
type DashboardUser struct {
	Name         string          `yaml:"name"`
	PasswordHash Secret          `yaml:"password_hash,omitempty"` // of bcrypt or argon2id; "": no password
	TokenSHA256  Secret          `yaml:"token_sha256,omitempty"`  // of a bearer token, in hexadecimal digits; "": no token
	Roles        []DashboardRole `yaml:"roles"`
}

// DashboardRole is a right of a user of the dashboard. Users with any role may read.
type DashboardRole string

// The roles.
const (
	RoleView      DashboardRole = "view"
	RoleTasks     DashboardRole = "tasks"     // act on tasks and hosters
	RoleGraphs    DashboardRole = "graphs"    // act on graphs
	RoleTerminate DashboardRole = "terminate" // kill running tasks too; needs RoleTasks or RoleGraphs
)

// DefaultPasswordCost is the cost of bcrypt for new hashes: a check takes about 0.2 s.
const DefaultPasswordCost = 12

const maxUserName = 64

// HasLogins reports whether anybody can log in.
func (d *Dashboard) HasLogins() bool { return len(d.Users) > 0 || d.Proxy.UserHeader != "" }

func dashboardUsers(v value) []DashboardUser {
	var users []DashboardUser
	for _, item := range v.items("a list of users, such as [{name: ann, password_hash: …, roles: [tasks, graphs]}]") {
		var u DashboardUser
		item.section(fieldsOf(&u, map[string]func(value){"roles": func(v value) { u.Roles = dashboardRoles(v) }}), nil)
		u.check(item)
		if slices.ContainsFunc(users, func(other DashboardUser) bool { return other.Name == u.Name }) {
			item.problem("has the name of another user")
		}
		users = append(users, u)
	}
	return users
}

// check reports the errors of a user.
func (u *DashboardUser) check(v value) {
	switch {
	case u.Name == "":
		v.problem("has no name")
	case len(u.Name) > maxUserName || slices.ContainsFunc([]rune(u.Name), func(r rune) bool { return !unicode.IsPrint(r) }):
		v.problem("has a name that is longer than 64 bytes, or is not plain text")
	}
	if u.PasswordHash == "" && u.TokenSHA256 == "" {
		v.problem("has no password_hash (swh-scheduler config hash-password makes one) and no token_sha256")
	}
	if u.PasswordHash != "" && u.PasswordHash != redacted {
		if err := checkHash(string(u.PasswordHash)); err != nil {
			v.part("password_hash").problem(err.Error() + "; swh-scheduler config hash-password makes one")
		}
	}
	if u.TokenSHA256 != "" && u.TokenSHA256 != redacted {
		if err := checkTokenSum(string(u.TokenSHA256)); err != nil {
			v.part("token_sha256").problem(err.Error() + "; printf %s TOKEN | sha256sum prints it")
		}
	}
	if len(u.Roles) == 0 {
		v.problem("has no roles: view, tasks, graphs or terminate")
	}
}

func dashboardRoles(v value) []DashboardRole {
	var roles []DashboardRole
	for _, item := range v.items("a list of roles, such as [tasks, graphs]") {
		roles = append(roles, DashboardRole(item.oneOf(string(RoleView), string(RoleTasks), string(RoleGraphs), string(RoleTerminate))))
	}
	if slices.Contains(roles, RoleTerminate) && !slices.Contains(roles, RoleTasks) && !slices.Contains(roles, RoleGraphs) {
		v.problem("has terminate, which allows nothing without tasks or graphs")
	}
	return roles
}

// part returns the value with the path of one of its keys, for errors.
func (v value) part(key string) value {
	v.key += "." + key
	return v
}
