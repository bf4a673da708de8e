// Program oldmutextest shows etcd-io/etcd#11456: a waiter whose lease has run out gets the lock of
// etcd's own concurrency.Mutex, and another one gets it, too. It prints how many hold it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:]})
	must(err)
	defer c.Close()
	first, _ := mutex(c)
	must(first.Lock(ctx))

	var holders atomic.Int64
	var sessions []*concurrency.Session
	for i := range 2 {
		m, s := mutex(c)
		sessions = append(sessions, s)
		go func() {
			if m.Lock(ctx) == nil {
				holders.Add(1)
			}
		}()
		for waiters(ctx, c) < i+2 {
			time.Sleep(time.Millisecond)
		}
	}
	_, err = c.Revoke(ctx, sessions[0].Lease())
	must(err)
	must(first.Unlock(ctx))
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && holders.Load() < 2; {
		time.Sleep(time.Millisecond)
	}
	fmt.Print(holders.Load())
}

func mutex(c *clientv3.Client) (*concurrency.Mutex, *concurrency.Session) {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(10))
	must(err)
	return concurrency.NewMutex(s, "mutex"), s
}

// waiters counts the holder and those who wait.
func waiters(ctx context.Context, c *clientv3.Client) int {
	r, err := c.Get(ctx, "mutex/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(err)
	return int(r.Count)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
