// Command rolling is a service that can be restarted under load: SIGTERM drains it. Its test
// restarts four of them, one after the other, and looks for lost requests and blocked keys.
//
//	go run ./rolling -addr 127.0.0.1:8080 -redis 127.0.0.1:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/redisstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	server := flag.String("redis", "127.0.0.1:6379", "the Redis with the locks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *server); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, server string) error {
	client := redis.NewClient(&redis.Options{Addr: server})
	defer client.Close()
	store, err := redisstore.New(client)
	if err != nil {
		return err
	}
	eng, err := core.New(store)
	if err != nil {
		return err
	}
	work := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		fmt.Fprintln(w, "done")
	}
	locks, err := lockhttp.New(eng, lockhttp.Serialize("POST /{key}", "k:{path.key}"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /{key}", locks.Middleware(http.HandlerFunc(work)))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	return serve(ctx, listener, mux, eng, 500*time.Millisecond, 20*time.Second)
}

// snippet

// serve serves until ctx ends, and then drains. For the time of notice it goes on serving, so that
// load balancers and clients see that it stops, and use other processes: waiters and new requests
// are answered 503 STOPPING, and each answer ends its connection. Without that time, net/http closes
// connections on which a request may be under way. Then it waits for what still runs, for the grace
// period at most. A deployment that sends SIGKILL must wait for longer than both.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, eng *core.Engine, notice, grace time.Duration) error {
	srv := &http.Server{ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	var err error
	select {
	case err = <-failed: // it cannot serve
	case <-ctx.Done():
	}
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), notice+grace)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- eng.Close(left) }() // waiters come back elsewhere, holders finish
	time.Sleep(notice)
	err = errors.Join(err, srv.Shutdown(left)) // the last answers are sent
	return errors.Join(err, <-closed)          // each lease was released
}

// end snippet
