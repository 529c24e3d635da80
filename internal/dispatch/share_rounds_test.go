package dispatch_test

import "testing"

// What a group can't use goes to the others so that all are even with what they got
// before, in the same claim too.
func TestShareOutCountsWhatItGave(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.waiting = map[string]int{"a": -1, "b": -1, "c": -1}
	s.want(s.pass(30), map[string]int{"a": 10, "b": 10, "c": 10}, 0)
	s.end("a", 1)
	s.end("b", 5)
	s.end("c", 1)
	s.waiting["c"] = 7
	// By then a has used 10 seconds and b 50, and a piece of theirs is expected to
	// take 1.1 and 4.8: they are even, at about 92, after 74 pieces and 9.
	s.want(s.pass(90), map[string]int{"a": 74, "b": 9, "c": 7}, 1)
}
