// Console serves the console over made-up work, until Ctrl-C. Some keys are wanted more than
// others, and from time to time two transfers wait for each other: a deadlock to find and to end.
//
//	go run ./examples/console
//
// It needs nothing but Go. REDIS_URL=redis://... names the Redis to use.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/examples/internal/anyredis"
	"github.com/keyturn/keyturn/store/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves the console and works under locks until ctx ends.
func run(ctx context.Context, out io.Writer) (err error) {
	server, err := anyredis.Open(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	var engines []*core.Engine
	for range 3 { // as if they were three processes
		eng, end, err := newEngine(server.URL)
		if err != nil {
			return err
		}
		defer end()
		engines = append(engines, eng)
	}
	address, end, err := serve(engines[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	fmt.Fprintf(out, "The console, until Ctrl-C: %s\n", address)
	var work sync.WaitGroup
	defer work.Wait()
	for i := range 8 {
		work.Go(func() { crowd(ctx, engines[i%len(engines)]) })
	}
	work.Go(func() { tangle(ctx, engines[1], engines[2]) })
	<-ctx.Done()
	return nil
}

// traceOf is the place of a request's trace in its context. A service has the hooks of package
// tracing instead.
type traceOf struct{}

func newEngine(url string) (*core.Engine, func(), error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(opts)
	store, err := redisstore.New(client, redisstore.WithPrefix("console-example:"))
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	eng, err := core.New(store, core.WithTTL(10*time.Second), core.WithHooks(observe.Hooks{
		// By the traces of the requests, the console tells them apart.
		Trace: func(ctx context.Context) string { trace, _ := ctx.Value(traceOf{}).(string); return trace },
	}))
	if err != nil {
		return nil, nil, errors.Join(err, store.Close(), client.Close())
	}
	return eng, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = errors.Join(eng.Close(ctx), client.Close()) // it ends anyway
	}, nil
}

// serve serves the console on a free port of this machine. Every user of this machine is an operator
// here; a real service asks who it is.
func serve(eng *core.Engine) (address string, end func() error, err error) {
	page, err := console.New(eng,
		console.WithTitle("example"),
		console.WithHistory(), // so that the bands begin before the first look
		console.WithHosts("127.0.0.1", "localhost"),
		console.WithOperator(func(*http.Request) (string, bool) { return "you", true }),
	)
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, page.Close())
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return "http://" + l.Addr().String() + "/", func() error {
		err := errors.Join(page.Close(), server.Close())
		<-served
		return err
	}, nil
}

// request is the context of a request with a trace of its own.
func request(ctx context.Context) context.Context {
	var id [24]byte
	_, _ = rand.Read(id[:]) // it never fails
	return context.WithValue(ctx, traceOf{}, fmt.Sprintf("00-%x-%x-01", id[:16], id[16:]))
}

// crowd changes groups, some of them more often than others.
func crowd(ctx context.Context, eng *core.Engine) {
	for ctx.Err() == nil {
		group := min(mathrand.IntN(5), mathrand.IntN(5))
		// The console shows what it waits for, however it ends.
		_ = eng.Do(request(ctx), fmt.Sprintf("group:%d", group), func(ctx context.Context) error {
			rest(ctx, time.Duration(300+mathrand.IntN(1500))*time.Millisecond)
			return nil
		}, core.WithRule("group-members"))
		rest(ctx, 200*time.Millisecond)
	}
}

// tangle makes two transfers in opposite directions, which wait for each other until an operator
// ends one of them, and again a while after that. This is how not to do it: core.Engine.AcquireAll
// takes both keys at once, in the same order in all processes.
func tangle(ctx context.Context, one, other *core.Engine) {
	opts := []core.CallOption{core.WithRule("transfer"), core.WithMaxWait(10 * time.Minute)}
	transfer := func(eng *core.Engine, from, to string) {
		_ = eng.Do(request(ctx), "account:"+from, func(ctx context.Context) error {
			rest(ctx, time.Second) // the other one takes its first key meanwhile
			return eng.Do(ctx, "account:"+to, func(context.Context) error { return nil }, opts...)
		}, opts...)
	}
	for ctx.Err() == nil {
		var both sync.WaitGroup
		both.Go(func() { transfer(one, "alice", "bob") })
		both.Go(func() { transfer(other, "bob", "alice") })
		both.Wait()
		rest(ctx, 5*time.Second)
	}
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
