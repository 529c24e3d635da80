package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// program is a testing.TB outside of a test, so that the demo can use the helpers of tests: services, children,
// proxies. It has only their methods. A failure of a helper is the demo's error.
type program struct {
	testing.TB // nil

	ctx      context.Context
	mu       sync.Mutex
	failures []error
	cleanups []func()
}

// runProgram runs f, which may fail like a test, and then the cleanups.
func runProgram(ctx context.Context, f func(p *program)) error {
	p, done := &program{ctx: ctx}, make(chan struct{})
	go func() {
		runtime.LockOSThread() // children are killed when the thread that started them ends
		defer close(done)
		defer p.clean()
		f(p)
	}()
	<-done
	return errors.Join(p.failures...)
}

// clean calls the cleanups in reverse order, even if one fails.
func (p *program) clean() {
	if n := len(p.cleanups) - 1; n >= 0 {
		last := p.cleanups[n]
		p.cleanups = p.cleanups[:n]
		defer p.clean()
		last()
	}
}

func (p *program) Helper()                  {}
func (p *program) Context() context.Context { return p.ctx }
func (p *program) FailNow()                 { runtime.Goexit() }

func (p *program) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.failures) > 0
}

func (p *program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *program) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Errorf(format, args...))
}

func (p *program) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	p.FailNow()
}

func (p *program) Fatal(args ...any) { p.Fatalf("%s", fmt.Sprint(args...)) }

// must ends the program if err isn't nil.
func (p *program) must(err error) {
	if err != nil {
		p.Fatalf("%w", err)
	}
}

// parallel calls functions in parallel and ends the program if one failed.
func (p *program) parallel(functions ...func()) {
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(f)
	}
	all.Wait()
	if p.Failed() {
		p.FailNow()
	}
}
