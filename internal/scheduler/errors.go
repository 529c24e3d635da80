package scheduler

import "errors"

// Errors that callers test for with errors.Is.
var (
	ErrUnknownTaskType = errors.New("unknown task type")
	ErrUnknownPolicy   = errors.New("unknown scheduling policy") // the peer's UnknownPolicy
	ErrStaleData       = errors.New("stale data")                // the peer's StaleData
	ErrUnknownLister   = errors.New("unknown lister")
	ErrUnknownGraph    = errors.New("unknown graph")
)
