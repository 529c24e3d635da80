package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Kwargs are keyword arguments, a JSON object that keeps the order of its keys, as
// Python's dict. Its zero value has none.
type Kwargs struct {
	keys   []string
	values []json.RawMessage
}

// set is for strings and nil, which always have a JSON form.
func (k *Kwargs) set(key string, value any) {
	text, _ := json.Marshal(value)
	k.Set(key, text)
}

// Set gives a keyword argument a value, which is JSON; one that is there already
// stays in its place.
func (k *Kwargs) Set(key string, value json.RawMessage) {
	for i := range k.keys {
		if k.keys[i] == key {
			k.values[i] = value
			return
		}
	}
	k.keys = append(k.keys, key)
	k.values = append(k.values, value)
}

// Merge sets the members of a JSON object, in their order.
func (k *Kwargs) Merge(object json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want a JSON object, found %.40q", object)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		k.Set(key.(string), value)
	}
	return nil
}

// Delete takes a keyword argument away, if it is there.
func (k *Kwargs) Delete(key string) {
	if i := slices.Index(k.keys, key); i >= 0 {
		k.keys = slices.Delete(k.keys, i, i+1)
		k.values = slices.Delete(k.values, i, i+1)
	}
}

// JSON is the object.
func (k *Kwargs) JSON() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range k.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(key)
		b.Write(name)
		b.WriteByte(':')
		b.Write(k.values[i])
	}
	b.WriteByte('}')
	return b.Bytes()
}
