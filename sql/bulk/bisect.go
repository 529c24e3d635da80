package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"swh-scheduler/sql/postgres"
)

// Bisect calls write, which is one transaction, with the items from first up to end. If PostgreSQL refuses
// a value among them, it bisects the items, and calls setAside with an item that is refused alone. Another
// error ends Bisect; writes before it stay.
func Bisect(first, end int, write func(first, end int) error, setAside func(i int, err *postgres.RefusedError)) error {
	err := write(first, end)
	refused, ok := errors.AsType[*postgres.RefusedError](err)
	switch {
	case !ok || first == end:
		return err
	case end-first == 1:
		setAside(first, refused)
		return nil
	}
	middle := first + (end-first)/2
	if err := Bisect(first, middle, write, setAside); err != nil {
		return err
	}
	return Bisect(middle, end, write, setAside)
}

// allRefused bounds the items that PostgreSQL may refuse in one batch without accepting any. With more, the
// fault is not in the items.
const allRefused = 100

// BisectIn calls do with the items 0 up to n as Bisect does, each call in a savepoint of tx. do returns the
// number of items that it took. BisectIn calls setAside with items that are refused alone, and returns
// their number. After an error the transaction can go on.
func BisectIn(ctx context.Context, tx *postgres.Tx, n int, do func(first, end int) (int64, error), setAside func(i int, reason *postgres.RefusedError) error) (aside int, err error) {
	var taken int64
	var unwritten error
	err = Bisect(0, n, func(first, end int) error {
		if unwritten != nil {
			return unwritten
		}
		return postgres.AsRefused(tx.Savepoint(ctx, func() error {
			n, err := do(first, end)
			if err == nil {
				taken += n
			}
			return err
		}))
	}, func(i int, reason *postgres.RefusedError) {
		if aside++; taken == 0 && aside > allRefused {
			unwritten = fmt.Errorf("PostgreSQL refused more than %d rows and accepted none: %v", allRefused, reason)
		} else if unwritten == nil {
			unwritten = setAside(i, reason)
		}
	})
	return aside, cmp.Or(unwritten, err)
}

// MaxSetAsideRounds bounds how often one claim selects others in place of those that it set aside.
const MaxSetAsideRounds = 10
