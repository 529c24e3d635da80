//go:build !linux

package postgres

import "syscall"

// userTimeout has no effect on this system, like libpq's tcp_user_timeout.
func userTimeout(int) func(network, address string, socket syscall.RawConn) error { return nil }
