package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// Serve serves until ctx, a component's, ends. Then it takes no new connections and finishes running requests.
// Requests that outlast the grace period of the component's group are cut off.
func Serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	inFlight := InFlight(ctx)
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(inFlight, cancel)()
	server.BaseContext = func(net.Listener) context.Context { return requests }
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Shutdown(inFlight)
	if err != nil {
		cancel()
		err = errors.Join(err, server.Close())
	}
	<-failed
	return err
}
