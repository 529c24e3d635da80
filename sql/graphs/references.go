package graphs

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"

	"swh-scheduler/internal/model"
)

// A reference {{ task.NAME.id }} in a text of a task's arguments stands for the number of one of the task's
// dependencies. A text with nothing but a reference becomes a number. A name may contain any characters,
// including line breaks.
var reference = regexp.MustCompile(`(?s)\{\{\s*task\.(.+?)\.id\s*\}\}`)

// mayRefer matches JSON texts that may contain a reference: two opening braces, plain or escaped.
var mayRefer = regexp.MustCompile(`(?i)(?:\{|\\u007b){2}`)

// References returns the names that the arguments refer to.
func References(a model.TaskArguments) (names []string) {
	_, _ = withReferences(a, func(name string) int64 {
		names = append(names, name)
		return 0
	})
	return names
}

// withReferences returns the arguments with numbers in place of references.
func withReferences(a model.TaskArguments, id func(name string) int64) (model.TaskArguments, error) {
	for _, text := range []*json.RawMessage{&a.Args, &a.Kwargs} {
		if !mayRefer.Match(*text) {
			continue
		}
		var value any
		d := json.NewDecoder(bytes.NewReader(*text))
		d.UseNumber() // large integers keep their digits
		if err := d.Decode(&value); err != nil {
			return a, err
		}
		var filled bytes.Buffer
		e := json.NewEncoder(&filled)
		e.SetEscapeHTML(false)
		if err := e.Encode(fillReferences(value, id)); err != nil {
			return a, err
		}
		*text = filled.Bytes()
	}
	return a, nil
}

func fillReferences(value any, id func(name string) int64) any {
	switch v := value.(type) {
	case string:
		if all := reference.FindStringSubmatch(v); all != nil && all[0] == v {
			return id(all[1])
		}
		return reference.ReplaceAllStringFunc(v, func(found string) string {
			return strconv.FormatInt(id(reference.FindStringSubmatch(found)[1]), 10)
		})
	case []any:
		for i := range v {
			v[i] = fillReferences(v[i], id)
		}
	case map[string]any:
		for key := range v {
			v[key] = fillReferences(v[key], id)
		}
	}
	return value
}
