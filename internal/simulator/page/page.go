// Package page writes a report as a web page without scripts or further files.
package page

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"
)

//go:embed page.css
var style string

type Page struct {
	Title, Intro string
	Figures      []Row // results
	Settings     []Row // options
	Charts       []Chart
}

type Row struct{ Name, Value string }

func (p Page) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<h1>%[1]s</h1>
<p>%[3]s</p>
<div class="tables">
`, html.EscapeString(p.Title), style, html.EscapeString(p.Intro))
	writeTable(&b, ` class="figure"`, p.Figures)
	writeTable(&b, "", p.Settings)
	b.WriteString("</div>\n")
	for _, c := range p.Charts {
		c.write(&b)
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes a table. It adds attribute to the cells with values.
func writeTable(b *strings.Builder, attribute string, rows []Row) {
	b.WriteString("<table>\n")
	for _, row := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td%s>%s</td></tr>\n", html.EscapeString(row.Name), attribute, html.EscapeString(row.Value))
	}
	b.WriteString("</table>\n")
}
