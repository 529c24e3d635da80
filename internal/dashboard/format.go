package dashboard

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
	"swh-scheduler/internal/taskinput"
)

// functions returns the functions of templates. They print times in UTC.
func (d *Dashboard) functions() template.FuncMap {
	return template.FuncMap{
		"link":      d.link,
		"errorPath": errorPath,
		"typeLink":  func(taskType string) string { return d.Base + typePath(taskType) },
		"plain":     pytext.Visible, // escapes characters that could mislead a reader, such as right-to-left marks
		"lines":     lines,
		"group":     groupName,
		"arguments": arguments,
		"number":    number,
		"count": func(n any, one, many string) string { // as model.Count
			if n := number(n); n != "1" {
				return n + " " + many
			}
			return "1 " + one
		},
		"percent":  func(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" },
		"seconds":  seconds,
		"date":     date,
		"ago":      d.ago,
		"iso":      iso,
		"day":      func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04") },
		"short":    func(t time.Time) string { return t.UTC().Format("01-02 15:04") },
		"markdown": markdown,
	}
}

// isFull reports whether a queue has reached its known limit.
func isFull(q *status.Queue) bool {
	return q.Limit > 0 && q.Unacknowledged != nil && int64(q.Ready+*q.Unacknowledged+q.Outgoing) >= q.Limit
}

// arguments formats a task's arguments as the search accepts them: positional ones, then url=https://…. text is JSON,
// perhaps cut off. If it can't be parsed, arguments returns it unchanged.
func arguments(text string) string {
	var a struct {
		Args   []json.RawMessage
		Kwargs map[string]json.RawMessage
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return text
	}
	var words []string
	for _, value := range a.Args {
		words = append(words, word("", value))
	}
	for _, key := range slices.Sorted(maps.Keys(a.Kwargs)) {
		words = append(words, word(key+"=", a.Kwargs[key]))
	}
	return strings.Join(words, " ")
}

// word formats a value with its key. A text has no quotes if the search would read it as the same text. Everything else
// is JSON.
func word(key string, value json.RawMessage) string {
	var text *string // nil: null
	if json.Unmarshal(value, &text) == nil && text != nil && !strings.ContainsFunc(*text, unicode.IsSpace) && (key != "" || *text != "" && !strings.Contains(*text, "=")) {
		if a, err := taskinput.ParseArguments([]string{key + *text}); err == nil && (sameText(a.Args, *text) || sameText(a.Kwargs, *text)) {
			return key + *text
		}
	}
	return key + string(value)
}

// sameText reports whether value is a list or a dict whose only element is this text.
func sameText(value json.RawMessage, text string) bool {
	var list []any
	var dict map[string]any
	if json.Unmarshal(value, &list) == nil {
		return len(list) == 1 && list[0] == any(text)
	}
	if json.Unmarshal(value, &dict) == nil && len(dict) == 1 {
		for _, one := range dict {
			return one == any(text)
		}
	}
	return false
}

// lines is like plain, but for a text of several lines.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = pytext.Visible(all[i])
	}
	return strings.Join(all, "\n")
}

// link returns the address of a page. Its arguments are those of address.
func (d *Dashboard) link(path string, query ...any) string { return d.Base + address(path, query...) }

// address returns a path with a query. query contains names and values in turn, and empty values are omitted.
func address(path string, query ...any) string {
	values := url.Values{}
	for pair := range slices.Chunk(query, 2) {
		if value := fmt.Sprint(pair[1]); value != "" {
			values.Set(fmt.Sprint(pair[0]), value)
		}
	}
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}

// number formats a number with thousands separators. Fractions have at least two digits. nil is unknown.
func number(n any) string {
	v := reflect.Indirect(reflect.ValueOf(n))
	switch {
	case !v.IsValid():
		return "?"
	case !v.CanFloat():
		return grouped(fmt.Sprint(v))
	}
	f := v.Float()
	switch size := math.Abs(f); {
	case size >= 100 || f == math.Trunc(f):
		return grouped(strconv.FormatFloat(f, 'f', 0, 64))
	case size >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case size >= 0.005:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return "< 0.01"
}

// grouped puts narrow spaces between groups of three digits.
func grouped(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "\u202f" + digits[at:]
	}
	return digits
}

// seconds formats a number of seconds roughly. nil is unknown.
func seconds(n any) string {
	v := reflect.Indirect(reflect.ValueOf(n))
	if !v.IsValid() {
		return "?"
	}
	return explain.RoughSeconds(min(v.Convert(reflect.TypeFor[float64]()).Float(), 1e9))
}

func roughly(seconds float64) string {
	return explain.Roughly(time.Duration(seconds * float64(time.Second)))
}

func date(t any) string {
	if at, ok := moment(t); ok {
		return at.UTC().Format("2006-01-02 15:04:05")
	}
	return "never"
}

func iso(t any) string {
	at, _ := moment(t)
	return at.UTC().Format(time.RFC3339)
}

// ago returns the distance of a time from now, in words.
func (d *Dashboard) ago(t any) string {
	at, ok := moment(t)
	if !ok {
		return "never"
	}
	age := d.Reads.Now().Sub(at)
	if age < 0 {
		return "in " + explain.Roughly(-age)
	}
	return explain.Roughly(age) + " ago"
}

// moment returns a time or the target of a pointer. ok is false for nil and the zero time.
func moment(t any) (time.Time, bool) {
	v := reflect.Indirect(reflect.ValueOf(t))
	if !v.IsValid() {
		return time.Time{}, false
	}
	at, _ := v.Interface().(time.Time)
	return at, !at.IsZero()
}

// groupName returns a readable name of a queue's group.
func groupName(name string) string {
	if name == "" || name == "/" {
		return "no lister"
	}
	return pytext.Visible(name)
}
