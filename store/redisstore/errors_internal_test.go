package redisstore

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

// serverError is what a server answers.
type serverError string

func (e serverError) Error() string { return string(e) }

func (serverError) RedisError() {}

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
		check(t, errors.Is(err, want), "%q: want %v, got %v", text, want, err)
		outage := errors.Is(err, driver.ErrUnavailable)
		check(t, outage != (want == ErrWrongType), "%q: an outage: %t", text, outage)
		var cause redis.Error
		check(t, errors.As(err, &cause), "%q: the cause is lost in %v", text, err)
	}
	for text, want := range map[string]string{
		"ERR Protocol error: unauthenticated multibulk length":                                                                  "NOAUTH",
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: Unknown Redis command called from Lua script": "Redis 6.2",
	} {
		check(t, strings.Contains(failure("acquire", "k", serverError(text)).Error(), want), "%q: want %q to be said", text, want)
	}
	// What no server said is not read like that.
	check(t, !errors.Is(failure("acquire", "k", errors.New("WRONGTYPE of connection")), ErrWrongType), "a client's error is read like a server's")
	eof := failure("acquire", "k", io.EOF)
	check(t, errors.Is(eof, driver.ErrUnavailable) && errors.Is(eof, io.EOF), "%v", eof)
}
