package migrate

import (
	"maps"
	"slices"
	"strings"
)

var (
	PeerFacts        = peerFacts
	DoorRole         = doorRole
	RoleByDoor       = roleByDoor
	FormerDaemonRole = formerDaemonRole
)

// Written returns a daemon's write rights in a schema, as table and rights: I, U and D.
func Written(schema, daemon string) []string {
	needed := peerRights
	if schema == "scheduler_go" {
		needed = slices.Concat(ownRights, dashboardRights)
	}
	found := map[string]string{}
	for _, row := range listed(schema, needed, daemon) {
		if kind, right, table := row[0], row[1], row[3]; kind == "table" && right != "SELECT" && !strings.Contains(found[table], right[:1]) {
			found[table] += right[:1]
		}
	}
	var written []string
	for _, table := range slices.Sorted(maps.Keys(found)) {
		for _, right := range []string{"I", "U", "D"} {
			if strings.Contains(found[table], right) {
				written = append(written, table+" "+right)
			}
		}
	}
	return written
}
