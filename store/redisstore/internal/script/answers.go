package script

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrCorrupt is for data that no version of this package writes.
var ErrCorrupt = errors.New("redisstore: corrupt data")

// Answered says whether a server has answered: an error that it reports is an
// answer, too.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	var answer redis.Error
	return errors.As(err, &answer)
}

// Says looks for an error code where servers put it: in front or, up to Redis
// 6.2, behind the words about the script in which the command failed.
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

// Temporary reports that the server refused the command for a reason that goes
// away by itself, without having run it.
func Temporary(err error) bool {
	for _, code := range []string{"LOADING ", "TRYAGAIN ", "CLUSTERDOWN ", "MASTERDOWN ", "BUSY "} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// Refused says that the server has answered with an error, and that asking again would
// not help.
func Refused(err error) bool { return err != nil && Answered(err) && !Temporary(err) }

// Unknown says that the server does not know the script's hash. It has run nothing.
func Unknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// serverError is an answer of the server's that go-redis did not take for one.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (serverError) RedisError() {}

// moving is err, or says that it is temporary if a plain call met a slot that moves: its
// keys are in two places then. Had the server been told the names of all, it would have
// said so, and run nothing. The short scripts find out by a command, as they look at all
// keys before they write.
func moving(err error) error {
	if err != nil && strings.Contains(err.Error(), "attempted to access a non local key") {
		return serverError("TRYAGAIN " + err.Error())
	}
	return err
}
