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

// server is a running redis-server.
type server struct {
	cmd  *exec.Cmd
	dir  string
	log  bytes.Buffer // read it only after done
	done chan struct{}
}

// private starts a server that only this run uses, and that stores nothing on disk.
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
	s, err := startServer(path, port)
	if err != nil {
		return nil, err
	}
	url := "redis://127.0.0.1:" + port
	version, err := s.awaitReady(ctx, url)
	if err != nil {
		s.close()
		return nil, err
	}
	return &Redis{
		URL:   url,
		Name:  fmt.Sprintf("a private %s %s", program, version),
		PID:   s.cmd.Process.Pid,
		close: s.close,
	}, nil
}

func startServer(path, port string) (*server, error) {
	// A directory of its own, because a server loads a dump that it finds.
	dir, err := os.MkdirTemp("", "keyturn-im-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, done: make(chan struct{})}
	s.cmd = exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	endWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // "signal: killed" is the normal end
		close(s.done)
	}()
	return s, nil
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

// close ends the server, by its process id. It has nothing to save.
func (s *server) close() {
	_ = s.cmd.Process.Kill() // it may have ended before
	<-s.done
	_ = os.RemoveAll(s.dir)
}
