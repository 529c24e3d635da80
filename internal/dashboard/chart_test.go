package dashboard

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/testenv/seed"
)

var fiveMinutes = steps{time.Date(2030, 1, 2, 10, 0, 0, 0, time.UTC), 5 * time.Minute}

// A band has ended work above its axis and failures below, each with its own scale, and a sentence with the same
// content.
func TestBand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ended, failed []int64
		text          string
		marks         []mark
	}{
		"nothing":     {[]int64{0, 0, 0, 0}, []int64{0, 0, 0, 0}, "Nothing ended.", nil},
		"all is well": {[]int64{0, 7, 0, 14}, []int64{0, 0, 0, 0}, "21 ended, at most 14 in 5 min. None failed.", []mark{{"ended", "M25 70V35H50V70ZM75 70V0H100V70Z"}}},
		"some failed": {[]int64{2000, 1000, 10, 0}, []int64{0, 30, 10, 0}, "3\u202f010 ended, at most 2\u202f000 in 5 min. 40 of them failed, at most 30, from 10:05 on.",
			[]mark{{"ended", "M0 70V0H25V35H50V66H75V70Z"}, {"failed", "M25 70V100H50V80H75V70Z"}}}, // 10 of 2,000 are visible
		"none but failures": {[]int64{0, 0, 0, 0}, []int64{0, 0, 0, 5}, "0 ended, at most 0 in 5 min. 5 of them failed, at most 5, from 10:15 on.", []mark{{"failed", "M75 70V100H100V70Z"}}},
	} {
		c := band("T", fiveMinutes, tc.ended, tc.failed)
		if diff := cmp.Diff(tc.marks, c.Marks); diff != "" || c.Text != tc.text || c.Empty() != (tc.marks == nil) {
			t.Errorf("%s: %s\n%s", name, c.Text, diff)
		}
		if !c.Empty() && (len(c.Rows) != 4 || c.Rows[1][0] != "10:05" || c.Rows[1][1] != strconv.FormatInt(tc.ended[1], 10)) {
			t.Errorf("%s: %v", name, c.Rows)
		}
	}
}

// Times have a logarithmic scale, and an unknown time is a gap.
func TestTimes(t *testing.T) {
	t.Parallel()
	no := math.NaN()
	c := times("T", fiveMinutes, curve{"p50", "p50", []float64{1, 10, no, 1}}, curve{"p95", "p95", []float64{no, no, no, 100}})
	if diff := cmp.Diff([]mark{{"p50", "M0 100h25L25 50h25M75 100h25"}, {"p95", "M75 0h25"}}, c.Marks); diff != "" {
		t.Error(diff)
	}
	if c.Text != "p50: 1 s at the end, 10 s at most; p95: 1 min at the end, 1 min at most. The scale goes from 1 s to 1 min, by powers of ten." {
		t.Error(c.Text)
	}
	if diff := cmp.Diff([]string{"10:10", "", ""}, c.Rows[2]); diff != "" {
		t.Error(diff)
	}
	if c := times("T", fiveMinutes, curve{"p50", "p50", []float64{no}}); !c.Empty() || c.Text != "No times are known." {
		t.Errorf("%+v", c)
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	c := histogram("T", lanes.Sketch{20: 10, 22: 5, 9: 0})
	if diff := cmp.Diff([]mark{{"ended", "M0 100V0H33.3V100ZM66.7 100V50H100V100Z"}}, c.Marks); diff != "" || len(c.Rows) != 2 || !strings.HasPrefix(c.Text, "15 took from 6.9 s to 13 s, half of them 8.7 s at most") {
		t.Errorf("%s\n%s %v", diff, c.Text, c.Rows)
	}
	if c := histogram("T", lanes.Sketch{-1: 0}); !c.Empty() {
		t.Errorf("%+v", c)
	}
}

// For any figures, each mark stays within the square, and paths are short.
func TestMarksStayWithin(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`([MLVHhZ])(-?[\d.]*)(?: (-?[\d.]+))?`)
	seed.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 61).Draw(t, "steps")
		number := rapid.Int64Range(0, 1<<50)
		time := rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.Just(math.NaN()))
		ended, failed := rapid.SliceOfN(number, n, n).Draw(t, "ended"), rapid.SliceOfN(number, n, n).Draw(t, "failed")
		sketch := lanes.Sketch{}
		for _, b := range rapid.SliceOf(rapid.Int16Range(0, 90)).Draw(t, "buckets") {
			sketch[b]++
		}
		for _, c := range []chart{
			band("", fiveMinutes, ended, failed), histogram("", sketch),
			times("", fiveMinutes, curve{"p50", "", rapid.SliceOfN(time, n, n).Draw(t, "p50")}, curve{"p95", "", rapid.SliceOfN(time, n, n).Draw(t, "p95")}),
		} {
			for _, m := range c.Marks {
				if len(m.Path) > 16*92 {
					t.Fatalf("a path of %d bytes", len(m.Path))
				}
				if rest := word.ReplaceAllString(m.Path, ""); rest != "" {
					t.Fatalf("%q in %q", rest, m.Path)
				}
				for _, w := range word.FindAllStringSubmatch(m.Path, -1) {
					for _, text := range w[2:] {
						if at, err := strconv.ParseFloat(text, 64); text != "" && (err != nil || at < 0 || at > 100.1) {
							t.Fatalf("%q in %q", w[0], m.Path)
						}
					}
				}
			}
		}
	})
}
