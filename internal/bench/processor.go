package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tick is the unit of times in /proc.
const tick = time.Second / 100

// processTimes are the parent of a process and its processor times, in all its threads.
type processTimes struct {
	parent     int
	own, ended time.Duration // of itself, and of its children that have ended
}

// ProcessorTime returns the processor time of a process so far.
func ProcessorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	return readTimes(b, pid).own
}

// FamilyTime returns the processor time of the parent of a process, and of all children of that parent, so far. For
// a backend of PostgreSQL on this machine that is the time of the server.
func FamilyTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	parent := readTimes(b, pid).parent
	server := readTimes(b, parent)
	sum := server.own + server.ended
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if t, err := parseTimes(string(text)); err == nil && t.parent == parent {
			sum += t.own
		}
	}
	return sum
}

func readTimes(b *testing.B, pid int) processTimes {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	t, err := parseTimes(string(text))
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// parseTimes reads /proc/PID/stat. The name of the program, in parentheses, may contain blanks.
func parseTimes(text string) (t processTimes, err error) {
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 15 {
		return t, fmt.Errorf("%q is not the state of a process", text)
	}
	var n [5]int
	for i, field := range []int{1, 11, 12, 13, 14} {
		if n[i], err = strconv.Atoi(fields[field]); err != nil {
			return t, err
		}
	}
	return processTimes{n[0], time.Duration(n[1]+n[2]) * tick, time.Duration(n[3]+n[4]) * tick}, nil
}
