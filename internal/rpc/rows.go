package rpc

import (
	"context"
	"math"

	"swh-scheduler/sql/postgres"
)

// DefaultMaxRows is the most rows of an answer: some hundred megabytes in memory.
const DefaultMaxRows = 100_000

// all is the number of rows to ask for without a limit.
const all = math.MaxInt

// atMost returns how many rows to read for a request of so many. Above the most rows of an answer, it returns one
// more than that.
func (c *call) atMost(limit int) int { return min(limit, c.maxRows+1) }

// fewKeys is the most keys of a small read.
const fewKeys = 10

// byKeys returns the context of a read, without locks, of a row for each of so many keys. A read of few keys goes to
// the database in a batch with those of other calls.
func (c *call) byKeys(n int) context.Context {
	if n > fewKeys {
		return c
	}
	return postgres.WithSmallReads(c)
}

// few refuses an answer of too many rows. The caller can ask for fewer by the argument.
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
