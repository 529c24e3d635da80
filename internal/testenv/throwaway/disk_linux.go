package throwaway

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is a file system in memory, whose size can change while it is in use. The reaper unmounts it.
type disk struct {
	dir  string
	size uint64 // bytes
}

// mountDisk makes a disk under the directory of the services, which other users may enter.
func (l *local) mountDisk(name string, mib int) (*disk, error) {
	d := &disk{dir: filepath.Join(l.dir, "disk-"+name), size: uint64(mib) << 20}
	if err := os.Mkdir(d.dir, 0o711); err != nil {
		return nil, err
	}
	return d, d.mount(0, d.size)
}

func (d *disk) mount(flags uintptr, size uint64) error {
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", flags, fmt.Sprintf("size=%d,mode=0711", size)); err != nil {
		return fmt.Errorf("mount a disk of %d bytes in memory: %w", size, err)
	}
	return nil
}

// fill leaves no free space, without writing. Files in place can be changed.
func (d *disk) fill() error {
	var err error
	for range 5 { // concurrent writes make the new size too small
		var s unix.Statfs_t
		if err = unix.Statfs(d.dir, &s); err != nil {
			return err
		}
		if err = d.mount(unix.MS_REMOUNT, (s.Blocks-s.Bfree)*uint64(s.Bsize)); err == nil {
			return nil
		}
	}
	return err
}

// free makes space again.
func (d *disk) free() error { return d.mount(unix.MS_REMOUNT, d.size) }
