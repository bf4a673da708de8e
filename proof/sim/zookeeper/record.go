package zookeeper

import (
	"bytes"
	"encoding/binary"

	"github.com/go-zookeeper/zk"
)

// input reads the fields of a record, which the real client has written: they are all there.
type input struct{ rest []byte }

func (in *input) take(n int) []byte {
	taken := in.rest[:n]
	in.rest = in.rest[n:]
	return taken
}

func (in *input) flag() bool   { return in.take(1)[0] != 0 }
func (in *input) int32() int32 { return int32(binary.BigEndian.Uint32(in.take(4))) }
func (in *input) int64() int64 { return int64(binary.BigEndian.Uint64(in.take(8))) }

func (in *input) bytes() []byte {
	n := in.int32()
	if n < 0 { // null
		return nil
	}
	return bytes.Clone(in.take(int(n)))
}

func (in *input) text() string { return string(in.bytes()) }

func (in *input) texts() (all []string) {
	for n := in.int32(); n > 0; n-- {
		all = append(all, in.text())
	}
	return all
}

// skipACL reads a list of permissions, which nobody looks at.
func (in *input) skipACL() {
	for n := in.int32(); n > 0; n-- {
		in.int32()
		in.bytes()
		in.bytes()
	}
}

// output writes the fields of a record.
type output []byte

func (out *output) flag(is bool) {
	var b byte
	if is {
		b = 1
	}
	*out = append(*out, b)
}

func (out *output) int32(n int32) { *out = binary.BigEndian.AppendUint32(*out, uint32(n)) }
func (out *output) int64(n int64) { *out = binary.BigEndian.AppendUint64(*out, uint64(n)) }

func (out *output) bytes(b []byte) {
	out.int32(int32(len(b)))
	*out = append(*out, b...)
}

func (out *output) text(s string) { out.bytes([]byte(s)) }

func (out *output) texts(all []string) {
	out.int32(int32(len(all)))
	for _, s := range all {
		out.text(s)
	}
}

func (out *output) stat(s zk.Stat) {
	for _, n := range []int64{s.Czxid, s.Mzxid, s.Ctime, s.Mtime} {
		out.int64(n)
	}
	for _, n := range []int32{s.Version, s.Cversion, s.Aversion} {
		out.int32(n)
	}
	out.int64(s.EphemeralOwner)
	out.int32(s.DataLength)
	out.int32(s.NumChildren)
	out.int64(s.Pzxid)
}

// opResult writes the head of a part of a transaction's answer.
func (out *output) opResult(op int32, last bool, err code) {
	out.int32(op)
	out.flag(last)
	out.int32(int32(err))
}
