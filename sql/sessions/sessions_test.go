package sessions_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A session is found by its key until its time is over, or until it is ended by key, by number, by user, or
// with all. The table has no keys.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	a, b := sessions.New(testenv.OpenLocal(t, dsn).DB), sessions.New(testenv.OpenLocal(t, dsn).DB)
	begin := func(key, who string, life time.Duration) {
		t.Helper()
		if err := a.Begin(t.Context(), []byte(key), sessions.Login{Who: who, Credential: sha256.Sum256([]byte(who)), Address: "192.0.2.7"}, life); err != nil {
			t.Fatal(err)
		}
	}
	is := func(keys ...string) {
		t.Helper()
		for _, key := range []string{"ann1", "ann2", "bob1", "eve1"} {
			f, err := b.Find(t.Context(), []byte(key))
			if err != nil {
				t.Fatal(err)
			}
			if (f != nil) != strings.Contains(strings.Join(keys, " "), key) {
				t.Errorf("%s: %+v, want %q", key, f, keys)
			}
			if f != nil && (f.Who != key[:3] || f.Credential != sha256.Sum256([]byte(f.Who))) {
				t.Errorf("%+v", f)
			}
		}
	}
	begin("ann1", "ann", time.Hour)
	begin("ann2", "ann", time.Hour)
	begin("bob1", "bob", time.Hour)
	begin("eve1", "eve", -time.Second)
	is("ann1", "ann2", "bob1")
	all, err := b.List(t.Context())
	if err != nil || len(all) != 3 || all[0].Who != "bob" || all[0].Address != "192.0.2.7" || all[0].Ends.Sub(all[0].Began) != time.Hour {
		t.Errorf("%+v, %v", all, err)
	}
	if stored := fmt.Sprint(testenv.Column[string](t, testenv.Connect(t, dsn), "select s::text || encode(key, 'escape') from scheduler_go.sessions s")); strings.Contains(stored, "ann1") || !strings.Contains(stored, "ann") {
		t.Errorf("the table has %s", stored)
	}
	if ended, err := a.End(t.Context(), []byte("ann1")); !ended || err != nil {
		t.Error(ended, err)
	}
	is("ann2", "bob1")
	if ended, err := a.End(t.Context(), []byte("ann1")); ended || err != nil {
		t.Error(ended, err)
	}
	if n, err := a.EndSome(t.Context(), nil, []string{"nobody"}); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := a.EndSome(t.Context(), []int64{all[0].ID}, nil); n != 1 || err != nil {
		t.Error(n, err)
	}
	is("ann2")
	begin("ann1", "ann", time.Hour)
	begin("bob1", "bob", time.Hour)
	if n, err := a.EndSome(t.Context(), nil, []string{"ann"}); n != 2 || err != nil {
		t.Error(n, err)
	}
	is("bob1")
	begin("ann1", "ann", time.Hour)
	if n, err := a.EndAll(t.Context()); n != 2 || err != nil {
		t.Error(n, err)
	}
	is()
}

// A user who logs in often has the ten newest sessions, and ended ones are deleted. Other users keep
// theirs.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	s := sessions.New(testenv.OpenLocal(t, dsn).DB)
	begin := func(key, who string, life time.Duration) {
		if err := s.Begin(t.Context(), []byte(key), sessions.Login{Who: who, Address: "x"}, life); err != nil {
			t.Error(err)
		}
	}
	begin("bob", "bob", time.Hour)
	for i := range 30 {
		begin(fmt.Sprint("old", i), fmt.Sprint("user", i), -time.Second)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 25 {
				begin(fmt.Sprint(i, n), "ann", time.Hour)
			}
		})
	}
	all.Wait()
	begin("last", "ann", time.Hour)
	rows := testenv.Value[int](t, testenv.Connect(t, dsn), "select count(*) from scheduler_go.sessions")
	if rows != sessions.MaxPerUser+1 {
		t.Errorf("%d rows, want %d of ann and one of bob", rows, sessions.MaxPerUser)
	}
	for _, key := range []string{"last", "bob"} {
		if f, err := s.Find(t.Context(), []byte(key)); f == nil || err != nil {
			t.Errorf("%s: %v, %v", key, f, err)
		}
	}
}

// All processes share one form key, even if several create it at once, until all sessions are ended.
func TestFormKeyIsShared(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	keys := make([][]byte, 4)
	stores := make([]*sessions.Store, len(keys))
	read := func() {
		var all sync.WaitGroup
		for i := range keys {
			stores[i] = sessions.New(testenv.OpenLocal(t, dsn).DB)
			all.Go(func() {
				var err error
				if keys[i], err = stores[i].FormKey(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, key := range keys {
			if len(key) != 32 || !bytes.Equal(key, keys[0]) {
				t.Errorf("%x and %x", key, keys[0])
			}
		}
	}
	read()
	before := keys[0]
	if _, err := stores[0].EndAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	read()
	if bytes.Equal(before, keys[0]) {
		t.Error("the key is the same after all sessions were ended")
	}
}
