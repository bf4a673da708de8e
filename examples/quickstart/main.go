// Quickstart takes turns and runs something once, in one process and on the in-memory store.
// For a fleet, replace memstore.New() by redisstore.New(client).
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

func main() {
	ctx := context.Background()
	eng, err := core.New(memstore.New())
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	online := 0
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			err := eng.Do(ctx, "user:status:42", func(context.Context) error {
				online++ // needs no mutex: the holder of the key is alone
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d of 100 goroutines counted: one at a time\n", online)

	for _, gateway := range []string{"west", "east"} { // both gateways deliver message 8f2c
		out, err := eng.Once(ctx, "msg:8f2c", func(context.Context) ([]byte, error) {
			return []byte("processed for gateway " + gateway), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("gateway %s: %s (duplicate: %v)\n", gateway, out.Result, out.Duplicate)
	}
}
