package service

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds the number of open connections. A connection above the bound closes the one that has waited
// longest for a request. If all are in the middle of a call, the new one is closed.
type connections struct {
	most int

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // element of waiting; nil in the middle of a call
	waiting list.List                  // of net.Conn, the one that has waited longest first
}

// BoundConnections returns an http.Server's ConnState that keeps at most so many connections open.
func BoundConnections(most int) func(net.Conn, http.ConnState) {
	return (&connections{most: most, open: make(map[net.Conn]*list.Element)}).changed
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		if encrypted, ok := surplus.(*tls.Conn); ok {
			surplus = encrypted.NetConn() // without a TLS close_notify, which blocks until the peer reads
		}
		_ = surplus.Close()
	}
}

// note records the state of a connection, and returns the connection to close, if any.
func (c *connections) note(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place := c.open[conn]; place != nil {
		c.waiting.Remove(place)
		c.open[conn] = nil
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.open[conn] = c.waiting.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	if state != http.StateNew || len(c.open) <= c.most {
		return nil
	}
	surplus = c.waiting.Remove(c.waiting.Front()).(net.Conn)
	delete(c.open, surplus)
	return surplus
}
