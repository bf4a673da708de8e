package script

import (
	"strings"

	"github.com/keyturn/keyturn/store/internal/onredis"
)

// ParseValue reads the value of a lock: that of redisstore, and behind it ":" and the round. Any other
// value is a foreign client's, and the whole of it the owner.
func ParseValue(s string) onredis.Value {
	const colons = 6 // the others are escaped
	if strings.Count(s, ":") != colons {
		return onredis.Value{Owner: s}
	}
	v := onredis.ParseValue(s[:strings.LastIndexByte(s, ':')])
	if v.Token == 0 {
		return onredis.Value{Owner: s}
	}
	return v
}
