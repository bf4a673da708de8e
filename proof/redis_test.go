package proof_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof"
	"github.com/keyturn/keyturn/store/redisstore"
)

// looks has those wait for less than the usual time whom no message reaches,
// because a lease just ran out, and long enough for a busy machine.
var looks = redisstore.WithWaiterLease(1500 * time.Millisecond)

// onRedis runs a program on two processes of a server, on a prefix of its own.
func onRedis(t *testing.T, program []proof.Step, clients []*redis.Client, prefix string) error {
	rig := proof.Rig{Keys: keys, Sleep: time.Sleep, Settle: func() {}, Patience: 5 * time.Second, Blurred: true}
	for _, client := range clients {
		store, err := redisstore.New(client, redisstore.WithPrefix(prefix), looks)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rig.Stores = append(rig.Stores, store)
	}
	return rig.Run(lasting(program))
}

// lasting has leases end only where the program says so: this server's clock goes
// on while the steps run.
func lasting(program []proof.Step) []proof.Step {
	for i := range program {
		program[i].TTL = 10 * time.Minute
	}
	return program
}

// TestRedisDoesWhatTheModelDoes waits for the network most of the time, so some
// go side by side.
func TestRedisDoesWhatTheModelDoes(t *testing.T) {
	budget := 8 * time.Second
	if flag.Lookup("rapid.checks").Value.String() != flag.Lookup("rapid.checks").DefValue {
		budget = time.Hour // who asks for more gets it
	}
	server := redistest.Start(t)
	var nr, ran atomic.Int64
	for range 4 {
		clients := []*redis.Client{server.Client(), server.Client()}
		t.Run("", func(t *testing.T) {
			t.Parallel()
			began, broken := time.Now(), false
			rapid.Check(t, func(rt *rapid.T) {
				program := programs().Draw(rt, "program")
				if !broken && time.Since(began) > budget {
					return // the rest has to wait for a longer run
				}
				ran.Add(1)
				if err := onRedis(t, program, clients, fmt.Sprintf("p%d:", nr.Add(1))); err != nil {
					broken = true // making it shorter takes its time
					rt.Fatal(err)
				}
			})
		})
	}
	t.Cleanup(func() { t.Logf("%d programs", ran.Load()) })
}
