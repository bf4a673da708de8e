package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/examples/im/run"
)

// look runs a fleet whose handlers are slow, and serves the console over its locks until ctx ends. It prints
// the console's address.
func look(ctx context.Context, out io.Writer, storeURL string, p *report.Progress) error {
	// By the traces of the requests, the console tells them apart.
	return runSeen(ctx, node.Config{StoreURL: storeURL, Show: true}, p, func(ctx context.Context, s seen) (err error) {
		address, end, err := serveConsole(s.here)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		fmt.Fprintf(out, "The console, until Ctrl-C: %s\n", address)

		var clients sync.WaitGroup
		clients.Go(func() { crowd(ctx, s.addrs) })
		clients.Go(func() { tangle(ctx, s.addrs) })
		clients.Wait() // until ctx ends
		return nil
	})
}

// serveConsole serves the console on a free port of this machine. Every user of this machine is an operator
// here; a real service asks who it is.
func serveConsole(here *node.Node) (address string, end func() error, err error) {
	page, err := console.New(here.Locks,
		console.WithTitle("im"),
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
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}, nil
}

// crowd makes users report their status, join groups and leave them. Some of them are busier than others.
func crowd(ctx context.Context, addrs []string) {
	const users, groups, clients = 12, 5, 8
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				some := func(n int) int { return min(rand.IntN(n), rand.IntN(n)) }
				addr := addrs[rand.IntN(len(addrs))]
				method, path := http.MethodPut, fmt.Sprintf("/groups/%d/members/%d", some(groups), some(users))
				switch rand.IntN(4) {
				case 0:
					path = fmt.Sprintf("/users/%d/status", some(users))
				case 1:
					method = http.MethodDelete
				}
				_ = request(ctx, method, "http://"+addr+path) // the console shows what it waits for, however it ends
				run.Rest(ctx, 200*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// tangle makes two transfers in opposite directions, which wait for each other until an operator ends one of
// them, and again a while after that.
func tangle(ctx context.Context, addrs []string) {
	for ctx.Err() == nil {
		run.Rest(ctx, 5*time.Second)
		var both sync.WaitGroup
		for i, way := range []string{"alice/bob", "bob/alice"} {
			both.Go(func() { _ = request(ctx, http.MethodPost, "http://"+addrs[i%len(addrs)]+"/transfers/"+way) })
		}
		both.Wait()
	}
}
