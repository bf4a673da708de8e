// Package anyredis finds a Redis for a demonstration: the one in REDIS_URL, otherwise a private
// server if its program is installed, otherwise an embedded one. It is not for production:
// there, use only the first.
package anyredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a server that answers.
type Redis struct {
	URL  string // may contain a password
	Name string // for people, without a password
	PID  int    // process id of a private server; otherwise 0

	close func()
}

// pingTimeout is how long a server that should be running already may take to answer.
const pingTimeout = 5 * time.Second

// Open returns a server that answers, or an error that says why there is none. If the chosen
// server does not work, Open does not try another one.
func Open(ctx context.Context) (*Redis, error) {
	if u := os.Getenv("REDIS_URL"); u != "" {
		return theirs(ctx, u)
	}
	for _, program := range []string{"redis-server", "valkey-server"} {
		if _, err := exec.LookPath(program); err == nil {
			return private(ctx, program)
		}
	}
	return embedded()
}

// String returns the name, with the process id if there is one.
func (r *Redis) String() string {
	if r.PID == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s (pid %d)", r.Name, r.PID)
}

// Close ends the server, if it is ours.
func (r *Redis) Close() {
	if r.close != nil {
		r.close()
	}
}

// theirs returns a server that somebody else runs.
func theirs(ctx context.Context, rawURL string) (*Redis, error) {
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		var inURL *url.Error
		if errors.As(err, &inURL) {
			err = inURL.Err // the rest of the error repeats the URL, and so a password
		}
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	client := redis.NewClient(opts)
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %s does not answer: %w", opts.Addr, err)
	}
	return &Redis{URL: rawURL, Name: fmt.Sprintf("the Redis %s at %s", versionIn(info), opts.Addr)}, nil
}

// versionIn reads a server's version from INFO's answer. A Valkey reports the version of the
// Redis that it is compatible with.
func versionIn(info string) string {
	return cmp.Or(field(info, "valkey_version"), field(info, "redis_version"), "(unknown)")
}

// field reads a line of INFO's answer; "" if it has no such line.
func field(info, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `:(.*?)\r?$`).FindStringSubmatch(info)
	if found == nil {
		return ""
	}
	return found[1]
}
