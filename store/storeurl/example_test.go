package storeurl_test

import (
	"context"
	"fmt"

	"github.com/keyturn/keyturn/core"
	_ "github.com/keyturn/keyturn/store/memstore" // mem:
	"github.com/keyturn/keyturn/store/storeurl"
)

// A configuration decides where the locks are. Closing the engine closes everything.
func ExampleOpen() {
	ctx := context.Background()
	st, err := storeurl.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	eng, err := core.New(st)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	err = eng.Do(ctx, "user:42", func(context.Context) error {
		fmt.Println("locked")
		return nil
	})
	fmt.Println(err)
	// Output:
	// locked
	// <nil>
}
