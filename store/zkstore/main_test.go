package zkstore_test

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Main(m)) }

// silent is for stores whose server has settings that are warned of.
var silent = zkstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// session is the longest that the servers of the tests allow.
const session = 20 * zktest.Tick * time.Millisecond

var roots atomic.Int64

// newRoot returns a root that no other test uses.
func newRoot() string { return fmt.Sprintf("/test%d/keyturn", roots.Add(1)) }

// open makes a store that the test closes.
func open(t testing.TB, addr, root string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	s, err := zkstore.New(t.Context(), []string{addr}, append([]zkstore.Option{silent, zkstore.WithRoot(root), zkstore.WithSession(session)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
