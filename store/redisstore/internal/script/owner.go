package script

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A record is kept for a day, and owners would be most of it. So those that engines make are packed:
// a zero, the number of bytes that follow, and these: the ID as it is, three numbers, and the host.
// Any other owner is its length in a byte, which is not zero, and its text.

// mostHost is how much of a host's name a record keeps: the end, which tells pods apart.
const mostHost = 28

// idBytes is the length of an engine's random ID.
const idBytes = 16

// recordOwner writes owner as a record has it.
func recordOwner(b []byte, owner string) []byte {
	o, err := driver.ParseOwner(owner)
	id, err2 := hex.DecodeString(o.ID)
	if err != nil || err2 != nil || hex.EncodeToString(id) != o.ID {
		return append(append(b, byte(len(owner))), owner...)
	}
	packed := binary.AppendVarint(id, int64(o.PID))
	packed = binary.AppendVarint(packed, int64(o.Instance))
	packed = binary.AppendVarint(packed, o.Start.Unix())
	packed = append(packed, o.Host[max(len(o.Host)-mostHost, 0):]...)
	return append(append(b, 0, byte(len(packed))), packed...)
}

// cutOwner reads a record's owner. The host's name may lack its beginning.
func cutOwner(stored string) (owner, rest string, ok bool) {
	length, packed := 0, strings.HasPrefix(stored, "\x00")
	stored = strings.TrimPrefix(stored, "\x00")
	if stored != "" {
		length, stored = int(stored[0]), stored[1:]
	}
	if length == 0 || length > len(stored) {
		return "", "", false
	}
	owner, rest = stored[:length], stored[length:]
	if packed {
		owner, ok = unpackOwner([]byte(owner))
		return owner, rest, ok
	}
	return owner, rest, true
}

func unpackOwner(packed []byte) (string, bool) {
	if len(packed) < idBytes {
		return "", false
	}
	o := driver.Owner{ID: hex.EncodeToString(packed[:idBytes])}
	rest := packed[idBytes:]
	var numbers [3]int64
	for i := range numbers {
		n, size := binary.Varint(rest)
		if size <= 0 {
			return "", false
		}
		numbers[i], rest = n, rest[size:]
	}
	o.PID, o.Instance, o.Start, o.Host = int(numbers[0]), int(numbers[1]), time.Unix(numbers[2], 0), string(rest)
	return o.String(), true
}
