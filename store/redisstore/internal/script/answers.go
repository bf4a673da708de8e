package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
)

// ErrCorrupt is the error about data that no version of this package writes.
var ErrCorrupt = fmt.Errorf("redisstore: corrupt data: %w", driver.ErrForeign)

// Answered reports whether a server has answered. An error that the server reports is an
// answer, too.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	var answer redis.Error
	return errors.As(err, &answer)
}

// Says reports whether err has an error code of the server. Servers put the code in front. Up
// to Redis 6.2 they put it behind the words about the script in which the command failed.
func Says(err error, code string) bool {
	if err == nil {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, " "+code+" ") || strings.Contains(text, "-"+code+" ")
}

// NoLogin reports whether the server knows no user behind the connection. It calls a request with many
// words a protocol error then.
func NoLogin(err error) bool {
	return Says(err, "NOAUTH") || Says(err, "WRONGPASS") || Says(err, "unauthenticated")
}

// NoCommand reports whether the server lacks a command, or has another name for it.
func NoCommand(err error) bool {
	return Says(err, "unknown command") || Says(err, "Unknown Redis command called from")
}

// Temporary reports whether the server refused the command, without having run it, for a reason
// that goes away by itself.
func Temporary(err error) bool {
	for _, code := range []string{"LOADING ", "TRYAGAIN ", "CLUSTERDOWN ", "MASTERDOWN ", "BUSY "} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// Refused reports whether the server has answered with an error, and it would not help to ask
// again.
func Refused(err error) bool { return err != nil && Answered(err) && !Temporary(err) }

// Unknown reports whether the server does not know the script's hash. It has run nothing.
func Unknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// serverError is an answer of the server that go-redis did not recognize as one.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (serverError) RedisError() {}

// moving returns err, or a temporary error if a plain call met a slot that moves. The keys of
// that slot are then on two servers. If a command names all its keys, the server says TRYAGAIN
// itself and runs nothing. The short scripts do not name them all. A command inside them fails
// instead, and it fails before anything is written, because they look at all keys before they
// write.
func moving(err error) error {
	if err != nil && strings.Contains(err.Error(), "attempted to access a non local key") {
		return serverError("TRYAGAIN " + err.Error())
	}
	return err
}
