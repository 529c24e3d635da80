package rpc

import (
	"reflect"
	"slices"
	"strings"
)

// signature holds the parameters of a Python callable: a method of the Python scheduler's backend, or the
// constructor of a class of its model. One without a name accepts any arguments.
type signature struct {
	name       string
	parameters []parameter
}

type parameter struct {
	name     string
	required bool
	of       pythonType
	holds    reflect.Type // what it is read into
}

// signatureOf collects the fields of a visit.
func signatureOf[T any](name string, visit func(*fields, *T)) *signature {
	s := &signature{name: name}
	visit(&fields{taken: s}, new(T))
	return s
}

func (s *signature) add(p parameter) {
	if len(s.parameters) == maxFields {
		panic(s.name + " has more fields than maxFields")
	}
	s.parameters = append(s.parameters, p)
}

// index returns the number of the parameter with a name, trying the most likely one first; -1 if there is none.
func (s *signature) index(name string, likely int) int {
	if likely < len(s.parameters) && s.parameters[likely].name == name {
		return likely
	}
	return slices.IndexFunc(s.parameters, func(p parameter) bool { return p.name == name })
}

// bind makes f read keyword arguments, or returns the error that Python gives for them, with its text.
func (s *signature) bind(f *fields, d dict) error {
	f.dict = d
	for i := range d {
		name, ok := d[i].key.(string)
		at := s.index(name, i)
		switch {
		case ok && at >= 0:
			f.at[at] = int32(i) + 1
		case s.name == "":
		case !ok:
			return typeError("keywords must be strings")
		default:
			return typeError("%s() got an unexpected keyword argument '%s'", s.name, name)
		}
	}
	var missing []string
	for i, p := range s.parameters {
		if p.required && f.at[i] == 0 {
			missing = append(missing, "'"+p.name+"'")
		}
	}
	if len(missing) == 0 || s.name == "" {
		return nil
	}
	// This joins words as Python does: a; a and b; a, b, and c.
	last := len(missing) - 1
	list, plural := missing[0], "s"
	switch last {
	case 0:
		plural = ""
	case 1:
		list += " and " + missing[1]
	default:
		list = strings.Join(missing[:last], ", ") + ", and " + missing[last]
	}
	return typeError("%s() missing %d required positional argument%s: %s", s.name, len(missing), plural, list)
}
