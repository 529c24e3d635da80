package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/yaml11"
)

// maxFileSize limits the size of a file, in bytes, in case a wrong file is named.
const maxFileSize = 1 << 20

// Load reads the file at path, which may begin with ~/ and lack .yml; "" is no file. Then it sets the options, each
// KEY=VALUE (see setOption), in the result. It returns all errors joined, each an *Error.
func Load(path string, options ...string) (*Config, []Warning, error) {
	text, file := []byte("{}"), ""
	if path != "" {
		var err error
		if text, file, err = readFile(path); err != nil {
			return nil, nil, err
		}
	}
	c, warnings, err := parse(file, text, options...)
	if err != nil {
		return nil, warnings, err
	}
	if id := os.Getenv(instanceIDVar); id != "" {
		c.Journal.ConsumerSettings[instanceID] = id
	}
	return c, warnings, nil
}

// instanceIDVar is the environment variable that sets the consumer setting instanceID.
const instanceIDVar, instanceID = "KAFKA_GROUP_INSTANCE_ID", "group.instance.id"

func readFile(path string) (text []byte, file string, err error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		path = filepath.Join(home, rest)
	}
	for _, file = range []string{path, path + ".yml"} {
		problem := ""
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
		case info.IsDir():
			problem = "is a directory"
		case info.Size() > maxFileSize:
			problem = "is larger than 1 MB: expected a YAML file"
		default:
			text, err = os.ReadFile(file)
		}
		if err != nil {
			problem = "cannot be read: " + cause(err)
		}
		if problem != "" {
			return nil, "", &Error{File: file, Problem: problem, Unread: true}
		}
		return text, file, nil
	}
	return nil, "", &Error{File: path, Problem: "does not exist", Unread: true}
}

// cause returns the text of err without the path.
func cause(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return err.Error()
}

var syntaxError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func parse(file string, text []byte, options ...string) (*Config, []Warning, error) {
	return parseWith(&reader{file: file}, text, options...)
}

func parseWith(r *reader, text []byte, options ...string) (*Config, []Warning, error) {
	root, err := parseRoot(r.file, text, "a mapping with a scheduler section")
	if err != nil {
		return nil, nil, err
	}
	for _, option := range options {
		if err := setOption(root, option); err != nil {
			return nil, nil, err
		}
	}
	c := Default()
	c.File, r.lines = r.file, c.lines
	value{reader: r, node: root}.section(c.sections(), othersKeys("top"))
	if len(r.errors) > 0 {
		return nil, r.warnings, errors.Join(r.errors...)
	}
	return c, r.warnings, nil
}

func parseRoot(file string, text []byte, expected string) (*yaml.Node, error) {
	root, err := yaml11.Parse(text)
	if err != nil {
		m := syntaxError.FindStringSubmatch(err.Error())
		if m == nil {
			return nil, &Error{File: file, Problem: "is not YAML"}
		}
		line, _ := strconv.Atoi(m[1])
		return nil, &Error{File: file, Line: line, Problem: "is not YAML: " + m[2]}
	}
	switch {
	case root == nil:
		return nil, &Error{File: file, Problem: "is empty: expected " + expected}
	case root.Kind != yaml.MappingNode:
		return nil, &Error{File: file, Line: root.Line, Column: root.Column, Problem: "must be " + expected + ", not " + kind(root)}
	}
	return root, nil
}

