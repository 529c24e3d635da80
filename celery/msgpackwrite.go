package celery

import (
	"errors"
	"strconv"

	"swh-scheduler/internal/msgpack"
)

// appendMsgpack writes a value as Python's msgpack does for kombu. Like Python's, it refuses integers of more than
// 64 bits.
func (v *values) appendMsgpack(dst []byte, at int32) (_ []byte, err error) {
	it := &v.items[at]
	switch it.kind {
	case kindNull:
		return msgpack.AppendNil(dst), nil
	case kindFalse, kindTrue:
		return msgpack.AppendBool(dst, it.kind == kindTrue), nil
	case kindInt:
		if i, err := strconv.ParseInt(string(it.text), 10, 64); err == nil {
			return msgpack.AppendInt(dst, i), nil
		}
		u, err := strconv.ParseUint(string(it.text), 10, 64)
		if err != nil {
			return nil, errors.New("an integer has more than 64 bits, which msgpack can't hold")
		}
		return msgpack.AppendUint(dst, u), nil
	case kindFloat:
		f, err := strconv.ParseFloat(string(it.text), 64)
		return msgpack.AppendFloat(dst, f), err
	case kindString:
		return msgpack.AppendText(dst, it.text), nil
	case kindKey:
		return v.appendMsgpack(msgpack.AppendText(dst, it.text), it.value)
	case kindList:
		dst = msgpack.AppendList(dst, int(it.count))
	case kindDict:
		dst = msgpack.AppendMap(dst, int(it.count))
	}
	for child := it.first; child != none && err == nil; child = v.items[child].next {
		dst, err = v.appendMsgpack(dst, child)
	}
	return dst, err
}

// afterwards are the keys of the last part of a body: tasks to run before, after or instead of the task.
var afterwards = []string{"callbacks", "errbacks", "chain", "chord"}

// appendMsgpackBody writes the body of a message.
func (v *values) appendMsgpackBody(dst []byte, args, kwargs int32) ([]byte, error) {
	dst = msgpack.AppendList(dst, 3)
	for _, at := range []int32{args, kwargs} {
		var err error
		if dst, err = v.appendMsgpack(dst, at); err != nil {
			return nil, err
		}
	}
	dst = msgpack.AppendMap(dst, len(afterwards))
	for _, key := range afterwards {
		dst = msgpack.AppendNil(msgpack.AppendText(dst, key))
	}
	return dst, nil
}
