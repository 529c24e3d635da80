package command

import (
	"fmt"
	"time"

	"swh-scheduler/sql/migrate"
)

// DoorState describes the door of a database: open or closed, since when and for which role, and how to open it.
func DoorState(d migrate.DoorStatus) string {
	switch {
	case d.Role == "":
		return `closed ("swh-scheduler migrate --door" opens it)`
	case d.Opened.IsZero():
		return fmt.Sprintf(`closed, as the role %s is not complete: run "swh-scheduler migrate --door" again`, d.Role)
	}
	return fmt.Sprintf("open since %s, for the role %s", d.Opened.UTC().Format(time.RFC3339), d.Role)
}
