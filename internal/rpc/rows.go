package rpc

import (
	"context"
	"math"

	"swh-scheduler/sql/postgres"
)

// DefaultMaxRows is how many rows an answer has at most: some hundred megabytes in memory.
const DefaultMaxRows = 100_000

// all is how many rows are asked for where no limit is.
const all = math.MaxInt

// atMost returns how many rows to read where so many are asked for: if there are more than
// an answer may have, one more than that.
func (c *call) atMost(limit int) int { return min(limit, c.maxRows+1) }

// fewKeys is for how many keys a read is small.
const fewKeys = 10

// byKeys returns the context of a read, without locks, of a row for each of so many keys. If
// they are few, it goes to the database together with those of other calls.
func (c *call) byKeys(n int) context.Context {
	if n > fewKeys {
		return c
	}
	return postgres.WithSmallReads(c)
}

// few refuses an answer of too many rows. By the argument the caller asks for fewer.
func (c *call) few(argument string, rows int) error {
	if rows <= c.maxRows {
		return nil
	}
	x := valueError("the answer would have more than %d rows; ask for fewer with the argument %s", c.maxRows, argument)
	x.status = statusTooLarge
	return x
}

// fewOf passes on the rows of an answer, unless they are too many.
func fewOf[R any](c *call, argument string, rows []R, err error) ([]R, error) {
	if err == nil {
		err = c.few(argument, len(rows))
	}
	return rows, err
}
