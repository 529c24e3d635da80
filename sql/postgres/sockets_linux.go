package postgres

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// userTimeout sets the milliseconds that sent data may wait for acknowledgement.
func userTimeout(milliseconds int) func(network, address string, socket syscall.RawConn) error {
	return func(network, _ string, socket syscall.RawConn) (err error) {
		if network == "unix" {
			return nil
		}
		failed := socket.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, milliseconds)
		})
		if failed != nil {
			return failed
		}
		return err
	}
}
