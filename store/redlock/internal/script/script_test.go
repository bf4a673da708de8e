package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, c *redis.Client, s *script.Script, keys []string, args ...any) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := c.Eval(ctx, s.Text, keys, args...).Result()
	require(t, err == nil, "%v", err)
	return reply
}

// requests sends an owner's requests for the lock "a" to a server, as package redlock does.
type requests struct {
	t     *testing.T
	c     *redis.Client
	key   script.Key
	owner string
}

func requestsOf(t *testing.T, c *redis.Client, owner string) requests {
	return requests{t, c, script.Names{Prefix: "lock:"}.Of("a"), owner}
}

func (r requests) vote(round string) script.Ballot {
	r.t.Helper()
	keys := []string{r.key.Lock, r.key.Counter, "{lock:}:born", r.key.Turn, r.key.Line}
	b, err := script.ReadBallot(run(r.t, r.c, script.Vote, keys,
		r.owner, 60000, time.Now().UnixMicro(), 0, onredis.Notes(time.Minute, "a rule", "a:trace"), "", 0, 3600000, 0, round, "run"))
	require(r.t, err == nil && b.Outcome == script.Yes, "a vote: %+v, %v", b, err)
	return b
}

func (r requests) seal(token uint64, round string) (sealed bool) {
	r.t.Helper()
	return run(r.t, r.c, script.Seal, []string{r.key.Lock, r.key.Counter}, r.owner, 60000, token, 0, 3600000, round) == int64(1)
}

func (r requests) release(round string) script.Ended {
	r.t.Helper()
	e, err := script.ReadRelease(run(r.t, r.c, script.Release, []string{r.key.Lock, r.key.Line, r.key.Turn, r.key.Forced}, r.owner, "", "", 100, round))
	must(r.t, err)
	return e
}

func (r requests) value() onredis.Value {
	return script.ParseValue(r.c.Get(context.Background(), r.key.Lock).Val())
}

// TestLateUndo: what takes the vote of a lost round back may arrive when the owner has the vote
// again. It must leave that one.
func TestLateUndo(t *testing.T) {
	r := requestsOf(t, redistest.Start(t).Client(), "owner")
	first := r.vote("1")
	again := r.vote("2")
	check(t, again.Again && again.Token == first.Token, "the owner asked again and got %+v after %+v", again, first)
	check(t, !r.release("1").Mine, "the vote of round 2 was taken back for round 1")
	v := r.value()
	check(t, v.Owner == "owner" && v.Token == first.Token && v.Rule == "a rule" && v.Trace == "a:trace", "the lock is %+v", v)
	check(t, r.release("2").Mine, "the vote of round 2 was not taken back")
}

// TestLateSeal: the seal of a lost round may arrive when another owner has had the lease, and the
// first one has the vote again. The lease would get a token that is smaller than the other owner's.
func TestLateSeal(t *testing.T) {
	c := redistest.Start(t).Client()
	r, other := requestsOf(t, c, "owner"), requestsOf(t, c, "other")
	early := r.vote("1").Token
	r.release("1")
	between := other.vote("2").Token
	other.release("2")
	late := r.vote("3").Token
	check(t, !r.seal(early, "1"), "the vote of round 3 was sealed for round 1")
	got := r.value().Token
	check(t, got == late && got > between, "the token is %d; it was %d, and %d for the owner between", got, late, between)
	check(t, r.seal(late+5, "3") && r.value().Token == late+5, "the vote of round 3 was not sealed with %d: %+v", late+5, r.value())
}
