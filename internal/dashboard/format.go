package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
)

// functions are those of templates. Times are in UTC.
func (d *Dashboard) functions() template.FuncMap {
	return template.FuncMap{
		"link":   d.link,
		"plain":  pytext.Visible, // what could mislead a reader, such as a text from right to left, escaped
		"lines":  lines,
		"number": number,
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
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04") },
		"short":    func(t time.Time) string { return t.UTC().Format("01-02 15:04") },
		"markdown": markdown,
	}
}

// isFull reports whether a queue has reached its limit.
func isFull(q *status.Queue) bool {
	return q.Limit > 0 && q.Unacknowledged != nil && int64(q.Ready+*q.Unacknowledged+q.Outgoing) >= q.Limit
}

// lines is plain for a text of several lines.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = pytext.Visible(all[i])
	}
	return strings.Join(all, "\n")
}

// link returns the address of a page with a filter: names and values of the query in turn, of
// which empty values are left out.
func (d *Dashboard) link(path string, query ...any) (string, error) {
	if len(query)%2 != 0 {
		return "", fmt.Errorf("link %s: a name has no value", path)
	}
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		if value := fmt.Sprint(query[i+1]); value != "" {
			values.Set(fmt.Sprint(query[i]), value)
		}
	}
	address := d.Base + path
	if len(values) > 0 {
		address += "?" + values.Encode()
	}
	return address, nil
}

// number formats a number with its thousands apart, a fraction with two digits at least; nil is
// not known.
func number(n any) string {
	switch n := n.(type) {
	case *int:
		if n == nil {
			return "?"
		}
		return grouped(strconv.Itoa(*n))
	case *float64:
		if n == nil {
			return "?"
		}
		return number(*n)
	case float64:
		switch size := math.Abs(n); {
		case size >= 100 || n == math.Trunc(n):
			return grouped(strconv.FormatFloat(n, 'f', 0, 64))
		case size >= 10:
			return strconv.FormatFloat(n, 'f', 1, 64)
		case size >= 0.005:
			return strconv.FormatFloat(n, 'f', 2, 64)
		}
		return "< 0.01"
	}
	return grouped(fmt.Sprint(n))
}

// grouped puts narrow spaces between the thousands.
func grouped(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "\u202f" + digits[at:]
	}
	return digits
}

// seconds formats a number of seconds roughly; nil is not known.
func seconds(n any) string {
	var s float64
	switch n := n.(type) {
	case *float64:
		if n == nil {
			return "?"
		}
		s = *n
	case float64:
		s = n
	case int64:
		s = float64(n)
	case int:
		s = float64(n)
	}
	if s > 0 && s < 10 {
		return strconv.FormatFloat(s, 'g', 2, 64) + " s"
	}
	return explain.Roughly(time.Duration(min(s, 1e9) * float64(time.Second)))
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

// ago says how long ago a time was, or in what time it is.
func (d *Dashboard) ago(t any) string {
	at, ok := moment(t)
	if !ok {
		return "never"
	}
	if after := d.Reads.Now().Sub(at); after < 0 {
		return "in " + explain.Roughly(-after)
	} else {
		return explain.Roughly(after) + " ago"
	}
}

// moment returns a time, unless it is nil or zero.
func moment(t any) (time.Time, bool) {
	switch t := t.(type) {
	case time.Time:
		return t, !t.IsZero()
	case *time.Time:
		if t != nil {
			return *t, !t.IsZero()
		}
	}
	return time.Time{}, false
}
