package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// Describe returns a database error as one line with a remedy.
func Describe(store *db.Store, err error) error {
	const undefinedTable, undefinedFunction, undefinedSchema, insufficientPrivilege = "42P01", "42883", "3F000", "42501"
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	closed, atDoor := errors.AsType[*door.ClosedError](err)
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case atDoor:
		return closed
	case unconnected && answered:
		return fmt.Errorf("%s refuses the connection: %w", store.Name(), pg)
	case unconnected:
		return fmt.Errorf("%s is not reachable (is it running, and is its address right?): %w", store.Name(), pytext.OneLine(err))
	case answered && slices.Contains([]string{undefinedTable, undefinedFunction, undefinedSchema}, pg.Code):
		return fmt.Errorf("%s lacks what this command needs; run \"swh-scheduler migrate\": %w", store.Name(), err)
	}
	missing, lacks := errors.AsType[*migrate.RightsError](err)
	switch {
	case lacks:
		return fmt.Errorf("%s: %w", store.Name(), missing)
	case answered && pg.Code == insufficientPrivilege:
		return fmt.Errorf("%s: its user lacks a right that this command needs: %w%s", store.Name(), err, grants(store, err))
	}
	return err
}

// grants returns the statements that grant the right that a statement lacked, in brackets, if they are known.
func grants(store *db.Store, err error) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	missing, ok := errors.AsType[*migrate.RightsError](store.Denied(ctx, err))
	if !ok {
		return ""
	}
	statements := make([]string, len(missing.Missing))
	for i, l := range missing.Missing {
		statements[i] = l.Grant(missing.User)
	}
	return " (the owner gives it by: " + strings.Join(statements, "; ") + ")"
}
