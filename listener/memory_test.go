package listener

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// processEnv has the database and the broker of a listener that a test runs as a process of its
// own, so that its memory can be told.
const processEnv = "SWH_TEST_LISTENER_PROCESS"

// hugeBodies are messages of just under 4 MiB, the longest that are read whole.
func hugeBodies() map[string][]byte {
	const size = 4<<20 - 64
	list := func(format string) []byte {
		var b strings.Builder
		b.WriteString("[")
		for i := 0; b.Len() < size-len(format)-16; i++ {
			if i > 0 {
				b.WriteString(",")
			}
			if strings.Contains(format, "%") {
				fmt.Fprintf(&b, format, i)
			} else {
				b.WriteString(format)
			}
		}
		b.WriteString("]")
		return []byte(b.String())
	}
	fields := list(`"%d":1`)
	fields[0], fields[len(fields)-1] = '{', '}'
	return map[string][]byte{
		"events of no task":  list(`{"type":"x"}`),
		"no events":          list(`1`),
		"empty events":       list(`{}`),
		"numbers beyond":     list(`NaN`),
		"starts":             list(`{"type":"task-started","uuid":"%d"}`),
		"results without":    list(`{"type":"task-result","uuid":"%d"}`),
		"failures":           list(`{"type":"task-failed","uuid":"%d"}`),
		"workers":            list(`{"type":"worker-online","hostname":"%d"}`),
		"fields of an event": append(append([]byte(`[{"type":"x",`), fields[1:]...), ']'),
	}
}

// Messages full of the smallest events keep the listener's memory below the shipped limit. Later messages are
// applied.
func TestHugeMessagesAreBounded(t *testing.T) {
	if os.Getenv(processEnv) != "" {
		dsn, broker, _ := strings.Cut(os.Getenv(processEnv), " ")
		if err := newTestListener(t, consumer(t, broker), openStore(t, dsn)).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testenv.Race {
		t.Skip("the race detector takes memory of its own")
	}
	t.Parallel()
	const most = 160 // MiB, of the 256 that a container has
	for name, body := range hugeBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, server := ownDatabase(t), testenv.RabbitMQ(t)
			x := newExchange(t, server.URL)
			cmd := exec.Command(os.Args[0], "-test.run=^TestHugeMessagesAreBounded$")
			cmd.Env = append(os.Environ(), processEnv+"="+pg.dsn+" "+server.URL, "GOMEMLIMIT=205MiB")
			cmd.Stderr = t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			pg.addTasks(t, 1, "run")
			x.publish(t, body, body, body, message(t, startedEvent("run-0")))
			testenv.Becomes(t, "runs that have started", 1, func() int { return pg.count(t, "run", "started") })
			if got := peakMemory(t, cmd.Process.Pid); got > most {
				t.Errorf("the listener had %d MiB, want %d at most", got, most)
			} else {
				t.Logf("the listener had %d MiB", got)
			}
		})
	}
}

// peakMemory returns the peak memory of a process, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	_, rest, _ := strings.Cut(string(testenv.Read(t, fmt.Sprintf("/proc/%d/status", pid))), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kB, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return kB >> 10
}
