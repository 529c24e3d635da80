package command

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"swh-scheduler/internal/pytext"
)

// choice is the value of an option that must be one of some words.
type choice struct {
	words    []string
	get      func() string
	set      func(string)
	repeated bool
}

func (c choice) String() string { return c.get() }
func (c choice) Type() string   { return strings.Join(c.words, "|") }
func (c choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return pytext.Sentencef("'%s' is not one of '%s'.", s, strings.Join(c.words, "', '"))
	}
	c.set(s)
	return nil
}

// Choice is the value of an option that must be one of some words.
func Choice(value *string, words ...string) pflag.Value {
	return choice{words, func() string { return *value }, func(s string) { *value = s }, false}
}

// Choices is the value of an option that may be repeated, each time with one of some words.
func Choices(values *[]string, words ...string) pflag.Value {
	return choice{words, func() string { return strings.Join(*values, ",") }, func(s string) { *values = append(*values, s) }, true}
}

// Words returns the words that are allowed for an option, or nil if it is not a choice.
func Words(v pflag.Value) []string {
	c, _ := v.(choice)
	return c.words
}

// Must makes an option refuse values with which ok returns false. problem ends the sentence "VALUE …": "is
// negative".
func Must(flags *pflag.FlagSet, option string, ok func() bool, problem string) {
	f := flags.Lookup(option)
	f.Value = checked{f.Value, ok, problem}
}

type checked struct {
	pflag.Value
	ok      func() bool
	problem string
}

func (c checked) Set(text string) error {
	err := c.Value.Set(text)
	if err == nil && !c.ok() {
		err = pytext.Sentencef("%s %s.", text, c.problem)
	}
	return err
}

// Integer reads an integer as Python's int does, which accepts blanks around it, a sign
// and underscores between digits.
func Integer(text string) (int64, error) {
	plain := strings.TrimSpace(text)
	if !pythonInt.MatchString(plain) {
		return 0, pytext.Sentencef("'%s' is not a valid integer.", text)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(plain, "_", ""), 10, 64)
	if err != nil {
		return 0, pytext.Sentencef("'%s' is out of range.", text)
	}
	return n, nil
}

var pythonInt = regexp.MustCompile(`^[-+]?\d+(?:_\d+)*$`)

// Integers is the value of an option that may be repeated, each time with an integer.
func Integers(values *[]int64) pflag.Value { return integers{values} }

type integers struct{ values *[]int64 }

func (i integers) String() string { return "" }
func (i integers) Type() string   { return "INTEGER" }
func (i integers) Set(s string) error {
	n, err := Integer(s)
	*i.values = append(*i.values, n)
	return err
}

// Duration is the value of an option that is a duration, written as in the configuration.
func Duration(value *time.Duration) pflag.Value { return duration{value} }

type duration struct{ value *time.Duration }

func (d duration) String() string {
	if d.value == nil || *d.value == 0 {
		return ""
	}
	return d.value.String()
}

func (d duration) Type() string { return "DURATION" }

func (d duration) Set(s string) (err error) {
	if s == "0" { // as Go's ParseDuration
		*d.value = 0
		return nil
	}
	if *d.value, err = pytext.ParseDuration(s); err != nil {
		return pytext.Sentencef("'%s' is not a duration such as '2 days' or 36h.", s)
	}
	return nil
}

// parameter annotates a flag with its name in the Python scheduler, from which the environment variable is named.
const parameter = "parameter"

// PythonName sets the name of an option in the Python scheduler. With "", the option has no environment variable.
func PythonName(flags *pflag.FlagSet, flag, name string) {
	if err := flags.SetAnnotation(flag, parameter, []string{name}); err != nil {
		panic(err) // unreachable: the flag exists
	}
}

// Pair adds two flags for the two values of an option, as click does: the last one given wins. The first flag has
// the environment variable, and letter unless that is "".
func Pair(flags *pflag.FlagSet, value *bool, yes, letter, no, yesUsage, noUsage string) {
	flags.BoolVarP(value, yes, letter, *value, yesUsage)
	flags.Lookup(yes).DefValue = "false" // the usage names the default
	flags.BoolFunc(no, noUsage, func(string) error {
		*value = false
		flags.Lookup(yes).Changed = true
		return nil
	})
	PythonName(flags, no, "")
}

// Date is the value of an option that is a date, as the Python scheduler's DATETIME. A date without a zone is in UTC.
type Date struct {
	text  string
	value time.Time
}

func (d *Date) String() string { return d.text }
func (d *Date) Type() string   { return "DATE" }

// Or returns the date, or otherwise if the option was not given.
func (d *Date) Or(otherwise time.Time) time.Time {
	if d.text == "" {
		return otherwise
	}
	return d.value
}

func (d *Date) Set(text string) (err error) {
	d.text = text
	d.value, err = pytext.ParseDate(text, time.Now())
	return err
}
