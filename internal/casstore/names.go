package casstore

import (
	"fmt"
	"strconv"
	"strings"
)

// Names writes keys as names in a backend that does not allow all bytes in one.
type Names struct {
	Plain string // the bytes that stand for themselves
	Mark  byte   // stands for another byte, with two hexadecimal digits
}

// Of returns the name of a key.
func (n Names) Of(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; strings.IndexByte(n.Plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%c%02X", n.Mark, c)
		}
	}
	return b.String()
}

// Key is the reverse of Of. It returns false for a name that Of never returns.
func (n Names) Key(name string) (key string, ok bool) {
	var b []byte
	for i := 0; i < len(name); i++ {
		if name[i] != n.Mark {
			b = append(b, name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		c, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), n.Of(string(b)) == name
}
