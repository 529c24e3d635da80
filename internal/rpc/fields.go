package rpc

import "reflect"

// fields visits the fields of an object or the arguments of a call. A function, called a visit, names them in their
// order with [required] and [optional]. Writing, reading from a dict, and the list of names all use that function.
type fields struct {
	out encoder // writes to it, unless it is nil

	onItsWay *task // reused for each task that is written

	taken *signature // collects the names, unless it is nil

	// Otherwise it reads from dict. at has the place of each field there, counted
	// from 1, or 0 if it is not given.
	mode
	dict
	jsonLeft *int // bytes of JSON that may still be made of values; nil: maxJSON of each
	at       [maxFields]int32
	next     int
	name     string // of the field that is read
	kind     pythonType
	err      error // the first
}

// maxFields is more than any object or call has.
const maxFields = 16

// mode is the kind of object that is read. It decides the error for a value of a wrong type.
type mode uint8

const (
	ofModel    mode = iota // an object of the model, as the Python scheduler's classes check it
	ofCall                 // the arguments of a call
	ofResponse             // a server's answer, in the client
)

// required visits a field that must be given.
func required[V any](f *fields, name string, k *kind[V], v *V) {
	if f.out != nil {
		write(f, name, k, v)
	} else {
		read(f, name, true, k, v)
	}
}

// optional visits a field that may be absent. It is then otherwise, if given, or its type's zero value.
func optional[V any](f *fields, name string, k *kind[V], v *V, otherwise ...V) {
	if f.out != nil {
		write(f, name, k, v)
	} else if given := read(f, name, false, k, v); !given && len(otherwise) > 0 {
		*v = otherwise[0]
	}
}

// read reads the next field, or collects its name.
func read[V any](f *fields, name string, required bool, k *kind[V], v *V) (given bool) {
	if f.taken != nil {
		f.taken.add(parameter{name, required, k.pythonType, reflect.TypeFor[V]()})
		return true
	}
	var value any
	at := f.at[f.next]
	f.next++
	if given = at > 0; given {
		value = f.dict[at-1].value
	}
	if given || required {
		f.name, f.kind = name, k.pythonType
		*v = k.read(f, value)
	}
	return given
}

func write[V any](f *fields, name string, k *kind[V], v *V) {
	if k.write != nil {
		f.name = name
		f.out.key(name)
		k.write(f, v)
	}
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// wrong refuses a value of a wrong type.
func (f *fields) wrong(value any) {
	if f.mode == ofModel {
		f.fail(attrsError("AttributeTypeError", f.name+" must be "+f.kind.String()+" (got a "+typeName(value)+")"))
		return
	}
	f.refuse(value, typeError("argument '%s' must be %s, not %s", f.name, f.kind.name, typeName(value)))
}

// refuse refuses a value with the Python scheduler's error; the client has its own.
func (f *fields) refuse(value any, err error) {
	if f.mode == ofResponse {
		err = unexpected(value)
	}
	f.fail(err)
}
