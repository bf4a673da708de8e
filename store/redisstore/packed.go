package redisstore

import (
	"encoding/binary"
	"fmt"
)

// packed is MessagePack under construction: of its types, arrays and strings.
// (https://github.com/msgpack/msgpack/blob/master/spec.md)
type packed []byte

func (b packed) array(n int) packed {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// text is one string that both parts make.
func (b packed) text(head, tail string) packed { return b.words(head, nil, tail) }

// words is one string that the parts make together.
func (b packed) words(head string, middle []byte, tail string) packed {
	n := len(head) + len(middle) + len(tail)
	switch {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	b = append(b, head...)
	b = append(b, middle...)
	return append(b, tail...)
}

// request writes one that is not plain, with its arguments as go-redis would write
// them, but for its wire.
func (b packed) request(r *request) packed {
	b = b.array(3).text(grouped[r.script], "")
	b = b.array(len(r.keys))
	for _, key := range r.keys {
		b = b.text(key, "")
	}
	args := r.args[:len(r.args)-1]
	b = b.array(len(args))
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			b = b.text(v, "")
		case bool:
			if v {
				b = b.text("1", "")
			} else {
				b = b.text("0", "")
			}
		default: // numbers
			b = b.text(fmt.Sprint(v), "")
		}
	}
	return b
}
