package main

import (
	"regexp"
	"strings"
	"time"
)

var (
	numbered  = regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+)*)(?:-(.*))?$`)
	afterward = regexp.MustCompile(`^([0-9]+-g[0-9a-f]+)?-?(dirty)?$`)
	noVersion = regexp.MustCompile(`[^0-9A-Za-z.+~]+`)
)

// packageVersion returns the version of a package of a release, in a form that dpkg and rpm order alike: 1.2.3~rc1,
// then 1.2.3, then 1.2.3+5.gabcdef0 (five commits later), then 1.2.4. A name without a number, such as that of a
// commit, is older than all of them; its order is the time of the commit.
func packageVersion(release string, when time.Time) string {
	m := numbered.FindStringSubmatch(release)
	switch {
	case m == nil || !strings.ContainsAny(release, ".v"): // digits alone are a commit
		return "0~" + when.UTC().Format("20060102.150405") + "." + clean(release)
	case m[2] == "":
		return m[1]
	case afterward.MatchString(m[2]):
		return m[1] + "+" + clean(m[2])
	}
	return m[1] + "~" + clean(m[2])
}

func clean(text string) string { return strings.Trim(noVersion.ReplaceAllString(text, "."), ".") }
