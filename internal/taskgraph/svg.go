package taskgraph

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/graphs"
)

// Sizes of the picture, in pixels.
const (
	boxWidth, boxHeight = 190, 46
	columnGap, rowGap   = 70, 14
	margin, header      = 20, 40
	lettersInBox        = 26
)

// SVG returns the drawing as a picture, levels from left to right. link returns the address of a box's link; nil: no
// links. A page's style may change the classes ground, title and arrow for dark screens.
func (d Drawing) SVG(link func(Box) string) string {
	picture, _ := d.SVGWithin(math.MaxInt, link)
	return picture
}

// SVGWithin is SVG, or false as soon as the picture is larger than most bytes.
func (d Drawing) SVGWithin(most int, link func(Box) string) (picture string, ok bool) {
	rows := 0
	for _, box := range d.Boxes {
		rows = max(rows, box.Row+1)
	}
	width := 2*margin + d.Levels*(boxWidth+columnGap) - columnGap
	height := 2*margin + header + rows*(boxHeight+rowGap)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n",
		max(width, 400), height)
	b.WriteString(`<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="arrow" d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>` + "\n")
	b.WriteString(`<rect class="ground" width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text class="title" x="%d" y="%d" font-size="15">%s</text>`+"\n", margin, margin+14, xmlText(d.Title))
	for _, a := range d.Arrows {
		if b.Len() > most {
			return "", false
		}
		d.arrow(&b, a)
	}
	for _, box := range d.Boxes {
		if b.Len() > most {
			return "", false
		}
		if link == nil {
			box.svg(&b)
			continue
		}
		fmt.Fprintf(&b, `<a href="%s">`, xmlText(link(box)))
		box.svg(&b)
		b.WriteString("</a>\n")
	}
	b.WriteString("</svg>\n")
	return b.String(), b.Len() <= most
}

func (b Box) corner() (x, y int) {
	return margin + b.Level*(boxWidth+columnGap), margin + header + b.Row*(boxHeight+rowGap)
}

// arrow draws an arrow, thicker for more dependencies, with its condition.
func (d Drawing) arrow(b *strings.Builder, a Arrow) {
	x1, y1 := d.Boxes[a.From].corner()
	x2, y2 := d.Boxes[a.To].corner()
	apart := map[graphs.Condition]int{graphs.OnResolved: -10, graphs.OnFailed: 10}[a.On] // two arrows may join the same boxes
	x1, y1, y2 = x1+boxWidth, y1+boxHeight/2+apart, y2+boxHeight/2+apart
	path := fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+columnGap/2, y1, x2-columnGap/2, y2, x2, y2)
	if a.From == a.To { // a loop at the right edge
		path = fmt.Sprintf("M%d %dc30 -14 30 22 0 8", x1, y1-4)
	}
	style := strokes[a.On]
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-dasharray="%s" stroke-width="%.1f" marker-end="url(#end)"><title>%s</title></path>`+"\n",
		path, style.colour, cmp.Or(style.dashes, "none"), 1+math.Log10(float64(a.Count)), xmlText(fmt.Sprintf("%d on %s", a.Count, a.On)))
	if a.On != graphs.OnCompleted {
		fmt.Fprintf(b, `<text class="title" x="%d" y="%d" fill="%s" font-size="9">%s</text>`+"\n", x1+8, (2*y1+y2)/3-3, style.colour, a.On)
	}
}

// svg draws a box, coloured in proportion to the states of its tasks.
func (b Box) svg(out *strings.Builder) {
	x, y := b.corner()
	fmt.Fprintf(out, "<g><title>%s</title>", xmlText(b.Title+"\n"+b.Subtitle+"\n"+b.states()))
	total, done := b.total(), 0
	for _, state := range model.GraphStates {
		if n := b.Counts[state]; n > 0 {
			from, to := boxWidth*done/total, boxWidth*(done+n)/total
			fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, x+from, y, to-from, boxHeight, colours[state])
			done += n
		}
	}
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="none" stroke="#667"/>`, x, y, boxWidth, boxHeight)
	fmt.Fprintf(out, `<text x="%d" y="%d">%s</text><text x="%d" y="%d" fill="#445" font-size="10">%s</text></g>`+"\n",
		x+8, y+19, xmlText(short(b.Title)), x+8, y+36, xmlText(short(b.Subtitle+", "+b.states())))
}

func short(text string) string {
	letters := []rune(text)
	if len(letters) <= lettersInBox {
		return text
	}
	return string(letters[:lettersInBox-1]) + "…"
}

// xmlText escapes lines of text for XML, and replaces characters that could mislead a reader.
func xmlText(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = pytext.Visible(lines[i])
	}
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(strings.Join(lines, "\n"))) // a strings.Builder returns no error
	return b.String()
}
