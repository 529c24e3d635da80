package dashboard

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"swh-scheduler/internal/config"
)

// Rights are what a user may do.
type Rights uint8

// The rights, by the roles of the configuration.
const (
	View Rights = 1 << iota
	Tasks
	Graphs
	Terminate
)

var rightsOf = map[config.DashboardRole]Rights{config.RoleView: View, config.RoleTasks: Tasks, config.RoleGraphs: Graphs, config.RoleTerminate: Terminate}

// rights returns what roles allow. With any, one may look.
func rights(roles []config.DashboardRole) (all Rights) {
	for _, role := range roles {
		all |= View | rightsOf[role]
	}
	return all
}

// words names rights by their roles.
func (r Rights) words() (words []string) {
	for role, right := range rightsOf {
		if r&right != 0 {
			words = append(words, string(role))
		}
	}
	slices.Sort(words)
	return words
}

// User is who sent a request.
type User struct {
	Name string // "" if it is not known

	rights  Rights
	session int64 // its number; 0: none
	bearer  bool  // authenticated by a bearer token
}

// may reports whether the user has rights.
func (u User) may(rights Rights) bool { return u.rights&rights == rights }

// MayAct reports whether the user may act on something, MayTasks and MayGraphs on these.
func (u User) MayAct() bool    { return u.MayTasks() || u.MayGraphs() }
func (u User) MayTasks() bool  { return u.may(Tasks) }
func (u User) MayGraphs() bool { return u.may(Graphs) }

// May reports whether the user may do an operation, MayChange whether they may confirm and cancel an action.
func (u User) May(o operation) bool        { return u.may(o.needs) }
func (u User) MayChange(c changeData) bool { return u.may(c.needs()) }

// credentialOf returns what a session of a user is bound to: another password ends it.
func credentialOf(u config.DashboardUser) [sha256.Size]byte {
	return sha256.Sum256([]byte(strconv.Quote(u.Name) + string(u.PasswordHash)))
}
