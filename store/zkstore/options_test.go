package zkstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
	"github.com/keyturn/keyturn/store/zkstore"
)

// Options are refused before any I/O.
func TestOptions(t *testing.T) {
	for name, opt := range map[string]zkstore.Option{
		"nil": nil, "root": zkstore.WithRoot("keyturn"), "root with an empty part": zkstore.WithRoot("/a//b"), "root /": zkstore.WithRoot("/"),
		"the server's own root": zkstore.WithRoot("/zookeeper/x"), "session": zkstore.WithSession(time.Millisecond), "auth": zkstore.WithAuth("digest", nil),
		"acl": zkstore.WithACL(nil), "tls": zkstore.WithTLS(nil), "dialer": zkstore.WithDialer(nil), "buffer": zkstore.WithBuffer(1), "logger": zkstore.WithLogger(nil),
	} {
		_, err := zkstore.New(t.Context(), []string{"127.0.0.1:1"}, opt)
		check(t, errors.Is(err, driver.ErrInvalidOption), "%s: %v", name, err)
	}
	for _, servers := range [][]string{nil, {""}, {"a:b:c"}, {":2181"}} {
		_, err := zkstore.New(t.Context(), servers)
		check(t, errors.Is(err, driver.ErrInvalidOption), "servers %q: %v", servers, err)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	u, err := storeurl.Parse("zk://me:secret@" + zktest.Shared(t).Addr() + newRoot() + "?session=1s&buffer=100000")
	must(t, err)
	must(t, u.Prepare(t.Context()))
	s, err := u.Open(t.Context())
	must(t, err)
	storetest.Use(t, s, "k")
	must(t, s.Close())
	for url, want := range map[string]error{
		"zk:":                           storeurl.ErrInvalidURL,
		"zk://me@a":                     storeurl.ErrInvalidURL,
		"zk://me:secret@a?nosuch=1":     storeurl.ErrInvalidURL,
		"zk://me:secret@a/x//y":         driver.ErrInvalidOption,
		"zks://me:secret@a?session=1ns": driver.ErrInvalidOption,
	} {
		_, err := storeurl.Open(t.Context(), url)
		check(t, errors.Is(err, want) && !strings.Contains(err.Error(), "secret"), "%s: %v", url, err)
	}
}

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	root := newRoot()
	storetest.AwayAtStart(t, zktest.Shared(t).Addr(), func(addr string) (driver.Store, error) {
		return storeurl.Open(t.Context(), "zk://"+addr+root+"?session=2s")
	})
}

// TestOtherKindOfServer: the client made room for as many bytes as the greeting's first four say: 1.2 GB, again and again.
func TestOtherKindOfServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = conn.Write([]byte("J\x00\x00\x00\n10.11.6-MariaDB"))
		}
	}()
	s, err := zkstore.New(t.Context(), []string{l.Addr().String()}, zkstore.WithSession(2*time.Second))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // less than the store's own patience
	defer cancel()
	_, err = s.Inspect(ctx, "k")
	check(t, errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "no ZooKeeper"), "%v", err)
}

func TestExamineEnsemble(t *testing.T) {
	servertest.LongParallel(t)
	e := zktest.StartEnsemble(t)
	all := openAll(t, e.Addrs(), newRoot(), zkstore.WithSession(5*time.Second))
	storetest.AreRisks(t, all)
	storetest.AreRisks(t, openAll(t, e.Addrs()[:1], newRoot(), zkstore.WithSession(5*time.Second)), "ensemble")
	e.Servers[e.Follower(t)].Kill()
	storetest.AreRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	addr, root := zktest.Start(t, "-Djute.maxbuffer=200000").Addr(), newRoot()
	open(t, addr, root, mine, readable)
	looker := open(t, addr, root, zkstore.WithSession(20*time.Second))
	storetest.AreRisks(t, looker, "ensemble", "session", "permissions", "jute.maxbuffer")
	storetest.AreRisks(t, open(t, addr, root, mine, zkstore.WithBuffer(200_000)), "ensemble")
	_ = looker.Close()
	storetest.AreRisks(t, looker, "ensemble")
}

// mine are credentials, and readable lets everybody else look.
var (
	mine     = zkstore.WithAuth("digest", []byte("me:secret"))
	readable = zkstore.WithACL(append(zk.DigestACL(zk.PermAll, "me", "secret"), zk.WorldACL(zk.PermRead)...))
)

// TestOnlyLooks: a console that may only read shows locks. What it must not do is refused.
func TestOnlyLooks(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s, looker := z.open(t, mine, readable), z.open(t)
	h := hold(t, s, request("k", time.Minute))
	hold(t, s, request("over", 200*time.Millisecond))
	enqueue(t, s, request("k", time.Minute))
	info, err := looker.Inspect(t.Context(), "k")
	check(t, err == nil && len(info.Holders) == 1 && info.Holders[0].Owner == h.Owner && len(info.Waiters) == 1, "Inspect: %+v, %v", info, err)
	eventually(t, "a lease that is over is not shown", func() bool {
		info, err := looker.Inspect(t.Context(), "over")
		must(t, err)
		return len(info.Holders) == 0
	})
	page, _, err := looker.List(t.Context(), driver.Listing{Limit: 10, Records: true})
	check(t, err == nil && len(page) == 1, "List: %+v, %v", page, err)
	_, err = looker.ForceRelease(t.Context(), "k", "for the test")
	storetest.IsRefused(t, err)
	_, err = looker.Acquire(t.Context(), request("other", time.Minute))
	storetest.IsRefused(t, err)
}

// TestACL: what a store with credentials makes is for them alone. Another client's request is refused
// by the servers, which is no outage that may pass.
func TestACL(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := servertest.NewProxy(t, z.addr)
	s := z.openAt(t, network.Addr(), mine)
	g := hold(t, s, request("k", time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := zkstore.New(ctx, []string{z.addr}, silent, zkstore.WithRoot(z.root), zkstore.WithSession(session))
	storetest.IsRefused(t, err)
	// The credentials are sent again on each connection.
	network.Cut()
	network.Heal()
	release(t, s, g)
	release(t, z.open(t, mine), hold(t, s, request("k", time.Minute)))
}
