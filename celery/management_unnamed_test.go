package celery_test

import (
	"bytes"
	"log/slog"
	"testing"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/parsed"
)

// A task type without a backend name has a queue without a name. The management API isn't asked for it: it would list
// all queues, which counted as a failure of the API.
func TestQueueWithoutName(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	var log bytes.Buffer
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	q.Figures(deadline(t), "")
	length(t, q, "", 4)
	if log.Len() > 0 {
		t.Error(log.String())
	}
}
