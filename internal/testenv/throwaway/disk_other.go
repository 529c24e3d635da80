//go:build !linux

package throwaway

import "errors"

// disk is a file system in memory: only on Linux.
type disk struct{ dir string }

var errNoDisk = errors.New("disks in memory are made on Linux only")

func (l *local) mountDisk(string, int) (*disk, error) { return nil, errNoDisk }
func (d *disk) fill() error                           { return errNoDisk }
func (d *disk) free() error                           { return errNoDisk }
