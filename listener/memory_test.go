package listener

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

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
	t.Parallel()
	const most = 160 // MiB, of the 256 that a container has
	program := filepath.Join(t.TempDir(), "swh-scheduler")
	if err := testenv.BuildAsShipped("swh-scheduler/cmd/swh-scheduler", program); err != nil {
		t.Fatal(err)
	}
	for name, body := range hugeBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, server := ownDatabase(t), testenv.RabbitMQ(t)
			x := newExchange(t, server.URL)
			config := testenv.File(t, "scheduler.yml", fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", pg.dsn, server.URL))
			cmd := exec.Command(program, "-C", config, "start-listener")
			cmd.Env = []string{"GOMEMLIMIT=205MiB"}
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
