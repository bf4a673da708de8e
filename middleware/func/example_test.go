package lockfunc_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/store/memstore"
)

// A worker loop that no middleware knows: the rule is put around the function,
// and the loop decides what a refusal means.
func ExampleSerialize() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())

	locks := lockfunc.New(eng)
	type Operation struct{ Group, What string }
	apply, err := lockfunc.Serialize(locks, "apply",
		func(op Operation) string { return "group:" + op.Group },
		func(_ context.Context, op Operation) (string, error) {
			return op.What + " in group " + op.Group, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	coverage.Log(context.Background(), nil, locks.Coverage()) // keyturn: guarded target=apply ...

	queue := []Operation{{"7", "join"}, {"8", "leave"}, {"{7}", "join"}}
	for len(queue) > 0 {
		op := queue[0]
		queue = queue[1:]
		done, err := apply(context.Background(), op)
		switch {
		case err == nil:
			fmt.Println(done)
		case errors.Is(err, core.ErrInvalidKey):
			fmt.Println("dropped:", err) // no later try will do better
		case errors.Is(err, core.ErrHeld), errors.Is(err, core.ErrUnavailable):
			queue = append(queue, op) // later
		default:
			fmt.Println("failed:", err)
		}
	}
	// Output:
	// join in group 7
	// leave in group 8
	// dropped: keyturn: key "group:{7}" contains a brace
}

// A queue that delivers at least once, and work that is done once.
func ExampleOnce() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())

	type Payment struct{ ID string }
	type Receipt struct{ Number int }
	charge, err := lockfunc.Once(lockfunc.New(eng), "charge",
		func(p Payment) string { return "payment:" + p.ID },
		func(context.Context, Payment) (Receipt, error) {
			fmt.Println("charging")
			return Receipt{Number: 17}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		receipt, err := charge(context.Background(), Payment{ID: "8f2c"})
		fmt.Println(receipt.Number, err)
	}
	// Output:
	// charging
	// 17 <nil>
	// 17 <nil>
}
