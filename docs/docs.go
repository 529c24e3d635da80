// Package docs has the documents that the program shows.
package docs

import _ "embed"

//go:embed how-to/runbooks.md
var Runbooks string // a section for each alert
