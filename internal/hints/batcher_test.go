package hints_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore records transactions. It fails those with a hint of a URL, and waits for gate, if there is one.
type fakeStore struct {
	mu      sync.Mutex
	batches [][]model.Hint
	refused int
	fail    string
	unknown string
	began   chan struct{}
	gate    chan struct{}
}

func (f *fakeStore) Hint(_ context.Context, hints []model.Hint, refused map[string]int) ([]model.HintResult, error) {
	if f.gate != nil {
		f.began <- struct{}{}
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]model.HintResult, len(hints))
	for i, h := range hints {
		if h.URL == f.fail {
			return nil, errors.New("refused by the database")
		}
		results[i] = model.HintMoved
		if h.URL == f.unknown {
			results[i] = model.HintUnknown
		}
	}
	f.batches = append(f.batches, hints)
	for _, n := range refused {
		f.refused += n
	}
	return results, nil
}

func hintOf(url string) model.Hint { return model.Hint{URL: url, Source: "test"} }

// Requests that come while a transaction is in progress share the next one.
func TestRequestsShareATransaction(t *testing.T) {
	t.Parallel()
	store := &fakeStore{began: make(chan struct{}), gate: make(chan struct{})}
	b := hints.NewBatcher(store)
	var wait sync.WaitGroup
	send := func(i int) {
		wait.Go(func() {
			answer, err := b.Hint(context.Background(), []model.Hint{hintOf(fmt.Sprintf("https://a.example/%d", i)), hintOf("nothing")})
			want := model.HintAnswer{Moved: 1, Refused: 1, Refusals: answer.Refusals}
			if err != nil || !cmp.Equal(answer, want) || len(answer.Refusals) != 1 {
				t.Errorf("%+v (%v)", answer, err)
			}
		})
	}
	send(0)
	<-store.began
	for i := 1; i <= 100; i++ {
		send(i)
	}
	for hints.Pending(b) < 100 { // until all have come
	}
	store.gate <- struct{}{}
	<-store.began
	store.gate <- struct{}{}
	wait.Wait()
	if len(store.batches) != 2 || len(store.batches[1]) != 100 || store.refused != 101 {
		t.Errorf("%d transactions, %d refused", len(store.batches), store.refused)
	}
}

// A request that the database refuses doesn't fail the others of its transaction.
func TestAFailureIsOfItsRequestOnly(t *testing.T) {
	t.Parallel()
	store := &fakeStore{fail: "https://a.example/bad", began: make(chan struct{}, 100), gate: make(chan struct{})}
	b := hints.NewBatcher(store)
	var wait sync.WaitGroup
	errs := make([]error, 5)
	for i, url := range []string{"https://a.example/0", "https://a.example/1", store.fail, "https://a.example/3", "https://a.example/4"} {
		wait.Go(func() { _, errs[i] = b.Hint(context.Background(), []model.Hint{hintOf(url)}) })
		if i == 0 {
			<-store.began
		}
	}
	for hints.Pending(b) < 4 {
	}
	close(store.gate)
	wait.Wait()
	for i, err := range errs {
		if (err != nil) != (i == 2) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// What waits is bounded, and a caller that goes away doesn't wait.
func TestBatcherIsBounded(t *testing.T) {
	t.Parallel()
	store := &fakeStore{began: make(chan struct{}, 1000), gate: make(chan struct{})}
	b := hints.NewBatcher(store)
	many := make([]model.Hint, model.MaxHints)
	for i := range many {
		many[i] = hintOf("https://a.example/p")
	}
	if _, err := b.Hint(t.Context(), append(many, many[0])); !errors.Is(err, hints.ErrTooMany) {
		t.Errorf("%v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	busy := 0
	for range 60 {
		switch _, err := b.Hint(gone, many); {
		case errors.Is(err, hints.ErrBusy):
			busy++
		case !errors.Is(err, context.Canceled):
			t.Errorf("%v", err)
		}
	}
	if busy < 8 || busy > 10 {
		t.Errorf("%d of 60 requests found no room, want 9 or 10", busy)
	}
	close(store.gate)
	if _, err := b.Hint(t.Context(), many[:1]); err != nil && !errors.Is(err, hints.ErrBusy) {
		t.Error(err)
	}
	for hints.Pending(b) > 0 {
	}
}

// Each of two requests of a transaction has its own results, also if the other one fails.
func TestTwoRequestsOfATransaction(t *testing.T) {
	t.Parallel()
	for _, fail := range []string{"", "https://a.example/2"} {
		store := &fakeStore{fail: fail, unknown: "https://a.example/1", began: make(chan struct{}, 100), gate: make(chan struct{})}
		b := hints.NewBatcher(store)
		var wait sync.WaitGroup
		for i, want := range []model.HintAnswer{{Moved: 1}, {Unknown: 1}, {Moved: 1}} {
			url := fmt.Sprintf("https://a.example/%d", i)
			wait.Go(func() {
				answer, err := b.Hint(context.Background(), []model.Hint{hintOf(url)})
				if (err != nil) != (url == fail) || err == nil && !cmp.Equal(answer, want) {
					t.Errorf("%s: %+v (%v)", url, answer, err)
				}
			})
			if i == 0 {
				<-store.began
			}
			for hints.Pending(b) < i {
			}
		}
		close(store.gate)
		wait.Wait()
	}
}

// A transaction has at most model.MaxHints, and written hints leave room for others. A name that is no source's isn't
// counted: anybody could make up any number of them.
func TestTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	store := &fakeStore{began: make(chan struct{}, 1000), gate: make(chan struct{})}
	b := hints.NewBatcher(store)
	many := make([]model.Hint, model.MaxHints)
	for i := range many {
		many[i] = hintOf("https://a.example/p")
	}
	var wait sync.WaitGroup
	for i := range 3 {
		wait.Go(func() { _, _ = b.Hint(context.Background(), many) })
		if i == 0 {
			<-store.began
		}
	}
	for hints.Pending(b) < 2 {
	}
	close(store.gate)
	wait.Wait()
	for i := range 60 {
		if _, err := b.Hint(t.Context(), many); err != nil {
			t.Fatalf("after %d requests: %v", i, err)
		}
	}
	if answer, err := b.Hint(t.Context(), []model.Hint{{URL: "https://a.example/p", Source: "No source!"}}); err != nil || answer.Refused != 1 || store.refused != 0 {
		t.Errorf("%+v (%v), %d counted by source", answer, err, store.refused)
	}
	for _, batch := range store.batches {
		if len(batch) > model.MaxHints {
			t.Errorf("%d hints in a transaction", len(batch))
		}
	}
}
