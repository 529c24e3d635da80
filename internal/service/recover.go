package service

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a panic.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("a fault of the program: %v", e.Value) }

// Recover calls do, and returns its error, or a *PanicError if it panics. The caller has to report the stack.
func Recover(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return do()
}
