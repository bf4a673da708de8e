package zkstore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // each server takes a processor for a second when it starts
	goleak.VerifyTestMain(zktest.Main(m))
}

var (
	must       = checktest.Must
	request    = storetest.Request
	hold       = storetest.Hold
	release    = storetest.Release
	enqueue    = storetest.Enqueue
	eventually = checktest.Eventually
	check      = checktest.That
	require    = checktest.Require
	wantIs     = checktest.WantIs
)

// silent is for stores whose server has settings that are warned of.
var silent = zkstore.WithLogger(slog.New(slog.DiscardHandler))

// session is the longest that the servers of the tests allow.
const session = 20 * zktest.Tick * time.Millisecond

var roots atomic.Int64

// newRoot returns a root that no other test uses.
func newRoot() string { return fmt.Sprintf("/test%d/keyturn", roots.Add(1)) }

// open makes a store that the test closes.
func open(t testing.TB, addr, root string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	return openAll(t, []string{addr}, root, append([]zkstore.Option{zkstore.WithSession(session)}, opts...)...)
}

// openAll makes one on several servers. Its session is long enough for an election on a busy machine.
func openAll(t testing.TB, servers []string, root string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	opts = append([]zkstore.Option{silent, zkstore.WithRoot(root), zkstore.WithSession(10 * time.Second)}, opts...)
	s, err := zkstore.New(t.Context(), servers, opts...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// scene is a root of its own on the shared server, with a client there that is not a store.
type scene struct {
	*zk.Conn
	addr, root string
}

func newScene(t testing.TB) scene {
	addr := zktest.Shared(t).Addr()
	return scene{admin(t, addr), addr, newRoot()}
}

// open makes a store there, which the test closes.
func (s scene) open(t testing.TB, opts ...zkstore.Option) *zkstore.Store {
	return s.openAt(t, s.addr, opts...)
}

// openAt makes one behind a network.
func (s scene) openAt(t testing.TB, addr string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	return open(t, addr, s.root, opts...)
}

// lock returns the path of a key's node. The keys of these tests need no escaping.
func (s scene) lock(key string) string { return s.root + "/b/" + digest(key)[:3] + "/" + key }

// nodes returns the names below a key's node that begin with prefix.
func (s scene) nodes(t testing.TB, key, prefix string) (found []string) {
	t.Helper()
	names, _, err := s.Children(s.lock(key))
	require(t, err == nil || errors.Is(err, zk.ErrNoNode), "%v", err)
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found
}

// nodeOf returns the part of a node's name that says whose it is.
func nodeOf(owner string) string { return digest(owner)[:32] }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// admin is a client of the server that is not a store.
func admin(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithLogInfo(false))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}
