package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// crowd is a Store whose next small reads wait until the test releases them.
type crowd struct {
	*db.Store
	ctx   context.Context // of small reads
	letGo func()
}

// crowded runs a test with prepared statements, and with the settings behind a pooler.
func crowded(t *testing.T, patience time.Duration, test func(*testing.T, crowd)) {
	for name, direct := range map[string]func(string) string{
		"prepared": func(string) string { return "" },
		"pooler":   func(dsn string) string { return dsn },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Database(t)
			store, err := db.Open(t.Context(), dsn, postgres.Options{Command: "test", Direct: direct(dsn)}.Patient(patience))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			c := crowd{Store: store, ctx: postgres.WithSmallReads(t.Context())}
			c.letGo = c.hold(t)
			test(t, c)
		})
	}
}

// hold makes both round trips wait for a lock.
func (c crowd) hold(t *testing.T) (letGo func()) {
	t.Helper()
	unlock := c.lock(t, 7)
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() { _, _ = c.read(c.ctx, "select 0 from pg_advisory_xact_lock_shared(7)") })
	}
	testenv.Becomes(t, "held round trips", [2]int{2, 0}, c.SmallTrips)
	letGo = sync.OnceFunc(func() {
		unlock()
		held.Wait()
	})
	t.Cleanup(letGo)
	return letGo
}

func (c crowd) read(ctx context.Context, sql string, args ...any) (value string, err error) {
	err = c.SmallReads().QueryRow(ctx, "select ("+sql+")::text", args...).Scan(&value)
	return value, err
}

// answer is the result of one of many reads.
type answer struct {
	value string
	err   error
}

// wait begins reads, each with its number as $1, and returns once they wait.
func (c crowd) wait(t *testing.T, ctx context.Context, statements ...string) (answers func() []answer) {
	t.Helper()
	got := make([]answer, len(statements))
	var reads sync.WaitGroup
	for i, sql := range statements {
		reads.Go(func() { got[i].value, got[i].err = c.read(ctx, sql, i) })
	}
	testenv.Becomes(t, "waiting reads", [2]int{2, len(statements)}, c.SmallTrips)
	return func() []answer { reads.Wait(); return got }
}

// Reads that wait for a round trip share the next one, and each gets its own rows.
func TestSmallReadsGoTogether(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		answers := c.wait(t, c.ctx, slices.Repeat([]string{"select transaction_timestamp() || ' ' || $1::int"}, 8)...)
		c.letGo()
		var times []string
		for i, a := range answers() {
			at, number, _ := strings.Cut(strings.Replace(a.value, " ", "T", 1), " ")
			if times = append(times, at); number != fmt.Sprint(i) || a.err != nil {
				t.Errorf("read %d got %q, %v", i, a.value, a.err)
			}
		}
		if len(slices.Compact(times)) != 1 {
			t.Errorf("not in one round trip: %q", times)
		}
		testenv.Becomes(t, "round trips", [2]int{0, 0}, c.SmallTrips)
	})
}

// Reads wait for the one round trip underway. If it is slow, a second one begins with all that wait, but no
// third.
func TestSlowRoundTripsGetCompany(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	for name, tripTime := range map[string]time.Duration{"quick": time.Hour, "slow": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := db.Open(t.Context(), dsn, postgres.Options{Command: "test"}.Patient(time.Hour).TripTime(tripTime))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			c := crowd{Store: store, ctx: postgres.WithSmallReads(t.Context())}
			letGo := c.lock(t, 9)
			var reads sync.WaitGroup
			read := func(sql string) {
				reads.Go(func() {
					if _, err := c.read(c.ctx, sql); err != nil {
						t.Error(err)
					}
				})
			}
			read("select 0 from pg_advisory_xact_lock_shared(9)")
			testenv.Becomes(t, "held round trips", [2]int{1, 0}, c.SmallTrips)
			if tripTime == time.Millisecond {
				if value, err := c.read(c.ctx, "select 3"); value != "3" || err != nil {
					t.Errorf("beside a slow round trip: %q, %v", value, err)
				}
				letGoSecond := c.lock(t, 10)
				read("select 0 from pg_advisory_xact_lock_shared(10)")
				testenv.Becomes(t, "held round trips", [2]int{2, 0}, c.SmallTrips)
				read("select 1")
				testenv.Becomes(t, "waiting reads", [2]int{2, 1}, c.SmallTrips)
				letGoSecond()
				testenv.Becomes(t, "round trips, of which one is slow", [2]int{1, 0}, c.SmallTrips)
			} else {
				read("select 1")
				testenv.Becomes(t, "waiting reads", [2]int{1, 1}, c.SmallTrips)
			}
			letGo()
			reads.Wait()
			testenv.Becomes(t, "round trips", [2]int{0, 0}, c.SmallTrips)
		})
	}
}

