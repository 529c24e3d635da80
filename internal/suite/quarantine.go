package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// test is a test function of a package.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + "." + t.name }

var entry = regexp.MustCompile(`^(\S+) (Test\w*) (\d{4}-\d\d-\d\d) (\S.*)$`)

// quarantine reads the file of the tests that may fail once, and why. An entry is
// a line "PACKAGE TEST DATE REASON", valid until the end of that day, UTC.
func quarantine(file string, now time.Time) (map[test]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	reasons := map[test]string{}
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := entry.FindStringSubmatch(line)
		if fields == nil {
			return nil, fmt.Errorf("%s:%d: want PACKAGE TEST DATE REASON: %s", file, n+1, line)
		}
		day, err := time.Parse(time.DateOnly, fields[3])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
		if !now.Before(day.AddDate(0, 0, 1)) {
			return nil, fmt.Errorf("%s:%d: expired: repair the test: %s", file, n+1, line)
		}
		reasons[test{fields[1], fields[2]}] = fields[4]
	}
	return reasons, nil
}
