package throwaway

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// managementOffset is the distance from RabbitMQ's AMQP port to its management port. The Python scheduler derives the
// latter by this rule.
const managementOffset = 10000

// tried are the ports that FreePorts has looked at: those that it returned, and some that were in use.
var tried sync.Map

// FreePorts returns distinct loopback ports without a listener. The ports at the given offsets from each of them are
// free, too.
//
// A server binds its port only later. So the ports are below the range of outgoing connections, and a process gets none
// twice.
func FreePorts(count int, offsets ...int) ([]int, error) {
	const low, high = 11000, 32000
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	return choosePorts(low, high, count, offsets, func(port int) bool {
		if _, taken := tried.LoadOrStore(port, true); taken {
			return false
		}
		l, err := net.Listen("tcp", address(port))
		if err == nil {
			held = append(held, l)
		}
		return err == nil
	})
}

// choosePorts is FreePorts for the range from low to high. hold reports whether a port is free.
func choosePorts(low, high, count int, offsets []int, hold func(port int) bool) (ports []int, err error) {
	for range 1000 {
		port := low + rand.IntN(high-low)
		free := hold(port)
		for _, offset := range offsets {
			free = free && port+offset < high && hold(port+offset)
		}
		if free {
			ports = append(ports, port)
		}
		if len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no free ports between %d and %d", low, high)
}

// address returns the loopback address with the given port.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
