package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A connQueue had begun to dial while its node was cut off. The node came back, the dial failed all the
// same, and with it the calls that were made after the node was back.
func TestDialThatBeganBeforeTheNodeCameBack(t *testing.T) {
	server := redistest.Start(t)
	var dials atomic.Int64
	doomed, fail := make(chan struct{}), make(chan struct{})
	client := server.Client(func(o *redis.Options) {
		o.MaxRetries = -1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil && dials.Add(1) == 1 {
				close(doomed)
				return &cutOff{conn, fail}, nil
			}
			return conn, err
		}
	})
	n := open(t, client)

	var early, late error
	var answers sync.WaitGroup
	send(n, &answers, &early)
	<-doomed
	send(n, &answers, &late)
	close(fail)
	answers.Wait()
	check(t, errors.Is(early, io.EOF) && late == nil, "the call that dialled: %v; the one that was made later: %v", early, late)
}

// open makes a node that the test closes.
func open(t *testing.T, client *redis.Client) *node.Node {
	life, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	n := node.New(node.Config{
		Client:  client,
		Timeout: 10 * time.Second,
		Met:     func(string) error { return nil },
		Changed: func(err error) { t.Logf("changed: %v", err) },
		Life:    life,
		Go:      running.Go,
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		n.Close()
	})
	return n
}

// send sends a call that changes nothing, and sets its error.
func send(n *node.Node, answers *sync.WaitGroup, got *error) {
	answers.Add(1)
	n.Send(0, &node.Call{
		Script: script.Renew,
		Done:   func(_ any, err error) { *got = err; answers.Done() },
	})
}

// cutOff is a connection that gets no answer, and closes when fail does.
type cutOff struct {
	net.Conn
	fail chan struct{}
}

func (c *cutOff) Read([]byte) (int, error) {
	<-c.fail
	return 0, io.EOF
}
