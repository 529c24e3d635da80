package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/pytext"
)

// A file of task types becomes types that can be stored, or errors that each have the file's name.
func FuzzTaskTypes(f *testing.F) {
	f.Add([]byte("load-git: {backend_name: a.b, default_interval: 64 days, min_interval: 12:30:00, backoff_factor: 2.5, max_queue_length: 5, num_retries: 3, retry_delay: 1 hour}"))
	f.Add([]byte("a: {backend_name: 1, backoff_factor: .inf, max_queue_length: -1, retry_delay: -5}\nb: []\n? [x]\n: {}"))
	f.Add([]byte("a: &a {backend_name: x}\nb: {<<: *a, max_interval: 1e300, descripton: y}\n"))
	f.Add([]byte("load-git:"))
	f.Fuzz(func(t *testing.T, text []byte) {
		types, _, err := ReadTaskTypes("F", text)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "F:") {
					t.Errorf("%q: %q does not name the file", text, line)
				}
			}
			return
		}
		seen := map[string]bool{}
		for _, tt := range types {
			if seen[tt.Type] || tt.BackendName == "" {
				t.Errorf("%q: %+v", text, tt)
			}
			seen[tt.Type] = true
			for _, d := range []*time.Duration{tt.DefaultInterval, tt.MinInterval, tt.MaxInterval, tt.RetryDelay} {
				if d != nil && (*d < 0 || *d > pytext.MaxDuration) {
					t.Errorf("%q: %s", text, *d)
				}
			}
			for _, n := range []*int64{tt.MaxQueueLength, tt.NumRetries} {
				if n != nil && (*n < 0 || *n > math.MaxInt32) {
					t.Errorf("%q: %d", text, *n)
				}
			}
			if b := *tt.BackoffFactor; !(b >= 0) || math.IsInf(b, 0) {
				t.Errorf("%q: backoff factor %v", text, b)
			}
		}
	})
}
