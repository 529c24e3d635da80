//go:build !linux

package postgres

import "syscall"

// userTimeout has no effect here, as libpq's tcp_user_timeout hasn't.
func userTimeout(int) func(network, address string, socket syscall.RawConn) error { return nil }
