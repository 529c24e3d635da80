package services

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// sharedMemory is a file system in memory, on Linux. Databases come and go there in a third
// of the processor time: ext4 searches long for inodes where many files were just removed.
const sharedMemory = "/dev/shm"

// room reports whether dir is in memory and 4 GiB are free there, which no tests fill, with
// as much of the machine's memory left for programs.
func room(dir string) bool {
	const tmpfs, enough = 0x01021994, 4 << 30 // linux/magic.h; bytes
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return err == nil && fs.Type == tmpfs && fs.Bavail*uint64(fs.Bsize) >= enough && available() >= 2*enough
}

// available returns how many bytes of memory programs may still take, 0 if unknown.
func available() (bytes uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	_, line, _ := strings.Cut(string(text), "MemAvailable:")
	_, _ = fmt.Sscan(line, &bytes) // in KiB
	return bytes << 10
}
