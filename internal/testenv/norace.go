//go:build !race

package testenv

var raceFlags []string

// Race reports whether the race detector, which takes memory of its own, watches this test.
const Race = false
