//go:build race

package testenv

// raceFlags are what `go build` needs to build as this test was built.
var raceFlags = []string{"-race"}
