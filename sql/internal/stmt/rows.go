package stmt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Failed wraps an error with the action that failed. nil stays nil.
func Failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// List converts the rows of a query, and returns the query's error.
func List[R, T any](rows []R, err error, convert func(R) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	converted := make([]T, len(rows))
	for i, row := range rows {
		converted[i] = convert(row)
	}
	return converted, nil
}

// First returns the first row of a query, or nil if there is none.
func First[T any](rows []T, err error) (*T, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// A step is a statement that is ready to run.
type Step func(context.Context) error

// Arrays returns a step whose parameters P are the columns of rows. Without rows the step does nothing.
func Arrays[R, P any](rows []R, run func(context.Context, P) error) Step {
	return func(ctx context.Context) error {
		if len(rows) == 0 {
			return nil
		}
		return run(ctx, Columns[P](rows))
	}
}

// Columns returns the parameters P of a statement. It fills each array from the rows' field of the same
// name, which may be in an embedded struct: the reverse of pgx.RowToStructByName. A nil pointer becomes a
// zero value. Columns panics if rows lack an array's field.
func Columns[P, R any](rows []R) (p P) {
	from := reflect.ValueOf(rows)
	for column, array := range reflect.ValueOf(&p).Elem().Fields() {
		if column.Type.Kind() != reflect.Slice {
			continue
		}
		path := pathTo(reflect.TypeFor[R](), column.Name)
		if path == nil {
			panic(fmt.Sprintf("%T has no field %s of %T", rows, column.Name, p))
		}
		array.Set(reflect.MakeSlice(column.Type, len(rows), len(rows)))
		for i := range rows {
			setColumn(array.Index(i), reflect.Indirect(from.Index(i)).FieldByIndex(path))
		}
	}
	return p
}

// pathTo returns the index path of a struct's field, in the struct itself or in its embedded structs; nil
// if none.
func pathTo(t reflect.Type, name string) []int {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if field, ok := t.FieldByName(name); ok {
		return field.Index
	}
	for field := range t.Fields() {
		if path := pathTo(field.Type, name); path != nil {
			return append(slices.Clone(field.Index), path...)
		}
	}
	return nil
}

// setColumn sets an element of an array. A struct for a text becomes its String.
func setColumn(element, value reflect.Value) {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	switch {
	case value.Type() == element.Type():
		element.Set(value)
	case value.Kind() == reflect.Struct:
		element.SetString(value.Interface().(fmt.Stringer).String())
	default:
		element.Set(value.Convert(element.Type()))
	}
}

// Entry is an entry of a map, as a row.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
}

// Entries returns the entries of a map, in no order.
func Entries[K comparable, V any](m map[K]V) []Entry[K, V] {
	all := make([]Entry[K, V], 0, len(m))
	for key, value := range m {
		all = append(all, Entry[K, V]{key, value})
	}
	return all
}

// Keys returns a step on a list of keys. Without keys the step does nothing.
func Keys[K any](keys []K, run func(context.Context, []K) error) Step {
	return func(ctx context.Context) error {
		if len(keys) == 0 {
			return nil
		}
		return run(ctx, keys)
	}
}

// Into returns a step that stores a query's result in to. what describes the query in an error.
func Into[T any](to *T, query func(context.Context) (T, error), what string) Step {
	return func(ctx context.Context) (err error) {
		*to, err = query(ctx)
		return Failed(err, "%s", what)
	}
}

// InOrder runs steps until one fails.
func InOrder(ctx context.Context, steps ...Step) error {
	for _, run := range steps {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// EncodeRows encodes rows as a JSON list, without HTML escapes.
func EncodeRows(rows any) (json.RawMessage, error) {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(rows)
	return document.Bytes(), err
}

// OrEmptyObject returns the text, or {} for an empty one.
func OrEmptyObject(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("{}")
	}
	return text
}

// InMicroseconds truncates a time as the database driver does. PostgreSQL would round a text.
func InMicroseconds(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC().Truncate(time.Microsecond))
}

// Nullable converts a zero value to NULL.
func Nullable[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// NullableTime converts a zero time to NULL.
func NullableTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// OrNull converts an empty list to NULL.
func OrNull[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// OrZero returns the value, or the zero value for NULL.
func OrZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

// FirstOrZero returns the first row of a query, or the zero value if there is none.
func FirstOrZero[T any](rows []T, err error) (T, error) {
	row, err := First(rows, err)
	return OrZero(row), err
}

// TextsOf converts enum values to texts, which pgx can send without the enum's type. An empty list is NULL.
func TextsOf[T ~string](values []T) []string {
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return texts
}
