//go:build race

package testenv

// raceFlags are the flags of `go build` for the build of this test.
var raceFlags = []string{"-race"}

// Race reports whether the race detector, which takes memory of its own, watches this test.
const Race = true
