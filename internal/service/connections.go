package service

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many are open: where one more comes, that which has waited longest
// for a request is closed. If all are in the middle of a call, that is the new one.
type connections struct {
	most int

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // in waiting; nil in the middle of a call
	waiting list.List                  // of net.Conn, that which waits longest first
}

// BoundConnections returns an http.Server's ConnState that keeps at most so many connections open.
func BoundConnections(most int) func(net.Conn, http.ConnState) {
	return (&connections{most: most, open: make(map[net.Conn]*list.Element)}).changed
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		if encrypted, ok := surplus.(*tls.Conn); ok {
			surplus = encrypted.NetConn() // without a farewell, for which its peer would have to read
		}
		_ = surplus.Close()
	}
}

// note keeps the books, and returns the connection that is to be closed, if any.
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
