package main

import (
	"context"
	"fmt"
	"log"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

func main() {
	eng, err := core.New(memstore.New()) // for a fleet: a redisstore
	if err != nil {
		log.Fatal(err)
	}
	err = eng.Do(context.Background(), "user:42", func(ctx context.Context) error {
		_, err := fmt.Println("nobody else works on user 42") // ctx ends if the lease is lost
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
