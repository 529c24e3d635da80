package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// keyOfReference is a key's row of docs/reference/configuration.md. The test takes the type from the Go struct, and the
// default from the loader, unless is and otherwise are set.
type keyOfReference struct {
	key       string // parts in capitals stand for any name
	about     string
	is        string // type, if the struct's type is wider
	otherwise string // default, if the program sets it elsewhere, or the struct stores another form
	readers   string // "": as for the previous key
	at        string // path of the value in Config, if it differs from the key's parts
}

const required = "required"

// everyKey is a file with each mapping. Its values are only those that the loader requires.
const everyKey = `
scheduler: {session_kwargs: {}}
database: {}
celery: {broker_use_ssl: {}, broker_transport_options: {}, task_routes: {TASK: {}}}
rabbitmq: {}
journal: {}
rpc_serve: {clients: [{name: NAME, token_sha256: a000000000000000000000000000000000000000000000000000000000000001, roles: reader}], door: {}}
dashboard:
  users: [{name: NAME, token_sha256: a000000000000000000000000000000000000000000000000000000000000001, roles: [view]}]
  proxy: {addresses: 127.0.0.1, user_header: X-User}
scheduling_policy: {VISIT_TYPE: [{policy: freshness, weight: 1}]}
wanted_workers: {TASK_TYPE: {}}
archive: {}
metrics: {}
sentry: {}
visit_rules: {}
shares: {TASK_TYPE: {by: lister}}
hosters: {limits: {NAME/INSTANCE: {max_in_flight: 1}}, default: {max_in_flight: 1}, backoff: {min: 1 min}}
hints: {SOURCE: {forge: gitea, secret: aaaaaaaaaaaaaaaaaaaa, hosts: a.example}, unknown: {lister: a}}
gone_origins: {LISTER: {full_task_types: a}}
lanes: {TASK_TYPE: [{name: a, queue: a, time_limit: {soft: 1 min, hard: 1 min}}, {name: b, time_limit: 2 min}]}
`

// refusedKeys are read only for an error: it names the key to write instead, or says that a value is not supported.
var refusedKeys = strings.Fields(`dashboard.token dashboard.username dashboard.password dashboard.proxy.operators
	scheduling_policy.VISIT_TYPE.timestamp scheduling_policy.VISIT_TYPE.dry_run scheduling_policy.VISIT_TYPE.visit_type
	scheduling_policy.VISIT_TYPE.count`)

// docs/reference/configuration.md has each key that the loader accepts, with its type and its default.
func TestKeysInTheReference(t *testing.T) {
	t.Parallel()
	const page = "../../docs/reference/configuration.md"
	var accepted []string
	inList := regexp.MustCompile(`\[\d+\]( \(NAME\))?`)
	r := &reader{file: "F", accepted: func(key string) { accepted = append(accepted, inList.ReplaceAllString(key, "")) }}
	c, _, err := parseWith(r, []byte(everyKey))
	if err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, k := range reference {
		of = append(of, k.key)
	}
	text := string(testenv.Read(t, page))
	slices.Sort(accepted)
	for _, key := range slices.Compact(accepted) {
		section, name, _ := strings.Cut(key, ".")
		inTable := name != "" && (section == "celery" || section == "journal") && strings.Contains(text, "`"+name[strings.LastIndexByte(name, '.')+1:]+"`")
		if !slices.Contains(of, key) && !slices.Contains(refusedKeys, key) && !inTable {
			t.Errorf("the reference has no %s", key)
		}
	}
	for _, k := range append(of, refusedKeys...) {
		if !slices.Contains(accepted, k) {
			t.Errorf("the loader accepts no %s", k)
		}
	}
	// Settings without effect, or with few allowed values, have no reader of their own.
	for _, names := range [][]string{keysOf(only), keysOf(idle), keysOf(idleJournal), sending} {
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the reference has no %s", name)
			}
		}
	}

	var all strings.Builder
	readers := ""
	for _, k := range reference {
		value := valueAt(reflect.ValueOf(*c), strings.Split(cmp.Or(k.at, k.key), "."))
		if !value.IsValid() && (k.is == "" || k.otherwise == "") {
			t.Errorf("%s: Config has no such value", k.key)
			continue
		}
		readers = cmp.Or(k.readers, readers)
		section, _, inSection := strings.Cut(k.key, ".")
		level, since := "##", "1.0.0"
		if inSection {
			level = "###"
		}
		if slices.Contains(pythons, section) && !slices.Contains(ours, k.key) {
			since = "Python"
		}
		is, otherwise := k.is, k.otherwise
		if is == "" {
			is = typeName(value.Type())
		}
		if otherwise == "" {
			otherwise = shownDefault(value)
		}
		fmt.Fprintf(&all, "\n%s %s\n\n%s\n\n- Type: %s\n- Default: %s\n- Since: %s\n- Read by: %s\n", level, k.key, k.about, is, otherwise, since, readers)
	}
	testenv.Generated(t, page, "keys", all.String()+"\n")
}

// valueAt returns the value at a path of keys, and of lists the first element. A field's key is its tag, or its name
// without underscores.
func valueAt(v reflect.Value, path []string) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if len(path) == 0 {
			return v
		}
		if v.Len() == 0 {
			return valueAt(reflect.Zero(v.Type().Elem()), path)
		}
		return valueAt(v.Index(0), path)
	case reflect.Map:
		if len(path) == 0 {
			return v
		}
		if at := v.MapIndex(reflect.ValueOf(path[0])); at.IsValid() {
			return valueAt(at, path[1:])
		}
		return valueAt(reflect.Zero(v.Type().Elem()), path[1:])
	case reflect.Struct:
		if len(path) == 0 {
			return v
		}
		for field, at := range v.Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if field.IsExported() && (tag == path[0] || strings.EqualFold(field.Name, strings.ReplaceAll(path[0], "_", ""))) {
				return valueAt(at, path[1:])
			}
		}
		return reflect.Value{}
	}
	if len(path) > 0 {
		return reflect.Value{}
	}
	return v
}

// typeName returns the type of a value as the page names it.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[Secret]():
		return "text (secret)"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint8:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + plural(typeName(t.Elem()))
	case reflect.Map:
		return "mapping of names to " + plural(typeName(t.Elem()))
	case reflect.Struct:
		return "mapping"
	}
	return "text"
}

func plural(name string) string {
	if name == "text (secret)" {
		return "texts (secret)"
	}
	if first, rest, ok := strings.Cut(name, " of "); ok {
		return first + "s of " + rest
	}
	return name + "s"
}

// shownDefault returns a default as an operator may write it in the file.
func shownDefault(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case bool:
		return fmt.Sprintf("`%t`", x)
	case float64:
		if x != 0 {
			return "`" + strconv.FormatFloat(x, 'f', -1, 64) + "`"
		}
	case time.Duration:
		if x != 0 {
			return "`" + shownDuration(x) + "`"
		}
	case []time.Duration:
		var all []string
		for _, d := range x {
			all = append(all, shownDuration(d))
		}
		return "`[" + strings.Join(all, ", ") + "]`"
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return "none" // everyKey has the entries
	}
	if v.IsZero() {
		return "none"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// shownDuration formats a duration as a whole number of its largest possible unit.
func shownDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / unit.length; n > 0 && d%unit.length == 0 {
			return fmt.Sprintf("%d %s%s", n, unit.name, map[bool]string{false: "s"}[n == 1])
		}
	}
	return d.String()
}
