package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock"
)

// envNodes has the addresses for a process that the tests start: this test binary again.
const envNodes = "KEYTURN_TEST_NODES"

// actAsProcess takes the key, says so, and keeps it until it is killed.
func actAsProcess() {
	addrs := os.Getenv(envNodes)
	if addrs == "" {
		return
	}
	var clients []*redis.Client
	for addr := range strings.SplitSeq(addrs, ",") {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
	}
	store, err := redlock.New(clients, patient)
	if err != nil {
		panic(err)
	}
	eng, err := core.New(store, core.WithTTL(time.Second))
	if err != nil {
		panic(err)
	}
	if _, err := eng.Acquire(context.Background(), "key"); err != nil {
		panic(err)
	}
	fmt.Println("held")
	select {}
}

// TestKilledHolder: the next process gets the key a TTL after the last renewal of a holder that was
// killed (fault 1). Until then the watchdog has kept it.
func TestKilledHolder(t *testing.T) {
	f := started(t)
	var addrs []string
	for _, server := range f.servers {
		addrs = append(addrs, server.Addr())
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envNodes+"="+strings.Join(addrs, ","))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	s := f.open(t)
	req := request("next", "key", time.Second)
	req.Wait = true
	granted := make(chan time.Time, 1)
	go func() {
		if _, err := s.Acquire(within(t, 30*time.Second), req); err != nil {
			t.Errorf("Acquire: %v", err)
		}
		granted <- time.Now()
	}()
	select {
	case <-granted:
		t.Fatal("the key was granted although its holder renews")
	case <-time.After(3 * time.Second):
	}
	killed := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if took := (<-granted).Sub(killed); took > 2*time.Second {
		t.Errorf("the key was granted %v after its holder was killed, want a TTL of 1s and a second at most", took)
	}
}

// TestEngine: hand-offs, Extend and a TTL that the nodes can't remember.
func TestEngine(t *testing.T) {
	f := started(t)
	s := f.open(t)
	if _, err := core.New(s, core.WithTTL(2*time.Minute)); err == nil {
		t.Error("an engine took a TTL above the longest")
	}
	eng, err := core.New(s, core.WithTTL(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 20*time.Second)
	defer func() { _ = eng.Close(ctx) }()
	lease, err := eng.Acquire(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Extend(ctx, 40*time.Second); err != nil {
		t.Errorf("Extend: %v", err)
	}
	if info, err := eng.Inspect(ctx, "key"); err != nil || len(info.Holders) != 1 || info.Holders[0].Left < 30*time.Second {
		t.Errorf("after Extend: %+v, %v", info, err)
	}
	if err := lease.Extend(ctx, 2*time.Minute); err == nil {
		t.Error("Extend took a TTL above the longest")
	}
	if _, err := eng.AcquireAll(ctx, []core.Claim{driver.Shared("key")}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a shared lease: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	last := lease.Token()
	done := make(chan uint64, 100)
	for range cap(done) {
		go func() {
			err := eng.Do(ctx, "key", func(ctx context.Context) error {
				held, _ := core.LeaseFrom(ctx)
				done <- held.Token()
				return nil
			})
			if err != nil {
				t.Errorf("Do: %v", err)
				done <- 0
			}
		}()
	}
	for range cap(done) {
		token := <-done
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
	}
}
