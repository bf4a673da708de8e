package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// A record that the server refused came after the end of the lease: the key was free, nothing was on
// record, and the next caller had the effect once more. Now the lease stays, and the record is sent again.
func TestRecordThatIsRefusedForAWhile(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"set", "del"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			eng, err := core.New(open(t, as(t, server, aclKeys, aclChannels, aclCommands, aclMessages, "+info")))
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close(within(t, 5*time.Second))
			ctx, runs := within(t, 30*time.Second), 0
			once := func() (core.Outcome, error) {
				return eng.Once(ctx, "k", func(context.Context) ([]byte, error) {
					runs++
					setUser(t, server, "-"+command)
					time.AfterFunc(300*time.Millisecond, func() { setUser(t, server, "+"+command) })
					return []byte("done"), nil
				})
			}
			for i := range 2 {
				if out, err := once(); err != nil || string(out.Result) != "done" || out.Duplicate != (i == 1) {
					t.Errorf("%+v, %v", out, err)
				}
			}
			if runs != 1 {
				t.Errorf("%d runs", runs)
			}
		})
	}
}
