package origins_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// call is a line for bench_peer.py.
type call map[string]any

// peerScript is the Python scheduler's own code, which measures its calls.
type peerScript struct{ *testenv.Script }

func startPeerScript(b *testing.B, class, target string) peerScript {
	b.Helper()
	return peerScript{testenv.StartScript(b, nil, "-W", "ignore", "testdata/bench_peer.py", class, target)}
}

// ms returns the milliseconds of a call.
func (p peerScript) ms(b *testing.B, c call) (ms float64) {
	b.Helper()
	p.Ask(b, c, &ms)
	return ms
}

// benchSides is a database with many origins, three times: with our schema, without it, and with it for the
// Python scheduler.
type benchSides struct {
	ours       *benchWorld
	beside     *benchWorld // its database is that of peerBeside
	peer       peerScript
	peerBeside peerScript
	peerDSN    string
	day        int // since 1970; each listing and visit has another day
}

func newBenchSides(b *testing.B, origins int) *benchSides {
	b.Helper()
	s := &benchSides{peerDSN: testenv.PythonDatabase(b), day: 20_000}
	filled := openBenchWorld(b, s.peerDSN, origins)
	filled.fill(b)
	filled.store.Close() // a database in use can't be copied
	s.ours = openBenchWorld(b, testenv.CopyDatabase(b, s.peerDSN), origins)
	s.ours.buildCandidates(b)
	s.ours.store.Close()
	s.beside = openBenchWorld(b, testenv.CopyDatabase(b, s.ours.dsn), origins)
	build := s.ours.build
	s.ours = openBenchWorld(b, s.ours.dsn, origins)
	s.ours.build = build
	for _, dsn := range []string{s.peerDSN, s.ours.dsn, s.beside.dsn} {
		bench.Exec(b, dsn, "vacuum analyze", "checkpoint")
	}
	s.peer, s.peerBeside = startPeerScript(b, "postgresql", s.peerDSN), startPeerScript(b, "postgresql", s.beside.dsn)
	return s
}

func ms(do func()) float64 {
	began := time.Now()
	do()
	return float64(time.Since(began).Microseconds()) / 1000
}

// BenchmarkGrab compares by the number of origins (SWH_BENCH_SIZES): dry and real grabs of 1,000 origins,
// listings of 1,000 changed origins, and the database's part of 1,000 visits of the journal. The processes
// run already. Times include the drain of our recorded changes, which a daemon does concurrently;
// until-done-ms excludes it. Candidates are built once (build-s).
//
// With the most origins, the Python scheduler's RPC client also makes dry grabs.
func BenchmarkGrab(b *testing.B) {
	sizes := benchSizes(b)
	for i, size := range sizes {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			s := newBenchSides(b, size)
			b.Run("build/side="+bench.Ours, func(b *testing.B) {
				b.ReportMetric(s.ours.build.Seconds(), "build-s")
				b.ReportMetric(0, "ns/op")
			})
			for _, policy := range plainPolicies {
				b.Run("dry/"+string(policy), func(b *testing.B) { s.grab(b, policy, true) })
			}
			for _, policy := range plainPolicies {
				b.Run("real/"+string(policy), func(b *testing.B) { s.grab(b, policy, false) })
			}
			for _, weighed := range config.DefaultSchedulingPolicy()["git"] {
				b.Run("sampled/"+string(weighed.Filter.Policy), func(b *testing.B) { s.sampledGrab(b, weighed.Filter) })
			}
			b.Run("listing", func(b *testing.B) { s.listings(b) })
			b.Run("journal", func(b *testing.B) { s.visits(b) })
			if i == len(sizes)-1 {
				b.Run("rpc", func(b *testing.B) { s.grabThroughRPC(b) })
			}
		})
	}
}

// undrained returns the Python scheduler's figures, for comparison with ours with and without the drain.
func undrained(ms float64) bench.Figures { return bench.Figures{"until-done-ms": ms, "ms": ms} }

func only(ms float64) bench.Figures { return bench.Figures{"ms": ms} }

func (s *benchSides) grab(b *testing.B, policy model.VisitPolicy, dryRun bool) {
	question := call{"call": "grab", "policy": policy, "dry_run": dryRun}
	if dryRun {
		bench.Compare(b, bench.Side{Name: bench.Peer, Run: func() bench.Figures {
			return only(s.peer.ms(b, question))
		}}, bench.Side{Name: bench.Ours, Run: func() bench.Figures {
			return only(ms(func() { s.ours.grab(b, policy, true) }))
		}}, bench.Side{Name: bench.Limit("1,000_rows_in_order"), Run: func() bench.Figures {
			return only(ms(func() { s.readRows(b) }))
		}})
		return
	}
	bench.Compare(b, bench.Side{Name: bench.Peer, Run: func() bench.Figures {
		return undrained(s.peer.ms(b, question))
	}}, bench.Side{Name: bench.Ours, Run: func() bench.Figures {
		return s.ours.done(b, func() { s.ours.grab(b, policy, false) })
	}}, bench.Side{Name: bench.PeerBeside, Run: func() bench.Figures {
		return only(s.peerBeside.ms(b, question))
	}}, bench.Side{Name: bench.Limit("bare_update"), Run: func() bench.Figures {
		urls := s.beside.visited(b, 1000)
		return only(ms(func() { s.beside.setScheduled(b, urls) }))
	}})
}