// sections returns the function that reads each section of the file.
func (c *Config) sections() map[string]func(value) {
	return map[string]func(value){
		"scheduler": c.Scheduler.read,
		"celery":    c.Celery.read,
		"database":  func(v value) { v.section(fieldsOf(&c.Database, nil), nil) },
		"rabbitmq": func(v value) {
			v.section(map[string]func(value){
				"management_url": func(v value) { c.RabbitMQ.ManagementURL = v.address() },
				"stats_age":      func(v value) { c.RabbitMQ.StatsAge = statsAge(v) },
			}, nil)
		},
		"journal":   c.Journal.read,
		"rpc_serve": c.RPCServe.read,
		"dashboard": c.Dashboard.read,
		"scheduling_policy": func(v value) {
			maps.Copy(c.SchedulingPolicy, mapping(v, "a mapping from visit types to lists of policies", policyList))
		},
		"no_origins_scheduled_backoff": func(v value) { c.NoOriginsScheduledBackoff = v.seconds() },
		"queue_full_backoff":           func(v value) { c.QueueFullBackoff = v.seconds() },
		"lost_after":                   func(v value) { c.LostAfter = mapping(v, "a mapping from task types to durations", lostAfter) },
		"wanted_workers": func(v value) {
			c.WantedWorkers = mapping(v, "a mapping from task types to {target_wait, runtime, max}", wantedWorkers)
		},
		"archive": func(v value) {
			v.section(fieldsOf(&c.Archive, map[string]func(value){
				"after": func(v value) { c.Archive.After = mapping(v, "a mapping from task types to durations", archiveAfter) },
			}), nil)
		},
		"shares": func(v value) {
			c.Shares = mapping(v, "a mapping from task types to how their queues are shared", shareOf)
			for key, s := range c.Shares {
				switch {
				case strings.HasPrefix(key, model.PriorityLanes("")):
					v.problem("has the queue of tasks with priority, which groups don't share")
				case model.Prefixed(key) && s.By != "" && !s.By.OfVisits():
					v.problem("has a queue with a prefix that is not shared by lister or lister_instance")
				}
			}
		},
		"hosters":              func(v value) { c.Hosters = hostersOf(v) },
		"hints":                c.Hints.read,
		"gone_origins":         func(v value) { c.GoneOrigins = goneOrigins(v) },
		"priority_ageing":      func(v value) { c.PriorityAgeing = v.cooldown() },
		"lanes":                func(v value) { c.Lanes = mapping(v, "a mapping from task types to their lanes", lanesOf) },
		"metrics":              c.Metrics.read,
		"sentry":               c.Sentry.read,
		"visit_rules":          c.readVisitRules,
		"failures_keep_date":   func(v value) { c.FailuresKeepDate = v.flag() },
		"update_metrics_after": func(v value) { c.UpdateMetricsAfter = updateMetricsAfter(v) },
	}
}

// read reads our keys of the section. Other components have a section of that name, and read its other keys.
func (m *Metrics) read(v value) {
	if v.node.Kind == yaml.MappingNode {
		v.sectionWith(fieldsOf(m, nil), func(entry) {})
		if m.PprofToken != "" && len(m.PprofToken) < 20 {
			v.problem("has a pprof_token that could be guessed: give one of 20 characters or more")
		}
	}
}

// read reads a mapping, which is ours. Any other value of that key belongs to other components.
func (s *Sentry) read(v value) {
	if v.node.Kind == yaml.MappingNode {
		v.section(fieldsOf(s, nil), othersKeys("sentry"))
	}
}

// durationWith reads a duration for which ok returns true.
func (v value) durationWith(ok func(time.Duration) bool, expected string) time.Duration {
	before := len(v.errors)
	d := v.duration(expected)
	if len(v.errors) == before && !ok(d) {
		v.problem("must be " + expected)
	}
	return d
}

func statsAge(v value) time.Duration {
	return v.durationWith(func(d time.Duration) bool { return d == 0 || d >= time.Second && d <= MaxStatsAge }, "a duration from 1 second to 4 minutes")
}

func lostAfter(v value) time.Duration {
	return v.durationWith(func(d time.Duration) bool { return d > 0 }, `a duration above 0, such as "12 hours" (a task type whose runs are never given up is left out)`)
}

func wantedWorkers(v value) (w model.WantedWorkers) {
	above0 := func(v value) time.Duration {
		return v.durationWith(func(d time.Duration) bool { return d > 0 }, `a duration above 0, such as "10 min"`)
	}
	v.section(fieldsOf(&w, map[string]func(value){
		"target_wait": func(v value) { w.TargetWait = above0(v) },
		"runtime":     func(v value) { w.Runtime = above0(v) },
	}), nil)
	return w
}

// archiveAfter reads an age after which no event of a task arrives.
func archiveAfter(v value) time.Duration {
	return v.durationWith(func(d time.Duration) bool { return d == 0 || d >= 24*time.Hour }, "a duration of a day or more")
}

