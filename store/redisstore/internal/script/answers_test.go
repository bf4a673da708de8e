package script

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

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
