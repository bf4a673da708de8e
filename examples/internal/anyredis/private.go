package anyredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startTimeout = 20 * time.Second
	// portAttempts: another process can take a free port between its choice and the server's
	// start.
	portAttempts = 5
)

var errPortTaken = errors.New("the port was taken")

// server is a redis-server that this program starts.
type server struct {
	path, port, dir string

	cmd  *exec.Cmd
	log  bytes.Buffer // read it only after done
	done chan struct{}
}

// private starts a server that only this run uses. It stores nothing on disk.
func private(ctx context.Context, program, path string) (*Redis, error) {
	var r *Redis
	var err error
	for range portAttempts {
		if r, err = startPrivate(ctx, program, path); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not start (REDIS_URL=redis://... would name another Redis): %w", program, err)
	}
	return r, nil
}

func startPrivate(ctx context.Context, program, path string) (*Redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// A directory of its own, because a server loads a dump that it finds.
	dir, err := os.MkdirTemp("", "keyturn-im-")
	if err != nil {
		return nil, err
	}
	s := &server{path: path, port: port, dir: dir}
	version, err := s.run(ctx)
	if err != nil {
		s.close()
		return nil, err
	}
	return &Redis{
		URL:   s.url(),
		Name:  fmt.Sprintf("a private %s %s", program, version),
		PID:   s.cmd.Process.Pid,
		close: s.close,
	}, nil
}

func (s *server) url() string { return "redis://127.0.0.1:" + s.port }

// run starts the server, and returns its version once it answers.
func (s *server) run(ctx context.Context) (version string, err error) {
	args := []string{"--bind", "127.0.0.1", "--port", s.port, "--dir", s.dir, "--save", "", "--appendonly", "no"}
	s.cmd = exec.Command(s.path, args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	endWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return "", err
	}
	done, cmd := make(chan struct{}), s.cmd
	s.done = done
	go func() {
		_ = cmd.Wait() // "signal: killed" is the normal end
		close(done)
	}()
	return s.awaitReady(ctx, s.url())
}

// awaitReady returns the server's version once it answers.
func (s *server) awaitReady(ctx context.Context, url string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	opts, err := redis.ParseURL(url)
	if err != nil {
		return "", err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	for {
		info, err := client.Info(ctx, "server").Result()
		// The process that took the port meanwhile may be a Redis, too.
		if err == nil && field(info, "process_id") == strconv.Itoa(s.cmd.Process.Pid) {
			return versionIn(info), nil
		}
		select {
		case <-s.done:
			return "", s.failure()
		case <-ctx.Done():
			return "", fmt.Errorf("it does not answer: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// failure says why the server ended at its start. Call it only after done.
func (s *server) failure() error {
	said := strings.TrimSpace(s.log.String())
	if strings.Contains(said, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("%v: %s", s.cmd.ProcessState, said)
}

// close ends the server, by its process id.
func (s *server) close() {
	if s.done != nil { // it did start
		_ = s.cmd.Process.Kill() // it may have ended before
		<-s.done
	}
	_ = os.RemoveAll(s.dir)
}
