package held

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/postgres"
)

// wire watches the connections of a process to PostgreSQL, to find when batches that wait for another batch of their
// process are at rest. Only the connections show that.
type wire struct {
	m       sync.Mutex
	rests   sync.Cond
	conns   map[*watched]bool
	selects int // transactions with a select that have ended
}

func newWire() *wire {
	w := &wire{conns: make(map[*watched]bool)}
	w.rests.L = &w.m
	return w
}

func (w *wire) through() *postgres.Proxy {
	return &postgres.Proxy{Name: "PostgreSQL", Dial: func(dial pgconn.DialFunc) pgconn.DialFunc {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c := &watched{Conn: conn, wire: w}
			w.m.Lock()
			defer w.m.Unlock()
			w.conns[c] = true
			return c, nil
		}
	}}
}

// ended returns the number of ended transactions with a select.
func (w *wire) ended() int {
	w.m.Lock()
	defer w.m.Unlock()
	return w.selects
}

// rest waits until ended transactions with a select have ended, and open transactions with one are open and idle. It
// panics if that takes too long.
func (w *wire) rest(ended, open int) {
	defer time.AfterFunc(testenv.Patience/60, w.rests.Broadcast).Stop()
	began := time.Now()
	w.m.Lock()
	defer w.m.Unlock()
	for {
		n := 0
		for c := range w.conns {
			if c.inTx && c.selects > 0 && !c.busy {
				n++
			}
		}
		if w.selects >= ended && n >= open {
			return
		}
		if time.Since(began) > testenv.Patience/60 {
			panic(fmt.Sprintf("%d transactions have ended, of %d, and %d are open, of %d", w.selects, ended, n, open))
		}
		w.rests.Wait()
	}
}

// watched is a connection whose messages are followed: type, length, text.
type watched struct {
	net.Conn
	*wire
	busy, inTx bool
	selects    int // statements of the transaction that answered as a select does

	head [5]byte // of the present message
	n    int     // bytes of it so far
	left int     // bytes of its text
	text []byte  // the first of them
}

func (c *watched) Write(p []byte) (int, error) {
	c.m.Lock()
	c.busy = true
	c.m.Unlock()
	return c.Conn.Write(p)
}

func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.Lock()
	defer c.m.Unlock()
	for _, b := range p[:n] {
		c.take(b)
	}
	return n, err
}

func (c *watched) Close() error {
	c.m.Lock()
	delete(c.conns, c)
	c.rests.Broadcast()
	c.m.Unlock()
	return c.Conn.Close()
}

func (c *watched) take(b byte) {
	if c.n < len(c.head) {
		c.head[c.n] = b
		if c.n++; c.n == len(c.head) {
			c.left = int(c.head[1])<<24 + int(c.head[2])<<16 + int(c.head[3])<<8 + int(c.head[4]) - 4
			c.text = c.text[:0]
		}
	} else {
		c.left--
		if len(c.text) < 16 {
			c.text = append(c.text, b)
		}
	}
	if c.n < len(c.head) || c.left > 0 {
		return
	}
	c.n = 0
	switch c.head[0] {
	case 'C':
		if strings.HasPrefix(string(c.text), "SELECT") {
			c.selects++
		}
	case 'Z':
		c.busy = false
		was := c.inTx
		if c.inTx = c.text[0] != 'I'; !c.inTx {
			if was && c.selects > 0 {
				c.wire.selects++
			}
			c.selects = 0
		}
		c.rests.Broadcast()
	}
}
