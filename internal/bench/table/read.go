package main

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// row is a figure of ours beside another's.
type row struct {
	benchmark, side, unit string // the side is the other's
	ours, other           float64
}

const (
	ours = "ours"
	peer = "peer"
)

// read returns benchstat's facts, "key: value", and the figures that have one of ours
// beside them, all of a benchmark together. Each unit has a table, headed by a line of
// the sides and one of the unit.
func read(r io.Reader) (facts map[string]string, rows []row, err error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	facts, order := map[string]string{}, map[string]int{}
	var sides []string
	unit, headed := "", false
	for {
		line, err := in.Read()
		if err == io.EOF {
			slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(order[a.benchmark], order[b.benchmark]) })
			return facts, rows, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch name := line[0]; {
		case len(line) == 1:
			key, value, _ := strings.Cut(name, ": ")
			facts[key] = value
		case name == "" && !headed:
			sides, headed = line, true
		case name == "":
			unit, headed = line[1], false
		case name != "geomean":
			if _, found := order[name]; !found {
				order[name] = len(order)
			}
			mine := figure(line, slices.Index(sides, ours))
			for i, side := range sides {
				if other := figure(line, i); side != "" && side != ours && mine != 0 && other != 0 {
					rows = append(rows, row{name, side, unit, mine, other})
				}
			}
		}
	}
}

// figure is that of a cell, 0 where there is none.
func figure(line []string, cell int) float64 {
	if cell < 0 || cell >= len(line) {
		return 0
	}
	value, _ := strconv.ParseFloat(line[cell], 64)
	return value
}

// ratio is above 1 where ours is better: a rate is better the higher it is,
// anything else the lower.
func (r row) ratio() float64 {
	if strings.HasSuffix(r.unit, "/s") {
		return r.ours / r.other
	}
	return r.other / r.ours
}
