package listener

import (
	"regexp"

	"swh-scheduler/celery"
)

// timeLimit matches what names an exception by which a worker ends a task at a
// time limit: its class at the very start, as Python's repr and str and the last
// line of a traceback have it. Elsewhere it is but a message.
var timeLimit = regexp.MustCompile(`^(?:\w+\.)*(?:Soft)?TimeLimitExceeded(?:[(:]|$)`)

func namesTimeLimit(text string) bool { return timeLimit.MatchString(text) }

// wrappedException is what workers call an exception that their parent process
// raised, such as that of the hard limit: its class is in the traceback only.
const wrappedException = "ExceptionWithTraceback()"

// timeLimitFailed says whether a time limit was what a task failed by. line is
// the last one of its traceback, nil for none.
func timeLimitFailed(e celery.Event, line *string) bool {
	if exception, ok := text(e.Fields["exception"]); ok && exception != wrappedException {
		return namesTimeLimit(exception)
	}
	return line != nil && namesTimeLimit(*line)
}