// Only reads declared small wait for others.
func TestOtherReadsDontWait(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		if value, err := c.read(t.Context(), "select 3"); value != "3" || err != nil {
			t.Errorf("%q, %v", value, err)
		}
	})
}

// A failed read doesn't affect the others.
func TestSmallReadsFailAlone(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		answers := c.wait(t, c.ctx, "select $1::int", "select 1 / ($1::int - 1)", "select $1::int", "select nullif($1::int, 3)", "select $1::int where false")
		c.letGo()
		got := answers()
		for _, i := range []int{0, 2} {
			if got[i] != (answer{fmt.Sprint(i), nil}) {
				t.Errorf("read %d got %+v", i, got[i])
			}
		}
		if got[1].err == nil || !strings.Contains(got[1].err.Error(), "22012") {
			t.Errorf("a division by zero got %+v", got[1])
		}
		for _, i := range []int{3, 4} { // NULL is no text
			if got[i].err == nil || got[i].value != "" {
				t.Errorf("read %d got %+v", i, got[i])
			}
		}
	})
}

// A read that fails after its first rows returns an error, not partial rows.
func TestSmallReadsFailMidway(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		var got []int
		var err error
		var read sync.WaitGroup
		read.Go(func() {
			var rows pgx.Rows
			if rows, err = c.SmallReads().Query(c.ctx, "select 1 / (3 - n) from generate_series(1, 4) n"); err == nil {
				got, err = pgx.CollectRows(rows, pgx.RowTo[int])
			}
		})
		testenv.Becomes(t, "waiting reads", [2]int{2, 1}, c.SmallTrips)
		c.letGo()
		read.Wait()
		if err == nil || !strings.Contains(err.Error(), "22012") {
			t.Errorf("got %v and %v, want a division by zero", got, err)
		}
	})
}

// A read with large rows runs alone, in another transaction.
func TestLargeReadsGoAlone(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		const at = "select transaction_timestamp() || ' ' || "
		answers := c.wait(t, c.ctx, at+"$1::int", at+"repeat('x', 100000 + $1::int)")
		c.letGo()
		got := answers()
		small, large := strings.Fields(got[0].value), strings.Fields(got[1].value)
		if len(small) != 3 || len(large) != 3 || len(large[2]) != 100001 {
			t.Fatalf("%q, %v; %d bytes, %v", got[0].value, got[0].err, len(got[1].value), got[1].err)
		}
		if small[1] == large[1] {
			t.Error("both were read by one round trip")
		}
	})
}

// A read whose context ends returns at once, whether it waits for a round trip or is in one, and gets no
// rows later. The others get their rows.
func TestSmallReadsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		ctx, cancel := context.WithCancel(c.ctx)
		answers := c.wait(t, ctx, "select $1::int", "select $1::int")
		cancel()
		for i, a := range answers() {
			if a.value != "" || !errors.Is(a.err, context.Canceled) {
				t.Errorf("read %d got %+v", i, a)
			}
		}
		testenv.Becomes(t, "waiting reads", [2]int{2, 0}, c.SmallTrips)

		ctx, cancel = context.WithCancel(c.ctx)
		letGo := c.lock(t, 8)
		ended := c.wait(t, ctx, "select $1::int from pg_advisory_xact_lock_shared(8)")
		c.letGo()
		testenv.Becomes(t, "round trips", [2]int{1, 0}, c.SmallTrips)
		cancel()
		a := ended()[0]
		letGo()
		testenv.Becomes(t, "round trips", [2]int{0, 0}, c.SmallTrips)
		if a.value != "" || !errors.Is(a.err, context.Canceled) {
			t.Errorf("a read under way got %+v", a)
		}
	})
}

