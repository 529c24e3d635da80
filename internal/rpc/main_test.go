package rpc

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// CI compares the same calls each time, so that a change is judged by what it
	// changes; elsewhere they are drawn anew.
	if os.Getenv("CI") != "" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
