package rpc

import (
	"net/http"
	"sync"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/postgres"
)

// A busy server whose calls wait their turn for a connection stays ready.
func TestReadyWhileBusy(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{MaxConns: 2})
	url := serve(t, testenv.Database(t), func(o *Options) { o.Store = store })
	stop := make(chan struct{})
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = store.Pool().Exec(t.Context(), "select pg_sleep(0.3)")
				}
			}
		})
	}
	defer calls.Wait()
	defer close(stop)
	response, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the server is not ready: %s", response.Status)
	}
}
