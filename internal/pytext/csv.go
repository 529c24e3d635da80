package pytext

import (
	"strings"
	"unicode"
)

// CSVRow formats a row as csv.writer does, without the end of the line.
func CSVRow(fields []string) string {
	var b strings.Builder
	for i, field := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.ContainsAny(field, ",\"\r\n") || field == "" && len(fields) == 1 {
			field = `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
		}
		b.WriteString(field)
	}
	return b.String()
}

// RStrip equals Python's str.rstrip.
func RStrip(s string) string {
	return strings.TrimRightFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f // separators, which are white space in Python
	})
}

// CSVRecord is a record of a CSV file.
type CSVRecord struct {
	Line   int // its first line, from 1
	Fields []string
}

// The states of csv.reader between two characters.
const (
	startRecord = iota
	startField
	inField
	inQuotedField
	quoteInQuotedField
)

// ReadCSV reads a whole file as csv.reader does with open's universal newlines. It has no errors: a quote within a
// field is a character, and the end of the file closes an open quote.
func ReadCSV(text string, delimiter rune) []CSVRecord {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var records []CSVRecord
	var field strings.Builder
	record, state, line := CSVRecord{Line: 1}, startRecord, 1
	endField := func() {
		record.Fields = append(record.Fields, field.String())
		field.Reset()
		state = startField
	}
	endRecord := func() {
		if state != startRecord {
			endField()
		}
		records = append(records, record)
		record, state = CSVRecord{Line: line + 1}, startRecord
	}
	for _, r := range text {
		switch {
		case state == inQuotedField && r == '"':
			state = quoteInQuotedField
		case state == inQuotedField:
			field.WriteRune(r)
		case r == '\n':
			endRecord()
		case state == quoteInQuotedField && r == '"':
			field.WriteRune(r)
			state = inQuotedField
		case state <= startField && r == '"':
			state = inQuotedField
		case r == delimiter:
			endField()
		default:
			field.WriteRune(r)
			state = inField
		}
		if r == '\n' {
			line++
		}
	}
	if state != startRecord {
		endRecord()
	}
	return records
}
