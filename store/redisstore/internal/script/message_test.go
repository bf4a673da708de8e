package script

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]Message{
		"o 7 99 15":                  {Question: 7, Token: 99, HandOffs: 15},
		"o 7 99 15 1":                {},
		"o 7 99 0 alone":             {Question: 7, Token: 99, Alone: true},
		"o":                          {},
		"o 7 99":                     {},
		"o -7 99 0":                  {},
		"o 7 x 0":                    {},
		"o 7 99 x":                   {},
		"o 7 99999999999999999999 0": {},
	} {
		owner, m := ParseMessage(text)
		check(t, owner == "o" && m == want, "%q: to %q, %+v", text, owner, m)
	}
	owner, m := ParseMessage("")
	check(t, owner == "" && m == Message{}, "nothing: to %q, %+v", owner, m)
}

func TestParseWanted(t *testing.T) {
	owner, lock, ok := ParseWanted("o wanted lock:a b wanted c")
	check(t, ok && owner == "o" && lock == "lock:a b wanted c", "%q, %q, %t", owner, lock, ok)
	for _, text := range []string{"o 7 99 15", "o", ""} {
		owner, lock, ok := ParseWanted(text)
		check(t, !ok, "%q is taken for a message to the holder %q of %q", text, owner, lock)
	}
}

var _ redis.Error = serverError("")

func TestTemporary(t *testing.T) {
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                         true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                true,
		"CLUSTERDOWN The cluster is down":                                        true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is no": true,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL":     true,
		"BUSYKEY Target key name already exists.":                                false,
		"READONLY You can't write against a read only replica.":                  false,
		"NOSCRIPT No matching script. Please use EVAL.":                          false,
		"OOM command not allowed when used memory > 'maxmemory'.":                false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":      false,
		"ERR LOADING Redis is loading the dataset in memory":                     true, // KVRocks,
	} {
		got := Temporary(serverError(text))
		check(t, got == want, "%q: %t", text, got)
	}
}
