// Package taskinput reads tasks from operators: arguments of a command line, CSV files, and files with an origin on
// each line.
package taskinput

import (
	"encoding/json"
	"errors"
	"strings"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pgjson"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/yaml11"
)

// ParseArguments reads a task's arguments. Words with = are keyword arguments, the others positional ones; values are
// YAML.
func ParseArguments(words []string) (model.TaskArguments, error) {
	args := []json.RawMessage{}
	var kwargs dispatch.Kwargs
	for _, word := range words {
		key, text, isKeyword := strings.Cut(word, "=")
		if !isKeyword {
			text = word
		}
		value, err := parseValue(text)
		if err != nil {
			return model.TaskArguments{}, pytext.Sentencef("Invalid argument: %s (%s)", text, err)
		}
		if isKeyword {
			kwargs.Set(key, value)
		} else {
			args = append(args, value)
		}
	}
	list, err := pytext.PlainJSON(args)
	return model.TaskArguments{Args: list, Kwargs: kwargs.JSON()}, err
}

// parseValue turns YAML into JSON; an empty word is an empty text.
func parseValue(text string) (json.RawMessage, error) {
	if text == "" {
		return json.RawMessage(`""`), nil
	}
	root, err := yaml11.Parse([]byte(text))
	if err != nil {
		return nil, pytext.OneLine(err)
	}
	value, err := yaml11.JSON(root)
	if err != nil {
		return nil, err
	}
	if fault := pgjson.Check(value); fault != nil {
		return nil, errors.New(fault.Problem)
	}
	return value, nil
}
