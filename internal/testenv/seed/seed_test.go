package seed

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSeedOfProcess(t *testing.T) {
	t.Parallel()
	if ofProcess("7", "true") != 7 || ofProcess("7", "") != 7 || ofProcess("", "true") != 1 {
		t.Fatal("the seed given or CI's is not used")
	}
	if one, other := ofProcess("", ""), ofProcess("", ""); one == other {
		t.Fatal("two processes draw the same") // once in four billion runs by chance
	}
}

func TestRandDrawsTheSameForTheSameTest(t *testing.T) {
	t.Parallel()
	first := Rand(t).Uint64()
	if again := Rand(t).Uint64(); again != first {
		t.Fatal("the same test draws differently")
	}
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
	if one, other := first(), first(); one != other {
		t.Fatal("rapid drew anew")
	}
}

// unlogged matches random sources without this package: rapid's own Check and Example, math/rand's own source, and
// sources with other seeds.
var unlogged = regexp.MustCompile(`\brapid\.(Check|MakeCheck|Example)\(|\.Example\(\)|\brand\.(New|NewPCG|N|U?[Ii]nt\w*|Float\w+|Perm|Shuffle|NormFloat64|ExpFloat64)\(`)

// TestAllDrawWithTheSeed finds tests that don't use this package's seed.
func TestAllDrawWithTheSeed(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "seed_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for n, line := range strings.Split(string(text), "\n") {
			if found := unlogged.FindString(line); found != "" && !strings.Contains(line, "seed.Of(") && !strings.Contains(line, ".Draw(") {
				t.Errorf("%s:%d: %s: draw with package seed", path, n+1, found)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
