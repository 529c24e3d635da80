// Package origins reads and writes listers and listed origins, and picks the next origins to visit.
//
// [Grabs] pick by policy, from candidates (candidates.go) or, where those can't be used, from the Python
// scheduler's tables. They respect the limits of hosters (hosters.go). The policy freshness has estimates
// and moments of its own (freshness.go).
package origins
