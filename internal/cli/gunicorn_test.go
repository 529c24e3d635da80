package cli

import (
	"fmt"
	"strings"
	"testing"
)

// Under the name gunicorn, the program accepts the command lines by which the archive's images start the RPC server. It
// refuses options that it doesn't support.
func TestGunicorn(t *testing.T) {
	t.Parallel()
	const app = " swh.scheduler.api.server:make_app_from_configfile()"
	for args, want := range map[string]string{
		// SoftwareHeritage/swh-apps apps/swh-scheduler/entrypoint.sh, with the values of the charts' production.
		"--bind 0.0.0.0:5008 --log-level INFO --log-config-json /etc/swh/logging/logging-gunicorn.json --statsd-host prometheus-statsd-exporter:9125 --statsd-prefix scheduler-rpc " +
			"--threads 4 --workers 8 --timeout 3600 --reload --config python:swh.core.api.gunicorn_config" + app: "--log-level info --log-config /etc/swh/logging/logging-gunicorn.json rpc-serve --host 0.0.0.0 --port 5008 --pool-conns 32 map[STATSD_HOST:prometheus-statsd-exporter STATSD_PORT:9125]",
		// SoftwareHeritage/docker utils/swhutils.sh.
		"--bind 0.0.0.0:5008 --reload --log-level INFO --access-logfile /dev/stdout --access-logformat FORMAT --threads 2 --workers 4 --timeout 3600 --config python:swh.core.api.gunicorn_config" + app: "--log-level info rpc-serve --host 0.0.0.0 --port 5008 map[]",
		"-b [::]:80 -w 2 --threads=10" + app: "rpc-serve --host :: --port 80 --pool-conns 20 map[]",
		"--bind=unix" + app:                  "error: --bind unix is no HOST:PORT",
		"--workers" + " many" + app:          "error: --workers many is no whole number above 0",
		"--workers":                          "error: --workers lacks its value",
		"--frob 5" + app:                     "error: the option --frob is not supported: this is the scheduler's RPC server, not gunicorn",
		"swh.storage.api.server:app":         `error: the application "swh.storage.api.server:app" is not the scheduler's RPC server (swh.scheduler.api.server:…): this program has no other`,
		"--workers 2":                        "error: names no application: this program has only swh.scheduler.api.server:make_app_from_configfile()",
	} {
		call, err := readGunicorn(strings.Fields(args))
		got := fmt.Sprint(strings.Join(call.args, " "), " ", call.environment)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", args, got, want)
		}
	}
}