// readRows reads 1,000 listed origins in the order of their key.
func (s *benchSides) readRows(b *testing.B) {
	b.Helper()
	rows, err := s.ours.store.Pool().Query(b.Context(), "select * from listed_origins order by lister_id, url, visit_type limit 1000")
	if err == nil {
		_, err = pgx.CollectRows(rows, pgx.RowToMap)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// sampledGrab compares dry grabs by the default policies, also by the origins that they return. The Python scheduler
// reads a sample of one origin in a thousand, with fewer than 1,000 matches up to some millions of origins. Ours
// doesn't use the sample.
func (s *benchSides) sampledGrab(b *testing.B, f model.VisitFilter) {
	figures := func(ms float64, origins int) bench.Figures {
		return bench.Figures{"ms": ms, "µs/origin": 1000 * ms / float64(max(1, origins))}
	}
	bench.Compare(b, bench.Side{Name: bench.Peer, Run: func() bench.Figures {
		var a struct {
			MS      float64 `json:"ms"`
			Origins int     `json:"origins"`
		}
		s.peer.Ask(b, call{"call": "sampled", "policy": f.Policy, "tablesample": f.TableSample}, &a)
		return figures(a.MS, a.Origins)
	}}, bench.Side{Name: bench.Ours, Run: func() bench.Figures {
		return figures(ms(func() { s.ours.grab(b, f.Policy, true) }), 1000)
	}})
}

func (s *benchSides) listings(b *testing.B) {
	peer := func(p peerScript, figures func(ms float64) bench.Figures) func() bench.Figures {
		return func() bench.Figures {
			var origins [][2]string
			for _, url := range s.beside.random(b, 1000, "true") {
				origins = append(origins, [2]string{listerOf(b, url), url})
			}
			s.day++
			return figures(p.ms(b, call{"call": "listing", "origins": origins, "day": s.day}))
		}
	}
	bench.Compare(b, bench.Side{Name: bench.Peer, Run: peer(s.peer, undrained)},
		bench.Side{Name: bench.PeerBeside, Run: peer(s.peerBeside, only)},
		bench.Side{Name: bench.Ours, Run: func() bench.Figures {
			urls := s.ours.random(b, 1000, "true")
			return s.ours.done(b, func() { s.ours.list(b, urls) })
		}})
}

func (s *benchSides) visits(b *testing.B) {
	peer := func(p peerScript, figures func(ms float64) bench.Figures) func() bench.Figures {
		return func() bench.Figures {
			s.day++
			return figures(p.ms(b, call{"call": "visits", "urls": s.beside.random(b, 1000, "true"), "day": s.day}))
		}
	}
	bench.Compare(b, bench.Side{Name: bench.Peer, Run: peer(s.peer, undrained)},
		bench.Side{Name: bench.PeerBeside, Run: peer(s.peerBeside, only)},
		bench.Side{Name: bench.Ours, Run: func() bench.Figures {
			urls := s.ours.random(b, 1000, "true")
			return s.ours.done(b, func() { s.ours.visit(b, urls) })
		}})
}

// grabThroughRPC compares dry grabs through the Python scheduler's own client: from our RPC server, from
// theirs under gunicorn, and from a server with the answer in memory.
func (s *benchSides) grabThroughRPC(b *testing.B) {
	program := bench.Programs(b)[0]
	ours, _ := bench.Serve(b, func(address string) *exec.Cmd {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			b.Fatal(err)
		}
		return program.Command(bench.ConfigFile(b, s.ours.dsn, ""), "rpc-serve", "--host", host, "--port", port)
	})
	theirs, _ := bench.Serve(b, func(address string) *exec.Cmd { return bench.Gunicorn(b, s.peerDSN, address) })
	ourClient, theirClient := startPeerScript(b, "remote", ours), startPeerScript(b, "remote", theirs)
	answerer := bench.Answerer(b)
	for _, policy := range plainPolicies {
		b.Run(string(policy), func(b *testing.B) {
			question := call{"call": "grab", "policy": policy, "dry_run": true}
			answer := filepath.Join(b.TempDir(), "answer")
			ourClient.ms(b, call{"call": "grab", "policy": policy, "dry_run": true, "keep": answer})
			memory, stop := bench.Serve(b, func(address string) *exec.Cmd {
				return answerer(address, "application/x-msgpack", testenv.Read(b, answer))
			})
			defer stop()
			var sides []bench.Side
			for _, side := range []struct {
				name   string
				client peerScript
			}{{bench.Peer, theirClient}, {bench.Ours, ourClient}, {bench.Limit("from_memory"), startPeerScript(b, "remote", memory)}} {
				sides = append(sides, bench.Side{Name: side.name, Run: func() bench.Figures { return only(side.client.ms(b, question)) }})
			}
			bench.Compare(b, sides...)
		})
	}
}
