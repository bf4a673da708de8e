package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs test with every system, opened for some callers on a server.
func each(t *testing.T, change func(*Config), test func(t *testing.T, l Locker, server *redistest.Server)) {
	for _, system := range Systems() {
		t.Run(system.Name, func(t *testing.T) {
			server := redistest.Start(t)
			cfg := Config{Addrs: []string{server.Addr()}, Callers: 8, TTL: 30 * time.Second}
			if change != nil {
				change(&cfg)
			}
			l, err := Open(system.Name, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, l, server)
		})
	}
}

// With every library, the benchmark measures a lock that excludes.
func TestLockExcludes(t *testing.T) {
	each(t, nil, func(t *testing.T, l Locker, _ *redistest.Server) {
		inside := 0
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					unlock, err := l.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					inside++ // the race detector watches
					if err := unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if inside != 40 {
			t.Errorf("%d sections instead of 40", inside)
		}
	})
}

// A goroutine that waits for the mutex of its process asks the server for nothing.
func TestMutexIsInFrontOfTheServer(t *testing.T) {
	server := redistest.Start(t)
	sent := new(Counter)
	for _, name := range Mutexed() {
		t.Run(name, func(t *testing.T) {
			l, err := Open(name, Config{Addrs: []string{server.Addr()}, Callers: 2, TTL: 30 * time.Second, Sent: sent})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			unlock, err := l.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			before := sent.Commands()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := l.Lock(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the second got %v", err)
			}
			if n := sent.Commands() - before; n > 1 { // rueidislock is not done with the first one
				t.Errorf("it sent %d commands", n)
			}
			if err := unlock(t.Context()); err != nil {
				t.Error(err)
			}
			unlock, err = l.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if err := unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := Open("keyturn+mutex", Config{}); err == nil {
		t.Error("keyturn is behind a mutex")
	}
}

func TestLockWaitsNoLongerThanItsContext(t *testing.T) {
	each(t, nil, func(t *testing.T, l Locker, _ *redistest.Server) {
		unlock, err := l.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.Lock(ctx, "k"); err == nil {
			t.Error("two hold the key")
		}
		if err := unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRenewedLocksOutlastTheirTTL(t *testing.T) {
	const ttl = 300 * time.Millisecond
	each(t, func(c *Config) { c.TTL, c.Renew = ttl, true }, func(t *testing.T, l Locker, server *redistest.Server) {
		unlock, err := l.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		client := server.Client()
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(ttl / 10) {
			if n := len(lockKeys(t, client)); n != 1 {
				t.Fatalf("there are %d locks", n)
			}
		}
		if err := unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// lockKeys are the keys that are locks, of whatever library.
func lockKeys(t *testing.T, client *redis.Client) (locks []string) {
	keys, err := client.Keys(t.Context(), "*lock*:k").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "{") {
			locks = append(locks, key)
		}
	}
	return locks
}

func TestOnceRunsOnce(t *testing.T) {
	each(t, nil, func(t *testing.T, l Locker, _ *redistest.Server) {
		var ran [3]int
		for range 2 {
			for i := range ran {
				if err := l.Once(t.Context(), fmt.Sprint("k", i), func() { ran[i]++ }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if ran != [3]int{1, 1, 1} {
			t.Errorf("ran %v times", ran)
		}
	})
}

// The counter agrees with the server, where no script makes the server count
// more.
func TestCounterCountsCommands(t *testing.T) {
	server := redistest.Start(t)
	sent := new(Counter)
	conn, err := sent.dial(t.Context(), "tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var commands []byte
	for i := range 10 {
		value := strings.Repeat("*1\r\n$4\r\n", i*1000)
		commands = fmt.Appendf(commands, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value)
	}
	if _, err := conn.Write(commands); err != nil {
		t.Fatal(err)
	}
	replies := make([]byte, 10*len("+OK\r\n"))
	if _, err := io.ReadFull(conn, replies); err != nil {
		t.Fatal(err)
	}
	if theirs := server.CommandCount(t); sent.Commands() != 10 || theirs != 10 {
		t.Fatalf("counted %d commands, the server %d", sent.Commands(), theirs)
	}
}

// However the commands are cut into writes.
func TestCounterFollowsPartialWrites(t *testing.T) {
	text := "*2\r\n$3\r\nGET\r\n$12\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"
	for cut := range len(text) {
		conn := &countingConn{counter: new(Counter)}
		conn.follow([]byte(text[:cut]))
		conn.follow([]byte(text[cut:]))
		if n := conn.counter.Commands(); n != 2 {
			t.Errorf("cut at %d: %d commands", cut, n)
		}
	}
}

func TestCounterCountsWithEverySystem(t *testing.T) {
	sent := new(Counter)
	each(t, func(c *Config) { c.Sent = sent }, func(t *testing.T, l Locker, _ *redistest.Server) {
		before := sent.Commands()
		unlock, err := l.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if n := sent.Commands() - before; n < 2 {
			t.Errorf("a lock and its unlock took %d commands", n)
		}
	})
}

func TestOpenRefusesUnknownSystems(t *testing.T) {
	if _, err := Open("none", Config{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