func updateMetricsAfter(v value) time.Duration {
	return v.durationWith(func(d time.Duration) bool { return d == 0 || d >= time.Minute }, "a duration of a minute or more")
}

func (s *Scheduler) read(v value) {
	v.section(fieldsOf(s, map[string]func(value){
		"cls":            func(v value) { s.Cls = v.oneOf(Postgres, "local", Remote) },
		"session_kwargs": s.SessionKwargs.read,
	}), othersKeys("scheduler"))
	if s.SessionKwargs.Authorization != "" && strings.Contains(string(s.URL), "@") {
		v.problem("has credentials in url and in session_kwargs: leave one out")
	}
	if s.Cls == "local" {
		s.Cls = Postgres
	}
}

func (r *RPCServe) read(v value) {
	v.section(fieldsOf(r, map[string]func(value){
		"door":    func(v value) { v.section(fieldsOf(&r.Door, nil), nil) },
		"clients": func(v value) { r.Clients = clientsOf(v) },
	}), nil)
	v.both(r.TLSCertificate == "", r.TLSKey == "", "tls_certificate and tls_key")
	v.both(r.Username == "", r.Password == "", "username and password")
	r.checkAsked(v)
}

func (j *Journal) read(v value) {
	fallback := Settings{} // settings outside of consumer_settings; those inside take precedence
	fields := fieldsOf(j, map[string]func(value){
		"auto_offset_reset":  func(v value) { j.AutoOffsetReset = v.oneOf("earliest", "latest") },
		"on_eof":             func(v value) { j.OnEOF = v.oneOf("continue", "stop", "restart") },
		"stop_on_eof":        j.readStopOnEOF,
		"stop_after_objects": func(v value) { j.StopAfterObjects = v.whole(0) },
		"cls": func(v value) {
			if v.setting() != "kafka" {
				j.refuse(v, "must be kafka")
			}
		},
		"object_types": func(v value) {
			if !slices.Equal(v.texts(), []string{"origin_visit_status"}) {
				j.refuse(v, "must be [origin_visit_status]: nothing else is read")
			}
		},
		"process_timeout":    func(v value) { j.refuse(v, "can't be given, in the Python scheduler neither: leave it out") },
		"value_deserializer": func(v value) { j.refuse(v, "can't be given: functions of Python are not called") },
		"consumer_settings": func(v value) {
			for _, e := range v.entries("a mapping of Kafka settings") {
				if !e.isNull() {
					j.ConsumerSettings[e.name] = e.setting()
				}
			}
		},
	})
	v.sectionWith(fields, func(e entry) {
		// The Python scheduler passes unknown keys to Kafka, whose settings have dots in their names.
		if !strings.Contains(e.name, ".") {
			if why := idleJournal[e.name]; why == "" {
				e.unknown(append(keysOf(fields), keysOf(idleJournal)...), nil)
			} else if !e.isNull() {
				e.warn("has no effect: " + why)
			}
			return
		}
		if !e.isNull() {
			fallback[e.name] = e.setting()
		}
		e.warn("is a Kafka setting; move it to journal.consumer_settings")
	})
	if v.lines["journal.stop_on_eof"] > 0 && v.lines["journal.on_eof"] > 0 {
		v.problem("has both on_eof and stop_on_eof; keep on_eof")
	}
	for name, setting := range fallback {
		if _, ok := j.ConsumerSettings[name]; !ok {
			j.ConsumerSettings[name] = setting
		}
	}
}

// idleJournal are settings without an effect, and the reason.
var idleJournal = map[string]string{
	"error_reporter": "as for the Python scheduler, which reports nothing to it; records that can't be read are set aside",
	"stats_cb":       "functions of Python are not called; --metrics-addr shows figures",
}

func (j *Journal) refuse(v value, problem string) {
	j.Refused = errors.Join(j.Refused, v.error(problem))
}

func (j *Journal) readStopOnEOF(v value) {
	j.OnEOF = "continue"
	if v.flag() {
		j.OnEOF = "stop"
	}
	v.warnings = append(v.warnings, Warning{File: v.file, Line: v.node.Line, Column: v.node.Column, Key: v.key, Problem: "is deprecated; write on_eof: " + j.OnEOF})
}
