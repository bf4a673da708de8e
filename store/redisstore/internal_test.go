package redisstore

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
)

var _ redis.Error = serverError("")

// TestFailure reads errors as servers of several versions word them.
func TestFailure(t *testing.T) {
	for text, want := range map[string]error{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                                                       ErrWrongType,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: f1, on @user_script:99.":                                                       ErrWrongType,
		"ERR Error running script (call to f_1): @user_script:99: WRONGTYPE Operation against a key holding the wrong kind of value":                              ErrWrongType,
		"READONLY You can't write against a read only replica. script: f1, on @user_script:9.":                                                                    ErrReadOnly,
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.":                         ErrReadOnly,
		"NOREPLICAS Not enough good replicas to write. script: f1, on @user_script:9.":                                                                            ErrNoReplicas,
		"OOM command not allowed when used memory > 'maxmemory'. script: f1, on @user_script:9.":                                                                  ErrOutOfMemory,
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.":                       ErrOutOfMemory,
		"NOPERM this user has no permissions to run the 'eval' command":                                                                                           driver.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled ...": driver.ErrUnavailable,
	} {
		err := failure("acquire", "k", serverError(text))
		if !errors.Is(err, want) {
			t.Errorf("%q: want %v, got %v", text, want, err)
		}
		if outage := errors.Is(err, driver.ErrUnavailable); outage == (want == ErrWrongType) {
			t.Errorf("%q: an outage: %t", text, outage)
		}
		var cause redis.Error
		if !errors.As(err, &cause) {
			t.Errorf("%q: the cause is lost in %v", text, err)
		}
	}
	// What no server said is not read like that.
	if err := failure("acquire", "k", errors.New("WRONGTYPE of connection")); errors.Is(err, ErrWrongType) {
		t.Error(err)
	}
	if err := failure("acquire", "k", io.EOF); !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestPassing(t *testing.T) {
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
		if got := passing(serverError(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestParseValue(t *testing.T) {
	foreign := func(s string) value { return value{owner: s} }
	for stored, want := range map[string]value{
		"host/1/2/abc/00ff:1763683200000000":                       {owner: "host/1/2/abc/00ff", token: 1763683200000000},
		"o:1763683200000001:1763683200000:30000:":                  {owner: "o", token: 1763683200000001, since: 1763683200000},
		"o:1763683200000001:1763683200000:30000:a%3Ab%7C%25+c|00-": {owner: "o", token: 1763683200000001, since: 1763683200000, rule: "a:b|% c", trace: "00-"},
		"o:1763683200000001:1763683200000:10:%zz|":                 {owner: "o", token: 1763683200000001, since: 1763683200000, rule: "%zz"},
		"9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11":                     foreign("9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11"),
		"10.0.0.7:6379":                                            foreign("10.0.0.7:6379"),
		"o:1763683200000001:1763683200000:":                        foreign("o:1763683200000001:1763683200000:"),
		"o:1763683200000001:1763683200000:x:":                      foreign("o:1763683200000001:1763683200000:x:"),
		"job:1763683200000000:x":                                   foreign("job:1763683200000000:x"),
		"job:1763683200000000:x:":                                  foreign("job:1763683200000000:x:"),
		"job:176368320000000x:1:":                                  foreign("job:176368320000000x:1:"),
		":":                                                        foreign(":"),
		"":                                                         foreign(""),
	} {
		if got := parseValue(stored); got != want {
			t.Errorf("%q: %+v, want %+v", stored, got, want)
		}
	}
}

// FuzzNotes: whatever they say, they come back, and no field is taken for another.
func FuzzNotes(f *testing.F) {
	f.Add("POST /x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("a:b|c %", "+ |:%3A\xff")
	f.Fuzz(func(t *testing.T, rule, trace string) {
		stored := notes(30*time.Second, rule, trace)
		if strings.Count(stored, ":") != 1 || strings.Contains(stored, " ") {
			t.Errorf("%q", stored)
		}
		v := parseValue("o:1763683200000001:1:" + stored)
		if v.rule != rule || v.trace != trace || v.owner != "o" {
			t.Errorf("%q and %q became %+v", rule, trace, v)
		}
		quiet := parseValue("o:1763683200000001:1:" + quietly(stored))
		if v.quiet || !quiet.quiet || quiet.rule != rule || quiet.trace != trace {
			t.Errorf("marked, %q and %q became %+v", rule, trace, quiet)
		}
	})
}

// TestKeysShareTheSlot looks at what is between the braces, as a cluster does.
func TestKeysShareTheSlot(t *testing.T) {
	for _, where := range []topology{single, cluster, ring} {
		ks := keyspace{prefix: "lock:", where: where}
		keys := ks.of("k")
		seen := map[string]bool{}
		for _, key := range keys {
			if seen[key] {
				t.Errorf("%q twice", key)
			}
			seen[key] = true
			tag := key
			if _, rest, ok := strings.Cut(key, "{"); ok {
				tag, _, _ = strings.Cut(rest, "}")
			}
			if tag != "lock:k" && (where != single || key != "{lock:}:token") {
				t.Errorf("%q is in another slot than the lock", key)
			}
		}
		if forEver := ks.counterTTL() == 0; forEver != (where == single) {
			t.Errorf("topology %d: the counter stays for ever: %t", where, forEver)
		}
	}
}

func TestTopology(t *testing.T) {
	addrs := []string{"127.0.0.1:1"}
	one := redis.NewClient(&redis.Options{Addr: addrs[0]})
	many := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	shards := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addrs[0]}})
	for client, want := range map[redis.UniversalClient]topology{one: single, many: cluster, shards: ring} {
		if got := topologyOf(client); got != want {
			t.Errorf("%T: %d, want %d", client, got, want)
		}
		_ = client.Close()
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("o", []byte("fingerprint"), []byte("result"), "", false)
	f.Add("host/1/1/a/b", []byte(nil), []byte("3:\x00\xff"), "00-4bf9", false)
	f.Add("o", []byte(":1:"), []byte(nil), "+1:", false)
	f.Add("o", []byte("!:"), []byte(nil), "!", true)
	f.Fuzz(func(t *testing.T, owner string, fingerprint, result []byte, trace string, notKept bool) {
		if strings.Contains(owner, ":") {
			t.Skip() // no owner has one
		}
		given := driver.Record{Fingerprint: fingerprint, Result: result, Trace: trace, ResultNotKept: notKept}
		rec, err := decode(head(owner, given) + ":" + about(given) + string(result))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rec.Fingerprint, fingerprint) || !bytes.Equal(rec.Result, result) || rec.Trace != trace || rec.ResultNotKept != notKept {
			t.Errorf("%q and %q became %+v", fingerprint, result, rec)
		}
	})
}

func TestBrokenRecord(t *testing.T) {
	for _, stored := range []string{"", "o", "o:", "o:x:", "o:!:", "o:1!+1:", "o:0!!:", "o:-1:", "o:4:abc", "o:99999999999999999999:", ":", "o:1+:", "o:+1:", "o:1+1:a", "o:0+2:a", "o:9223372036854775807+9223372036854775807:a"} {
		if rec, err := decode(stored); err == nil {
			t.Errorf("%q became %+v", stored, rec)
		}
	}
}
