package seed

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestSeedOfProcess(t *testing.T) {
	t.Parallel()
	if ofProcess("7", "true") != 7 || ofProcess("7", "") != 7 || ofProcess("", "true") != 1 {
		t.Fatal("the seed given or CI's is not used")
	}
	if ofProcess("", "") == ofProcess("", "") {
		t.Fatal("two processes draw the same") // once in four billion runs by chance
	}
}

func TestRandDrawsTheSameForTheSameTest(t *testing.T) {
	t.Parallel()
	if Rand(t).Uint64() != Rand(t).Uint64() {
		t.Fatal("the same test draws differently")
	}
	first := Rand(t).Uint64()
	t.Run("another", func(t *testing.T) {
		if Rand(t).Uint64() == first {
			t.Fatal("another test draws the same")
		}
	})
}

// rapid's first draw depends on the seed alone.
func TestCheckUsesTheSeed(t *testing.T) {
	t.Parallel()
	if flag.Lookup("rapid.seed").Value.String() != strconv.FormatUint(process, 10) {
		t.Skip("-rapid.seed was given")
	}
	first := func() (n uint64) {
		Check(t, func(t *rapid.T) {
			if drawn := rapid.Uint64().Draw(t, "n"); n == 0 {
				n = drawn
			}
		})
		return n
	}
	if first() != first() {
		t.Fatal("rapid drew anew")
	}
}
