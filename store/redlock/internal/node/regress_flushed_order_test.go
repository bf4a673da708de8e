package node_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// A server had forgotten the script of a vote, and knew the one that takes it back. The vote was sent
// once more, behind the other one, so it stayed for its TTL although nobody wanted it.
func TestOrderWhenAScriptIsMissing(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	dialled, dial := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(dialled); <-dial })
	n := open(t, server.Client(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			once()
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	must(t, plain.ScriptLoad(t.Context(), script.Release.Text).Err())

	// What is sent while the first call dials leaves together.
	var answers sync.WaitGroup
	var first error
	send(n, &answers, &first)
	<-dialled
	k := script.Names{Prefix: "lock:"}.Of("a")
	var vote, undo error
	answers.Add(2)
	n.Send(0, &node.Call{
		Script: script.Vote, Keys: []string{k.Lock, k.Counter, "{lock:}:born", k.Turn, k.Line}, RunID: true,
		Args: []any{"owner", 60000, 0, 0, onredis.Notes(time.Minute, "", ""), "", 0, 3600000, 0, "1"},
		Done: func(_ any, err error) { vote = err; answers.Done() },
	})
	n.Send(0, &node.Call{
		Script: script.Release, Keys: []string{k.Lock, k.Line, k.Turn, k.Forced}, Args: []any{"owner", "", "", 100, "1"},
		Done: func(_ any, err error) { undo = err; answers.Done() },
	})
	close(dial)
	answers.Wait()
	require(t, first == nil && vote == nil && undo == nil, "answers: %v, %v, %v", first, vote, undo)
	held := plain.Get(t.Context(), k.Lock).Val()
	check(t, held == "", "a vote was taken back and is there: %q", held)
}