// lock takes an advisory lock.
func (c crowd) lock(t *testing.T, key int) (letGo func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.Pool().Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	letGo = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	t.Cleanup(letGo)
	if _, err := conn.Exec(t.Context(), "select pg_advisory_lock($1)", key); err != nil {
		t.Fatal(err)
	}
	return letGo
}

// Reads don't wait long for round trips that don't end.
func TestSmallReadsLosePatience(t *testing.T) {
	t.Parallel()
	crowded(t, time.Millisecond, func(t *testing.T, c crowd) {
		for i := range 3 {
			if value, err := c.read(c.ctx, "select $1::int", i); value != fmt.Sprint(i) || err != nil {
				t.Errorf("%q, %v", value, err)
			}
		}
	})
}

// A meter counts the rows of its own read, and its error affects only that read.
func TestSmallReadsAreMetered(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		tooMuch := errors.New("too much")
		var reads sync.WaitGroup
		for i := range 4 {
			reads.Go(func() {
				counted, want, wanted := 0, i+1, error(nil)
				if i == 3 {
					want, wanted = 2, tooMuch
				}
				rows, err := c.SmallReads().Query(postgres.WithMeter(c.ctx, func(size int) error {
					if counted += size; i == 3 && counted == 2 {
						return tooMuch
					}
					return nil
				}), "select 'x' from generate_series(0, $1::int)", i)
				if err != nil {
					t.Error(err)
					return
				}
				defer rows.Close()
				for rows.Next() {
				}
				if counted != want || !errors.Is(rows.Err(), wanted) {
					t.Errorf("read %d: %d bytes, %v", i, counted, rows.Err())
				}
			})
		}
		testenv.Becomes(t, "waiting reads", [2]int{2, 4}, c.SmallTrips)
		c.letGo()
		reads.Wait()
	})
}

// A Store closes even if a round trip without readers is blocked.
func TestSmallReadsDontHoldClose(t *testing.T) {
	t.Parallel()
	crowded(t, time.Hour, func(t *testing.T, c crowd) {
		ctx, cancel := context.WithCancel(c.ctx)
		c.lock(t, 8)
		answers := c.wait(t, ctx, "select $1::int from pg_advisory_xact_lock_shared(8)")
		c.letGo()
		testenv.Becomes(t, "round trips", [2]int{1, 0}, c.SmallTrips)
		cancel()
		answers()
		c.Close()
	})
}

// Many concurrent readers, some of which fail or give up, get their own rows or errors. They see all
// commits before their reads.
func TestManySmallReads(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, store.Pool(), "create table counted (n int)")
	testenv.Exec(t, store.Pool(), "insert into counted values (0)")
	var committed atomic.Int64
	var readers sync.WaitGroup
	c := crowd{Store: store, ctx: postgres.WithSmallReads(t.Context())}
	first := seed.Of(t)
	for reader := range 16 {
		readers.Go(func() {
			draw := seed.From(t, first+uint64(reader))
			for i := range 100 {
				switch draw.IntN(8) {
				case 0:
					if value, err := c.read(c.ctx, "select 1 / $1::int", 0); err == nil {
						t.Errorf("a division by zero got %q", value)
					}
				case 1:
					ctx, cancel := context.WithTimeout(c.ctx, time.Duration(draw.IntN(2000))*time.Microsecond)
					value, err := c.read(ctx, "select $1::int", i)
					if err == nil && value != fmt.Sprint(i) || err != nil && value != "" {
						t.Errorf("read of %d got %q, %v", i, value, err)
					}
					cancel()
				case 2:
					var n int64
					least := committed.Load()
					if err := c.SmallReads().QueryRow(c.ctx, "select n from counted").Scan(&n); err != nil || n < least {
						t.Errorf("%d, %v, though %d was committed", n, err, least)
					}
				case 3:
					if reader == 0 {
						if _, err := store.Pool().Exec(t.Context(), "update counted set n = n + 1"); err != nil {
							t.Error(err)
						}
						committed.Add(1)
					}
				default:
					want := fmt.Sprint(reader, i)
					if value, err := c.read(c.ctx, "select $1::text", want); value != want || err != nil {
						t.Errorf("read of %s got %q, %v", want, value, err)
					}
				}
			}
		})
	}
	readers.Wait()
	testenv.Becomes(t, "round trips", [2]int{0, 0}, store.SmallTrips)
}
