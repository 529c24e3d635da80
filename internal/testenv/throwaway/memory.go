package throwaway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sharedMemory is a file system in memory, on Linux. Creating and dropping databases there takes a third of the
// processor time, as ext4 searches long for inodes after many files were removed.
const sharedMemory = "/dev/shm"

// room reports whether dir is in memory, has 4 GiB free, more than tests fill, and leaves as much memory for
// programs.
func room(dir string) bool {
	const tmpfs, enough = 0x01021994, 4 << 30 // linux/magic.h; bytes
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return err == nil && fs.Type == tmpfs && fs.Bavail*uint64(fs.Bsize) >= enough && available("/") >= 2*enough
}

// available returns how many bytes of memory programs may still allocate on the machine and in their
// container (cgroup v2 or v1), by the files under root; 0 if unknown.
func available(root string) uint64 {
	free := number(filepath.Join(root, "proc/meminfo"), "MemAvailable:") << 10 // of KiB
	for _, files := range []struct{ limit, used, stat, cached string }{
		{"memory.max", "memory.current", "memory.stat", "\ninactive_file "},
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "\ntotal_inactive_file "},
	} {
		read := func(name, word string) uint64 { return number(filepath.Join(root, "sys/fs/cgroup", name), word) }
		if limit := read(files.limit, ""); limit > 0 { // else "max", or no container
			limit += read(files.stat, files.cached) // reclaimed when programs need memory
			free = min(free, limit-min(limit, read(files.used, "")))
		}
	}
	return free
}

// number returns the number after a word in a file; 0 if there is none.
func number(path, word string) (n uint64) {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(text), word)
	_, _ = fmt.Sscan(rest, &n)
	return n
}
