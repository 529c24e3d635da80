//go:build race

package testenv

// raceFlags are the flags of `go build` for the build of this test, as in .ci/test: password hashes would take ten times
// as long with the detector.
var raceFlags = []string{"-race", "-gcflags=golang.org/x/crypto/...=-race=false"}

// Race reports whether the race detector, which takes memory of its own, watches this test.
const Race = true
