package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, c *redis.Client, s *script.Script, keys []string, args ...any) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := c.Eval(ctx, s.Text, keys, args...).Result()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return reply
}

// TestLateUndo: what takes the vote of a lost round back may arrive when the owner has the vote
// again. It must leave that one.
func TestLateUndo(t *testing.T) {
	c := redistest.Start(t).Client()
	k := script.Prefix("lock:").Of("a")
	vote := func(round string) script.Ballot {
		t.Helper()
		b, err := script.ReadBallot(run(t, c, script.Vote, []string{k.Lock, k.Counter, "{lock:}:born", k.Turn, k.Line},
			"owner", 60000, 0, 0, script.Notes(time.Minute, "a rule", "a:trace"), "", 0, 3600000, 0, round, "run"))
		if err != nil || b.Outcome != script.Yes {
			t.Fatalf("a vote: %+v, %v", b, err)
		}
		return b
	}
	release := func(round string) script.Ended {
		t.Helper()
		e, err := script.ReadRelease(run(t, c, script.Release, []string{k.Lock, k.Line, k.Turn, k.Forced}, "owner", "", "", 100, round))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := vote("1")
	if again := vote("2"); !again.Again || again.Token != first.Token {
		t.Errorf("the owner asked again and got %+v after %+v", again, first)
	}
	if release("1").Mine {
		t.Error("the vote of round 2 was taken back for round 1")
	}
	v := script.ParseValue(c.Get(context.Background(), k.Lock).Val())
	if v.Owner != "owner" || v.Token != first.Token || v.Rule != "a rule" || v.Trace != "a:trace" {
		t.Errorf("the lock is %+v", v)
	}
	if !release("2").Mine {
		t.Error("the vote of round 2 was not taken back")
	}
}
