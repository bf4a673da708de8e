package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
)

var restarts = flag.Int("restarts", 3, "how many processes are restarted, one after the other")

const envServer = "ROLLING_REDIS"

// The test binary is the service, too.
func TestMain(m *testing.M) {
	if server := os.Getenv(envServer); server != "" {
		os.Args = []string{os.Args[0], "-redis", server, "-addr", os.Getenv("ROLLING_ADDR")}
		flag.CommandLine = flag.NewFlagSet("rolling", flag.ExitOnError)
		main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// service is one process of the fleet.
type service struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr atomic.Pointer[string]
	out  atomic.Bool // the load balancer does not send it requests
}

// start starts the process, at its old address if it has one, and returns when it listens.
func (s *service) start(server string) {
	s.t.Helper()
	addr := "127.0.0.1:0"
	if old := s.addr.Load(); old != nil {
		addr = *old
	}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), envServer+"="+server, "ROLLING_ADDR="+addr)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	checktest.Must(s.t, err)
	checktest.Must(s.t, s.cmd.Start())
	cmd := s.cmd
	s.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() }) // if the test has failed
	line, err := bufio.NewReader(out).ReadString('\n')
	checktest.Must(s.t, err)
	addr = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	s.addr.Store(&addr)
	s.out.Store(false)
}

// stop is what a deployment does: SIGTERM, and a wait for the end.
func (s *service) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("a process did not drain: %v", err)
	}
}

// turns notes how long each key had no turn while others had: a busy machine keeps all of them
// waiting, which is no fault of a lock. So the clock goes on by 10 ms at most from one turn of any
// key to the next.
type turns struct {
	mu    sync.Mutex
	at    time.Time // the last turn of any key
	clock time.Duration
	last  map[string]time.Duration
	worst time.Duration
	n     int
}

func (t *turns) note(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.clock += min(now.Sub(t.at), 10*time.Millisecond)
	t.at = now
	if last, ok := t.last[key]; ok {
		t.worst = max(t.worst, t.clock-last)
	}
	t.last[key] = t.clock
	t.n++
}

// TestRollingRestart: processes are restarted under load. Every request is served, by the process
// that has it or, if that one refuses it, by the next. No key is blocked until the TTL of 30 s ends.
func TestRollingRestart(t *testing.T) {
	server := redistest.Start(t)
	fleet := make([]*service, 4)
	for i := range fleet {
		fleet[i] = &service{t: t}
		fleet[i].start(server.Addr())
	}
	seen := &turns{last: make(map[string]time.Duration), at: time.Now()}
	ctx, finish := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	var again atomic.Int64
	for i := range 12 { // three for each of four keys
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
			defer client.CloseIdleConnections()
			key := fmt.Sprint("key", i%4)
			for n := i; ctx.Err() == nil; n++ {
				if err := serveSomewhere(client, fleet, n, key, &again); err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				seen.note(key)
			}
		})
	}
	pause := 300 * time.Millisecond
	for n := range *restarts {
		time.Sleep(pause)
		s := fleet[n%len(fleet)]
		s.stop()
		time.Sleep(pause)
		s.start(server.Addr())
	}
	time.Sleep(pause)
	finish()
	clients.Wait()
	for _, s := range fleet {
		s.stop()
	}
	t.Logf("%d restarts, %d requests, %d of them sent again, longest time that a key was blocked %v", *restarts, seen.n, again.Load(), seen.worst.Round(time.Millisecond))
	if seen.n < 100 || seen.worst > 5*time.Second {
		t.Errorf("a key was blocked for %v; %d requests", seen.worst, seen.n)
	}
}

// serveSomewhere sends a request as a load balancer does. A process that says that it stops did
// nothing, so the next one gets the request, and that one no further ones until it is back.
func serveSomewhere(client *http.Client, fleet []*service, n int, key string, again *atomic.Int64) error {
	for end := time.Now().Add(20 * time.Second); ; n++ {
		s := fleet[n%len(fleet)]
		if s.out.Load() {
			continue
		}
		res, err := client.Post("http://"+*s.addr.Load()+"/"+key, "", nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		var problem struct{ Reason string }
		_ = json.Unmarshal(body, &problem)
		switch {
		case err == nil && res.StatusCode == http.StatusOK:
			return nil
		case problem.Reason != "STOPPING" || time.Now().After(end):
			return fmt.Errorf("%d %s, %v", res.StatusCode, body, err)
		}
		s.out.Store(true)
		again.Add(1)
	}
}
