// Package seed gives random tests their seed. A test process has one seed, and each such test logs it, so that a
// failure can be repeated:
//
//	SWH_TEST_SEED=12345 go test -run 'TestName' ./package
//
// Without that variable, the seed is fixed if CI is set, and new for each process otherwise (-count=10 draws the same
// ten times).
//
// It is a separate package because packages that testenv imports use it, too.
package seed

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Var is the environment variable of the seed: an unsigned 64-bit number other than 0.
const Var = "SWH_TEST_SEED"

// ofProcess returns the seed for a process with these variables.
func ofProcess(given, ci string) uint64 {
	switch {
	case given != "":
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil || n == 0 {
			panic(Var + " must be a number other than 0: " + given)
		}
		return n
	case ci != "":
		return 1
	}
	return 1 + uint64(rand.Uint32())
}

var process = ofProcess(os.Getenv(Var), os.Getenv("CI"))

// init gives the seed to rapid. The flag -rapid.seed, which is parsed later, overrides it.
func init() {
	if err := flag.Set("rapid.seed", strconv.FormatUint(process, 10)); err != nil {
		panic(err)
	}
}

// Of returns the seed for a test, and logs it.
func Of(t testing.TB) uint64 {
	t.Helper()
	t.Logf("draw the same again with %s=%d", Var, process)
	return process
}

// Rand returns random numbers for a test: the same for the same seed and name of the test. Like any *rand.Rand, it is
// for one goroutine at a time.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return From(t, Of(t))
}

// From returns the random numbers that Rand returns in a process whose seed is n.
func From(t testing.TB, n uint64) *rand.Rand {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name())) // never fails
	return rand.New(rand.NewPCG(n, name.Sum64()))
}

// Check is rapid.Check, with the process's seed and a log of it.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	t.Logf("draw the same again with %s=%s", Var, flag.Lookup("rapid.seed").Value)
	rapid.Check(t, property)
}
