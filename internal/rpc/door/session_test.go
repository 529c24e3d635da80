package door

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/testenv/seed"
)

// However the database's stream is divided, the client gets the same messages, with signs of life between
// them only.
func TestToClient(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	first := encode(t, &pgproto3.ReadyForQuery{TxStatus: 'T'})
	stream := slices.Clone(first)
	for range 300 {
		size := []int{10, 500, 5000, downSize, 20_000, 3 * bulkSize}[random.IntN(6)]
		stream = append(stream, encode(t, &pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("x"), random.IntN(size))}})...)
	}
	stream = append(stream, encode(t, &pgproto3.ReadyForQuery{TxStatus: 'T'})...)
	client, toClient := net.Pipe()
	server, fromServer := net.Pipe()
	s := &session{client: toClient, server: fromServer, series: newMetrics(prometheus.NewRegistry()).of("x"), writeTime: time.Minute, alive: time.Millisecond}
	go s.toClient()
	go func() {
		defer func() { _ = server.Close() }()
		n := len(first) // a pause after it is between two messages
		for rest := stream; len(rest) > 0; n = min(len(rest), 1+random.IntN([]int{100, 8 << 10, 100 << 10}[random.IntN(3)])) {
			if _, err := server.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			if len(rest) == len(stream) || random.IntN(20) == 0 {
				time.Sleep(2 * time.Millisecond)
			}
			rest = rest[n:]
		}
	}()
	all, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	signs := 0
	for len(all) > 0 {
		n := 1 + int(all[1])<<24 + int(all[2])<<16 + int(all[3])<<8 + int(all[4])
		if message := all[:n]; bytes.Equal(message, signOfLife) {
			signs++
		} else {
			got = append(got, message...)
		}
		all = all[n:]
	}
	if !bytes.Equal(got, stream) || signs == 0 {
		t.Errorf("%d bytes of %d came, with %d signs", len(got), len(stream), signs)
	}
}
