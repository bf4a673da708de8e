package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/keyturn/keyturn/proof/bench/lock"
)

// childEnv tells a process that it is a child.
const childEnv = "KEYTURN_BENCH_CHILD"

// IsChild reports whether a scenario started this process. Then it has to call [Child].
func IsChild() bool { return os.Getenv(childEnv) != "" }

// Child serves the calls of the parent on standard input and output, until the parent closes them
// or is gone. It returns the exit code.
func Child() int {
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	c := &child{ctx: ctx, held: make(chan lock.Unlock, 1)}
	server := rpc.NewServer()
	err := server.RegisterName("child", c)
	server.ServeConn(parent{cancel}) // returns after the last call
	if c.locker != nil {
		err = errors.Join(err, c.locker.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parent is the connection to it. Its end ends what is under way.
type parent struct{ gone context.CancelFunc }

func (p parent) Read(b []byte) (int, error) {
	n, err := os.Stdin.Read(b)
	if err != nil {
		p.gone()
	}
	return n, err
}

func (parent) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

func (parent) Close() error { return nil }

// child is what a child does: its exported methods are called by the parent.
type child struct {
	ctx    context.Context
	locker *lock.Locker
	held   chan lock.Unlock // full while it holds the key
}

// Open opens a system.
func (c *child) Open(cfg lock.Config, _ *bool) (err error) {
	c.locker, err = lock.Open(c.ctx, cfg)
	return err
}

// Contend has goroutines contend for the key with those of other processes.
func (c *child) Contend(l Load, waits *hdrhistogram.Snapshot) error {
	did, err := l.contend(c.ctx, c.locker)
	if err == nil {
		*waits = *did.took.Export()
	}
	return err
}

// Lock locks the key. at is the time when it had the lock.
func (c *child) Lock(key string, at *time.Time) error {
	unlock, err := c.locker.Lock(c.ctx, key)
	*at = time.Now()
	if err == nil {
		c.held <- unlock
	}
	return err
}

// Unlock unlocks the key. at is the time when it began.
func (c *child) Unlock(_ string, at *time.Time) error {
	unlock := <-c.held
	*at = time.Now()
	return unlock(c.ctx)
}
