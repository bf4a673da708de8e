package replicatest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

var must, check = checktest.Must, checktest.That

// A go-redis client that lost its server dials in a goroutine that sleeps for a second at a
// time. It looks only then whether the client has been closed.
func TestMain(m *testing.M) {
	actAsReplica()
	goleak.VerifyTestMain(sqltest.Main(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// newEngine makes the engine of one replica.
func newEngine(t *testing.T, b *backend, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	store, err := b.open(t)
	must(t, err)
	return ruletest.NewEngine(t, store, append([]core.EngineOption{core.WithMaxWait(b.maxWait())}, opts...)...)
}

// bounded is a context for a test's calls: a hang becomes a failure.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
