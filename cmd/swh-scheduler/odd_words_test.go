package main

import "testing"

// Unusual arguments have the same result as in the Python scheduler. The exceptions are integers beyond 64 bits, and
// values of flags without values.
func TestUnusualArgumentsSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes + ";" + someOrigins)
	w.migrateOurs()
	for _, args := range [][]string{
		{"task", "list", "-l", "-1"}, {"task", "list", "--limit=0"}, {"task", "list-pending", "-l", "-1", "bare"},
		{"task-type", "list", "-vt", "bare"}, {"task-type", "list", "-tbare"},
		{"task", "list", "-i", "1_000"}, {"task", "list", "-i", " 1 "}, {"task", "list", "-i", "+1"},
		{"task", "list", "-i", "1,2"}, {"task", "list", "-t", "a,b"}, {"task", "list", "-i"}, {"task", "list", "--status"},
		{"task", "add", "load-git", "-P", ""}, {"task", "add", "load-git", "-p", "ONESHOT"}, {"task", "add", "load-git", "-n", ""},
		{"task", "add", "", "a=1"}, {"task", "add", "load-git", "=1"}, {"task", "add", "load-git", "a==1"}, {"task", "add", "load-git", "--", "-x=1"},
		{"task", "respawn", "1_0"}, {"task", "respawn", " 5"}, {"task", "respawn", "1.0"}, {"task", "respawn", ""},
		{"task", "respawn", "1", "1"},
		{"origin", "peek-next", "git", "1_0", "-f", "url"}, {"origin", "peek-next", "git", "3.0"},
		{"origin", "peek-next", "git", "1", "--tablesample", "-1"}, {"origin", "peek-next", "git", "1", "--tablesample", "nan"}, {"origin", "peek-next", "git", "3", "--tablesample", "0", "-f", "url"},
		{"origin", "peek-next", "", "1"}, {"origin", "peek-next", "git", "1", "-p", ""},
		{"origin", "peek-next", "git", "1", "--lister-name", "", "-f", "url"},
		{"origin", "peek-next", "git", "2", "-f", "url", "--absolute-cooldown", "1 hour 1 day"}, {"origin", "peek-next", "git", "2", "-f", "url", "--absolute-cooldown", "1.5d 2."},
		{"origin", "peek-next", "git", "2", "-f", "url", "--absolute-cooldown", "999999999999 days"}, {"origin", "peek-next", "git", "2", "-f", "url", "--absolute-cooldown", "5000 days"},
		{"origin", "update-metrics", "--lister", ""}, {"origin", "update-metrics", "--instance", "example"},
		{"origin", "check-listed-origins", "gitlab", "example", "-l", "-l"},
		{"origin", "check-ingested-origins", "gitlab", "example", "--minimum-success", "-1"}, {"origin", "check-ingested-origins", "gitlab", "example", "--minimum-success", "nan"},
		{"origin", "check-ingested-origins", "gitlab", "example", "--watch-period", "soon"},
		{"origin", "check-ingested-origins", "gitlab", "example", "-w", "--watch-period", "soon"},
		{"add-forge-now", "-p"}, {"add-forge-now", "--preset", "", "register-lister", "plain"},
		{"add-forge-now", "register-lister", "plain", "max_pages=x"}, {"add-forge-now", "-p", "staging", "register-lister", "plain", "max_pages=[1]"},
		{"add-forge-now", "schedule-first-visits", "extra"},
		{"task", "schedule_origins", "bare", "-g", "http://127.0.0.1:1"},
		{"task", "schedule", "/etc"}, {"task", "--nope"}, {"task", "-x", "list"}, {"task", "list", "--"}, {"task", "list", "-"},
		{"celery-monitor"}, {"celery-monitor", "nope"}, {"celery-monitor", "list-running", "--format", "x"}, {"celery-monitor", "--timeout", "x", "ping-workers"},
		{"start-runner", "--period", "x"}, {"schedule-recurrent", "--visit-type", "nope"}, {"start-runner-first-visits", "x"}, {"rpc-serve", "--port", "x"},
		{"start-listener", "x"},
	} {
		w.compare(nil, args...)
	}
	w.compareTables()
}
