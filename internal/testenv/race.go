//go:build race

package testenv

// raceFlags are what `go build` needs to build as this test was built.
var raceFlags = []string{"-race"}

// Race reports whether the race detector, which takes memory of its own, watches this test.
const Race = true
