package service

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic, as an error.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("a fault of the program: %v", e.Value) }

// Recover calls do, and returns its error, or a *PanicError if it panics. Whoever calls it
// reports the stack: nobody else does.
func Recover(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return do()
}
