package throwaway

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Servers of tests and of the demonstration have public passwords or none. So they listen on this machine's loopback
// only, including their nodes' and tools' ports.
func TestServersListenOnLoopback(t *testing.T) {
	t.Parallel()
	c, err := StartRabbitMQCluster(t.Context(), slog.New(slog.DiscardHandler), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	found := 0
	for _, n := range c.Nodes {
		for _, address := range listeners(t, n.process.pid) {
			found++
			if !strings.HasPrefix(address, "127.") && !strings.HasPrefix(address, "::1 ") {
				t.Errorf("%s listens on %s", n.name, address)
			}
		}
	}
	if found < 6 { // AMQP, management and Erlang of each
		t.Errorf("%d listening sockets were found", found)
	}
}

// listeners returns the addresses on which a process and its descendants listen: "address port".
func listeners(t *testing.T, pid int) (addresses []string) {
	t.Helper()
	inodes := map[string]bool{}
	var walk func(pid string)
	walk = func(pid string) {
		links, _ := filepath.Glob("/proc/" + pid + "/fd/*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil {
				if inode, ok := strings.CutPrefix(target, "socket:["); ok {
					inodes[strings.TrimSuffix(inode, "]")] = true
				}
			}
		}
		children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			walk(child)
		}
	}
	walk(fmt.Sprint(pid))
	for _, family := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile("/proc/net/" + family)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			const listening = "0A"
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening || !inodes[f[9]] {
				continue
			}
			host, port, _ := strings.Cut(f[1], ":")
			addresses = append(addresses, hostOf(t, host)+" "+port)
		}
	}
	return addresses
}

// hostOf reads an address in Linux's format: words of four bytes in the machine's order, assumed to be little endian.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for word := 0; word+4 <= len(b); word += 4 {
		b[word], b[word+1], b[word+2], b[word+3] = b[word+3], b[word+2], b[word+1], b[word]
	}
	address, _ := netip.AddrFromSlice(b)
	return address.Unmap().String()
}
