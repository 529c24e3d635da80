package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// The clock of one process is stepped, both ways and back: its time of day, not its monotonic clock.
func TestClockOfAProcess(t *testing.T) {
	const child = "CHAOS_TELLS_TIME"
	if os.Getenv(child) != "" { // prints the time for each line
		began := time.Now()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(time.Now().Unix(), int64(time.Since(began)))
		}
		return
	}
	if !ownClocks {
		t.Skip("not on this system")
	}
	runtime.LockOSThread()
	command := exec.Command(os.Args[0], "-test.run=^TestClockOfAProcess$")
	command.Env = append(os.Environ(), child+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := takeClock(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour, 0} {
		if err := c.step(ahead); err != nil {
			t.Fatal(err)
		}
		var seconds, monotonic int64
		_, err := fmt.Fprintln(in)
		if err == nil {
			_, err = fmt.Fscanln(out, &seconds, &monotonic)
		}
		if off := time.Until(time.Unix(seconds, 0)) - ahead; err != nil || off.Abs() > time.Hour || monotonic < 0 || monotonic > int64(time.Hour) {
			t.Errorf("%s ahead: it is off by %s, its monotonic clock is at %s (%v)", ahead, off, time.Duration(monotonic), err)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = bufio.NewReader(out).ReadString(0)
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
}
