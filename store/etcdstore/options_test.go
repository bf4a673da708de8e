package etcdstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// TestBadOptions: each is refused before any I/O, and all of them are named.
func TestBadOptions(t *testing.T) {
	nobody := clienttest.New(t, "127.0.0.1:1")
	for name, opts := range map[string][]etcdstore.Option{
		"nil":            {nil},
		"no prefix":      {etcdstore.WithPrefix("")},
		"a brace":        {etcdstore.WithPrefix("a{")},
		"half a second":  {etcdstore.WithWaiterLease(1500 * time.Millisecond)},
		"too short":      {etcdstore.WithWaiterLease(0)},
		"too long":       {etcdstore.WithWaiterLease(time.Hour)},
		"no logger":      {etcdstore.WithLogger(nil)},
		"one of several": {etcdstore.WithPrefix("a/"), etcdstore.WithLogger(nil)},
	} {
		_, err := etcdstore.New(t.Context(), nobody, opts...)
		option := (*driver.OptionError)(nil)
		check(t, errors.As(err, &option) && !errors.Is(err, driver.ErrUnavailable), "%s: %v", name, err)
	}
	wantIs(t, "no client", checktest.ErrorOf(etcdstore.New(t.Context(), nil)), driver.ErrInvalidOption)
}

// TestClientStays: the store does not close the caller's client. And requests that etcd could not keep are refused
// before any I/O.
func TestClientStays(t *testing.T) {
	t.Parallel()
	network := servertest.NewProxy(t, etcdtest.Shared(t).Addr())
	c := clienttest.New(t, network.Addr())
	must(t, open(t, c).Close())
	s := open(t, c)
	storetest.Use(t, s, "k")
	network.Cut()
	for what, req := range map[string]driver.Request{
		"half a second": request("k", 1500*time.Millisecond),
		"no claim":      storetest.RequestFor(time.Minute), // driver.CheckLease finds the others of its kind
	} {
		_, err := s.Acquire(t.Context(), req)
		check(t, errors.Is(err, driver.ErrInvalidOption) || errors.Is(err, driver.ErrInvalidClaim), "%s: %v", what, err)
	}
}

// TestURL: stores of one URL see the same leases; one with another prefix does not.
func TestURL(t *testing.T) {
	t.Parallel()
	url := "etcd://" + etcdtest.Shared(t).Addr()
	openURL := func(url string) driver.Store {
		s, err := storeurl.Open(t.Context(), url)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b, other := openURL(url), openURL(url+"?waiter_lease=3s"), openURL(url+"?prefix=other/&keep_alive=20s")
	hold(t, a, request("url", 10*time.Second))
	storetest.IsHeld(t, b, request("url", 10*time.Second))
	hold(t, other, request("url", 10*time.Second))
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{
		"etcd:", "etcd://a/path", "etcd://a?prefx=x", "etcd://a?waiter_lease=soon", "etcd://a?prefix=%7B", "etcd://a?waiter_lease=1500ms",
	} {
		_, err := storeurl.Open(t.Context(), url)
		check(t, errors.Is(err, storeurl.ErrInvalidURL) || errors.Is(err, driver.ErrInvalidOption), "%s: %v", url, err)
	}
}

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	storetest.AwayAtStart(t, etcdtest.Shared(t).Addr(), func(addr string) (driver.Store, error) {
		return storeurl.Open(t.Context(), "etcd://"+addr+"?prefix="+addr+"/")
	})
}

// TestSilentServerIsNoLogLine: not parallel, as it takes the standard error of the process.
func TestSilentServerIsNoLogLine(t *testing.T) {
	port, err := servertest.FreePort()
	must(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	s, err := storeurl.Open(t.Context(), fmt.Sprint("etcd://127.0.0.1:", port))
	must(t, err)
	must(t, s.Close())
	said, err := os.ReadFile(file.Name())
	check(t, err == nil && len(said) == 0, "standard error has %s (%v)", said, err)
}

func TestExamineCluster(t *testing.T) {
	servertest.LongParallel(t)
	members := etcdtest.Cluster(t, 3)
	all := on(t, members...)
	storetest.AreRisks(t, all)
	storetest.AreRisks(t, on(t, members[0]), "members")
	members[0].Kill()
	storetest.AreRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	wrong := etcdtest.Start(t, "--max-txn-ops", "50", "--election-timeout", "1400", "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, wrong.Addr())
	s := open(t, c)
	storetest.AreRisks(t, s, "members", "shortest lease", "max-txn-ops")
	grow(t, c)
	storetest.AreRisks(t, s, "members", "alarm of", "shortest lease", "max-txn-ops")
	storetest.AreRisks(t, open(t, c), "members", "alarm of", "max-txn-ops") // which can be opened without space
	_ = s.Close()
	storetest.AreRisks(t, s, "members")
}
