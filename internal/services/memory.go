package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sharedMemory is a file system in memory, on Linux. Databases come and go there in a third
// of the processor time: ext4 searches long for inodes where many files were just removed.
const sharedMemory = "/dev/shm"

// room reports whether dir is in memory and 4 GiB are free there, which no tests fill by
// themselves, with as much of the memory left for programs.
func room(dir string) bool {
	const tmpfs, enough = 0x01021994, 4 << 30 // linux/magic.h; bytes
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return err == nil && fs.Type == tmpfs && fs.Bavail*uint64(fs.Bsize) >= enough && available("/") >= 2*enough
}

// available returns how many bytes of memory programs may still take, of the machine and of the
// container that they are in (cgroup v2), by the files under root; 0 if unknown.
func available(root string) uint64 {
	free := number(filepath.Join(root, "proc/meminfo"), "MemAvailable:") << 10 // of KiB
	group := filepath.Join(root, "sys/fs/cgroup")
	limit := number(filepath.Join(group, "memory.max"), "")
	if limit == 0 { // "max", or no container
		return free
	}
	// What is cached of files is given up when programs need memory.
	limit += number(filepath.Join(group, "memory.stat"), "\ninactive_file ")
	return min(free, limit-min(limit, number(filepath.Join(group, "memory.current"), "")))
}

// number returns that after a word in a file, 0 if there is none.
func number(path, word string) (n uint64) {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(text), word)
	_, _ = fmt.Sscan(rest, &n)
	return n
}
