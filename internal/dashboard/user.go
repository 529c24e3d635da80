package dashboard

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"swh-scheduler/internal/config"
)

// Rights are the actions that a user may do.
type Rights uint8

// Each role of the configuration has its right.
const (
	View Rights = 1 << iota
	Tasks
	Graphs
	Terminate
)

var rightsOf = map[config.DashboardRole]Rights{config.RoleView: View, config.RoleTasks: Tasks, config.RoleGraphs: Graphs, config.RoleTerminate: Terminate}

// rights returns the rights of roles. Any role may read.
func rights(roles []config.DashboardRole) (all Rights) {
	for _, role := range roles {
		all |= View | rightsOf[role]
	}
	return all
}

// words returns the names of the roles with these rights.
func (r Rights) words() (words []string) {
	for role, right := range rightsOf {
		if r&right != 0 {
			words = append(words, string(role))
		}
	}
	slices.Sort(words)
	return words
}

// User is the sender of a request.
type User struct {
	Name string // "" if unknown

	rights  Rights
	session int64 // number of the session; 0: none
	bearer  bool  // authenticated by a bearer token
}

// may reports whether the user has rights.
func (u User) may(rights Rights) bool { return u.rights&rights == rights }

// MayAct reports whether the user may act on something, MayTasks and MayGraphs on these.
func (u User) MayAct() bool    { return u.MayTasks() || u.MayGraphs() }
func (u User) MayTasks() bool  { return u.may(Tasks) }
func (u User) MayGraphs() bool { return u.may(Graphs) }

// May reports whether the user may run an operation, MayChange whether the user may confirm and cancel an action.
func (u User) May(o operation) bool        { return u.may(o.needs) }
func (u User) MayChange(c changeData) bool { return u.may(c.needs()) }

// credentialOf returns the credential that a user's sessions are bound to: a changed password ends them.
func credentialOf(u config.DashboardUser) [sha256.Size]byte {
	return sha256.Sum256([]byte(strconv.Quote(u.Name) + string(u.PasswordHash)))
}
