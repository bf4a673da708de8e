package replicatest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

var must, check = checktest.Must, checktest.That

// A go-redis client that lost its server dials in a goroutine that sleeps for a second at a
// time. It looks only then whether the client has been closed.
func TestMain(m *testing.M) {
	actAsReplica()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

var silent = slog.New(slog.DiscardHandler)

// maxWait is how long a request waits.
const maxWait = 10 * time.Second

// newEngine makes the engine of one replica.
func newEngine(t *testing.T, redis *redistest.Server, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	store, err := redisstore.New(redis.Client(), redisstore.WithLogger(silent))
	must(t, err)
	return ruletest.NewEngine(t, store, append([]core.EngineOption{core.WithMaxWait(maxWait)}, opts...)...)
}

// bounded is a context for a test's calls: a hang becomes a failure.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
