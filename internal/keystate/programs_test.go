package keystate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
)

// TestContract: a backend of rows keeps every sentence.
func TestContract(t *testing.T) {
	b := newBackend(true)
	drivertest.Run(t, drivertest.Harness{New: b.open, Around: synctest.Test, Settle: synctest.Wait})
}

// run runs a program on a backend of its own.
func run(t *testing.T, late bool, program []model.Step) {
	t.Helper()
	b := newBackend(late)
	rig := model.Rig{
		Stores: []driver.Store{b.open(t), b.open(t)}, Keys: []string{"a", "b", "c"},
		Sleep: time.Sleep, Settle: synctest.Wait, Exact: true,
	}
	must(t, rig.Run(program))
}

const steps = 100 // of a program

func random(seed uint64) []model.Step {
	choices := rand.New(rand.NewPCG(seed, 0))
	program := make([]model.Step, steps)
	for i := range program {
		program[i] = model.Random(choices.IntN)
	}
	return program
}

// TestPrograms compares random programs with the model of the contract, for a few seconds: on a backend
// whose waiters are read, and on one whose waiters are not.
func TestPrograms(t *testing.T) {
	began, n := time.Now(), uint64(0)
	for ; time.Since(began) < 3*time.Second && !t.Failed(); n++ {
		synctest.Test(t, func(t *testing.T) { run(t, n%2 == 1, random(n)) })
	}
	t.Logf("%d programs, %.0f steps per minute", n, float64(n*steps)/time.Since(began).Minutes())
}

// FuzzPrograms makes programs of its input.
func FuzzPrograms(f *testing.F) {
	for seed := range uint64(8) {
		choices, data := rand.New(rand.NewPCG(seed, 1)), make([]byte, 600)
		for i := range data {
			data[i] = byte(choices.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var program []model.Step
		for len(data) > 0 && len(program) < steps {
			program = append(program, model.Random(func(n int) int {
				if len(data) == 0 {
					return 0
				}
				next := data[0]
				data = data[1:]
				return int(next) % n
			}))
		}
		synctest.Test(t, func(t *testing.T) { run(t, len(program)%2 == 1, program) })
	})
}

func ExampleState_Acquire() {
	st := keystate.State{Now: time.Now(), Keys: []*keystate.Key{{Name: "room 7"}}}
	ask := func(owner string) keystate.Answer {
		a, _ := st.Acquire(&keystate.Request{Request: driver.Request{
			Owner: owner, Claims: []driver.Claim{driver.Exclusive("room 7")}, TTL: time.Minute, Wait: true,
		}})
		return a
	}
	first, second := ask("ann"), ask("bob")
	fmt.Println("ann has it:", first.Held == nil)
	fmt.Println("bob waits for", second.Held.Holder)
	_, _ = st.Release(&driver.Grant{Owner: "ann", Claims: []driver.Claim{driver.Exclusive("room 7")}, Token: first.Token})
	fmt.Println("now it is the turn of", st.Woken[0].Owner)
	// Output:
	// ann has it: true
	// bob waits for ann
	// now it is the turn of bob
}
