package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"swh-scheduler/internal/cli/command"
)

// RunAs runs a command line under the name by which the program was called, as Run does. Called as gunicorn, it runs
// the RPC server: images and scripts that start the Python one call that program.
func RunAs(ctx context.Context, release, program string, args []string, stdout, stderr io.Writer) int {
	if filepath.Base(program) != "gunicorn" {
		return Run(ctx, release, args, stdout, stderr)
	}
	call, err := readGunicorn(args)
	if err != nil {
		fmt.Fprintf(stderr, "gunicorn (swh-scheduler %s): %s\n", command.New(release, stdout, stderr).Version, err)
		return 2
	}
	for name, value := range call.environment {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
	return Run(ctx, release, call.args, stdout, stderr)
}

// gunicornCall is the translation of a command line of gunicorn.
type gunicornCall struct {
	args        []string
	environment map[string]string // variables to set if they are not set
}

// schedulerApp begins the name of the Python RPC server on gunicorn's command line.
const schedulerApp = "swh.scheduler.api.server:"

// gunicornFlags are gunicorn's options without a value, and gunicornIgnored those with one, that have no effect
// here. One process answers all calls, and nothing is reloaded.
var (
	gunicornFlags   = strings.Fields("reload preload check-config daemon no-sendfile capture-output enable-stdio-inheritance reuse-port")
	gunicornIgnored = strings.Fields("timeout graceful-timeout keep-alive worker-class worker-connections worker-tmp-dir max-requests max-requests-jitter " +
		"config name pythonpath chdir backlog statsd-prefix access-logfile access-logformat error-logfile log-file log-config reload-engine reload-extra-file " +
		"limit-request-line limit-request-fields limit-request-field_size forwarded-allow-ips umask dogstatsd-tags")
	gunicornLetters = map[string]string{"b": "bind", "w": "workers", "k": "worker-class", "t": "timeout", "c": "config", "n": "name"}
)

// readGunicorn reads a command line of gunicorn.
func readGunicorn(args []string) (call gunicornCall, err error) {
	call = gunicornCall{environment: map[string]string{}}
	var global, local []string
	numbers := map[string]int{"workers": 1, "threads": 1}
	app := ""
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			if app = arg; !strings.HasPrefix(app, schedulerApp) {
				return call, fmt.Errorf("the application %q is not the scheduler's RPC server (%s…): this program has no other", app, schedulerApp)
			}
			continue
		}
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if long, found := gunicornLetters[name]; found && !strings.HasPrefix(arg, "--") {
			name = long
		}
		if slices.Contains(gunicornFlags, name) {
			continue
		}
		if !joined {
			if len(args) == 0 {
				return call, fmt.Errorf("%s lacks its value", arg)
			}
			value, args = args[0], args[1:]
		}
		switch name {
		case "bind":
			colon := strings.LastIndex(value, ":")
			if colon < 0 {
				return call, fmt.Errorf("--bind %s is no HOST:PORT", value)
			}
			local = append(local, "--host", strings.Trim(value[:colon], "[]"), "--port", value[colon+1:])
		case "log-level":
			global = append(global, "--log-level", strings.ToLower(value))
		case "log-config-json":
			global = append(global, "--log-config", value)
		case "statsd-host":
			call.environment["STATSD_HOST"], call.environment["STATSD_PORT"], _ = strings.Cut(value, ":")
		case "workers", "threads":
			if numbers[name], err = strconv.Atoi(value); err != nil || numbers[name] < 1 {
				return call, fmt.Errorf("--%s %s is no whole number above 0", name, value)
			}
		default:
			if !slices.Contains(gunicornIgnored, name) {
				return call, fmt.Errorf("the option %s is not supported: this is the scheduler's RPC server, not gunicorn", arg)
			}
		}
	}
	if app == "" {
		return call, fmt.Errorf("names no application: this program has only %smake_app_from_configfile()", schedulerApp)
	}
	if calls := min(numbers["workers"], 1000) * min(numbers["threads"], 100); calls > 10 {
		local = append(local, "--pool-conns", strconv.Itoa(calls)) // each of its threads uses one connection at most
	}
	call.args = append(append(global, "rpc-serve"), local...)
	return call, nil
}
