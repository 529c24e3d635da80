package door

import (
	"fmt"
	"net/netip"
	"sync"
)

// Limits bound the open connections. 0 is the default.
type Limits struct {
	Connections int // in all
	PerClient   int // of one application_name and user of the RPC server
	PerAddress  int // from one address
}

// Defaults of Limits.
const (
	DefaultConnections = 200
	DefaultPerClient   = 100
	DefaultPerAddress  = 200
)

// Bounds of connections that have not started.
const (
	maxStarting     = 64
	maxStartingFrom = 32 // one address
)

// counts are the connections that are open. It is safe for concurrent use.
type counts struct {
	Limits

	mu           sync.Mutex
	all          int
	clients      map[string]int
	addresses    map[netip.Prefix]int
	starting     int
	startingFrom map[netip.Prefix]int
}

func newCounts(l Limits) *counts {
	return &counts{Limits: l, clients: map[string]int{}, addresses: map[netip.Prefix]int{}, startingFrom: map[netip.Prefix]int{}}
}

// start counts a connection that starts, until end is called. It reports false if there are too many.
func (c *counts) start(from netip.Prefix) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starting >= maxStarting || c.startingFrom[from] >= maxStartingFrom {
		return nil, false
	}
	c.starting++
	c.startingFrom[from]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.starting--
		less(c.startingFrom, from)
	}), true
}

// open counts a connection until end is called. If a limit is reached, it returns the label of the limit and a text
// that names it.
func (c *counts) open(client string, from netip.Prefix) (end func(), reason, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= c.Connections:
		return nil, refusedAll, fmt.Sprintf("the RPC server has %d connections to the database open, as many as rpc_serve.door.max_connections allows", c.all)
	case c.clients[client] >= c.PerClient:
		return nil, refusedByClient, fmt.Sprintf("this client has %d connections to the database open, as many as the RPC server's rpc_serve.door.max_per_client allows", c.clients[client])
	case c.addresses[from] >= c.PerAddress:
		return nil, refusedByAddress, fmt.Sprintf("the address %s has %d connections to the database open, as many as the RPC server's rpc_serve.door.max_per_address allows", from, c.addresses[from])
	}
	c.all++
	c.clients[client]++
	c.addresses[from]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		less(c.clients, client)
		less(c.addresses, from)
	}), "", ""
}

// less subtracts one. It deletes a count of zero.
func less[K comparable](of map[K]int, key K) {
	if of[key]--; of[key] <= 0 {
		delete(of, key)
	}
}
