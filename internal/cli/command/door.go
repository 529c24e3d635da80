package command

import (
	"fmt"
	"time"

	"swh-scheduler/sql/migrate"
)

// DoorState says whether the door of a database is open, since when, and for what role; and how it opens.
func DoorState(d migrate.DoorStatus) string {
	switch {
	case d.Role == "":
		return `closed ("swh-scheduler migrate --door" opens it)`
	case d.Opened.IsZero():
		return fmt.Sprintf(`closed, as the role %s is not complete: run "swh-scheduler migrate --door" again`, d.Role)
	}
	return fmt.Sprintf("open since %s, for the role %s", d.Opened.UTC().Format(time.RFC3339), d.Role)
}
