package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// ownClocks says that the clock of a single process can be stepped.
const ownClocks = true

// clock steps the clock of one process. A Go program reads the time by a function that the kernel maps into each
// process (the vDSO). In a process that has just begun, takeClock replaces that function. The new one makes the
// system call and adds the word after it to the time of day. The monotonic clock stays as it is, as when a host's
// clock is stepped.
type clock struct {
	mem  string // path of the process's memory
	word int64  // address
}

// readClock is the new function. The word follows it, aligned.
var readClock = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228: clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
	0x75, 0x0a, // jne to ret
	0x48, 0x8b, 0x15, 6, 0, 0, 0, // mov rdx, [the word]
	0x48, 0x01, 0x16, // add [rsi], rdx: seconds
	0xc3, 0x90, 0x90, // ret, and two to align
	0, 0, 0, 0, 0, 0, 0, 0, // the word
}

// takeClock takes the clock of a process that was started with SysProcAttr.Ptrace, and lets the process run. The
// calling goroutine is locked to the thread that started it.
func takeClock(pid int) (c clock, err error) {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return c, fmt.Errorf("wait for the process to begin: %v, %v", status, err)
	}
	defer func() { err = errors.Join(err, syscall.PtraceDetach(pid)) }()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return c, err
	}
	var begin, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &begin, &end)
		}
	}
	if err != nil || begin == 0 {
		return c, fmt.Errorf("the process has no vDSO: %v", err)
	}
	c.mem = fmt.Sprintf("/proc/%d/mem", pid)
	mem, err := os.OpenFile(c.mem, os.O_RDWR, 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	image := make([]byte, end-begin)
	if _, err := mem.ReadAt(image, begin); err != nil {
		return c, err
	}
	vdso, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return c, err
	}
	symbols, err := vdso.DynamicSymbols()
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(readClock)) {
			at := begin + int64(s.Value)
			c.word = at + int64(len(readClock)) - 8
			_, err := mem.WriteAt(readClock, at)
			return c, err
		}
	}
	return c, fmt.Errorf("the vDSO has no function of the clock: %v", err)
}

// step sets the clock ahead of the true time; 0 resets it.
func (c clock) step(ahead time.Duration) error {
	mem, err := os.OpenFile(c.mem, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)), c.word)
	return errors.Join(err, mem.Close())
}
