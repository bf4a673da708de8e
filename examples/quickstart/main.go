package main

import (
	"context"
	"fmt"
	"log"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

func main() {
	ctx := context.Background()
	eng, err := core.New(memstore.New()) // for a fleet: redisstore.New(client)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	err = eng.Do(ctx, "user:42", func(ctx context.Context) error { // one at a time
		lease, _ := core.LeaseFrom(ctx)
		fmt.Println("alone with user 42, under a fencing token:", lease.Token() > 0)
		return nil // ctx ends if the lease is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // once, although the message comes twice
		out, err := eng.Once(ctx, "message:8f2c", func(context.Context) ([]byte, error) {
			return []byte("delivered"), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("message 8f2c: %s, a repeat: %v\n", out.Result, out.Duplicate)
	}
}
