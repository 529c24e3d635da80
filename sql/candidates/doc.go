// Package candidates builds scheduler_go.candidates, the copy of origins from which grabs pick, and its
// indexes.
package candidates
