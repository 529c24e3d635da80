package settle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
)

// spellings are other texts that uuid.Parse or PostgreSQL read as the same id.
func spellings(id uuid.UUID) []string {
	text := id.String()
	plain := strings.ReplaceAll(text, "-", "")
	return []string{
		strings.ToUpper(text), "{" + text + "}", "urn:uuid:" + text, "URN:UUID:" + strings.ToUpper(text), plain, strings.ToUpper(plain),
		"{" + plain + "}", plain[:4] + "-" + plain[4:], " " + text, text + " ", "x" + text + "y",
	}
}

// Only the canonical text of an id is that id. Events with other spellings change neither the ledger nor a run,
// whatever else the batch has.
func TestOtherSpellingsOfAnIDAreOthersIDs(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		with, without := newWorld(), newWorld()
		var events, others []Outcome
		for n := range rapid.IntRange(1, 4).Draw(t, "messages") {
			id, d := draw(t, n+0xabcdef) // with letters
			with.add(n, id, d)
			without.add(n, id, d)
			events = append(events, d.events...)
			for _, o := range d.events {
				o.BackendID = rapid.OneOf(rapid.SampledFrom(spellings(id)), mixedCase(id)).Draw(t, "spelling")
				others = append(others, o)
			}
		}
		batch := append([]Outcome(nil), others...)
		if rapid.Bool().Draw(t, "with the right ones") {
			batch = rapid.Permutation(append(batch, events...)).Draw(t, "order")
			var right []Outcome
			for _, o := range batch {
				if _, ok := model.ParseTaskID(o.BackendID); ok {
					right = append(right, o)
				}
			}
			without.apply(right)
		}
		with.apply(batch)
		if diff := cmp.Diff(without.summary(), with.summary()); diff != "" {
			t.Fatalf("without the other spellings (-), with them (+):\n%s", diff)
		}
	})
}

// mixedCase draws the text of an id with at least one letter in upper case.
func mixedCase(id uuid.UUID) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := []byte(id.String())
		for i := range text {
			if rapid.Bool().Draw(t, "upper") {
				text[i] = strings.ToUpper(string(text[i]))[0]
			}
		}
		if string(text) == id.String() {
			return strings.ToUpper(string(text))
		}
		return string(text)
	})
}
