package simulator

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"swh-scheduler/internal/pytext"
)

const shownHeader = 200 // bytes

// ReadCSV reads a CSV file with a header, which must have the needed columns. It calls row for each row, with a
// function that returns a field by its column's name, "" if there is no such column. Errors, including row's, name
// the line.
func ReadCSV(r io.Reader, needed []string, row func(field func(column string) string) error) error {
	file := csv.NewReader(r)
	header, err := file.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the file is empty; expected a header with %s", strings.Join(needed, " and "))
	}
	if err != nil {
		return err
	}
	columns := map[string]int{}
	for i, name := range slices.Backward(header) {
		columns[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, name := range needed {
		if _, ok := columns[name]; !ok {
			found := strings.Join(header, ", ")
			if len(found) > shownHeader {
				found = found[:shownHeader] + "…"
			}
			return fmt.Errorf("line 1: no column %s among %s", name, pytext.Visible(found))
		}
	}
	for {
		fields, err := file.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // has the line
		}
		err = row(func(column string) string {
			if i, ok := columns[column]; ok {
				return fields[i]
			}
			return ""
		})
		if err != nil {
			line, _ := file.FieldPos(columns[needed[len(needed)-1]])
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
