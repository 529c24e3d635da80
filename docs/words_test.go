package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// word is an expression that documents and comments don't use, with better ones.
type word struct {
	instead string // as the style page shows it
	better  string
	found   *regexp.Regexp
}

func avoid(instead, better, expression string) word {
	return word{instead, better, regexp.MustCompile(`(?i)\b(?:` + expression + `)\b`)}
}

// words are the expressions that docs/devel/style.md lists.
var words = []word{
	avoid("hears, heard", "receives, reads", `hears?|heard|unheard`),
	avoid("tells, told", "returns, reports, prints, contains", `tells?|told|telling`),
	avoid("knows", "has, stores, reads", `knows`),
	avoid("believes, thinks, wants", "trusts, computes, needs", `believes|believed|thinks|wants`),
	avoid("goes by", "uses, is ordered by", `goes by|going by|go by`),
	avoid("puts off, put off", "backs off, delays", `puts? off|putting off`),
	avoid("minds, suffers", "is affected", `minds|suffers`),
	avoid("looks at, looks whether", "reads, checks", `look(?:s|ed)? (?:at|whether|what)`),
	avoid("passed over, passed by", "ignored, skipped", `pass(?:es|ed)? over|pass(?:es|ed)? by`),
	avoid("no longer, any more, anymore", "the present state only", `no longer|any ?more|not any longer`),
	avoid("in earlier versions, previously, it used to", "the present state only", `(?:it|they|that|this|which|daemons?|pages?) used to|in earlier versions|previously`),
	avoid("in hand", "in progress, reserved", `in hand`),
	avoid("so to speak, of course", "(leave it out)", `so to speak|of course|needless to say`),
	avoid("simply, just, easily", "(leave it out)", `simply|just|easily`),
	avoid("peer (the program)", "the Python scheduler", `the peer|the peer's`),
}

// docs/devel/style.md has the list. SWH_TEST_UPDATE=1 writes it.
func TestWordsInStyle(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| instead of | write |\n|---|---|\n")
	for _, w := range words {
		fmt.Fprintf(&table, "| %s | %s |\n", w.instead, w.better)
	}
	table.WriteString("\n")
	testenv.Generated(t, "devel/style.md", "words", table.String())
}

// Each expression is found in what it is for.
func TestWordsAreFound(t *testing.T) {
	t.Parallel()
	for _, w := range words {
		if example, _, _ := strings.Cut(w.instead, ","); !w.found.MatchString(example) && !w.found.MatchString("the "+example) {
			t.Errorf("%s finds no %q", w.found, example)
		}
	}
}
