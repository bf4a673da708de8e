package natstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// A bucket that somebody else has made, with settings by which locks would go or be read too late, is refused
// with the setting's name.
func TestSettings(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	js, err := jetstream.New(nc)
	must(t, err)
	for want, spoil := range map[string]func(*jetstream.StreamConfig){
		"":                     func(*jetstream.StreamConfig) {},
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"retention limits":     func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"discard new":          func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"allow_atomic":         func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
	} {
		bucket := "b" + strings.ReplaceAll(want, " ", "_")
		c := jetstream.StreamConfig{
			Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowAtomicPublish: true,
		}
		spoil(&c)
		must(t, checktest.ErrorOf(js.CreateStream(t.Context(), c)))
		s := open(t, nc, natsstore.WithBucket(bucket))
		_, err := s.Acquire(t.Context(), request("k", time.Minute))
		if want == "" {
			must(t, err) // the store's own settings
			continue
		}
		storetest.IsRefused(t, err, want)
		found := ""
		for _, f := range s.Describe().Examine(t.Context()) {
			found += f.Risk
		}
		check(t, strings.Contains(found, want), "%s: an operator reads %q", want, found)
	}
}

// TestForeignEntries: somebody else's entries are neither locks nor overwritten, and a list leaves them out.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	s := open(t, nc)
	take(t, s, request("mine:1/Ä ", time.Minute))
	for _, name := range []string{"other", "a=", "a=zz", "a=6", "a.b", "=61"} {
		must(t, nc.Publish("$KV.keyturn."+name, []byte(`{"holders":"hello"}`)))
	}
	must(t, nc.Flush())
	_, err := s.Acquire(t.Context(), request("other", time.Minute))
	storetest.IsRefused(t, err)
	page, next, err := s.List(t.Context(), driver.Listing{Records: true})
	check(t, err == nil && next == "" && len(page) == 1 && page[0].Key == "mine:1/Ä ", "the list: %v, %q, %v", page, next, err)
	if _, _, err := s.List(t.Context(), driver.Listing{Cursor: "a=zz", Records: true}); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("a cursor that nobody made: %v", err)
	}
}

// TestEntriesGo by themselves, by a TTL of the server's, ten minutes after the last thing in them is over.
func TestEntriesGo(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	s := open(t, nc)
	js, err := jetstream.New(nc)
	must(t, err)
	stays := func(what string, least time.Duration) {
		t.Helper()
		st, err := js.Stream(t.Context(), "KV_keyturn")
		must(t, err)
		msg, err := st.GetLastMsgForSubject(t.Context(), "$KV.keyturn.k")
		must(t, err)
		ttl, err := time.ParseDuration(msg.Header.Get("Nats-TTL"))
		check(t, err == nil && ttl == least+10*time.Minute, "an entry with %s stays for %v, %v", what, ttl, err)
	}
	g := take(t, s, request("k", time.Hour))
	stays("a lease of an hour", time.Hour)
	must(t, s.Complete(t.Context(), g, driver.Record{}, 24*time.Hour))
	stays("a record of a day", 24*time.Hour)
	if had, err := s.Forget(t.Context(), "k"); err != nil || !had {
		t.Errorf("there was a record: %v, %v", had, err)
	}
	stays("nothing", 0)
	_ = take(t, s, request("k", time.Minute))
	must(t, checktest.ErrorOf(s.ForceRelease(t.Context(), "k", "test")))
	stays("the reason of a forced release", keystate.ReasonKept)
	must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), "k", 1, 24*time.Hour)))
	stays("a version of a day", 24*time.Hour)
}

// TestPermissions: what docs/operations-nats.md lists is enough, and without it the error says what is missing.
func TestPermissions(t *testing.T) {
	t.Parallel()
	pub := []string{"$JS.API.STREAM.INFO.KV_keyturn", "$JS.API.STREAM.MSG.GET.KV_keyturn", "$KV.keyturn.>", "keyturn.keyturn.>", "$JS.API.STREAM.CREATE.KV_keyturn"}
	sub := []string{"_INBOX.>", "keyturn.keyturn.>"}
	user := func(name string, pub []string) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: pub}, Subscribe: &server.SubjectPermission{Allow: sub},
		}}
	}
	srv := start(t, server.Options{Users: []*server.User{user("may", pub), user("may-not", pub[:2])}})
	s := open(t, connect(t, srv.Addr().String(), nats.UserInfo("may", "p")))
	held := take(t, s, request("k", time.Minute))
	w := storetest.Enqueue(t, s, request("k", time.Minute))
	must(t, s.Release(t.Context(), held))
	w.Granted()

	denied := open(t, connect(t, srv.Addr().String(), nats.UserInfo("may-not", "p")))
	_, err := denied.Acquire(t.Context(), request("k2", time.Minute))
	storetest.IsRefused(t, err, `"$KV.keyturn.>"`)
}

// TestProcessesWithoutMessages: one may not subscribe to them, another may not publish. Their turns cost the others little
// all the same, and they are no secret.
func TestProcessesWithoutMessages(t *testing.T) {
	servertest.LongParallel(t)
	user := func(name string, publish, subscribe *server.SubjectPermission) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{Publish: publish, Subscribe: subscribe}}
	}
	messages := &server.SubjectPermission{Deny: []string{"keyturn.keyturn.>"}}
	srv := start(t, server.Options{Users: []*server.User{user("may", nil, nil), user("deaf", nil, messages), user("mute", messages, nil)}})
	stores := make(map[string]*natsstore.Store)
	for _, name := range []string{"may", "deaf", "mute"} { // by itself, a waiter asks after 40 s
		stores[name] = open(t, connect(t, srv.Addr().String(), nats.UserInfo(name, "p")), natsstore.WithWaiterLease(2*time.Minute))
	}
	for _, pair := range [][2]string{{"may", "deaf"}, {"mute", "may"}} {
		for _, name := range pair {
			s, told := stores[name], make(chan error, 1)
			if s.Describe().OnImpaired(func(reason error) { told <- reason }); name != "may" {
				checktest.WantIs(t, "the hook of "+name, <-told, nats.ErrPermissionViolation)
			}
			finding := s.Describe().Examine(t.Context())[1]
			check(t, (finding.Risk == "") == (name == "may"), "keyturn doctor says of %s: %+v", name, finding)
		}
		held := take(t, stores[pair[0]], request("k", 2*time.Minute))
		w := storetest.Enqueue(t, stores[pair[1]], request("k", 2*time.Minute))
		must(t, stores[pair[0]].Release(t.Context(), held))
		must(t, stores[pair[1]].Release(t.Context(), w.Granted()))
	}
}
